"""What happened, as a reader of a report would name it: one class for each kind of event.

They are made of the history's records in `twopc.sim.report.event_records`. Reports dispatch on an event's class and
read its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HistoryEvent:
    """Something that happened; one of this very class has nothing that a report tells."""

    kind: str
    """How the history calls it: to be shown."""
    seq: int
    """Counts up within the run."""
    t_us: int
    """Microseconds since the run began."""
    order: str
    session: str
    """Empty: it is of the agents, of recovery, or of the run."""
    node: str
    step: str
    gid: str
    """The global transaction, without a branch."""
    message: str


# -- the order and its judgement ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderStart(HistoryEvent):
    """An order begins; `message` is what its author says of it."""

    labels: Mapping[str, Any] = field(default_factory=dict)
    """Everything: `group`, `number`, `cell`, `twin`, `repeat`, as far as known."""
    sessions: Mapping[str, str] = field(default_factory=dict)
    """Of each session its node, in the order of the file."""
    twin: Mapping[str, Any] = field(default_factory=dict)
    """`protections` that are switched off and the check that `must_fail`; empty if it is no twin."""
    isolation: Mapping[str, str] = field(default_factory=dict)
    """By node, the isolation level of its sessions' transactions."""
    cell: Mapping[str, str] = field(default_factory=dict)
    """The matrix' values under which it is played; empty without a matrix."""


class OrderEnd(HistoryEvent):
    """The order is over; its judgement follows."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderJudgement(HistoryEvent):
    """How an order was judged."""

    verdict: Mapping[str, Any] = field(default_factory=dict)
    """As in ``verdict.json``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupTally(HistoryEvent):
    """What all orders of one name came to."""

    counts: Mapping[str, Any] = field(default_factory=dict)


class SkippedTwin(HistoryEvent):
    """A twin was not played; `message` says which and why."""

    __slots__ = ()


class InfeasibleOrder(HistoryEvent):
    """The order cannot be played as written."""

    __slots__ = ()


class Standstill(HistoryEvent):
    """Nothing that is left in the order can end a wait."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Remark(HistoryEvent):
    """Anything else worth reading."""

    server_versions: Mapping[str, int] = field(default_factory=dict)
    """By node, where it tells of the servers."""


# -- steps -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepStart(HistoryEvent):
    """A step is sent."""

    sql: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepEnd(HistoryEvent):
    """A step has ended, in whichever way."""

    rows: tuple[Row, ...] | None = None
    rowcount: int | None = None
    tag: str = ""
    """The server's command tag of its last statement."""
    sqlstate: str = ""
    number: int = 0
    """The original's error number."""
    conflict: Mapping[str, Any] = field(default_factory=dict)
    """What the Publisher said about a refusal."""
    at: str = ""
    """The node that has refused, or whose agent has stopped, if it is another one."""
    cycle: Sequence[str] = ()
    """Who waited for whom, where a deadlock was broken."""
    has_committed: bool = False
    """Its transaction was committed by it."""
    xid: str = ""
    merge: Sequence[Mapping[str, Any]] = ()
    """What merge sessions came to, one for each Subscriber."""

    @property
    def refused_as(self) -> str:
        """The kind of refusal; empty if it was none."""
        return str(self.conflict.get("kind") or "")


class StepSuccess(StepEnd):
    """It did what it was asked."""

    __slots__ = ()


class AuthorNote(StepEnd):
    """It was a note of the scenario's author."""

    __slots__ = ()


class StepRefusal(StepEnd):
    """Its transaction was refused."""

    __slots__ = ()


class StepError(StepEnd):
    """It failed with an SQLSTATE that is no refusal of ours."""

    __slots__ = ()


class DoubtfulStep(StepEnd):
    """It may have happened and may not."""

    __slots__ = ()


class StepRollback(StepEnd):
    """It was the commit of a transaction that had been refused."""

    __slots__ = ()


class UnsentStep(StepEnd):
    """Its transaction had been refused before."""

    __slots__ = ()


class StepTimeout(StepEnd):
    """It was cancelled after its time limit."""

    __slots__ = ()


