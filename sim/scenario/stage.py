"""Interface between a runner and the place where a scenario is played, such as real servers.

The runner decides when steps are started; a stage performs them. This module does not depend on PostgreSQL.
"""

# ruff: noqa: B027 -- most stages have nothing to do in some methods

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from twopc.errors import ScenarioError
from twopc.sim.deliveries import ReportedDelivery
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.merge_parts import ColumnChange
from twopc.sim.scenario.text import Document, Path
from twopc.sim.scenario.values import Capabilities, Case, FaultStrike, NotPlayableError
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.waits import Waits

if TYPE_CHECKING:
    from twopc.drivers.recovery import SettledBranch

#: Name of the session in which an order's own syncs are played.
AGENTS = "agents"
#: Branch markers are read at the end, even after a long load.
MARKERS_KEPT_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedMergeSession:
    """Report of a merge session that has ended, with or without success."""

    subscriber: str
    publisher: str
    up: Mapping[str, Any]
    """Progress of the Subscriber's generations: `from`, `to`, and, before and after the session, the newest
    generation that was `closed`, that has `arrived`, and that is `acknowledged`; `coming`: a generation that has
    arrived in part.
    """
    down: Mapping[str, Any]
    """Progress of the Publisher's generations, in the form of `up`."""
    conflicts: Sequence[Mapping[str, Any]]
    """Conflicts that the session has recorded, in order."""


class AwayError(Exception):
    """A node cannot be read: a fault has stopped its server, or it has no tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContent:
    """The committed rows of a node and their writers, all of one snapshot."""

    rows: Mapping[str, list[dict[str, Any]]]
    """Rows by table, in the order of the key, with every value as text."""
    xids: Mapping[str, list[str]]
    """By table, the transaction that wrote each row; on servers possibly a subtransaction."""
    branches: Mapping[str, str] = field(default_factory=dict)
    """Transaction ids of the branches committed at the node, by gid, from their markers."""


class SetUpError(ScenarioError):
    """A server refuses the scenario's setup, or a step has removed a part of it."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        """Place of the cause in the file."""

    def within(self, document: Document) -> ScenarioError:
        """Return the error as a report on the document, with its place there."""
        report = replace(document, problems=[])
        report.error(self.path, str(self))
        return ScenarioError(report.report(severity="error"))


def lost_table(message: str) -> SetUpError:
    """Return the error for a table of the file, or one of its columns, that no longer exists when it is read.

    Args:
        message: the server's message.
    """
    return SetUpError(
        ("tables",),
        f"a step has dropped or renamed what is looked at after each step ({message}): let the file's tables keep their "
        "names and columns, and drop others, made by a step or by 'setup'",
    )


class Stage(ABC):
    """A topology with the scenario's tables created, published, subscribed and filled.

    What only some stages have is defined here as nothing: branches, deliveries of agents, merge sessions, faults.
    """

    @property
    @abstractmethod
    def about(self) -> Mapping[str, Any]:
        """Properties for the history, such as server versions and settings."""

    @abstractmethod
    async def open(self, session: str, node: str) -> ClientSession:
        """Connect a session."""

    @abstractmethod
    def agents(self) -> ClientSession:
        """Return the session in which an order syncs, which belongs to no session of the file."""

    @abstractmethod
    def subscribes(self, node: str) -> bool:
        """Return whether a node takes part now: it is the Publisher, or has a subscription."""

    async def deliveries(self) -> Sequence[ReportedDelivery]:
        """Return what agents have done since the last call, in order."""
        return ()

    def merge_sessions(self) -> Sequence[EndedMergeSession]:
        """Return the merge sessions that have ended since the last call, in order."""
        return ()

    @abstractmethod
    async def waits(self) -> Waits:
        """Read the waits of sessions at all nodes."""

    @abstractmethod
    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        """Return the given columns of these tables' rows, all of one snapshot.

        Raises:
            AwayError: a fault has stopped the node, or the node has no subscription and lacks a table.
            SetUpError: a step has dropped a table.
        """

    @abstractmethod
    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """Return the Publisher's rows that belong to a Subscriber; None if all of them do."""

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Return the gids of this topology's branches that are prepared at a node."""
        return ()

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """Return the branch markers at a node: gid, participants, fence; `sent`: whether a Subscriber's branch has one
        at the Publisher.
        """
        return []

    @abstractmethod
    async def query(self, node: str, text: str) -> list[dict[str, Any]]:
        """Return the rows of a read-only query, every value as text."""

    @abstractmethod
    async def outage(self, node: str, *, on: bool) -> None:
        """Make a node refuse connections and terminate its sessions, or accept connections again."""

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Note that a Subscriber's agent pauses or resumes: agents run only in sync steps, and those who start them
        omit paused ones.
        """

    async def age(self, days: int) -> None:
        """Age the metadata of merging nodes by a number of days."""

    async def backup(self, node: str, *, kept: bool) -> None:
        """Back up a merging node, or restore its backup; its sessions reconnect.

        No session may be running a step at the node.
        """

    async def change_column(self, change: ColumnChange) -> None:
        """Change a column of a merged table at the Publisher. No session may be running a step there."""

    async def arm(self, fault: Fault) -> None:
        """Arm a fault at its point. Only the stage of a case with faults is asked to."""
        raise NotPlayableError(("faults",), "faults are not performed here")

    async def fired(self) -> Sequence[FaultStrike]:
        """Return the faults that have reached their points since the last call."""
        return ()

    @abstractmethod
    async def recover(self) -> None:
        """Run one pass of recovery."""

    def settled(self) -> Sequence[SettledBranch]:
        """Return the branches that recovery has finished since the last call."""
        return ()


class Theatre(Protocol):
    """Creates a stage for each case; an async context manager."""

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the theatre."""
        ...

    @property
    def kept(self) -> Sequence[tuple[str, str, str]]:
        """Case, node and connection string of each database that is kept until the theatre is closed."""
        ...

    def stage(self, case: Case) -> AbstractAsyncContextManager[Stage]:
        """Return a new stage for one case, which is removed afterwards.

        Entering it raises SetUpError or, if a server is not available, ConfigurationError.
        """
        ...

    async def __aenter__(self) -> Self:
        """Enter the theatre; servers are started only when they are needed."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Stop all started servers."""
        ...
