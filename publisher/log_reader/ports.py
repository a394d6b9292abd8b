"""How a log reader reads, and what it needs of its Publisher's WAL, of the distribution database, and of its host.

On servers `reader`, `wal`, `sources` with `live`, and `store` perform it; in virtual time
`twopc.sim.model.distribution.log_reader` does. Both raise `psycopg.Error`, so that the engine is one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import psycopg
from psycopg import errors

from twopc.errors import StoredMeanwhileError
from twopc.proc_execution import ProcArticle
from twopc.publisher.commands import Belonging, CommandBuilder
from twopc.publisher.log_reader.planner import StoredBatch
from twopc.publisher.log_reader.rows import StoredPart
from twopc.publisher.pgoutput import RowMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReaderProfile:
    """How a log reader reads; the original's names where it has one."""

    read_batch_size: int = 2_000
    """Transactions stored in one commit, at most."""
    store_bytes: int = 4 << 20
    """What is stored at once, about; a transaction that is larger is stored in parts."""
    peek_messages: int = 400_000
    """How many messages to ask for at a time while catching up; the server keeps them on its disk."""
    catch_up_bytes: int = 16 << 20
    """From how much unread log on it is caught up with by peeking."""
    snapshot_bytes: int = 16 << 20
    """After so much log a snapshot is logged: how much of what is stored a session may have to decode again."""
    takeover_s: float = 2.0
    """How long to wait for another log reader to end."""
    release_s: float = 15.0
    """How long to wait for the slot, which no other log reader has: a predecessor's server process may be
    decoding still."""
    retry_s_min: float = 0.1
    retry_s_max: float = 10.0
    """Whoever attends tries again after so long; each time twice as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """What one pass has stored."""

    transactions: int
    commands: int
    position: str
    """Every transaction committed before is stored; a pg_lsn."""
    caught_up: bool
    """It was far behind, and has peeked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderArticles:
    """What the log reader makes commands with."""

    builder: CommandBuilder
    originators: Mapping[str, int]
    """Their numbers by link role."""
    calls: Mapping[int, ProcArticle]
    """Routines whose calls are stored."""
    beside_until: int
    """Commit LSN up to which the rows of a call are stored beside it."""
    horizon: int
    """The highest id of a writer that was stored; 0: not known."""


class LogSourcePort(Protocol):
    """A session in which messages of the log come, from where the slot stands."""

    count: int
    """How many messages it has brought."""
    drained: bool
    """The last `take` has left nothing that had arrived."""
    position: int
    """Everything committed before has been brought."""
    confirmed: int
    """Where this session has moved the slot to; 0: nowhere."""

    @property
    def movable(self) -> bool:
        """The slot can be moved now."""
        ...

    async def take(self) -> list[bytes]:
        """The next messages of pgoutput, a bounded number of them; it may give way to other tasks.

        Raises:
            ServerError: the server leaves changes out, or somebody else reads the slot (18752).
        """
        ...

    async def confirm(self, lsn: int) -> None:
        """Let the slot move: everything committed before is stored."""
        ...

    async def close(self) -> None:
        """Let the slot go. Idempotent."""
        ...


class LivePort(LogSourcePort, Protocol):
    """A source to which the server sends what is committed; it can be left open between two passes."""

    ended: bool
    """It has ended while it was left; what was not taken comes again in another one."""

    async def ask(self) -> None:
        """Have the server tell how far it has come."""
        ...

    async def wait(self) -> None:
        """Until something may have arrived, or the host is stopping."""
        ...

    def leave(self, *, settled: bool) -> None:
        """Nobody takes anything until `resume`.

        Args:
            settled: everything that was taken is stored.
        """
        ...

    def resume(self) -> None:
        """It is read again. Harmless if it was not left."""
        ...


class WalPort(Protocol):
    """A Publisher's WAL, and the right to read the slot, held until `close`."""

    next_xid: int
    """A transaction id of the time when it was opened, with its epoch."""

    async def look(self) -> tuple[int, int]:
        """A position before which lies everything committed by now, durable; and the slot's."""
        ...

    async def log_snapshot(self) -> None:
        """Log where decoding can begin once the slot has moved past it, so that older log can go."""
        ...

    async def belongings(
        self, builder: CommandBuilder, changes: Sequence[RowMessage]
    ) -> list[Belonging]:
        """See `twopc.publisher.filters.RowFilters.belongings`."""
        ...

    async def forget_calls(self) -> None:
        """Remove marks of calls that the log has had for long."""
        ...

    async def live(self) -> LivePort:
        """Messages as they are made. ServerError: somebody else reads the slot (18752)."""
        ...

    async def peek(self, upto: int) -> LogSourcePort:
        """Messages of transactions committed before a position, in bulk; it shows them again until the slot moves."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class StorePort(Protocol):
    """The distribution database, as the log reader of one Publisher sees it."""

    publisher: int
    """The Publisher's number there."""
    read_to: int
    """Commit LSN of the last transaction that is stored."""

    @property
    def streaming(self) -> bool:
        """Parts of a transaction are stored, and the last one is not."""
        ...

    async def registry(self) -> ReaderArticles:
        """What is published and subscribed now; what is stored later is made of this, or it is not stored."""
        ...

    async def check(self, horizon: int) -> None:
        """Make sure that `registry` would return the same; `commit` does so too.

        Args:
            horizon: a writer that is to be known although nothing is stored of it; 0: none.

        Raises:
            psycopg.errors.SerializationFailure: it would not.
        """
        ...

    async def write(self, part: StoredPart) -> None:
        """Store part of a transaction that is too large to wait for; `commit` ends it.

        Agents may begin it, and must not end it before. If `commit` does not come, another session removes it.

        Raises:
            psycopg.Error: as `commit`.
        """
        ...

    async def commit(self, batch: StoredBatch) -> None:
        """Store a batch, which is all or what `write` has left, and the mark; durable when it returns.

        Raises:
            psycopg.errors.SerializationFailure: `registry` would return something else by now.
            psycopg.errors.ObjectInUse, psycopg.errors.UniqueViolation: another log reader has stored meanwhile.
        """
        ...

    async def close(self) -> None:
        """What was not committed is gone. Idempotent."""
        ...


class HostPort(Protocol):
    """Where a log reader runs."""

    @property
    def stopping(self) -> bool:
        """It is told to stop."""
        ...

    def time(self) -> float:
        """Seconds of a clock that only goes forward."""
        ...

    async def delay(self, seconds: float) -> None:
        """Let time pass, but no longer than until it is told to stop."""
        ...

    async def open_wal(self) -> WalPort:
        """Connect to the Publisher.

        Raises:
            ServerError: the slot is not there or cannot be read, another log reader reads it (18752), or the
                log lacks an article.
        """
        ...

    async def open_store(self) -> StorePort:
        """Connect to the distribution database. SubscriptionError: it does not know the Publisher."""
        ...

    async def record(self, event: str, error: BaseException | None = None) -> None:
        """Add to the history that it has started, succeeded, will retry or has failed, and why. Never raises."""
        ...


def may_pass(error: BaseException) -> bool:
    """The server failed, or was away: trying again may help."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)


@contextmanager
def name_rival() -> Iterator[None]:
    """Say of what the store refuses within the block that another log reader is at work.

    Raises:
        StoredMeanwhileError: it has stored the same (18752).
    """
    try:
        yield
    except (errors.ObjectInUse, errors.UniqueViolation) as error:
        raise StoredMeanwhileError(
            "another log reader, with another slot, has stored the same transactions (18752): stop one "
            f"of them ({error.diag.message_primary or error})"
        ) from error
