"""Settings of a log reader, and its ports: its Publisher's WAL, the distribution database, and its host.

On servers `reader`, `wal`, `sources` with `live`, and `store` implement the ports; in virtual time
`twopc.sim.model.distribution.log_reader` does. Both raise `psycopg.Error`, so that the engine is the same for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import psycopg
from psycopg import errors

from twopc.errors import StoredMeanwhileError
from twopc.publisher.commands import Belonging, CommandBuilder
from twopc.publisher.log_reader.planner import ReaderArticles, StoredBatch
from twopc.publisher.log_reader.rows import StoredPart
from twopc.publisher.pgoutput import RowMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReaderProfile:
    """Settings of a log reader, under the original's names where it has them."""

    read_batch_size: int = 2_000
    """Maximum number of transactions stored in one commit."""
    store_bytes: int = 4 << 20
    """Approximate number of bytes stored at once; a larger transaction is stored in parts."""
    peek_messages: int = 400_000
    """Number of messages requested at once while catching up; the server keeps them on its disk."""
    catch_up_bytes: int = 16 << 20
    """Length of unread log from which the log reader catches up by peeking."""
    snapshot_bytes: int = 16 << 20
    """Length of log after which a snapshot is logged, and the slot moved although nothing was stored: bounds the log
    that is decoded again.
    """
    decoding_bytes: int = 256 << 20
    """Minimum of the memory in which the Publisher's server decodes before it spills a transaction to disk
    (``logical_decoding_work_mem``); 0: the server's setting."""
    takeover_s: float = 2.0
    """Time to wait for another log reader to end."""
    release_s: float = 15.0
    """Time to wait for the slot while a predecessor's backend may still be decoding."""
    retry_s_min: float = 0.1
    retry_s_max: float = 10.0
    """Limits of the wait before a retry, which doubles each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """Result of one pass."""

    transactions: int
    commands: int
    position: str
    """Position before which all committed transactions are stored; a pg_lsn."""
    caught_up: bool
    """Whether the log reader was far behind, and has peeked."""


class LogSourcePort(Protocol):
    """A session that delivers messages of the log, from the slot's position on."""

    count: int
    """Number of messages delivered."""
    drained: bool
    """Whether the last `take` returned all messages that had arrived."""
    position: int
    """Position before which all committed transactions have been delivered."""
    confirmed: int
    """Position up to which everything was confirmed as stored in this session; 0 if nothing was."""
    pressed: bool
    """Whether the server waits for the slot to move, as it does before it shuts down."""

    @property
    def movable(self) -> bool:
        """Whether the slot can be moved now."""
        ...

    async def take(self) -> list[bytes]:
        """Return the next messages of pgoutput, a bounded number; may yield to other tasks.

        Raises:
            ServerError: the server leaves changes out, or another session reads the slot (18752).
        """
        ...

    async def confirm(self, lsn: int, slot: int) -> None:
        """Confirm that all transactions committed before `lsn` are stored, and let the slot move to `slot`, at most
        `lsn`; it does not move back.
        """
        ...

    async def close(self) -> None:
        """Release the slot. Idempotent."""
        ...


class LivePort(LogSourcePort, Protocol):
    """A source to which the server sends transactions as they are committed; it can stay open between passes."""

    ended: bool
    """Whether the source has ended between passes; messages not taken are sent again to the next source."""

    async def ask(self) -> None:
        """Request the server's current position."""
        ...

    async def wait(self) -> None:
        """Wait until messages may have arrived, or the host is stopping."""
        ...

    def leave(self, *, settled: bool) -> None:
        """Leave the source unread until `resume`.

        Args:
            settled: whether all messages taken are stored.
        """
        ...

    def resume(self) -> None:
        """Read the source again. Does nothing if it was not left."""
        ...


