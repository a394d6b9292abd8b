"""The events of a run, one class for each kind of event that reports distinguish.

`twopc.sim.report.event_records` makes events from the records of a history. Reports dispatch on an event's class
and read its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HistoryEvent:
    """An event of a run; reports show nothing of an event of this very class."""

    kind: str
    """The kind of the record in the history, for display."""
    seq: int
    """Number of the record, increasing within the run."""
    t_us: int
    """Microseconds since the start of the run."""
    order: str
    session: str
    """Name of the session; empty if the event belongs to an agent, to recovery or to the run."""
    node: str
    step: str
    gid: str
    """Identifier of the global transaction, without the branch."""
    message: str


# -- the order and its judgement ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderStart(HistoryEvent):
    """The start of an order; `message` is its author's description."""

    labels: Mapping[str, Any] = field(default_factory=dict)
    """All data of the record: `group`, `number`, `cell`, `twin`, `repeat`, as far as known."""
    sessions: Mapping[str, str] = field(default_factory=dict)
    """The node of each session, in the order of the scenario file."""
    twin: Mapping[str, Any] = field(default_factory=dict)
    """`protections` that are switched off and the check that `must_fail`; empty if the order is no twin."""
    isolation: Mapping[str, str] = field(default_factory=dict)
    """Isolation level of the sessions' transactions, by node."""
    cell: Mapping[str, str] = field(default_factory=dict)
    """The values of the matrix with which the order is played; empty without a matrix."""


class OrderEnd(HistoryEvent):
    """The end of an order; the verdict follows."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderJudgement(HistoryEvent):
    """The verdict on an order."""

    verdict: Mapping[str, Any] = field(default_factory=dict)
    """The verdict as in ``verdict.json``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupTally(HistoryEvent):
    """The counts of all orders of one name."""

    counts: Mapping[str, Any] = field(default_factory=dict)


class SkippedTwin(HistoryEvent):
    """A twin that was not played; `message` names the twin and the reason."""

    __slots__ = ()


class InfeasibleOrder(HistoryEvent):
    """An order that cannot be played as written."""

    __slots__ = ()


class Standstill(HistoryEvent):
    """A standstill: no step that is left in the order can end a wait."""

    __slots__ = ()


#: Beginning of the remark about a session whose transaction the runner rolls back, as the order has no end of it.
STILL_OPEN = "still open at the end of the order"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remark(HistoryEvent):
    """Any other information for the reader."""

    server_versions: Mapping[str, int] = field(default_factory=dict)
    """Server versions by node, if the remark is about the servers."""


# -- steps -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepStart(HistoryEvent):
    """A step is sent to its session's node."""

    sql: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepEnd(HistoryEvent):
    """The end of a step, with any result."""

    rows: tuple[Row, ...] | None = None
    rowcount: int | None = None
    tag: str = ""
    """The server's command tag of the step's last statement."""
    sqlstate: str = ""
    number: int = 0
    """SQL Server's error number."""
    conflict: Mapping[str, Any] = field(default_factory=dict)
    """The Publisher's description of a refusal."""
    at: str = ""
    """Node that refused the step, or whose agent stopped, if it is not the session's own node."""
    cycle: Sequence[str] = ()
    """The sessions that waited for each other, if a deadlock was resolved."""
    has_committed: bool = False
    """Whether the step committed its transaction."""
    xid: str = ""
    merge: Sequence[Mapping[str, Any]] = ()
    """Results of merge sessions, one for each Subscriber."""

    @property
    def refused_as(self) -> str:
        """The kind of refusal; empty if the step was not refused."""
        return str(self.conflict.get("kind") or "")


class StepSuccess(StepEnd):
    """A step that succeeded."""

    __slots__ = ()


class AuthorNote(StepEnd):
    """A step that is a note of the scenario's author."""

    __slots__ = ()


class StepRefusal(StepEnd):
    """A step whose transaction was refused."""

    __slots__ = ()


class StepError(StepEnd):
    """A step that failed with an SQLSTATE that is none of twopc's refusals."""

    __slots__ = ()


class DoubtfulStep(StepEnd):
    """A step whose outcome is in doubt."""

    __slots__ = ()


class StepRollback(StepEnd):
    """The commit of a transaction that had been refused: the transaction was rolled back."""

    __slots__ = ()


class UnsentStep(StepEnd):
    """A step that was not sent, as its transaction had been refused before."""

    __slots__ = ()


class StepTimeout(StepEnd):
    """A step that was cancelled at its timeout."""

    __slots__ = ()


