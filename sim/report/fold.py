"""One order's records folded into what happened: steps, transactions, changes, waits, and what agents and recovery did.

It is made once for each order, and every report words or draws it; none walks the records for facts of its own: it
reads `Fold.events`. What few reports need is found when it is asked for. A pure function of the records.
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
    """One step from the moment it was sent."""

    invoked: StepStart
    ended: StepEnd | None
    """None if the history ends, or the order was given up, before it did."""
    until: int
    """The last event that belongs to it."""
    waits: tuple[tuple[WaitStart, int], ...]
    """Each time it was blocked, and the `seq` of the event by which it no longer is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleChange:
    """A change of a row that had another version at the Publisher than at the Subscriber that changed it."""

    made: VersionChange
    held: VersionChange
    """What the Subscriber had."""
    lost: VersionChange
    """What the Publisher had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """Branches of one transaction that recovery finished alike, one after the other."""

    author: Author | None
    """None: no session of the order has begun it."""
    gid: str
    outcome: str
    reason: str
    nodes: tuple[str, ...]


class Fold:
    """What the records of one order come to."""

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        self.records = records

    @cached_property
    def events(self) -> list[HistoryEvent]:
        """What happened."""
        return [event_of(record) for record in self.records]

    def of(self, kind: type[E]) -> list[E]:
        """The events of one class."""
        return [each for each in self.events if isinstance(each, kind)]

    # -- the order -----------------------------------------------------------------------------------

    @cached_property
    def about(self) -> OrderStart | None:
        """The order's beginning."""
        return next(select(self.records, OrderStart), None)

    @property
    def sessions(self) -> dict[str, str]:
        """The sessions that act in this order, and their nodes, in the order of the file."""
        every = self.about.sessions if self.about is not None else {}
        acting = {record.session for record in self.records if record.session}
        return {name: node for name, node in every.items() if name in acting}

    @property
    def twin(self) -> Mapping[str, Any]:
        """`protections` that are switched off and the check that `must_fail`; empty if it is no twin."""
        return self.about.twin if self.about is not None else {}

    @property
    def levels(self) -> Mapping[str, str]:
        """By node, the isolation level of its sessions' transactions."""
        return self.about.isolation if self.about is not None else {}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that were looked at, the Publisher first."""
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
        """By step, how it ended."""
        return {each.step: each for each in self.of(StepEnd) if each.step}

    @cached_property
    def waits(self) -> Mapping[str, WaitStart]:
        """By step, for whom it waited first."""
        results: dict[str, WaitStart] = {}
        for each in self.of(WaitStart):
            results.setdefault(each.step, each)
        return results

    @cached_property
    def waited_for(self) -> Mapping[str, str]:
        """By step, the session for which it waited last."""
        return {each.step: each.holder for each in self.of(WaitStart)}

    @cached_property
    def sql_of(self) -> Mapping[str, str]:
        """By step, its SQL on one line."""
        return {each.step: " ".join(each.sql.split()) for each in self.of(StepStart)}

    @cached_property
    def outcomes(self) -> Mapping[str, str]:
        """By session, how its last transaction ended."""
        return {each.session: each.message for each in select(self.records, SessionOutcome)}

    @cached_property
    def stuck(self) -> Standstill | None:
        """Why nothing could go on; None if something could."""
        return next(iter(self.of(Standstill)), None)

    def refusals(self, session: str = "") -> list[StepEnd]:
        """The steps that were refused, of one session or of all."""
        return [
            each
            for each in self.of(StepEnd)
            if isinstance(each, (StepRefusal, StepError)) and session in ("", each.session)
        ]

    # -- transactions and changes --------------------------------------------------------------------

    @cached_property
    def transactions(self) -> list[Author]:
        """Those of every session, in the order in which they ended."""
        return transactions(self.events)

    @cached_property
    def effects(self) -> Mapping[str, Sequence[str]]:
        """The nodes at which each global transaction took effect, by the branch markers seen there."""
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
        """The versions of every row, and who made each."""
        return Changes(self.events, self.transactions, self.effects, self.twin)

    def step_of(self, change: VersionChange) -> str:
        """``alice's a_write``; empty if the history does not prove who made the change."""
        author = change.author
        if author is None:
            return ""
        step = author.wrote(change.table, change.key, self.sql_of)
        return f"{author.session}'s {step}" if step and author.session else author.name

    def last_of(self, session: str) -> Author | None:
        """The last transaction of a session that took effect."""
        of = [each for each in self.changes.authors if each.session == session]
        return of[-1] if of else None

    def stale(self, author: Author) -> list[StaleChange]:
        """The rows that it changed on a copy that was out of date."""
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
        """What agents did with transactions, by the number of the event.

        An echo is one by who made the transaction, and not by what the agent says of its origin: that gets lost.
        """
        made_at = {
            one.gid: {node for node in one.nodes if node}
            for one in self.transactions
            if one.gid and (one.outcome == "committed" or one.gid in self.effects)
        }
        results = {}
        for event in self.of(AgentWork):
            made = made_at.get(event.gid)
            # of one at several Subscribers each is brought what the others have changed
            is_back = made is not None and (made == {event.node} or event.origin == event.node)
            results[event.seq] = (
                _echo(event) if is_back and isinstance(event, AgentDelivery) else event
            )
        return results

    @cached_property
    def merge_conflicts(self) -> Mapping[int, Sequence[ConflictNote]]:
        """The conflicts that merge sessions have recorded, by the end of the sync that met them."""
        return self._by_sync(ConflictNote)

    @cached_property
    def merge_sessions(self) -> Mapping[int, Sequence[MergeSessionEnd]]:
        """Merge sessions that have ended, by the end of the sync that they were."""
        return self._by_sync(MergeSessionEnd)

    def _by_sync(self, kind: type[E]) -> Mapping[int, Sequence[E]]:
        """The events of a class, by the end of the sync which ended after them."""
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
        """Changes are carried by merge sessions."""
        return any(each.merge for each in self.of(StepEnd))

    def brought(self, node: str, *, before: int | None = None) -> int:
        """How many transactions agents brought to a node, up to a record."""
        return sum(
            isinstance(each, AgentDelivery)
            and each.node == node
            and (before is None or seq < before)
            for seq, each in self.deliveries.items()
        )

    @cached_property
    def stopped(self) -> HistoryEvent | None:
        """The agent that stopped last, and why."""
        of_agents = (each for each in reversed(self.events) if not each.session and each.step)
        ends = (StepError, StepTimeout, Standstill)
        return next((each for each in of_agents if isinstance(each, ends)), None)

    @cached_property
    def left_prepared(self) -> Sequence[tuple[str, str]]:
        """The branches that were still prepared at the end: node and gid."""
        return [(each.node, gid) for each in self.of(PreparedBranches) for gid in each.gids]

    def looks(self, moment: str) -> list[TableLook]:
        """Every table at every node, before the first step (``initial``) or at the end (``final``)."""
        return [each for each in self.of(TableLook) if each.moment == moment]

    @cached_property
    def settlements(self) -> Mapping[int, Settlement]:
        """What recovery did, by the first event that tells of it."""
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
    """The same as an echo."""
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
        elif isinstance(event, Remark):  # it was cancelled when the order was given up
            break
    if waiting is not None:
        waits.append((waiting, until))
    return PlayedStep(invoked=invoked, ended=ended, waits=tuple(waits), until=until)


def causal(events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """The events with each step's end behind the commit or rollback that let it end.

    Both become known within a millisecond, in whatever order; told is the cause first.
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
