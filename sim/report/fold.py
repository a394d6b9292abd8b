"""The fold of one order's records: steps, transactions, changes, waits, and the work of agents and of recovery.

An order is folded once for all reports. No report searches the records for facts of its own: it reads
`Fold.events`. Facts that few reports need are computed on first use. The fold is a pure function of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

from twopc.names import BranchId
from twopc.sim.report.changes import Changes, VersionChange
from twopc.sim.report.event_records import event_of, select
from twopc.sim.report.events import (
    AgentDelivery,
    AgentWork,
    BranchMarkers,
    BranchSettlement,
    ConflictNote,
    EchoDelivery,
    HistoryEvent,
    MergeSessionEnd,
    OrderJudgement,
    OrderStart,
    PreparedBranches,
    Remark,
    SessionOutcome,
    Standstill,
    StepEnd,
    StepError,
    StepRefusal,
    StepStart,
    StepTimeout,
    TableLook,
    WaitEnd,
    WaitStart,
)
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.transactions import Author, by_gid, transactions

E = TypeVar("E", bound=HistoryEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStep:
    """One step that was sent."""

    invoked: StepStart
    ended: StepEnd | None
    """The end of the step; None if the history ends, or the order was given up, before it."""
    until: int
    """Number of the last event that belongs to the step."""
    waits: tuple[tuple[WaitStart, int], ...]
    """The waits of the step, each with the `seq` of the event that ended it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleChange:
    """A change of a row whose version at the Publisher differed from that at the Subscriber that changed it."""

    made: VersionChange
    held: VersionChange
    """The version that the Subscriber had."""
    lost: VersionChange
    """The version that the Publisher had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Consecutive branches of one transaction that recovery finished with the same outcome."""

    author: Author | None
    """The transaction; None if no session of the order began it."""
    gid: str
    outcome: str
    reason: str
    nodes: tuple[str, ...]