class WalPort(Protocol):
    """A Publisher's WAL, and the right to read the slot, held until `close`."""

    next_xid: int
    """Next transaction id at the time of opening, with its epoch."""

    async def look(self) -> tuple[int, int]:
        """Return a durable position before which all transactions committed so far lie, and the slot's position."""
        ...

    async def log_snapshot(self) -> None:
        """Log a snapshot, so that decoding can begin there and older log can be removed."""
        ...

    async def belongings(
        self, builder: CommandBuilder, changes: Sequence[RowMessage]
    ) -> list[Belonging]:
        """See `twopc.publisher.filters.RowFilters.belongings`."""
        ...

    async def forget_calls(self) -> None:
        """Remove call markers that the log has contained for long."""
        ...

    async def live(self) -> LivePort:
        """Open a source of messages as they are made.

        Raises:
            ServerError: another session reads the slot (18752).
        """
        ...

    async def peek(self, upto: int) -> LogSourcePort:
        """Open a source of transactions committed before a position, in bulk; it repeats them until the slot moves."""
        ...

    async def close(self) -> None:
        """Close all sessions. Idempotent."""
        ...


class StorePort(Protocol):
    """The distribution database, for the log reader of one Publisher."""

    publisher: int
    """Number of the Publisher in the distribution database."""
    read_to: int
    """Commit LSN of the last stored transaction."""
    last_seqno: int
    """Commit LSN of the last transaction that was stored from the log when the store was opened; 0 if none was."""
    last_commit_us: int
    """When that transaction was committed, in microseconds since 2000."""
    slot_limit: int
    """Position to which the slot may be moved; 0 if unknown."""

    @property
    def streaming(self) -> bool:
        """Whether parts of a transaction are stored, and the last one is not."""
        ...

    async def registry(self) -> ReaderArticles:
        """Return the current articles and originators; rows made with outdated ones are not stored."""
        ...

    async def check(self, horizon: int) -> None:
        """Check that `registry` would return the same; `commit` does so too.

        Args:
            horizon: transaction id of a writer to note although none of its commands are stored; 0 for
                none.

        Raises:
            psycopg.errors.SerializationFailure: `registry` would return something else.
        """
        ...

    async def write(self, part: StoredPart) -> None:
        """Store part of a transaction that is too large to wait for; `commit` completes the transaction.

        Agents may begin to deliver it, and must not commit it before. Without a `commit`, another session
        removes the part.

        Raises:
            psycopg.Error: as `commit`.
        """
        ...

    async def commit(self, batch: StoredBatch) -> None:
        """Store a batch, or the rest after `write`, and the mark; durable when this returns.

        Raises:
            psycopg.errors.SerializationFailure: `registry` would return something else by now.
            psycopg.errors.ObjectInUse, psycopg.errors.UniqueViolation: another log reader has stored
                transactions.
        """
        ...

    async def raise_slot_limit(self, lsn: int) -> None:
        """Let the slot move to a position before which all transactions are stored; durable when this returns."""
        ...

    async def close(self) -> None:
        """Close the session, discarding uncommitted rows. Idempotent."""
        ...


class HostPort(Protocol):
    """Environment of a log reader."""

    @property
    def stopping(self) -> bool:
        """Whether the log reader is told to stop."""
        ...

    def time(self) -> float:
        """Return the time of a monotonic clock, in seconds."""
        ...

    async def delay(self, seconds: float) -> None:
        """Wait for the given time, or until the log reader is told to stop."""
        ...

    async def open_wal(self) -> WalPort:
        """Connect to the Publisher.

        Raises:
            ServerError: the slot does not exist or cannot be read, another log reader reads it (18752), or the
                log lacks an article.
        """
        ...

    async def open_store(self) -> StorePort:
        """Connect to the distribution database.

        Raises:
            SubscriptionError: the distribution database does not know the Publisher.
        """
        ...

    async def record(self, event: str, error: BaseException | None = None) -> None:
        """Record in the history that the log reader has started, succeeded, will retry or has failed. Never raises."""
        ...


def may_pass(error: BaseException) -> bool:
    """Return whether a server failed, or was unreachable, so that a retry may help."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)


@contextmanager
def name_rival() -> Iterator[None]:
    """Translate errors of the store inside the block that another log reader has caused.

    Raises:
        StoredMeanwhileError: another log reader has stored the same transactions (18752).
    """
    try:
        yield
    except (errors.ObjectInUse, errors.UniqueViolation) as error:
        raise StoredMeanwhileError(
            "another log reader, with another slot, has stored the same transactions (18752): stop one "
            f"of them ({error.diag.message_primary or error})"
        ) from error
