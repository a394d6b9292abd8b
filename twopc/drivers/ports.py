"""What recovery and settling need of a node and of the decision log, whichever world they are in.

The PostgreSQL side has them in `participant` and `decided`, the virtual side in `virtual_wire`. Both
raise `psycopg.Error` where nobody answers, so that the callers are one text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from psycopg import pq

from twopc.names import EpochIds
from twopc.protocol.effects import Outcome, Record

#: Epoch and sequence: a global transaction of one coordinator.
Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBranch:
    """A branch found prepared."""

    gid: str
    owner: str
    """The role that prepared it; only that role or a superuser may finish it."""
    is_ours: bool = True
    """The coordinator is a member of that role; anybody may prepare under any name."""
    prepared_at: float
    """Seconds since 1970, by the node's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEpoch:
    """An epoch of the decision log."""

    epoch: int
    variant: str
    fenced_s: float | None = None
    """For how long it has been fenced; None if it is not."""


class ParticipantPort(Protocol):
    """One participant, as the coordinator's role sees it. Every method may raise `psycopg.Error`."""

    name: str

    async def prepared(self, prefix: str) -> dict[str, PreparedBranch]:
        """What is prepared there under gids that begin so, oldest first."""
        ...

    async def markers(self, gids: list[str]) -> dict[str, bool]:
        """Those that have a marker; True for a fence."""
        ...

    async def committed(self, prefix: str, after: str, rows_max: int) -> dict[str, list[str]]:
        """Branches committed here whose gid begins so and comes behind `after`, with the other sites."""
        ...

    async def settle(self, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
        """Bring a branch to an outcome if it has none, and tell which it has."""
        ...

    async def fence(self, gid: str, sites: list[str]) -> Outcome | None:
        """How a branch ended and can no longer help having ended; None if it is prepared."""
        ...

    async def end_sessions(self, names: list[str]) -> list[int]:
        """End the sessions of these names; their process ids."""
        ...

    async def end_links(self, subscriber: str, pids: list[int]) -> list[int]:
        """At the Publisher: end the links of a Subscriber's sessions."""
        ...

    async def forget_epoch(self, prefix: str, rows_max: int) -> int:
        """Remove markers; how many."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class SitePort(ParticipantPort, Protocol):
    """A participant, as the driver of a transaction sees it."""

    async def owner_of(self, gid: str) -> str | None:
        """The role that prepared a branch; None if it is not prepared, or by a role that the coordinator is no
        member of."""
        ...

    async def end_session(self, pid: int, started: str) -> None:
        """End one session, if it is still the one that started then, and wait until it is gone."""
        ...


class LeanPort(Protocol):
    """A connection on which messages of commands are sent: a `twopc.drivers.lean.Lean`, or the model's."""

    lost: str
    """Why it is lost; empty if it is not."""
    unsynced: bool
    """The wait for a synchronous standby was cut short in the last message."""

    def run(self, command: bytes) -> Awaitable[list[pq.abc.PGresult]]:
        """Send commands, and wait for their results: up to the first that is an error."""
        ...

    def send(self, command: bytes) -> None:
        """Send commands; `answer` waits for the results."""
        ...

    def answer(self) -> Awaitable[list[pq.abc.PGresult]]:
        """The results of what was sent."""
        ...

    def abort(self, reason: str) -> None:
        """Close it at once."""
        ...

    def release(self) -> None:
        """Leave the connection to the application, until the next message."""
        ...

    def alive(self) -> bool:
        """Whether an idle connection still works, as far as this side can see."""
        ...

    async def close(self) -> None:
        """Close it; idempotent."""
        ...


class FinishersPort(Protocol):
    """The coordinator's connections to the Publisher."""

    async def finish(
        self, command: bytes, tag: bytes, owner: str, meanwhile: Callable[[], None]
    ) -> bool:
        """See `twopc.drivers.server_sessions.Finishers.finish`."""
        ...


class EntryPort(Protocol):
    """A record on its way to the log."""

    state: str
    """``logged``, ``failed`` (surely not written) or ``unknown``; empty until then."""
    reason: str

    async def wait(self) -> None:
        """Until `state` is known."""
        ...


class LogPort(Protocol):
    """The decision log, as transactions and their drivers see it."""

    def current(self, variant: str) -> EpochIds | None:
        """The ids for transactions of a variant, if there is an epoch and it can be written for."""
        ...

    async def epoch(self, variant: str) -> EpochIds:
        """As `current`; opens an epoch at the first use.

        Raises:
            psycopg.Error: the log does not answer.
        """
        ...

    def append(self, epoch: int, sequence: int, record: Record) -> EntryPort:
        """Send a record on its way, with whatever else is waiting."""
        ...

    def forget(self, epoch: int, sequence: int) -> None:
        """Have a record deleted some time."""
        ...

    async def read_back(self, epoch: int, sequence: int) -> Record | None:
        """The durable record of a transaction, or None if there is none and can be none any more.

        Raises:
            psycopg.Error: the log does not answer.
            LookupError: another process fenced the epoch, and may have settled the transaction.
        """
        ...


class DecisionsPort(Protocol):
    """The decision log for recovery. Every method may raise `psycopg.Error`."""

    async def fence(self, coordinator: str, own: Sequence[int]) -> list[KnownEpoch]:
        """Fence the epochs of dead processes; all that are fenced."""
        ...

    async def epochs(self, coordinator: str) -> list[KnownEpoch]:
        """Every epoch of a coordinator."""
        ...

    async def decisions(self, dead: Sequence[int], keys: Sequence[Key]) -> dict[Key, Record]:
        """What is decided of these transactions, all of it; and of dead epochs, as much as is taken up at a time."""
        ...

    async def forget(self, key: Key) -> None:
        """Everybody is settled."""
        ...

    async def close_decision(self, key: Key) -> None:
        """Nobody is told any more, and the decision stays as evidence."""
        ...

    async def forget_epoch(self, epoch: int) -> None:
        """Remove a dead epoch of which nothing is left."""
        ...

    async def damage(
        self, *, gid: str, node: str, outcome: Outcome, decided: Outcome | None
    ) -> None:
        """Record that a branch ended otherwise than decided."""
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...


class KeeperPort(Protocol):
    """What goes on in the background of a coordinator, for its transactions."""

    def take_over(self, key: Key) -> None:
        """A driver could not settle this transaction: recovery goes on."""
        ...

    def over(self, gid: str, branches: tuple[str, ...]) -> None:
        """This transaction is committed everywhere: its markers may go, in time."""
        ...