class Fold:
    """The facts that follow from the records of one order."""

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        self.records = records

    @cached_property
    def events(self) -> list[HistoryEvent]:
        """All events, in the order of the records."""
        return [event_of(record) for record in self.records]

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one class."""
        return [each for each in self.events if isinstance(each, kind)]

    # -- the order -----------------------------------------------------------------------------------

    @cached_property
    def about(self) -> OrderStart | None:
        """The start of the order; None if it was not recorded."""
        return next(select(self.records, OrderStart), None)

    @property
    def sessions(self) -> dict[str, str]:
        """The sessions that act in this order, and their nodes, in the order of the scenario file."""
        every = self.about.sessions if self.about is not None else {}
        acting = {record.session for record in self.records if record.session}
        return {name: node for name, node in every.items() if name in acting}

    @property
    def twin(self) -> Mapping[str, Any]:
        """`protections` that are switched off and the check that `must_fail`; empty if the order is no twin."""
        return self.about.twin if self.about is not None else {}

    @property
    def cell(self) -> Mapping[str, str]:
        """The values of the matrix with which the order was played; empty without a matrix."""
        return self.about.cell if self.about is not None else {}

    @property
    def levels(self) -> Mapping[str, str]:
        """Isolation level of the sessions' transactions, by node."""
        return self.about.isolation if self.about is not None else {}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes whose tables were looked at, the Publisher first."""
        return tuple(dict.fromkeys(each.node for each in self.of(TableLook)))

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that were looked at."""
        return tuple(dict.fromkeys(each.table for each in self.of(TableLook)))

    # -- steps ---------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> list[PlayedStep]:
        """Every step that was sent, in the order of sending."""
        return [
            _step(event, islice(self.events, at + 1, None))
            for at, event in enumerate(self.events)
            if isinstance(event, StepStart)
        ]

    @cached_property
    def ended(self) -> Mapping[str, StepEnd]:
        """The end of each step, by the step's name."""
        return {each.step: each for each in self.of(StepEnd) if each.step}

    @cached_property
    def waits(self) -> Mapping[str, WaitStart]:
        """The first wait of each step, by the step's name."""
        results: dict[str, WaitStart] = {}
        for each in self.of(WaitStart):
            results.setdefault(each.step, each)
        return results

    @cached_property
    def waited_for(self) -> Mapping[str, str]:
        """The session for which each step waited last, by the step's name."""
        return {each.step: each.holder for each in self.of(WaitStart)}

    @cached_property
    def sql_of(self) -> Mapping[str, str]:
        """The SQL of each step on one line, by the step's name."""
        return {each.step: " ".join(each.sql.split()) for each in self.of(StepStart)}

    @cached_property
    def outcomes(self) -> Mapping[str, str]:
        """Outcome of each session's last transaction."""
        return {each.session: each.message for each in select(self.records, SessionOutcome)}

    @cached_property
    def stuck(self) -> Standstill | None:
        """The standstill that ended the order; None if there was none."""
        return next(iter(self.of(Standstill)), None)

    def refusals(self, session: str = "") -> list[StepEnd]:
        """Return the steps that were refused or failed, of one session or of all."""
        return [
            each
            for each in self.of(StepEnd)
            if isinstance(each, (StepRefusal, StepError)) and session in ("", each.session)
        ]

    # -- transactions and changes --------------------------------------------------------------------

    @cached_property
    def transactions(self) -> list[Author]:
        """The transactions of all sessions, in the order in which they ended."""
        return transactions(self.events)

    @cached_property
    def effects(self) -> Mapping[str, Sequence[str]]:
        """The nodes at which each global transaction took effect, according to the branch markers seen there."""
        results: dict[str, dict[str, None]] = {}
        for event in self.events:
            seen: Iterable[str] = ()
            if isinstance(event, BranchMarkers):
                seen = [str(one["gid"]) for one in event.markers if not one.get("fence")]
            elif isinstance(event, TableLook):
                seen = event.branches or ()
            for branch in map(BranchId.parse, seen):
                if branch is not None:
                    results.setdefault(str(branch.global_id), {})[event.node] = None
        return {
            gid: sorted(nodes, key=lambda node: (*self.nodes, node).index(node))
            for gid, nodes in results.items()
        }

    @cached_property
    def changes(self) -> Changes:
        """The versions of every row, and the transaction that made each."""
        return Changes(self.events, self.transactions, self.effects, self.twin)

    def step_of(self, change: VersionChange) -> str:
        """Return the step that made a change, as ``alice's a_write``; empty if the history does not prove its
        author.
        """
        author = change.author
        if author is None:
            return ""
        step = author.wrote(change.table, change.key, self.sql_of)
        return f"{author.session}'s {step}" if step and author.session else author.name

    def last_of(self, session: str) -> Author | None:
        """Return the last transaction of a session that took effect."""
        of = [each for each in self.changes.authors if each.session == session]
        return of[-1] if of else None

    def stale(self, author: Author) -> list[StaleChange]:
        """Return the changes that a transaction made to rows whose copy was out of date."""
        changes, result = self.changes, []
        for made in changes.made_by(author):
            versions = changes.of(made.table, made.key)
            earlier = [each for each in versions if each.number == made.number - 1]
            copies = [
                held
                for node in author.nodes or (author.node,)
                if (held := changes.held(node, made.table, made.key, before=author.seq))
            ]
            if earlier and copies and all(one.version != earlier[0].version for one in copies):
                result.append(StaleChange(made=made, held=copies[0], lost=earlier[0]))
        return result

    # -- agents and recovery -------------------------------------------------------------------------

    @cached_property
    def deliveries(self) -> Mapping[int, AgentWork]:
        """The transactions on which agents worked, by the number of the event.

        An echo is recognised by the nodes that made the transaction, not by the origin that the agent reports,
        which gets lost.
        """
        made_at = {
            one.gid: {node for node in one.nodes if node}
            for one in self.transactions
            if one.gid and (one.outcome == "committed" or one.gid in self.effects)
        }
        results = {}
        for event in self.of(AgentWork):
            made = made_at.get(event.gid)
            # each of a transaction's several Subscribers receives the changes of the others
            is_back = made is not None and (made == {event.node} or event.origin == event.node)
            results[event.seq] = (
                _echo(event) if is_back and isinstance(event, AgentDelivery) else event
            )
        return results

    @cached_property
    def merge_conflicts(self) -> Mapping[int, Sequence[ConflictNote]]:
        """The conflicts that merge sessions recorded, by the `seq` of the end of their sync."""
        return self._by_sync(ConflictNote)

    @cached_property
    def merge_sessions(self) -> Mapping[int, Sequence[MergeSessionEnd]]:
        """The merge sessions that ended, by the `seq` of the end of their sync."""
        return self._by_sync(MergeSessionEnd)

    def _by_sync(self, kind: type[E]) -> Mapping[int, Sequence[E]]:
        """Return the events of a class, by the `seq` of the step's end that follows them."""
        results: dict[int, Sequence[E]] = {}
        waiting: list[E] = []
        for event in self.events:
            if isinstance(event, kind):
                waiting.append(event)
            elif waiting and isinstance(event, StepEnd):
                results[event.seq], waiting = tuple(waiting), []
        return results

    @cached_property
    def is_merging(self) -> bool:
        """Whether merge sessions propagate the changes."""
        return any(each.merge for each in self.of(StepEnd))

    def brought(self, node: str, *, before: int | None = None) -> int:
        """Return how many transactions agents applied at a node, up to a record."""
        return sum(
            isinstance(each, AgentDelivery)
            and each.node == node
            and (before is None or seq < before)
            for seq, each in self.deliveries.items()
        )

    @cached_property
    def stopped(self) -> HistoryEvent | None:
        """The last event by which an agent stopped; None if no agent stopped."""
        of_agents = (each for each in reversed(self.events) if not each.session and each.step)
        ends = (StepError, StepTimeout, Standstill)
        return next((each for each in of_agents if isinstance(each, ends)), None)

    @cached_property
    def left_prepared(self) -> Sequence[tuple[str, str]]:
        """The branches that were still prepared at the end of the order, as node and gid."""
        return [(each.node, gid) for each in self.of(PreparedBranches) for gid in each.gids]

    def looks(self, moment: str) -> list[TableLook]:
        """Return all looks before the first step (``initial``) or at the end (``final``), one for each table and
        node.
        """
        return [each for each in self.of(TableLook) if each.moment == moment]

    @cached_property
    def settlements(self) -> Mapping[int, Settlement]:
        """The settlements of recovery, by the `seq` of the first event of each."""
        of_gid = by_gid(self.transactions)
        results: dict[int, Settlement] = {}
        before: tuple[str, str, str] | None = None
        for event in self.events:
            if not isinstance(event, BranchSettlement):
                before = None
                continue
            what = (event.gid, event.outcome, event.message)
            first = event.seq
            nodes: tuple[str, ...] = (event.node,)
            if what == before:
                first, one = results.popitem()
                nodes = (*one.nodes, event.node)
            results[first] = Settlement(
                author=of_gid.get(event.gid),
                gid=event.gid,
                outcome=event.outcome,
                reason=event.message,
                nodes=tuple(dict.fromkeys(nodes)),
            )
            before = what
        return results


