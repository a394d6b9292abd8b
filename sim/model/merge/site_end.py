"""One end of a merge session at a node of the model; see `twopc.drivers.merge.ports.MergeEndPort`.

Decisions are made as in memory; here, rows are locked and written in a transaction of the node, which may wait and
fail as on a server.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from twopc.drivers.merge.ports import OutgoingChanges, SessionRecord, SliceOutcome
from twopc.merge.decision import ConflictType
from twopc.merge.judge import Fault, Judge
from twopc.merge.marks import Generation
from twopc.merge.plan import MergeRow, Slice
from twopc.merge.protections import MergeProtection
from twopc.merge.schema_changes import SchemaChange
from twopc.sim.model.bridge import performed
from twopc.sim.model.errors import raised
from twopc.sim.model.merge.end import ModelMergeEnd, incoming_of
from twopc.sim.model.merge.ranges import SiteRanges
from twopc.sim.model.merge.records import Incoming
from twopc.sim.model.merge.records import Values as MergeValues
from twopc.sim.model.merge.schema_changes import make_change
from twopc.sim.model.merge.site import AGENT, MergeSite, RecordedConflict
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.values import SqlError, Steps

T = TypeVar("T")

#: Errors that do not depend on a row, and are raised to the caller.
_OF_THE_CALLER = frozenset({"40P01", "40001", "55P03", "57014", "57P01"})
_SAVEPOINT = "rows"
_MALFORMED: Fault = "22P02", "malformed record literal"


class SiteMergeEnd(SiteRanges, ModelMergeEnd):
    """See `MergeEndPort`.

    Args:
        agents: neighbours for which an agent is working at this node; shared by all ends of the node.
        shut: the nodes that refuse connections at present.
    """

    def __init__(
        self, site: MergeSite, neighbour: str, agents: set[str], shut: Set[str] = frozenset()
    ) -> None:
        super().__init__(site.knowledge, neighbour, agents)
        self._site = site
        self._session: NodeSession | None = None
        self._shut = shut
        self.is_lost = False
        """Whether the node has ended the connection."""

    async def open(self, *, alone: bool) -> None:
        if self.name in self._shut:
            raise psycopg.OperationalError(f"{self.name} refuses connections")
        await super().open(alone=alone)

    def _refuse_if_lost(self) -> None:
        if self.is_lost:
            raise psycopg.errors.AdminShutdown(
                "terminating connection due to administrator command"
            )

    @property
    def _at(self) -> MergeSite:
        """See `SiteRanges`."""
        self._refuse_if_lost()
        return self._site

    async def read(self, after: int, articles: Sequence[UUID]) -> OutgoingChanges:
        self._refuse_if_lost()
        return await super().read(after, articles)

    async def acknowledge(
        self, generation: Generation, missing: Mapping[UUID, Collection[UUID]]
    ) -> None:
        self._refuse_if_lost()
        await super().acknowledge(generation, missing)

    async def end(self, record: SessionRecord) -> int:
        self._refuse_if_lost()
        return await super().end(record)

    async def settle(self, generation: Generation, cleaned: int) -> None:
        self._refuse_if_lost()
        await super().settle(generation, cleaned)

    @property
    def _without(self) -> Set[MergeProtection]:
        """Protections that are switched off at this node."""
        return self._site.knowledge.without

    @property
    def pid(self) -> int:
        """Pid of its session at the node; 0 if it has none."""
        return 0 if self._session is None else self._session.pid

    async def apply(
        self, part: Slice, coming: Generation, judge: Judge | None = None
    ) -> SliceOutcome:
        def note(_: Collection[UUID]) -> None:
            self._touch_mappings([part])
            self.node.neighbours[self._neighbour].coming = coming

        judges = {} if judge is None else {part.artid: judge}
        return await self._perform(self._applied([part], judges, note, is_final=False))

    async def receive(
        self, generation: Generation, repeated: Sequence[Slice], judges: Mapping[UUID, Judge]
    ) -> SliceOutcome:
        def note(failed: Collection[UUID]) -> None:
            self._touch_mappings(repeated)
            self.node.receive(self._neighbour, generation)
            known = self._site.knowledge
            known.recorded = [
                each
                for each in known.recorded
                if not each.is_pending or each.origin != self._neighbour or each.rowguid in failed
            ]

        return await self._perform(self._applied(repeated, judges, note, is_final=True))

    async def _perform(self, work: Steps[T]) -> T:
        self._refuse_if_lost()
        node = self._site.node
        with raised():
            return await performed(node.kernel, work, f"{AGENT} of {self._neighbour}")

    def _applied(
        self,
        parts: Sequence[Slice],
        judges: Mapping[UUID, Judge],
        note: Callable[[Collection[UUID]], None],
        *,
        is_final: bool,
    ) -> Steps[SliceOutcome]:
        session = self._session = self._site.node.connect(AGENT, f"{AGENT} of {self._neighbour}")
        if MergeProtection.KEY_CHECKS in self._site.knowledge.without:
            session.settings["session_replication_role"] = "replica"
        try:
            yield from session.execute("begin")
            tx = session.tx
            assert tx is not None, "it was begun just now"
            total, failed = SliceOutcome(), dict[UUID, Fault]()
            for part in parts:
                yield from self._lock(tx, part)
                judge = None if part.leaves else judges.get(part.artid)
                outcome = yield from self._part(tx, part, judge, is_final=is_final)
                failed |= outcome.failed
                total = total + outcome
            yield from session.execute("commit")
            note(failed)
            return replace(total, failed=failed)
        finally:
            self._session = None
            session.close()

    def _lock(self, tx: OpenTx, part: Slice) -> Steps[None]:
        """Lock the rows of a slice, waiting for applications that have changed them."""
        for row in part.rows:
            values = self.node.rows[part.artid].get(row.rowguid)
            if values is not None:
                key = self._site.key(part.artid, row.rowguid, values)
                yield from tx.lock(self._site.tables[part.artid].name, key)

    def _part(
        self, tx: OpenTx, part: Slice, judge: Judge | None, *, is_final: bool
    ) -> Steps[SliceOutcome]:
        """Apply the rows of a slice at once, or if that fails, each row separately."""
        if all(self._fits(part, row) for row in part.rows):
            before = self._known(part.artid)
            outcome = self._take(part, judge, is_final=is_final)
            for write in (self._write, self._replace):
                error = yield from self._tried(tx, write, part, before["rows"])
                if error is None:
                    return outcome
            self._forget(part.artid, before)
        total, failed = SliceOutcome(), dict[UUID, Fault]()
        for row in part.rows:
            one = replace(part, rows=(row,))
            outcome = yield from self._alone(tx, one, row, judge, is_final=is_final)
            failed |= outcome.failed
            total = total + outcome
        return replace(total, failed=failed)

    def _alone(
        self, tx: OpenTx, part: Slice, row: MergeRow, judge: Judge | None, *, is_final: bool
    ) -> Steps[SliceOutcome]:
        incoming = incoming_of(row)
        if not self._fits(part, row):
            if is_final:
                self._record(part.artid, incoming, _MALFORMED, is_pending=True)
            return SliceOutcome(failed={row.rowguid: _MALFORMED})
        encounter = self.node.encounter(part.artid, self._neighbour, incoming)
        before = self._known(part.artid)
        outcome = self._take(part, judge, is_final=is_final)
        error = yield from self._tried(tx, self._write, part, before["rows"])
        if error is None:
            return outcome
        self._forget(part.artid, before)
        fault = (error.sqlstate, error.message)
        undone = judge.rule_failure(encounter, fault) if judge is not None and is_final else None
        if is_final:
            self._record(part.artid, incoming, fault, is_pending=undone is None)
        if undone is None:
            return SliceOutcome(failed={row.rowguid: fault})
        self._put(part.artid, incoming, encounter, undone)
        yield from self._write(tx, part, before["rows"])
        return SliceOutcome(rejected=int(undone.row is None))

    def _fits(self, part: Slice, row: MergeRow) -> bool:
        """Return whether a row has the columns of the table here.

        Always true if sessions propagate schema changes.
        """
        values = incoming_of(row).values if MergeProtection.SCHEMA in self._without else None
        return values is None or len(values) == self.node.articles[part.artid].columns

    def _tried(
        self,
        tx: OpenTx,
        write: Callable[[OpenTx, Slice, Mapping[UUID, MergeValues]], Steps[None]],
        part: Slice,
        before: Mapping[UUID, MergeValues],
    ) -> Steps[SqlError | None]:
        """Write rows in a subtransaction; roll it back and return the error if one occurs."""
        tx.savepoint(_SAVEPOINT)
        try:
            yield from write(tx, part, before)
        except SqlError as error:
            if error.sqlstate in _OF_THE_CALLER:
                raise
            tx.rollback_to(_SAVEPOINT)
            tx.release(_SAVEPOINT)
            return error
        tx.release(_SAVEPOINT)
        return None

    def _write(self, tx: OpenTx, part: Slice, before: Mapping[UUID, MergeValues]) -> Steps[None]:
        """Write rows with their present values."""
        site, artid = self._site, part.artid
        name = site.tables[artid].name
        for guid, was, now in self._changed(part, before):
            if now is None:
                yield from tx.delete(name, site.key(artid, guid, was))
            elif was is None:
                yield from tx.insert(name, site.row(artid, guid, now))
            else:
                new = site.row(artid, guid, now)
                yield from tx.change(name, site.key(artid, guid, was), lambda _, new=new: new)  # type: ignore[misc] # a lambda's default

    def _replace(self, tx: OpenTx, part: Slice, before: Mapping[UUID, MergeValues]) -> Steps[None]:
        """Write rows that exchange values of keys: delete all of them first."""
        site, artid = self._site, part.artid
        name = site.tables[artid].name
        changed = list(self._changed(part, before))
        for guid, was, _ in changed:
            if was is not None:
                yield from tx.delete(name, site.key(artid, guid, was))
        for guid, _, now in changed:
            if now is not None:
                yield from tx.insert(name, site.row(artid, guid, now))

    def _changed(self, part: Slice, before: Mapping[UUID, MergeValues]) -> list[Any]:
        """Return the changed rows, each with its values before and now."""
        rows = self.node.rows[part.artid]
        pairs = [(row.rowguid, before.get(row.rowguid), rows.get(row.rowguid)) for row in part.rows]
        return [each for each in pairs if each[1] != each[2]]

    async def alter(self, change: SchemaChange) -> None:
        self._refuse_if_lost()
        if self._site.tables[change.artid].locks:  # a server would wait, and time out
            raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
        make_change(self._site, change)

    # -- saving and restoring metadata ---------------------------------------------------------------

    def _known(self, artid: UUID) -> dict[str, Any]:
        known = self._site.knowledge
        return {
            "rows": dict(known.rows[artid]),
            "metadata": dict(known.metadata[artid]),
            "conflicts": list(known.conflicts),
            "recorded": list(known.recorded),
        }

    def _forget(self, artid: UUID, before: Mapping[str, Any]) -> None:
        known = self._site.knowledge
        known.rows[artid] = dict(before["rows"])
        known.metadata[artid] = dict(before["metadata"])
        known.conflicts = list(before["conflicts"])
        known.recorded = list(before["recorded"])

    def _record(
        self,
        artid: UUID,
        row: Incoming,
        fault: Fault,
        *,
        is_pending: bool,
    ) -> None:
        """Record a change that could not be applied, once for each row."""
        known = self._site.knowledge
        is_upload = not known.neighbours[self._neighbour].is_publisher
        what = (
            "delete"
            if row.version.gone
            else "update"
            if row.rowguid in self.node.rows[artid]
            else "insert"
        )
        kind = ConflictType[f"{'upload' if is_upload else 'download'}_{what}_failed".upper()]
        if any((each.rowguid, each.winner) == (row.rowguid, None) for each in known.recorded):
            return
        known.recorded.append(
            RecordedConflict(
                artid=artid,
                rowguid=row.rowguid,
                type=kind,
                origin=self._neighbour,
                winner=None,
                code=fault[0],
                reason=fault[1],
                loser=row.values,
                is_pending=is_pending,
            )
        )
