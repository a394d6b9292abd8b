"""Identity ranges on servers: the objects that a table needs, and the first ranges of a Subscriber.

Functions take an administrator's connection (a superuser's), unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from psycopg import AsyncConnection, sql

from twopc.articles import Table
from twopc.errors import ArticleError
from twopc.merge.articles import MergeArticle
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.ranges import RANGES, IdentityRanges, MergeIdentity, shared_range
from twopc.sql.fragments import qualified
from twopc.sql.merge_identity_texts import IdentityTexts
from twopc.sql.sequences import column_sequences

Connection = AsyncConnection[Any]

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
_DRAWN = """
select coalesce(pg_sequence_last_value(s.seqrelid), s.seqstart - s.seqincrement), a.identity_step
from msrepl.sysmergearticles as a join pg_sequence as s on s.seqrelid = a.identity_sequence
where a.artid = %s
"""
_ALLOT = "select * from msrepl.merge_allot_ranges(%s, %s, %s)"
_RECEIVE = "select msrepl.merge_receive_ranges(%s, %s::int8[], %s::int8[], %s::int8[])"


async def identity_of(
    connection: Connection, table: Table, where: str, ranges: IdentityRanges
) -> MergeIdentity:
    """Return the column of a table whose values are to be drawn from ranges.

    Raises:
        ArticleError: the table has no such column, or more than one, or the column does not count upwards, or has
            values beyond its sequence.
    """
    ranges.check(where)
    name = qualified(table.schema, table.name)
    sequences = await column_sequences(connection, name.as_string(None))
    if len(sequences) != 1:
        held = " and ".join(each.column for each in sequences) or "none"
        raise ArticleError(
            f"{where}: identity ranges need one column that is an identity, or has a sequence as its default: it has {held}"
        )
    [sequence] = sequences
    column = sequence.column
    if sequence.type not in ("smallint", "integer", "bigint"):
        raise ArticleError(
            f"{where}: column {column!r} has type {sequence.type}, and identity ranges are of smallint, integer and bigint"
        )
    if sequence.step < 1 or sequence.cycles:
        raise ArticleError(
            f"{where}: sequence {sequence.name} of column {column!r} must count upwards, and not begin again: alter "
            f"sequence {sequence.name} increment 1 no cycle"
        )
    query = sql.SQL("select max(t.{}) from {} as t").format(sql.Identifier(column), name)
    highest = (await (await connection.execute(query)).fetchone() or (None,))[0]
    if highest is not None and highest > sequence.last:
        raise ArticleError(
            f"{where}: column {column!r} holds {highest}, which its sequence has not come to: select "
            f"setval('{sequence.name}', {highest})"
        )
    return MergeIdentity(column=column, step=sequence.step, ranges=ranges)


async def install_ranges(
    connection: Connection, article: MergeArticle, owner: str, *, is_copy: bool
) -> None:
    """Install the objects by which a tracked table draws its identity values from ranges, and refuses others.

    Args:
        owner: the role that owns our objects in the database.
        is_copy: whether the table is at a Subscriber.
    """
    identity = article.identity
    assert identity is not None
    texts = IdentityTexts(article, owner, is_copy=is_copy)
    for text in texts.all():
        await connection.execute(text.encode())
    sequence = texts.places.as_string(None)
    if not is_copy:
        [drawn] = await column_sequences(connection, texts.table.as_string(None))
        sequence = drawn.name
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


async def begin_ranges(
    above: Connection,
    below: Connection,
    subscriber: str,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> None:
    """Give a new Subscriber its ranges. The Subscriber must be recorded at the Publisher; called inside a
    transaction of both.

    Args:
        without: protections that are left out, to show the errors that they prevent.
    """
    for artid, size in await (await above.execute(_SIZES, (subscriber,))).fetchall():
        if MergeProtection.IDENTITY_RANGES in without:
            [(drawn, step)] = await (await above.execute(_DRAWN, (artid,))).fetchall()
            shared = shared_range(drawn, size, step)
            allotted = [(shared.allotment, shared.first, shared.last)]
        else:
            allotted = await (
                await above.execute(_ALLOT, (subscriber, artid, RANGES * size))
            ).fetchall()
        await below.execute(_RECEIVE, (artid, *_arrays(allotted)))


def _arrays(allotted: list[tuple[Any, ...]]) -> tuple[list[int], list[int], list[int]]:
    return [a for a, _, _ in allotted], [b for _, b, _ in allotted], [e for _, _, e in allotted]