def _echo(brought: AgentDelivery) -> EchoDelivery:
    """Return the delivery as an echo."""
    same = {each.name: getattr(brought, each.name) for each in fields(brought)}
    return EchoDelivery(**{**same, "kind": "echo"})


def _step(invoked: StepStart, following: Iterable[HistoryEvent]) -> PlayedStep:
    waits: list[tuple[WaitStart, int]] = []
    waiting: WaitStart | None = None
    ended: StepEnd | None = None
    until = invoked.seq
    for event in following:
        until = event.seq
        if (event.session, event.step) != (invoked.session, invoked.step):
            if isinstance(event, (SessionOutcome, OrderJudgement)):
                break
            continue
        if waiting is not None and isinstance(event, (StepEnd, WaitStart, WaitEnd, Remark)):
            waits.append((waiting, event.seq))
            waiting = None
        if isinstance(event, WaitStart):
            waiting = event
        elif isinstance(event, StepEnd):
            ended = event
            break
        elif isinstance(event, Remark):  # the step was cancelled when the order was given up
            break
    if waiting is not None:
        waits.append((waiting, until))
    return PlayedStep(invoked=invoked, ended=ended, waits=tuple(waits), until=until)


def causal(events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """Return the events with each step's end after the commit or rollback that ended its wait.

    Both ends are recorded within a millisecond, in either order; the cause is placed first.
    """
    waited: dict[str, str] = {}
    ending: dict[str, str] = {}
    behind: dict[str, list[HistoryEvent]] = {}
    results: list[HistoryEvent] = []
    for event in events:
        if isinstance(event, WaitStart):
            waited[event.step] = event.holder
        elif isinstance(event, StepStart) and event.sql in ("commit", "rollback"):
            ending[event.session] = event.step
        holder = waited.get(event.step, "")
        is_end = isinstance(event, StepEnd)
        if is_end and event.session and holder in ending:
            behind.setdefault(holder, []).append(event)
            continue
        results.append(event)
        if is_end and ending.get(event.session) == event.step:
            del ending[event.session]
            results += behind.pop(event.session, [])
    return results + [each for late in behind.values() for each in late]
