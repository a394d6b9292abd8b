"""How a log reader reads, and what it says that it has read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a log reader reads; the original's names where it has one."""

    read_batch_size: int = 2_000
    """Transactions stored in one commit, at most."""
    store_bytes: int = 4 << 20
    """What is stored at once, about; a transaction that is larger is stored in parts, in one commit."""
    peek_messages: int = 400_000
    """How many messages to ask for at a time while catching up; the server keeps them on its disk."""
    catch_up_bytes: int = 16 << 20
    """From how much unread log on it is caught up with by peeking."""
    takeover_s: float = 2.0
    """How long to wait for another log reader to end."""
    release_s: float = 15.0
    """How long to wait for the slot, which no other log reader has: a predecessor's server process may be
    decoding still."""
    retry_s_min: float = 0.1
    retry_s_max: float = 10.0
    """`LogReader.run` tries again after so long; each time twice as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What one pass has stored."""

    transactions: int
    commands: int
    position: str
    """Every transaction committed before is stored; a pg_lsn."""
    caught_up: bool
    """It was far behind, and has peeked."""
