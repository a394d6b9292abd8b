"""Identity ranges on servers: what a table needs for them, and how a session allots further ones.

Functions take an administrator's connection (a superuser's), unless they say otherwise.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

from twopc.articles import Table
from twopc.errors import ArticleError
from twopc.merge.articles import MergeArticle
from twopc.merge.ranges import RANGES, IdentityRanges, MergeIdentity
from twopc.sql.fragments import qualified
from twopc.sql.merge_identity_texts import IdentityTexts

Connection = AsyncConnection[Any]

#: The columns of a table that draw from a sequence, as identity or by their default.
_COUNTING = """
select a.attname::text, a.atttypid::regtype::text, s.seqrelid::int8, s.seqincrement, s.seqcycle,
       format('%%I.%%I', n.nspname, c.relname),
       coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart - s.seqincrement)
from pg_attribute as a
join pg_sequence as s on s.seqrelid in (
    select d.objid from pg_depend as d
    where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass
      and d.refobjid = a.attrelid and d.refobjsubid = a.attnum and d.deptype = 'i'
    union all
    select d.refobjid from pg_attrdef as f
    join pg_depend as d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid and d.refclassid = 'pg_class'::regclass
    where f.adrelid = a.attrelid and f.adnum = a.attnum)
join pg_class as c on c.oid = s.seqrelid
join pg_namespace as n on n.oid = c.relnamespace
where a.attrelid = %s::text::regclass
order by a.attnum
"""
_ENTER = """
update msrepl.sysmergearticles as a
set identity_column = %s, identity_step = %s, identity_range = %s, pub_identity_range = %s, identity_threshold = %s,
    identity_sequence = %s::text::regclass
where a.artid = %s
"""
_SIZES = """
select a.artid, case s.subscriber_type when 1 then a.pub_identity_range else a.identity_range end
from msrepl.sysmergearticles as a, msrepl.sysmergesubscriptions as s
where a.identity_column is not null and s.subscriber_server = %s
order by a.nickname
"""
_ALLOT = "select * from msrepl.merge_allot_ranges(%s, %s, %s)"
_RECEIVE = "select msrepl.merge_receive_ranges(%s, %s::int8[], %s::int8[], %s::int8[])"


async def identity_of(
    connection: Connection, table: Table, where: str, ranges: IdentityRanges
) -> MergeIdentity:
    """The column of a table whose values are to be drawn from ranges.

    Raises:
        ArticleError: there is none, or more than one, or it does not count upwards, or values are beyond its
            sequence.
    """
    ranges.check(where)
    name = qualified(table.schema, table.name)
    columns = await (await connection.execute(_COUNTING, (name.as_string(None),))).fetchall()
    if len(columns) != 1:
        held = " and ".join(column[0] for column in columns) or "none"
        raise ArticleError(
            f"{where}: identity ranges need one column that is an identity, or has a sequence as its default: it has {held}"
        )
    [(column, kind, _, step, cycles, sequence, last)] = columns
    if kind not in ("smallint", "integer", "bigint"):
        raise ArticleError(
            f"{where}: column {column!r} has type {kind}, and identity ranges are of smallint, integer and bigint"
        )
    if step < 1 or cycles:
        raise ArticleError(
            f"{where}: sequence {sequence} of column {column!r} must count upwards, and not begin again: alter sequence "
            f"{sequence} increment 1 no cycle"
        )
    query = sql.SQL("select max(t.{}) from {} as t").format(sql.Identifier(column), name)
    highest = (await (await connection.execute(query)).fetchone() or (None,))[0]
    if highest is not None and highest > last:
        raise ArticleError(
            f"{where}: column {column!r} holds {highest}, which its sequence has not come to: select "
            f"setval('{sequence}', {highest})"
        )
    return MergeIdentity(column=column, step=step, ranges=ranges)


async def install_ranges(
    connection: Connection, article: MergeArticle, owner: str, *, is_copy: bool
) -> None:
    """Have a tracked table give its identity values out of ranges, and refuse others.

    Args:
        owner: the role that owns our objects in the database.
        is_copy: it is at a Subscriber.
    """
    identity = article.identity
    assert identity is not None
    texts = IdentityTexts(article, owner, is_copy=is_copy)
    for text in texts.all():
        await connection.execute(text.encode())
    sequence = texts.places.as_string(None)
    if not is_copy:
        table = texts.table.as_string(None)
        [column] = await (await connection.execute(_COUNTING, (table,))).fetchall()
        sequence = column[5]
        await connection.execute(
            sql.SQL("grant usage, select on sequence {} to {}").format(
                sql.SQL(sequence), sql.Identifier(owner)
            )
        )
        schema = sql.Identifier(article.schema)
        await connection.execute(
            sql.SQL("grant usage on schema {} to {}").format(schema, sql.Identifier(owner))
        )
    ranges = identity.ranges
    await connection.execute(
        _ENTER,
        (
            identity.column,
            identity.step,
            ranges.subscriber,
            ranges.publisher,
            ranges.threshold_percent,
            sequence,
            article.artid,
        ),
    )


async def begin_ranges(above: Connection, below: Connection, subscriber: str) -> None:
    """Give a Subscriber that begins its ranges. It is entered at the Publisher, inside a transaction of both."""
    for artid, size in await (await above.execute(_SIZES, (subscriber,))).fetchall():
        allotted = await (
            await above.execute(_ALLOT, (subscriber, artid, RANGES * size))
        ).fetchall()
        await below.execute(_RECEIVE, (artid, *_arrays(allotted)))


def _arrays(allotted: list[tuple[Any, ...]]) -> tuple[list[int], list[int], list[int]]:
    return [a for a, _, _ in allotted], [b for _, b, _ in allotted], [e for _, _, e in allotted]
