"""What a runner needs of the place where a scenario is played; the real servers are one such place.

The runner decides what happens when; a stage lets it happen. Nothing here knows PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

from twopc.errors import ScenarioError
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.merge_parts import ColumnChange
from twopc.sim.scenario.values import Capabilities, Case, FaultStrike
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.waits import Waits

if TYPE_CHECKING:
    from twopc.drivers.recovery import SettledBranch

#: The session in which an order's own syncs are played.
AGENTS = "agents"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDelivery:
    """What an agent did with one of the Publisher's transactions."""

    node: str
    """The Subscriber."""
    seqno: str
    """The transaction's place among the Publisher's."""
    origin: str
    """The Subscriber that it came from; the Publisher's name if from none."""
    gid: str = ""
    """The global transaction, without a branch; empty for a plain one."""
    commands: tuple[str, ...] = ()
    """What was done, in words."""
    calls: int = 0
    """Of the commands: calls of routines."""
    definitions: int = 0
    """Of the commands: definitions of routines."""
    suppressed: bool = False
    """It was the Subscriber's own, and was not delivered."""
    skipped: str = ""
    """The error for which it was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedMergeSession:
    """What a merge session has done, whether it ended well or not."""

    subscriber: str
    publisher: str
    up: Mapping[str, Any]
    """Of the Subscriber's generations: `from`, `to`, and before and after the session the newest that was `closed`, that
    has `arrived`, and that is `acknowledged`; `coming`: one of which a part has arrived."""
    down: Mapping[str, Any]
    """Likewise of the Publisher's."""
    conflicts: Sequence[Mapping[str, Any]]
    """Those that it has recorded, in their order."""


class AwayError(Exception):
    """A node cannot be looked at: a fault has taken its server away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContent:
    """The committed rows of a node and who wrote them, all at one moment."""

    rows: Mapping[str, list[dict[str, Any]]]
    """By table, by key, every value as text."""
    xids: Mapping[str, list[str]]
    """By table, the transaction that wrote each row; on servers perhaps a subtransaction of it."""
    branches: Mapping[str, str] = field(default_factory=dict)
    """The branches that have committed here, by their markers, and their transactions' ids."""


class SetUpError(ScenarioError):
    """The server does not take what the scenario sets up, or a step has taken it away again."""

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.path = path
        """Where it stands in the file."""


def lost_table(message: str) -> SetUpError:
    """A table of the file, or a column of one, is not there any more when it is looked at.

    Args:
        message: the server's.
    """
    return SetUpError(
        ("tables",),
        f"a step has dropped or renamed what is looked at after each step ({message}): let the file's tables keep their "
        "names and columns, and drop others, made by a step or by 'setup'",
    )


class Stage(Protocol):
    """A topology with the scenario's tables published, subscribed and filled."""

    @property
    def about(self) -> Mapping[str, Any]:
        """What it is made of: server versions and settings, for the history."""
        ...

    async def open(self, session: str, node: str) -> ClientSession:
        """Connect a session."""
        ...

    def agents(self) -> ClientSession:
        """A session of nobody's, to sync for an order."""
        ...

    def subscribes(self, node: str) -> bool:
        """Whether a node takes part now: it is the Publisher, or subscribes."""
        ...

    async def deliveries(self) -> Sequence[StageDelivery]:
        """What agents have done since this was asked last, in their order."""
        ...

    def merge_sessions(self) -> Sequence[EndedMergeSession]:
        """The merge sessions that have ended since this was asked last, in their order."""
        ...

    async def waits(self) -> Waits:
        """Look who waits, on every node."""
        ...

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        """These tables' rows, with these columns.

        Raises AwayError while a fault has taken the node away, or if it does not subscribe and has no such table;
        SetUpError if a step has dropped one.
        """
        ...

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """The Publisher's rows that belong to a Subscriber; None: all of them do."""
        ...

    async def prepared(self, node: str) -> tuple[str, ...]:
        """The gids of this topology's branches that are prepared at a node."""
        ...

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """The branch markers at a node: gid, participants, fence."""
        ...

    async def query(self, node: str, text: str) -> list[dict[str, Any]]:
        """The rows of a query that changes nothing, every value as text."""
        ...

    async def outage(self, node: str, *, on: bool) -> None:
        """Have a node refuse everybody and end its sessions, or let them in again."""
        ...

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Have a Subscriber's agent rest, or go on."""
        ...

    async def age(self, days: int) -> None:
        """Have so many days go by, for all that nodes that merge have noted."""
        ...

    async def backup(self, node: str, *, kept: bool) -> None:
        """Keep what a node that merges holds, or put it back to what was kept; its sessions connect anew.

        Nobody is at work there.
        """
        ...

    async def change_column(self, change: ColumnChange) -> None:
        """Change a column of a table of the Publisher that is merged. Nobody is at work there."""
        ...

    async def arm(self, fault: Fault) -> None:
        """Have a fault happen at its point.

        Raises NotPlayableError where faults are not performed.
        """
        ...

    async def fired(self) -> Sequence[FaultStrike]:
        """The faults that have come to their points since this was asked last."""
        ...

    async def recover(self) -> None:
        """One pass of recovery."""
        ...

    def settled(self) -> Sequence[SettledBranch]:
        """The branches that recovery has finished since this was asked last."""
        ...


class Theatre(Protocol):
    """Makes a stage for each case; an async context manager."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    @property
    def kept(self) -> Sequence[tuple[str, str, str]]:
        """Case, node and connection string of what is left for a look until the theatre is left."""
        ...

    def stage(self, case: Case) -> AbstractAsyncContextManager[Stage]:
        """A stage of its own for one case; everything of it is gone afterwards.

        Entering it raises SetUpError or, if the servers are at fault, ConfigurationError.
        """
        ...

    async def __aenter__(self) -> Self:
        """Nothing is started before it is needed."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """End whatever was started."""
        ...
