"""One order's records folded into what happened: steps, transactions, changes, waits, and what agents and recovery did.

It is made once for each order, and every report words or draws it; none walks the records for facts of its own. What
few reports need is found when it is asked for. A pure function of the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from twopc.names import BranchId
from twopc.sim.report.changes import Changes, VersionChange
from twopc.sim.report.history import ENDS, HistoryRecord
from twopc.sim.report.merge_reports import reports
from twopc.sim.report.transactions import Author, by_gid, transactions

#: What an agent did with a transaction.
_DELIVERIES = frozenset({"deliver", "suppress", "skip"})
_END_A_WAIT = ENDS | {"blocked", "unblocked", "info"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStep:
    """One step from the moment it was sent."""

    invoked: HistoryRecord
    ended: HistoryRecord | None
    """None if the history ends, or the order was given up, before it did."""
    until: int
    """The last record that belongs to it."""
    waits: tuple[tuple[HistoryRecord, int], ...]
    """Each time it was blocked, and the `seq` of the record that says it no longer is."""


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

    first: HistoryRecord
    author: Author | None
    """None: no session of the order has begun it."""
    gid: str
    outcome: str
    reason: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDelivery:
    """What an agent did with one transaction at a Subscriber."""

    record: HistoryRecord
    origin: str
    """The node where it began."""
    seqno: str
    commands: str
    """In words, one after the other."""
    kind: str
    """``deliver``, ``suppress``, ``skip``; ``echo``: it was brought to the node where it was made."""

    @property
    def node(self) -> str:
        """The Subscriber."""
        return self.record.node


class Fold:
    """What the records of one order come to."""

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        self.records = records

    # -- the order -----------------------------------------------------------------------------------

    @cached_property
    def about(self) -> HistoryRecord | None:
        """The order's first record."""
        return next((record for record in self.records if record.kind == "order"), None)

    @property
    def sessions(self) -> dict[str, str]:
        """The sessions that act in this order, and their nodes, in the order of the file."""
        lines = (self.about.data or {}) if self.about is not None else {}
        every = lines.get("sessions", {})
        acting = {record.session for record in self.records if record.session}
        return {name: node for name, node in every.items() if name in acting}

    @property
    def twin(self) -> Mapping[str, Any]:
        """`protections` that are switched off and the check that `must_fail`; empty if it is no twin."""
        return ((self.about.data if self.about else None) or {}).get("twin") or {}

    @property
    def levels(self) -> Mapping[str, str]:
        """By node, the isolation level of its sessions' transactions."""
        return ((self.about.data if self.about else None) or {}).get("isolation") or {}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that were looked at, the Publisher first."""
        return tuple(dict.fromkeys(each.node for each in self.records if each.kind == "state"))

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that were looked at."""
        looks = (each.data or {} for each in self.records if each.kind == "state")
        return tuple(dict.fromkeys(str(each["table"]) for each in looks))

    # -- steps ---------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> list[PlayedStep]:
        """Every step that was sent, in the order of sending."""
        return [
            _step(record, islice(self.records, at + 1, None))
            for at, record in enumerate(self.records)
            if record.kind == "invoke"
        ]

    @cached_property
    def ended(self) -> Mapping[str, HistoryRecord]:
        """By step, how it ended."""
        return {each.step: each for each in self.records if each.kind in ENDS and each.step}

    @cached_property
    def waits(self) -> Mapping[str, HistoryRecord]:
        """By step, for whom it waited first."""
        results: dict[str, HistoryRecord] = {}
        for record in self.records:
            if record.kind == "blocked":
                results.setdefault(record.step, record)
        return results

    @cached_property
    def waited_for(self) -> Mapping[str, str]:
        """By step, the session for which it waited last."""
        return {
            record.step: str((record.wait or {}).get("session"))
            for record in self.records
            if record.kind == "blocked"
        }

    @cached_property
    def sql_of(self) -> Mapping[str, str]:
        """By step, its SQL on one line."""
        return {
            each.step: " ".join(each.sql.split()) for each in self.records if each.kind == "invoke"
        }

    @cached_property
    def outcomes(self) -> Mapping[str, str]:
        """By session, how its last transaction ended."""
        return {each.session: each.message for each in self.records if each.kind == "outcome"}

    @cached_property
    def stuck(self) -> HistoryRecord | None:
        """Why nothing could go on; None if something could."""
        return next((each for each in self.records if each.kind == "stuck"), None)

    def refusals(self, session: str = "") -> list[HistoryRecord]:
        """The steps that were refused, of one session or of all."""
        return [
            record
            for record in self.records
            if record.kind in ("rejected", "error") and session in ("", record.session)
        ]

    # -- transactions and changes --------------------------------------------------------------------

    @cached_property
    def transactions(self) -> list[Author]:
        """Those of every session, in the order in which they ended."""
        return transactions(self.records)

    @cached_property
    def effects(self) -> Mapping[str, Sequence[str]]:
        """The nodes at which each global transaction took effect, by the branch markers seen there."""
        results: dict[str, dict[str, None]] = {}
        for record in self.records:
            data = record.data or {}
            seen = [str(one["gid"]) for one in data.get("markers", ()) if not one.get("fence")]
            for gid in (*data.get("branches", ()), *seen):
                branch = BranchId.parse(gid)
                if branch is not None:
                    results.setdefault(str(branch.global_id), {})[record.node] = None
        return {
            gid: sorted(nodes, key=lambda node: (*self.nodes, node).index(node))
            for gid, nodes in results.items()
        }

    @cached_property
    def changes(self) -> Changes:
        """The versions of every row, and who made each."""
        return Changes(self.records, self.transactions, self.effects)

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
    def deliveries(self) -> Mapping[int, AgentDelivery]:
        """What agents did with transactions, by the record that tells of it.

        An echo is one by who made the transaction, and not by what the agent says of its origin: that gets lost.
        """
        made_at = {
            one.gid: {node for node in one.nodes if node}
            for one in self.transactions
            if one.gid and (one.outcome == "committed" or one.gid in self.effects)
        }
        results = {}
        for record in self.records:
            if record.kind not in _DELIVERIES:
                continue
            data = record.data or {}
            origin, made = str(data.get("origin", "")), made_at.get(record.gid)
            # of one at several Subscribers each is brought what the others have changed
            is_back = made is not None and (made == {record.node} or origin == record.node)
            results[record.seq] = AgentDelivery(
                record=record,
                origin=origin,
                seqno=str(data.get("seqno", "")),
                commands="; ".join(data.get("commands", ())) or "nothing for it",
                kind="echo" if is_back and record.kind == "deliver" else record.kind,
            )
        return results

    @cached_property
    def merge_conflicts(self) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """The conflicts that merge sessions have recorded, by the record of the sync that met them."""
        met = self._by_sync("merge_conflict")
        return {seq: tuple(each.data or {} for each in several) for seq, several in met.items()}

    @cached_property
    def merge_sessions(self) -> Mapping[int, Sequence[HistoryRecord]]:
        """Merge sessions that have ended, by the record of the sync that they were."""
        return self._by_sync("merge_session")

    def _by_sync(self, kind: str) -> Mapping[int, Sequence[HistoryRecord]]:
        """The records of a kind, by that of the sync which ended after them."""
        results: dict[int, Sequence[HistoryRecord]] = {}
        waiting: list[HistoryRecord] = []
        for record in self.records:
            if record.kind == kind:
                waiting.append(record)
            elif waiting and record.kind in ENDS:
                results[record.seq], waiting = tuple(waiting), []
        return results

    @cached_property
    def is_merging(self) -> bool:
        """Changes are carried by merge sessions."""
        return any(reports(record) for record in self.records)

    def brought(self, node: str, *, before: int | None = None) -> int:
        """How many transactions agents brought to a node, up to a record."""
        return sum(
            each.record.kind == "deliver" and each.node == node and (before is None or seq < before)
            for seq, each in self.deliveries.items()
        )

    @cached_property
    def stopped(self) -> HistoryRecord | None:
        """The agent that stopped last, and why."""
        kinds = ("error", "timed_out", "stuck")
        of_agents = (each for each in reversed(self.records) if not each.session and each.step)
        return next((each for each in of_agents if each.kind in kinds), None)

    @cached_property
    def left_prepared(self) -> Sequence[tuple[str, str]]:
        """The branches that were still prepared at the end: node and gid."""
        return [
            (record.node, str(gid))
            for record in self.records
            if record.kind == "prepared"
            for gid in (record.data or {}).get("gids", ())
        ]

    def looks(self, moment: str) -> list[HistoryRecord]:
        """Every table at every node, before the first step (``initial``) or at the end (``final``)."""
        return [
            record
            for record in self.records
            if record.kind == "state" and (record.data or {}).get("moment") == moment
        ]

    @cached_property
    def settlements(self) -> Mapping[int, Settlement]:
        """What recovery did, by the first record that tells of it."""
        of_gid = by_gid(self.transactions)
        results: dict[int, Settlement] = {}
        before: tuple[str, str, str] | None = None
        for record in self.records:
            if record.kind != "settled":
                before = None
                continue
            outcome = str((record.data or {}).get("outcome"))
            what = (record.gid, outcome, record.message)
            if what == before:
                first, one = results.popitem()
                nodes = (*one.nodes, record.node)
                start = one.first
            else:
                first, nodes, start = record.seq, (record.node,), record
            results[first] = Settlement(
                first=start,
                author=of_gid.get(record.gid),
                gid=record.gid,
                outcome=outcome,
                reason=record.message,
                nodes=tuple(dict.fromkeys(nodes)),
            )
            before = what
        return results