class QueuedStep(HistoryEvent):
    """A step that must wait until its session is free."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitStart(HistoryEvent):
    """A step is blocked."""

    wait: Mapping[str, Any] = field(default_factory=dict)
    """The holder for which the step waits; see `HistoryRecord.wait`."""

    @property
    def holder(self) -> str:
        """The session for which the step waits; empty if the holder is no session of the order."""
        return str(self.wait.get("session") or "")


class WaitEnd(HistoryEvent):
    """A step is no longer blocked."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitAnswer(HistoryEvent):
    """The answer to a wait in the order itself: whether the step is blocked."""

    is_blocked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deadlock(HistoryEvent):
    """A deadlock of sessions; the step of the event's session is cancelled."""

    cycle: Sequence[str] = ()
    sessions: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoticeArrival(HistoryEvent):
    """A notice or a notification that a session received."""

    count: int = 1


class SessionOutcome(HistoryEvent):
    """The outcome of a session's last transaction, in `message`."""

    __slots__ = ()


# -- agents, merge sessions, recovery ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentWork(HistoryEvent):
    """The work of an agent on one transaction at the Subscriber `node`."""

    origin: str = ""
    """The node where the transaction began."""
    seqno: str = ""
    commands: Sequence[str] = ()
    """Descriptions of the commands."""
    calls: int = 0

    @property
    def text(self) -> str:
        """The descriptions of all commands, separated by semicolons."""
        return "; ".join(self.commands) or "nothing for it"


class AgentDelivery(AgentWork):
    """A transaction that an agent applied."""

    __slots__ = ()


class EchoDelivery(AgentDelivery):
    """A transaction that an agent applied at the node where it was made. No record says so; see `Fold.deliveries`."""

    __slots__ = ()


class PassedTransaction(AgentWork):
    """A transaction that an agent did not apply, as it is the node's own."""

    __slots__ = ()


class SkippedTransaction(AgentWork):
    """A transaction that an agent skipped because of an error that its Subscriber lists."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeSessionEnd(HistoryEvent):
    """The end of a merge session of the Subscriber `node`."""

    publisher: str = ""
    up: Mapping[str, Any] = field(default_factory=dict)
    down: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the generations of each sending end, in the upload (`up`) and in the download (`down`)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConflictNote(HistoryEvent):
    """A conflict that a merge session recorded at `node`."""

    table: str
    key: Row
    type: str
    origin: str
    """The node that made the change that lost or failed."""
    winner: str = ""
    loser: Row | None = None
    """The losing row, which is kept with the conflict."""
    why: str = ""
    incoming: str = ""
    """The node whose row the merge session brought."""
    stands_on: Mapping[str, Row] = field(default_factory=dict)
    """Lineages of the two rows: the changes on which the row that was brought and the row that was held are based."""
    resolver: str = ""
    reason: str = ""
    reason_code: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BranchSettlement(HistoryEvent):
    """Recovery has finished a prepared branch; `message` is the reason."""

    outcome: str = ""


# -- looks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableLook(HistoryEvent):
    """The rows of a table at a node."""

    table: str = ""
    key: Sequence[str] = ()
    moment: str = ""
    """``initial``, ``committed``, ``final``; ``part``: the rows that the Subscriber `part` should have."""
    part: str = ""
    rows: tuple[Row, ...] = ()
    """The rows; of a load's table only the first."""
    rowcount: int = 0
    branches: Mapping[str, str] | None = None
    """The branches that took effect since the previous look, with their transaction ids; None if unknown."""
    xids: Sequence[str] = ()
    """The transaction id of each row's writer."""
    has_versions: bool = True
    """Whether the rows have versions that can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UncommittedRows(HistoryEvent):
    """The rows of a table that an open transaction has changed, as that transaction sees them."""

    table: str = ""
    key: Sequence[str] = ()
    rows: tuple[Row, ...] = ()
    gone: Sequence[Row] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedBranches(HistoryEvent):
    """The branches that are prepared at a node."""

    gids: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BranchMarkers(HistoryEvent):
    """The branches that took effect at a node, and those that are fenced there."""

    markers: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryAnswer(HistoryEvent):
    """The result of a query that the scenario asks about the data."""

    sql: str = ""
    rows: tuple[Row, ...] | None = None
    sqlstate: str = ""


# -- what happens to nodes and agents ----------------------------------------------------------------


class NodeIncident(HistoryEvent):
    """An event of a node or an agent rather than of a session."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outage(NodeIncident):
    """The start or the end of a node's outage, in which it accepts no connections."""

    is_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pause(NodeIncident):
    """An agent is paused or resumed."""

    is_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backup(NodeIncident):
    """A node is backed up, or restored from its backup."""

    is_restored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FaultEffect(NodeIncident):
    """A planned fault has occurred."""

    id: str = ""
    at: str = ""
    no_effect: str = ""
    """Why the fault has no effect; empty if it has one."""


# -- loads -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadParameters(HistoryEvent):
    """The parameters of a load that were drawn at random or set by default."""

    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadFigures(HistoryEvent):
    """The figures of a load; `twopc.sim.workload.figures` defines them."""

    figures: Mapping[str, Any] = field(default_factory=dict)
