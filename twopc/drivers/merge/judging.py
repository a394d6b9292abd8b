"""Rows of a slice about which somebody is asked, at an end on a server.

All of it happens in the transaction that writes them: rows are locked, encounters made, the judge is asked, and what
it says is done. A row that fails with it is rolled back by itself.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format
from psycopg.types.composite import RecordLoader, TupleDumper

from twopc import names
from twopc.drivers.merge.ports import SessionArticle
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

#: Binary: as text, arrays cost more to write than to apply.
_APPLY = (
    "select * from msrepl.merge_apply(%s, %b::uuid[], %b::boolean[], %b::text[], %b::text[], %b::int8[], %b::text[],"
    " %s, %s::text[])"
)
_RECORD = "select msrepl.merge_record_failures(%s, %s::uuid[], %s::boolean[], %s::text[], %s::text[], %s::text[])"
_JSON = {114, 3802}

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What became of rows that were applied."""

    counts: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Applied, skipped, conflicts, deferred."""
    failed: Mapping[UUID, Fault]
    rejected: int = 0


class RowTexts:
    """Rows of an article between the text of a record and values by column.

    Args:
        types: OIDs of the columns' types.
    """

    def __init__(
        self, columns: Sequence[str], types: Sequence[int], connection: AsyncConnection[Any]
    ) -> None:
        self._columns = columns
        self._types = types
        self._adapters = Transformer(connection)

    def split(self, row: str) -> Texts:
        """The text of each column's value."""
        texts = RecordLoader(0, self._adapters.connection).load(row.encode())
        return texts or (None,)

    def joined(self, texts: Texts) -> str:
        """The record of them."""
        return bytes(TupleDumper(tuple, self._adapters).dump(texts) or b"").decode()

    def values(self, texts: Texts) -> dict[str, Any]:
        """The values by column."""
        triples = zip(self._columns, self._types, texts, strict=True)
        return {
            column: None if text is None else self._value(oid, text)
            for column, oid, text in triples
        }

    def _value(self, oid: int, text: str) -> Any:
        try:
            return self._adapters.get_loader(oid, Format.TEXT).load(text.encode())
        except (psycopg.DataError, ValueError):
            return text  # Python has no value for it

    def with_values(self, texts: Texts, row: Mapping[str, Any]) -> Texts:
        """The row's texts with other values.

        Raises:
            ValueError: a value has no text.
        """
        triples = zip(self._columns, self._types, texts, strict=True)
        return tuple(
            self._text(oid, row[column]) if column in row else text for column, oid, text in triples
        )

    def _text(self, oid: int, value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return value
        if oid in _JSON:
            return json.dumps(value)
        try:
            dumped = self._adapters.get_dumper(value, PyFormat.TEXT).dump(value)
        except psycopg.Error as error:
            raise ValueError(f"{value!r} is no value of a column: {error}") from error
        return None if dumped is None else bytes(dumped).decode()

    def differs(self, row: Mapping[str, Any], base: Mapping[str, Any]) -> list[bool]:
        """Of each column, whether it gets another value."""
        return [column in row and row[column] != base[column] for column in self._columns]


class JudgedRows:
    """One slice, in the transaction that writes it.

    Args:
        query: runs a statement of the transaction.
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
        self._came: dict[UUID, Texts | None] = {}

    async def encounters(self, *, is_upload: bool) -> list[MergeEncounter]:
        """Lock what is held of the rows, and look at both."""
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
        """With what the SQL resolver says of the conflict."""
        described = json.dumps(
            {
                "table": encounter.table,
                "rowguid": str(encounter.rowguid),
                "type": encounter.conflict,
                "held": self._json(encounter.held, self._held[encounter.rowguid]),
                "incoming": self._json(encounter.incoming, self._came[encounter.rowguid]),
                "held_by": encounter.held_by,
                "incoming_by": encounter.incoming_by,
                "held_priority": encounter.held_priority,
                "priority": encounter.priority,
                "default": encounter.winner,
            }
        )
        [(text,)] = await self._query(
            _call("select {}(%s::jsonb)::text", "ask", self._part.artid), described
        )
        await self._query("reset all")  # what the resolver may have set
        answer = json.loads(text, parse_float=Decimal)
        failure = RuntimeError(answer["error"]) if "error" in answer else None
        return replace(encounter, answer=failure or answer["answer"])

    def _json(self, row: Mapping[str, Any] | None, texts: Texts | None) -> dict[str, Any] | None:
        """Numbers, booleans and documents as they are, all else as PostgreSQL prints it."""
        if row is None or texts is None:
            return None
        return {
            column: value if isinstance(value, bool | int | dict | list) else text
            for (column, value), text in zip(row.items(), texts, strict=True)
        }

    def _encounter(self, row: MergeRow, answer: tuple[Any, ...], is_upload: bool) -> MergeEncounter:
        _, text, gone, lineage, colv, held_by, held_priority, peer, priority, replica = answer[:10]
        self._held[row.rowguid] = None if text is None else self._texts.split(text)
        self._came[row.rowguid] = None if row.row is None else self._texts.split(row.row)
        held = None if gone is None else _version(gone, lineage, colv)
        incoming = _version(row.gone, _numbers(row.lineage), _numbers(row.columns))
        return MergeEncounter(
            table=self._article.name,
            rowguid=row.rowguid,
            at=self._node,
            is_upload=is_upload,
            held=self._values(self._held[row.rowguid]),
            incoming=self._values(self._came[row.rowguid]),
            held_by=held_by,
            incoming_by=peer,
            held_priority=held_priority,
            priority=priority,
            held_version=held,
            incoming_version=incoming,
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
            ),
        )

    def _values(self, texts: Texts | None) -> dict[str, Any] | None:
        return None if texts is None else self._texts.values(texts)

    async def take(self, judge: Judge, *, is_final: bool) -> Taken:
        """Apply the rows as the judge says.

        Args:
            is_final: what fails is recorded.
        """
        encounters = await self.encounters(is_upload=judge.is_upload)
        judgement = judged(judge, encounters)
        rulings = judgement.resolutions
        failed: dict[UUID, Fault] = dict(judgement.faults)
        counts = [0, 0, 0, 0]
        amended = {guid for guid, ruling in rulings.items() if ruling.row is not None}
        plain = [r for r in self._part.rows if r.rowguid not in amended | failed.keys()]
        taken = await apply_rows(self._query, self._part.artid, plain, is_final, rulings)
        _add(counts, taken.counts)
        by_guid = {encounter.rowguid: encounter for encounter in encounters}
        for row in self._part.rows:
            if row.rowguid in amended:
                outcome = await self._amended(row, by_guid[row.rowguid], rulings[row.rowguid])
                _add(counts, outcome.counts)
                failed |= outcome.failed
        if is_final:
            await self._record(failed)
        failed |= taken.failed
        rejected = {
            guid: (REJECTED, f"the change was rejected at {self._node}")
            for guid, ruling in rulings.items()
            if guid not in failed and is_rejected(by_guid[guid], ruling)
        }
        await self._record(rejected)
        undone = 0
        for row in self._part.rows if is_final else ():
            if row.rowguid in failed:
                ruling, failed[row.rowguid] = _ruled(
                    judge, by_guid[row.rowguid], failed[row.rowguid]
                )
                if ruling is None:
                    continue
                outcome = await self._amended(row, by_guid[row.rowguid], ruling)
                if not outcome.failed:
                    _add(counts, outcome.counts)
                    undone += ruling.row is None
                    del failed[row.rowguid]
        return Taken(
            counts=(counts[0], counts[1], counts[2], counts[3]),
            failed=failed,
            rejected=len(rejected) + undone,
        )

    async def _amended(self, row: MergeRow, encounter: MergeEncounter, ruling: Resolution) -> Taken:
        """Take one row as the ruling says, and put its values on it; all of it or nothing."""
        await self._query("savepoint judged")
        try:
            outcome = await self._put(row, encounter, ruling)
            fault = outcome.failed.get(row.rowguid)
        except (psycopg.Error, ValueError) as error:
            code = error.sqlstate if isinstance(error, psycopg.Error) else JUDGE_FAILED
            if code is None or not is_fault_of_row(code):
                raise
            outcome, fault = Taken(failed={}), (code, str(error).partition("\n")[0])
        if fault is not None:
            await self._query("rollback to savepoint judged")
            outcome = Taken(failed={row.rowguid: fault})
        await self._query("release savepoint judged")
        return outcome

    async def _put(self, row: MergeRow, encounter: MergeEncounter, ruling: Resolution) -> Taken:
        artid, values = self._part.artid, ruling.row
        side = ruling.winner or encounter.winner
        if values is None:
            return await apply_rows(
                self._query, artid, [row], False, {row.rowguid: replace(ruling, winner=side)}
            )
        side, base = standing(encounter, side)
        texts = (self._held if side is Side.HELD else self._came)[row.rowguid]
        assert texts is not None
        made = self._texts.joined(self._texts.with_values(texts, values))
        if encounter.default.verdict is Verdict.APPLY and side is Side.INCOMING:
            row = replace(row, row=made)
        outcome = await apply_rows(
            self._query, artid, [row], False, {row.rowguid: Resolution(winner=side)}
        )
        if not outcome.failed:
            is_merged = encounter.default.verdict is Verdict.MERGE
            takens = [
                (is_merged and column in values) or differs
                for column, differs in zip(
                    self._article.columns, self._texts.differs(values, base), strict=True
                )
            ]
            await self._query(
                _call("select {}(%s::uuid[], %s::text[], %s::text[])", "amend", artid),
                [row.rowguid],
                [made],
                ["{" + ",".join("t" if taken else "f" for taken in takens) + "}"],
            )
        return outcome

    async def _record(self, faults: Mapping[UUID, Fault]) -> None:
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
            )


async def apply_rows(
    query: Query,
    artid: UUID,
    rows: Sequence[MergeRow],
    is_final: bool,
    rulings: Mapping[UUID, Resolution],
) -> Taken:
    """``merge_apply``, with the sides that were chosen."""
    if not rows:
        return Taken(failed={})
    sides = [rulings[row.rowguid].winner if row.rowguid in rulings else None for row in rows]
    [answer] = await query(
        _APPLY,
        artid,
        [row.rowguid for row in rows],
        [row.gone for row in rows],
        [row.lineage for row in rows],
        [row.columns for row in rows],
        [row.writer for row in rows],
        [row.row for row in rows],
        is_final,
        [side and side.value for side in sides] if any(sides) else None,
    )
    applied, skipped, conflicts, deferred, failed, codes, reasons = answer
    return Taken(
        counts=(applied, skipped, conflicts, deferred),
        failed=dict(zip(failed, zip(codes, reasons, strict=True), strict=True)),
    )


def _ruled(
    judge: Judge, encounter: MergeEncounter, fault: Fault
) -> tuple[Resolution | None, Fault]:
    """What becomes of a change that has failed; a judge that fails itself has said nothing."""
    try:
        return judge.rule_failure(encounter, fault), fault
    except Exception as error:
        return None, (fault[0], f"{fault[1]}; and its handler failed: {error}")


def _call(query: LiteralString, what: str, artid: UUID) -> str:
    """A query with the name of an article's function."""
    function = sql.Identifier(names.SCHEMA, names.merge_object(what, artid))
    return sql.SQL(query).format(function).as_string(None)


def _add(counts: list[int], others: Sequence[int]) -> None:
    for place, count in enumerate(others):
        counts[place] += count


def _numbers(text: str | None) -> list[int] | None:
    """An array of integers as PostgreSQL prints it."""
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