class QueuedStep(HistoryEvent):
    """A step must wait until its session is free."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitStart(HistoryEvent):
    """A step provably waits."""

    wait: Mapping[str, Any] = field(default_factory=dict)
    """For whom, see `HistoryRecord.wait`."""

    @property
    def holder(self) -> str:
        """The session for which it waits; empty if it is none of ours."""
        return str(self.wait.get("session") or "")


class WaitEnd(HistoryEvent):
    """It waits no longer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WaitAnswer(HistoryEvent):
    """An order's own wait was answered."""

    is_blocked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deadlock(HistoryEvent):
    """Sessions wait for each other; that of the event is cancelled."""

    cycle: Sequence[str] = ()
    sessions: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoticeArrival(HistoryEvent):
    """A notice or a notification has arrived at a session."""

    count: int = 1


class SessionOutcome(HistoryEvent):
    """How a session's last transaction ended, in `message`."""

    __slots__ = ()


# -- agents, merge sessions, recovery ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentWork(HistoryEvent):
    """What an agent did with one transaction at a Subscriber, its `node`."""

    origin: str = ""
    """The node where the transaction began."""
    seqno: str = ""
    commands: Sequence[str] = ()
    """In words."""
    calls: int = 0

    @property
    def text(self) -> str:
        """Its commands, one after the other."""
        return "; ".join(self.commands) or "nothing for it"


class AgentDelivery(AgentWork):
    """It was applied."""

    __slots__ = ()


class EchoDelivery(AgentDelivery):
    """It was applied at the node where it was made: no record says so, see `Fold.deliveries`."""

    __slots__ = ()


class PassedTransaction(AgentWork):
    """It was that node's own."""

    __slots__ = ()


class SkippedTransaction(AgentWork):
    """It was left out because of an error that its Subscriber lists."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeSessionEnd(HistoryEvent):
    """A merge session of a Subscriber, its `node`, has ended."""

    publisher: str = ""
    up: Mapping[str, Any] = field(default_factory=dict)
    down: Mapping[str, Any] = field(default_factory=dict)
    """What has become of either end's generations."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConflictNote(HistoryEvent):
    """A merge session has recorded a conflict at `node`."""

    table: str
    key: Row
    type: str
    origin: str
    """Whose change it was."""
    winner: str = ""
    loser: Row | None = None
    """The row that is kept."""
    why: str = ""
    incoming: str = ""
    """Who has brought a row."""
    stands_on: Mapping[str, Row] = field(default_factory=dict)
    """The changes on which the rows stand that were brought and held."""
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
    """A table's rows at a node."""

    table: str = ""
    key: Sequence[str] = ()
    moment: str = ""
    """``initial``, ``committed``, ``final``; ``part``: they are what the Subscriber `part` should have."""
    part: str = ""
    rows: tuple[Row, ...] = ()
    """Of a load's table the first."""
    rowcount: int = 0
    branches: Mapping[str, str] | None = None
    """Those that took effect since the look before, with their transaction ids; None: it does not tell."""
    xids: Sequence[str] = ()
    """Who wrote each row."""
    has_versions: bool = True
    """Its rows have versions that can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UncommittedRows(HistoryEvent):
    """A table's rows that an open transaction has changed, as it sees them."""

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
    """Which branches took effect at a node, and which never will."""

    markers: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryAnswer(HistoryEvent):
    """The scenario's own question about the data."""

    sql: str = ""
    rows: tuple[Row, ...] | None = None
    sqlstate: str = ""


# -- what happens to nodes and agents ----------------------------------------------------------------


class NodeIncident(HistoryEvent):
    """Something that happens to a node or an agent rather than to a session."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outage(NodeIncident):
    """A node accepts no connections, or does again."""

    is_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pause(NodeIncident):
    """An agent is paused, or resumed."""

    is_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backup(NodeIncident):
    """A node is backed up, or put back to what it was then."""

    is_restored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FaultEffect(NodeIncident):
    """A planned fault has happened."""

    id: str = ""
    at: str = ""
    no_effect: str = ""
    """Why it has none."""


# -- loads -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadParameters(HistoryEvent):
    """What was drawn for a load, or settled where nobody has said anything."""

    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadFigures(HistoryEvent):
    """What a load came to; `twopc.sim.workload.figures` says what its figures are."""

    figures: Mapping[str, Any] = field(default_factory=dict)