def _step(invoked: HistoryRecord, following: Iterable[HistoryRecord]) -> PlayedStep:
    waits: list[tuple[HistoryRecord, int]] = []
    waiting: HistoryRecord | None = None
    ended: HistoryRecord | None = None
    until = invoked.seq
    for record in following:
        until = record.seq
        if (record.session, record.step) != (invoked.session, invoked.step):
            if record.kind in ("outcome", "verdict"):
                break
            continue
        if waiting is not None and record.kind in _END_A_WAIT:
            waits.append((waiting, record.seq))
            waiting = None
        if record.kind == "blocked":
            waiting = record
        elif record.kind in ENDS:
            ended = record
            break
        elif record.kind == "info":  # it was cancelled when the order was given up
            break
    if waiting is not None:
        waits.append((waiting, until))
    return PlayedStep(invoked=invoked, ended=ended, waits=tuple(waits), until=until)


def causal(records: Sequence[HistoryRecord]) -> list[HistoryRecord]:
    """The records with each step's end behind the commit or rollback that let it end.

    Both become known within a millisecond, in whatever order; told is the cause first.
    """
    waited: dict[str, str] = {}
    ending: dict[str, str] = {}
    behind: dict[str, list[HistoryRecord]] = {}
    results: list[HistoryRecord] = []
    for record in records:
        if record.kind == "blocked":
            waited[record.step] = str((record.wait or {}).get("session"))
        elif record.kind == "invoke" and record.sql in ("commit", "rollback"):
            ending[record.session] = record.step
        holder = waited.get(record.step, "")
        if record.kind in ENDS and record.session and holder in ending:
            behind.setdefault(holder, []).append(record)
            continue
        results.append(record)
        if record.kind in ENDS and ending.get(record.session) == record.step:
            del ending[record.session]
            results += behind.pop(record.session, [])
    return results + [each for late in behind.values() for each in late]
