"""Validation of a Subscriber's rows against its Publisher's, by count or by checksum, and their repair.

Applications may continue at both ends. Each end is read in one snapshot, and changes in progress are left out at
both: rows that either end has changed, and that the other has not confirmed. Between two sessions all other rows
are equal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from twopc.articles import Article, Column
from twopc.drivers.merge import partitions, tracking
from twopc.drivers.merge.rows import touch_rows
from twopc.errors import MergeError
from twopc.merge.articles import MergeArticle
from twopc.sim.validation import rows
from twopc.sql.checksum import PINNED, ChecksumTexts

Connection = AsyncConnection[Any]

COUNTS, CHECKSUMS, BINARY_CHECKSUMS = 1, 2, 3
"""The original's levels. Checksums have 64 bits here in both cases."""
_ATTEMPTS_MAX = 5
_MARKS = """
select s.sentgen, s.recgen, s.coming_gen from msrepl.sysmergesubscriptions as s where s.subscriber_server = %s
"""
_PENDING = """
select m.rowguid::text from msrepl.msmerge_metadata as m
join msrepl.sysmergesubscriptions as s on s.subscriber_server = %s
left join msrepl.msmerge_genhistory as g on g.generation = s.sentgen
where m.tablenick = %s and m.source is distinct from s.replnickname
  and pg_visible_in_snapshot(m.xid, g.snap) is not true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeDifference:
    """A row that differs."""

    rowguid: UUID
    kind: str
    """``missing`` at the Subscriber, ``extra`` there, or ``different``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableValidation:
    """The result for one table."""

    table: str
    rows: int
    """Number of the Publisher's rows that were compared."""
    subscriber_rows: int
    left_out: int
    """Number of rows with changes in progress, at either end."""
    differences: tuple[MergeDifference, ...] = ()
    """Differences found by checksums."""
    repaired: int = 0
    """Number of rows that the next session propagates again."""

    @property
    def passed(self) -> bool:
        """Whether both ends are equal."""
        return self.rows == self.subscriber_rows and not self.differences


async def validate_subscriber(
    above: Connection,
    below: Connection,
    publisher: str,
    subscriber: str,
    *,
    level: int = CHECKSUMS,
    repair: bool = False,
) -> list[TableValidation]:
    """Compare a Subscriber's tables with its Publisher's.

    Args:
        above: an administrator's connection to the Publisher, not otherwise used meanwhile; `below`: to the
            Subscriber.
        level: `COUNTS`, `CHECKSUMS` or `BINARY_CHECKSUMS`.
        repair: rows that differ are touched at the Publisher, so that the next session propagates them; rows that
            only the Subscriber has are deleted there. Needs checksums.

    Raises:
        MergeError: a session is in progress, or was interrupted, so that the two ends cannot be compared.
    """
    if level not in (COUNTS, CHECKSUMS, BINARY_CHECKSUMS):
        raise MergeError(f"validation level {level}: use 1 (counts), 2 or 3 (checksums)")
    if repair and level == COUNTS:
        raise MergeError("counts do not name the rows that differ: repair by level 2 or 3")
    for _ in range(_ATTEMPTS_MAX):
        async with above.transaction(), below.transaction():
            for connection in (above, below):
                await connection.execute(
                    "set transaction isolation level repeatable read, read only"
                )
                await connection.execute(PINNED)
            sent, received, coming = await _marks(above, subscriber)
            sent_up, received_down, coming_down = await _marks(below, publisher)
            if (sent, received, coming, coming_down) == (received_down, sent_up, None, None):
                results = [
                    await _compare(above, below, publisher, subscriber, article, level)
                    for article in await tracking.articles(above)
                ]
                break
    else:
        raise MergeError(
            f"a session of {publisher} and {subscriber} is under way, or was cut off: validate after one that is whole"
        )
    if not repair:
        return results
    articles = {article.name: article for article in await tracking.articles(above)}
    return [await _repaired(above, subscriber, articles[each.table], each) for each in results]


async def _marks(connection: Connection, neighbour: str) -> tuple[int, int, int | None]:
    row = await (await connection.execute(_MARKS, (neighbour,))).fetchone()
    if row is None:
        raise MergeError(f"{neighbour} and database {connection.info.dbname} do not merge")
    return row[0], row[1], row[2]


async def _compare(
    above: Connection,
    below: Connection,
    publisher: str,
    subscriber: str,
    article: MergeArticle,
    level: int,
) -> TableValidation:
    belongs, moving = await partitions.delivered(above, article, subscriber)
    left = await partitions.left_behind(above, article, subscriber)
    pending = {*moving, *map(str, left)} | {
        rowguid
        for connection, neighbour in ((above, subscriber), (below, publisher))
        for (rowguid,) in await (
            await connection.execute(_PENDING, (neighbour, article.nickname))
        ).fetchall()
    }
    texts = ChecksumTexts(_by_rowguid(article))
    texts_above = ChecksumTexts(_by_rowguid(article), belongs=belongs)
    parameters = [sorted(pending)]
    there = await rows.buckets(above, texts_above, parameters)
    here = await rows.buckets(below, texts, parameters)
    differing = [n for n in {*there, *here} if there.get(n) != here.get(n)]
    differences = []
    if differing and level != COUNTS:
        places = [*parameters, differing]
        pairs = rows.merged_rows(
            rows.rows_of(above, texts_above, places), rows.rows_of(below, texts, places)
        )
        async for (rowguid,), expected, actual in pairs:
            if expected != actual:
                kind = "missing" if actual is None else "extra" if expected is None else "different"
                differences.append(MergeDifference(rowguid=UUID(rowguid), kind=kind))
    return TableValidation(
        table=article.name,
        rows=sum(count for count, _ in there.values()),
        subscriber_rows=sum(count for count, _ in here.values()),
        left_out=len(pending),
        differences=tuple(differences),
    )


def _by_rowguid(article: MergeArticle) -> Article:
    """Return the article in the form that checksums need: with its rowguid as key."""
    rowguid = Column(name=article.rowguid, type="uuid", not_null=True)
    return Article(
        schema=article.schema,
        table=article.table,
        columns=(rowguid, *article.columns),
        key=(article.rowguid,),
    )


async def _repaired(
    above: Connection, subscriber: str, article: MergeArticle, result: TableValidation
) -> TableValidation:
    if not result.differences:
        return result
    rowguids = [each.rowguid for each in result.differences]
    async with above.transaction():
        await touch_rows(above, result.table, rowguids)
        await partitions.touch_partition(above, article, subscriber, rowguids)
    return replace(result, repaired=len(rowguids))
