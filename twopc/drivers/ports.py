"""Interfaces to a node and to the decision log that transactions and recovery use, on servers and in the model.

`participant`, `decision_log` and `recorded_decisions` implement them on PostgreSQL, `twopc.sim.model` in virtual
time. Both raise `psycopg.Error` if no server answers, so that the callers are the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from psycopg import pq

from twopc.protocol.effects import Outcome, Record

#: Epoch and sequence: a global transaction of one coordinator.
Key = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedBranch:
    """A branch found prepared."""

    gid: str
    owner: str
    """The role that prepared the branch; only that role or a superuser may finish it."""
    is_ours: bool = True
    """Whether the coordinator is a member of that role; any role may prepare under any gid."""
    prepared_at: float
    """Time in seconds since 1970, by the node's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEpoch:
    """An epoch of the decision log."""

    epoch: int
    variant: str
    fenced_s: float | None = None
    """Seconds since the epoch was fenced; None if it is not fenced."""


class ParticipantPort(Protocol):
    """Interface to one participant, as the coordinator's role sees it. Every method may raise `psycopg.Error`."""

    name: str

    async def prepared(self, prefix: str) -> dict[str, PreparedBranch]:
        """Return the branches prepared at the node whose gids start with `prefix`, oldest first."""
        ...

    async def markers(self, gids: list[str]) -> dict[str, bool]:
        """Return which of `gids` have a marker, each with whether it is a fence."""
        ...

    async def committed(self, prefix: str, after: str, rows_max: int) -> dict[str, list[str]]:
        """Return branches committed at the node whose gid starts with `prefix` and follows `after`, with the other
        branches.
        """
        ...

    async def settle(self, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
        """Bring a branch to an outcome if it has none, and return its outcome."""
        ...

    async def fence(self, gid: str, sites: list[str]) -> Outcome | None:
        """Return the final outcome of a branch; None if it is prepared."""
        ...

    async def unreleased(self, gids: Sequence[str]) -> list[str]:
        """At a Subscriber: return those of the branches that made calls at the Publisher and that `release` does not
        let go.
        """
        ...

    async def release(self, gids: Sequence[str]) -> None:
        """At a Subscriber: record that the Publisher's markers of the same transactions may be removed."""
        ...

    async def end_sessions(self, names: list[str]) -> list[int]:
        """End the sessions with these names, and return their process ids."""
        ...

    async def end_links(self, subscriber: str, pids: list[int]) -> list[int]:
        """At the Publisher: end the links of a Subscriber's sessions."""
        ...

    async def forget_epoch(self, prefix: str, rows_max: int) -> int:
        """Remove markers, and return their number."""
        ...

    async def close(self) -> None:
        """Close the connections; idempotent."""
        ...


class SitePort(ParticipantPort, Protocol):
    """Interface to a participant, as the driver of a transaction sees it."""

    async def owner_of(self, gid: str) -> str | None:
        """Return the role that prepared a branch; None if the branch is not prepared, or by a role of which the
        coordinator is not a member.
        """
        ...

    async def end_session(self, pid: int, started: str) -> None:
        """End a session, if it is still the one that started at the given time, and wait for its end."""
        ...


class LeanPort(Protocol):
    """Interface to a connection over which messages of commands are sent: a `twopc.drivers.lean.Lean`, or the
    model's.
    """

    lost: str
    """Reason why the connection is lost; empty if it is not."""
    unsynced: bool
    """Whether the wait for a synchronous standby was interrupted in the last message."""

    def run(self, command: bytes) -> Awaitable[list[pq.abc.PGresult]]:
        """Send commands, and return their results, up to the first error."""
        ...

    def send(self, command: bytes) -> None:
        """Send commands; `answer` returns the results."""
        ...

    def answer(self) -> Awaitable[list[pq.abc.PGresult]]:
        """Wait for the results of the commands sent, and return them."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        ...

    def release(self) -> None:
        """Leave the connection to the application, until the next message."""
        ...

    def alive(self) -> bool:
        """Return whether an idle connection still works, as far as this side can see."""
        ...

    async def close(self) -> None:
        """Close the connection; idempotent."""
        ...


class FinishersPort(Protocol):
    """Interface to the coordinator's connections to the Publisher."""

    async def finish(
        self, command: bytes, tag: bytes, owner: str, meanwhile: Callable[[], None]
    ) -> bool:
        """See `twopc.drivers.server_sessions.Finishers.finish`."""
        ...


class DecisionsPort(Protocol):
    """Interface to the decision log for recovery. Every method may raise `psycopg.Error`."""

    async def fence(self, coordinator: str, own: Sequence[int]) -> list[KnownEpoch]:
        """Fence the epochs of dead processes, and return all fenced epochs."""
        ...

    async def epochs(self, coordinator: str) -> list[KnownEpoch]:
        """Return every epoch of a coordinator."""
        ...

    async def decisions(self, dead: Sequence[int], keys: Sequence[Key]) -> dict[Key, Record]:
        """Return all decisions about the transactions in `keys`, and a limited number of those of dead epochs."""
        ...

    async def closed(self, epoch: int) -> set[Key]:
        """Return the transactions of an epoch that `close_decision` has marked: their damage is recorded."""
        ...

    async def forget(self, key: Key) -> None:
        """Delete the record of a transaction whose branches are all settled."""
        ...

    async def close_decision(self, key: Key) -> None:
        """Mark a decision as needing no further messages; it stays as evidence."""
        ...

    async def forget_epoch(self, epoch: int) -> None:
        """Remove a dead epoch that has no open decisions or branches."""
        ...

    async def damage(
        self, *, gid: str, node: str, outcome: Outcome, decided: Outcome | None
    ) -> None:
        """Record that a branch ended against the decision."""
        ...

    async def close(self) -> None:
        """Close the connection; idempotent."""
        ...


class KeeperPort(Protocol):
    """Interface to the background work of a coordinator, for its transactions."""

    def take_over(self, key: Key) -> None:
        """Hand a transaction that a driver could not settle over to recovery."""
        ...

    def over(self, gid: str, branches: tuple[str, ...]) -> None:
        """Record that a transaction is committed at every node, so that its markers may be removed later."""
        ...
