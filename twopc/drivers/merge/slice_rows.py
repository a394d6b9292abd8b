"""Rows of a slice that are judged, at a node on a server.

All steps happen in the transaction that writes the rows: rows are locked, encounters made and judged, and the
resolutions performed. A row that fails is rolled back by itself.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

from twopc import names
from twopc.drivers.merge.packed_rows import arrays
from twopc.drivers.merge.ports import SessionArticle, SliceOutcome
from twopc.drivers.merge.row_texts import RowTexts, Texts
from twopc.merge.decision import RowVersion, Side, Verdict, decide
from twopc.merge.encounters import MergeEncounter, Resolution, standing
from twopc.merge.judge import (
    JUDGE_FAILED,
    REJECTED,
    Fault,
    Judge,
    is_fault_of_row,
    is_rejected,
    judged,
)
from twopc.merge.lineage import unpack, unpacked
from twopc.merge.plan import MergeRow, Slice
from twopc.merge.resolvers import SQL

Query = Callable[..., Awaitable[list[tuple[Any, ...]]]]

#: Binary, because arrays as text cost more to write than to apply.
APPLY: LiteralString = (
    "select * from msrepl.merge_apply(%s, %b::uuid[], %b::boolean[], %b::text[], %b::text[], %b::int8[], %b::text[],"
    " %s, %s::text[])"
)
_RECORD = "select msrepl.merge_record_failures(%s, %s::uuid[], %s::boolean[], %s::text[], %s::text[], %s::text[], %s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRow:
    """A row with the way in which it is written."""

    row: MergeRow
    side: Side | None = None
    """The row that is kept; None for the default."""
    made: str | None = None
    """The row with other values, which replace its values afterwards; None if it is unchanged."""
    takens: tuple[bool, ...] = ()
    """For each column, by number, whether its value is replaced."""


class JudgedRows:
    """One slice, in the transaction that writes it.

    Args:
        query: runs a statement in the transaction.
    """

    def __init__(
        self, node: str, query: Query, article: SessionArticle, texts: RowTexts, part: Slice
    ) -> None:
        self._node = node
        self._query = query
        self._article = article
        self._texts = texts
        self._part = part
        self._held: dict[UUID, Texts | None] = {}
        self._incoming: dict[UUID, Texts | None] = {}

    async def encounters(self, *, is_upload: bool) -> list[MergeEncounter]:
        """Lock the held rows, and return the encounters."""
        part = self._part
        held = await self._query(
            _call("select * from {}(%s::uuid[], %s::int8[])", "hold", part.artid),
            [row.rowguid for row in part.rows],
            [row.writer for row in part.rows],
        )
        pairs = zip(part.rows, held, strict=True)
        encounters = [self._encounter(row, answer, is_upload) for row, answer in pairs]
        if not (is_upload and (self._article.options.resolver or "").startswith(SQL)):
            return encounters
        return [e if e.conflict is None else await self._asked(e) for e in encounters]

    async def _asked(self, encounter: MergeEncounter) -> MergeEncounter:
        """Return the encounter with the answer of the SQL resolver about the conflict."""
        described = json.dumps(
            {
                "table": encounter.table,
                "rowguid": str(encounter.rowguid),
                "type": encounter.conflict,
                "held_by": encounter.held_by,
                "incoming_by": encounter.incoming_by,
                "held_priority": encounter.held_priority,
                "priority": encounter.priority,
                "default": encounter.winner,
            }
        )
        held, incoming = (
            self._document(side[encounter.rowguid]) for side in (self._held, self._incoming)
        )
        question = f'{described[:-1]}, "held": {held}, "incoming": {incoming}}}'
        # The resolver's own changes are ordinary changes, not rows of the session.
        await self._query("savepoint asked; set local session_replication_role = origin")
        answer: object
        try:
            [(text,)] = await self._query(
                _call("select {}(%s::jsonb)::text", "ask", self._part.artid), question
            )
            reply = json.loads(text, parse_float=Decimal)
            answer = RuntimeError(reply["error"]) if "error" in reply else reply["answer"]
        except (psycopg.Error, RecursionError) as error:
            # PostgreSQL, or Python, cannot parse the document
            if isinstance(error, psycopg.Error) and not is_fault_of_row(error.sqlstate):
                raise
            await self._query("rollback to savepoint asked")
            answer = error
        # resets settings that the resolver may have made
        await self._query("release savepoint asked; reset all")
        return replace(encounter, answer=answer)

    def _document(self, texts: Texts | None) -> str:
        return "null" if texts is None else self._texts.document(texts)

    def _encounter(self, row: MergeRow, answer: tuple[Any, ...], is_upload: bool) -> MergeEncounter:
        _, text, gone, lineage, colv, held_by, held_priority, peer, priority, replica = answer[:10]
        self._held[row.rowguid] = None if text is None else self._texts.split(text)
        self._incoming[row.rowguid] = None if row.row is None else self._texts.split(row.row)
        held = None if gone is None else _version(gone, lineage, colv)
        incoming = _version(row.gone, _numbers(row.lineage), _numbers(row.columns))
        return MergeEncounter(
            table=self._article.name,
            rowguid=row.rowguid,
            at=self._node,
            is_upload=is_upload,
            held=self._values(self._held[row.rowguid]),
            incoming=self._values(self._incoming[row.rowguid]),
            held_by=held_by,
            incoming_by=peer,
            held_priority=held_priority,
            priority=priority,
            held_version=held,
            incoming_version=incoming,
            is_same=row.row == text,
            default=decide(
                held,
                incoming,
                replica=replica,
                resolves=is_upload,
                column_tracking=self._article.column_tracking,
                held_priority=held_priority,
                priority=priority,
                is_same=row.row == text,
                is_present=text is not None,
                is_confirmed=answer[10],
                lowest=answer[11],
                others=answer[12],
            ),
        )

    def _values(self, texts: Texts | None) -> dict[str, Any] | None:
        return None if texts is None else self._texts.values(texts)

    async def take(self, judge: Judge, *, is_final: bool) -> SliceOutcome:
        """Apply the rows according to the judge.

        Args:
            is_final: whether failures are recorded.
        """
        encounters = {
            encounter.rowguid: encounter
            for encounter in await self.encounters(is_upload=judge.is_upload)
        }
        judgement = judged(judge, [*encounters.values()])
        rulings = judgement.resolutions
        planned, faults = self._planned(encounters, rulings, leaving=judgement.faults)
        outcome = await self._put(planned)
        failed = {**judgement.faults, **faults, **outcome.failed}
        rejected = {
            guid: (REJECTED, f"the change was rejected at {self._node}")
            for guid, ruling in rulings.items()
            if guid not in failed and is_rejected(encounters[guid], ruling)
        }
        await self._record(rejected, is_pending=False)
        outcome = replace(outcome, failed=failed, rejected=len(rejected))
        return await self._undo(judge, encounters, outcome) if is_final and failed else outcome

    async def _undo(
        self, judge: Judge, encounters: Mapping[UUID, MergeEncounter], outcome: SliceOutcome
    ) -> SliceOutcome:
        """Record failed changes, and perform the judge's resolutions; return the outcome with changes that are
        undone at their origin.
        """
        rulings: dict[UUID, Resolution] = {}
        failed = dict(outcome.failed)
        for guid, fault in outcome.failed.items():
            ruling, failed[guid] = _ruled(judge, encounters[guid], fault)
            if ruling is not None:
                rulings[guid] = ruling
        left = {guid: fault for guid, fault in failed.items() if guid not in rulings}
        await self._record(left, is_pending=True)
        await self._record({guid: failed[guid] for guid in rulings}, is_pending=False)
        planned, faults = self._planned(
            {guid: encounters[guid] for guid in rulings}, rulings, leaving={}
        )
        repeated = await self._put(planned)
        still = {**faults, **repeated.failed}
        await self._record(still, is_pending=True)
        settled = rulings.keys() - still.keys()
        return replace(
            outcome + repeated,
            deferred=outcome.deferred,
            rejected=outcome.rejected + sum(rulings[guid].row is None for guid in settled),
            failed={guid: why for guid, why in (failed | still).items() if guid not in settled},
        )

    def _planned(
        self,
        encounters: Mapping[UUID, MergeEncounter],
        rulings: Mapping[UUID, Resolution],
        *,
        leaving: Collection[UUID],
    ) -> tuple[list[JudgedRow], dict[UUID, Fault]]:
        """Return the rows with the way in which they are written, in order, and the faults of rows with invalid
        values.
        """
        planned: list[JudgedRow] = []
        faults: dict[UUID, Fault] = {}
        for row in self._part.rows:
            if row.rowguid not in encounters or row.rowguid in leaving:
                continue
            ruling = rulings.get(row.rowguid, Resolution())
            try:
                planned.append(self._plan(row, encounters[row.rowguid], ruling))
            except ValueError as error:
                faults[row.rowguid] = JUDGE_FAILED, str(error)
        return planned, faults

    def _plan(self, row: MergeRow, encounter: MergeEncounter, ruling: Resolution) -> JudgedRow:
        if ruling.row is None:
            return JudgedRow(row=row, side=ruling.winner)
        side, _ = standing(encounter, ruling.winner or encounter.winner)
        texts = (self._held if side is Side.HELD else self._incoming)[row.rowguid]
        assert texts is not None
        changed = self._texts.with_values(texts, ruling.row)
        if changed == texts:
            return JudgedRow(row=row, side=side)
        made = self._texts.joined(changed)
        if encounter.default.verdict is Verdict.APPLY and side is Side.INCOMING:
            row = replace(row, row=made)
        differs = [one != other for one, other in zip(texts, changed, strict=True)]
        numbers = self._article.numbers or range(1, len(differs) + 1)
        is_taken = dict(zip(numbers, differs, strict=True))
        takens = tuple(is_taken.get(number, False) for number in range(1, max(is_taken) + 1))
        return JudgedRow(row=row, side=side, made=made, takens=takens)

    async def _put(self, planned: Sequence[JudgedRow]) -> SliceOutcome:
        """Write the rows: all together, as they may exchange values; if that fails, each row with other values by
        itself.
        """
        others = [each for each in planned if each.made is None]
        if len(others) == len(planned):
            return await self._write(planned)
        together = await self._attempt(planned)
        if isinstance(together, SliceOutcome):
            return together
        total = await self._write(others)
        failed = dict(total.failed)
        for each in planned:
            if each.made is not None:
                outcome = await self._attempt([each])
                if isinstance(outcome, SliceOutcome):
                    total += outcome
                    failed |= outcome.failed
                else:
                    failed[each.row.rowguid] = outcome
        return replace(total, failed=failed)

    async def _attempt(self, planned: Sequence[JudgedRow]) -> SliceOutcome | Fault:
        """Write rows, or none of them if their other values cannot be written."""
        await self._query("savepoint judged")
        try:
            outcome = await self._write(planned)
        except psycopg.Error as error:
            if error.sqlstate is None or not is_fault_of_row(error.sqlstate):
                raise
            await self._query("rollback to savepoint judged; release savepoint judged")
            return error.sqlstate, str(error).partition("\n")[0]
        await self._query("release savepoint judged")
        return outcome

    async def _write(self, planned: Sequence[JudgedRow]) -> SliceOutcome:
        part = replace(self._part, rows=[each.row for each in planned])
        sides = [each.side for each in planned]
        outcome = await apply_rows(self._query, part, False, sides)
        amended = [
            each
            for each in planned
            if each.made is not None and each.row.rowguid not in outcome.failed
        ]
        if amended:
            await self._query(
                _call("select {}(%s::uuid[], %s::text[], %s::text[])", "amend", self._part.artid),
                [each.row.rowguid for each in amended],
                [each.made for each in amended],
                [f"{{{','.join(map(str, each.takens))}}}" for each in amended],
            )
        return outcome

    async def _record(self, faults: Mapping[UUID, Fault], *, is_pending: bool) -> None:
        rows = [row for row in self._part.rows if row.rowguid in faults]
        if rows:
            await self._query(
                _RECORD,
                self._part.artid,
                [row.rowguid for row in rows],
                [row.gone for row in rows],
                [row.row for row in rows],
                [faults[row.rowguid][0] for row in rows],
                [faults[row.rowguid][1] for row in rows],
                is_pending,
            )


async def apply_rows(
    query: Query, part: Slice, is_final: bool, sides: Sequence[Side | None]
) -> SliceOutcome:
    """Call ``merge_apply``, with the chosen sides if there are any."""
    if not part.rows:
        return SliceOutcome()
    [answer] = await query(APPLY, *apply_arguments(part, is_final, sides))
    return outcome_of(answer)


def apply_arguments(
    part: Slice, is_final: bool = False, sides: Sequence[Side | None] = ()
) -> list[Any]:
    """Return the arguments of ``merge_apply``."""
    return [part.artid, *arrays(part.rows), is_final, _choices(part, sides)]


def outcome_of(answer: tuple[Any, ...]) -> SliceOutcome:
    """Return the outcome from the result of ``merge_apply``."""
    applied, skipped, conflicts, deferred, failed, codes, reasons = answer
    return SliceOutcome(
        applied=applied,
        skipped=skipped,
        conflicts=conflicts,
        deferred=deferred,
        failed=dict(zip(failed, zip(codes, reasons, strict=True), strict=True)),
    )


def _choices(part: Slice, sides: Sequence[Side | None]) -> list[str | None] | None:
    if part.leaves:
        return ["leave"] * len(part.rows)
    return [side and side.value for side in sides] if any(sides) else None


def _ruled(
    judge: Judge, encounter: MergeEncounter, fault: Fault
) -> tuple[Resolution | None, Fault]:
    """Return the resolution of a failed change; a judge that fails itself gives none."""
    try:
        return judge.rule_failure(encounter, fault), fault
    except Exception as error:
        return None, (fault[0], f"{fault[1]}; and its handler failed: {error}")


def _call(query: LiteralString, what: str, artid: UUID) -> str:
    """Return a query with the name of an article's function."""
    function = sql.Identifier(names.SCHEMA, names.merge_object(what, artid))
    return sql.SQL(query).format(function).as_string(None)


def _numbers(text: str | None) -> list[int] | None:
    """Return an array of integers from PostgreSQL's text form."""
    if text is None:
        return None
    return [int(number) for number in text.strip("{}").split(",") if number]


def _version(gone: bool, lineage: list[int] | None, columns: list[int] | None) -> RowVersion:
    return RowVersion(
        lineage=unpacked(lineage or ()),
        gone=gone,
        columns=None
        if columns is None
        else tuple(unpack(entry) if entry else None for entry in columns),
    )
