"""Partitions of a filtered publication, and the rows of each, as a Publisher's administrator sees them.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString
from uuid import UUID

from psycopg import AsyncConnection, sql
from psycopg.rows import class_row

from twopc import names
from twopc.drivers.merge.neighbours import close_generation
from twopc.errors import MergeError, SubscriptionError
from twopc.merge.articles import MergeArticle
from twopc.merge.marks import Generation
from twopc.merge.partitions import (
    JoinFilter,
    MergeFilter,
    PartitionOption,
    check_named,
    values_of,
)

Connection = AsyncConnection[Any]

_FILTERED = """
select a.nickname, a.artid, a.source_schema, a.source_object, i.subset_filterclause
from msrepl.sysmergepartitioninfo as i join msrepl.sysmergearticles as a on a.artid = i.artid order by a.nickname
"""
_PARTITIONS = """
select p.partition_id, p.host_name_fn, p.suser_sname_fn, array(
    select s.subscriber_server from msrepl.sysmergesubscriptions as s where s.partition_id = p.partition_id order by 1)
from msrepl.msmerge_partition_groups as p order by 1
"""
_SUBSCRIBER = """
select s.partition_id, s.sentgen from msrepl.sysmergesubscriptions as s, msrepl.sysmergepartitioninfo as i
where s.subscriber_server = %s and i.artid = %s and s.partition_id is not null
"""
_JOINS = """
select j.join_articleid as parent, a.nickname as parent_nickname, a.source_schema as parent_schema,
       a.source_object as parent_table, a.rowguid as parent_rowguid, j.join_filterclause as condition,
       j.join_unique_key as is_key
from msrepl.sysmergesubsetfilters as j join msrepl.sysmergearticles as a on a.artid = j.join_articleid
where j.artid = %s order by a.nickname
"""
_LEFT_BEHIND = """
select p.rowguid from msrepl.sysmergesubscriptions as s
join msrepl.msmerge_past_partition_mappings as p on p.partition_id = s.partition_id
join msrepl.sysmergearticles as a on a.nickname = p.tablenick
join msrepl.sysmergepartitioninfo as i on i.artid = a.artid
where s.subscriber_server = %s and i.artid = %s and not i.allow_partition_realignment
"""
_COMPARE: LiteralString = """
select coalesce(f.rowguid, c.rowguid), coalesce(f.partition_id, c.partition_id),
       coalesce('its filter fails: ' || f.failure, case when f.rowguid is null then 'does not belong' else 'belongs' end)
from {belongs}(null, array(
    select p.partition_id from msrepl.msmerge_partition_groups as p where p.maxgen_whenadded is not null)) as f
full join (select * from msrepl.msmerge_current_partition_mappings as m where m.tablenick = {nickname}) as c
    on c.rowguid = f.rowguid and c.partition_id = f.partition_id
where f.rowguid is null or c.rowguid is null order by 1, 2
"""
#: Rows that belong to several partitions against the partition option.
_SHARED: LiteralString = """
select c.rowguid, max(c.partition_id), 'belongs to others, too'
from msrepl.sysmergepartitioninfo as i
join msrepl.sysmergearticles as a on a.artid = i.artid
join msrepl.msmerge_current_partition_mappings as c on c.tablenick = a.nickname
where i.artid = %s and i.partition_options > 1
group by c.rowguid having count(*) > 1 order by 1
"""
_ON_THEIR_WAY = """
select c.rowguid::text from msrepl.msmerge_current_partition_mappings as c
where c.tablenick = %(n)s and c.partition_id = %(p)s and c.generation > %(g)s
union
select p.rowguid::text from msrepl.msmerge_past_partition_mappings as p
where p.tablenick = %(n)s and p.partition_id = %(p)s and p.generation > %(g)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredArticle:
    """An article of which not every Subscriber gets every row."""

    nickname: int
    artid: UUID
    name: str
    condition: str | None
    """The row filter, as PostgreSQL prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePartition:
    """A partition: the rows for Subscribers whose filters have these values."""

    number: int
    host_name: str | None
    """The host name; None if no filter uses it."""
    login: str | None
    subscribers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongMapping:
    """A row whose mappings contradict the filters, or the partition option."""

    table: str
    rowguid: UUID
    partition: int | None
    """The partition; None if a filter fails for the row, so that it belongs to no partition."""
    reason: str
    """The contradiction: ``belongs`` or ``does not belong``, according to the filters, if the mappings contradict;
    ``belongs to others, too``, against the partition option; or the error of a filter.
    """


async def filtered_articles(connection: Connection) -> list[FilteredArticle]:
    """Return the filtered articles of a database, parents before their children."""
    rows = await (await connection.execute(_FILTERED)).fetchall()
    return [
        FilteredArticle(
            nickname=nickname,
            artid=artid,
            name=names.article_name(schema, table),
            condition=condition,
        )
        for nickname, artid, schema, table, condition in rows
    ]


async def stored_filter(connection: Connection, artid: UUID) -> MergeFilter | None:
    """Return the filters of an article, as they were published; None if it has none."""
    cursor = await connection.execute(
        "select subset_filterclause, use_partition_groups, filters_on_time, partition_options,"
        " allow_partition_realignment from msrepl.sysmergepartitioninfo where artid = %s",
        (artid,),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    condition, is_precomputed, is_timed, option, realigns = row
    async with connection.cursor(row_factory=class_row(JoinFilter)) as joined:
        await joined.execute(_JOINS, (artid,))
        joins = await joined.fetchall()
    return MergeFilter(
        condition=condition,
        joins=tuple(joins),
        is_precomputed=is_precomputed,
        is_timed=is_timed,
        option=PartitionOption(option),
        realigns=realigns,
    )


async def partitions(connection: Connection) -> list[MergePartition]:
    """Return the existing partitions, with the Subscribers of each."""
    rows = await (await connection.execute(_PARTITIONS)).fetchall()
    return [
        MergePartition(
            number=number, host_name=host_name, login=login, subscribers=tuple(subscribers)
        )
        for number, host_name, login, subscribers in rows
    ]


async def find_partition(connection: Connection, number: int) -> MergePartition:
    """Return the partition of that number.

    Raises:
        MergeError: the partition does not exist (20629).
    """
    for each in await partitions(connection):
        if each.number == number:
            return each
    raise MergeError(
        f"partition {number} is not in msrepl.msmerge_partition_groups of {connection.info.dbname!r} (20629): "
        "unsubscribe its Subscribers, and subscribe again",
        number=20629,
    )


async def partition_of(connection: Connection, host_name: str, login: str) -> int | None:
    """Return the partition of a Subscriber with these values, which is created if necessary; None if nothing is
    filtered.
    """
    used = await values_used(connection)
    if used is None:
        return None
    cursor = await connection.execute(
        "select msrepl.merge_partition(%s, %s)",
        (host_name if "host_name" in used else None, login if "suser_sname" in used else None),
    )
    [(partition,)] = await cursor.fetchall()
    return int(partition)


async def values(connection: Connection, partition: int | None) -> tuple[str, str]:
    """Return host name and login of a partition; empty if no filter uses them."""
    cursor = await connection.execute(
        "select coalesce(host_name_fn, ''), coalesce(suser_sname_fn, '') from msrepl.msmerge_partition_groups"
        " where partition_id = %s",
        (partition,),
    )
    row = await cursor.fetchone()
    return (row[0], row[1]) if row is not None else ("", "")


async def drop_others(connection: Connection, partition: int, subscriber: str) -> list[str]:
    """Drop other subscriptions to a partition that may have only one Subscriber (partition option 3); return their
    names.
    """
    cursor = await connection.execute(
        "update msrepl.sysmergesubscriptions as s set status = 2"
        " where s.partition_id = %s and s.subscriber_server <> %s and s.status = 1"
        " and exists (select from msrepl.sysmergepartitioninfo as i where i.partition_options = 3)"
        " returning s.subscriber_server",
        (partition, subscriber),
    )
    return sorted(name for (name,) in await cursor.fetchall())


async def values_used(connection: Connection) -> set[str] | None:
    """Return the names of a Subscriber's values that the filters use; None if nothing is filtered."""
    filtered = await filtered_articles(connection)
    if not filtered:
        return None
    return {value for each in filtered for value in values_of(each.condition or "")}


async def part(connection: Connection, article: MergeArticle, subscriber: str) -> sql.Composable:
    """Return the condition by which a Subscriber gets a row ``t`` of an article, according to the present filters."""
    cursor = await connection.execute(_SUBSCRIBER, (subscriber, article.artid))
    row = await cursor.fetchone()
    if row is None:
        return sql.SQL("true")
    return sql.SQL(
        "t.{} in (select f.rowguid from {}(null, array[{}]) as f where f.failure is null)"
    ).format(
        sql.Identifier(article.rowguid),
        sql.Identifier(names.SCHEMA, names.merge_object("belongs", article.artid)),
        sql.Literal(row[0]),
    )


async def delivered(
    connection: Connection, article: MergeArticle, subscriber: str
) -> tuple[sql.Composable, list[str]]:
    """Return the condition by which a Subscriber was given a row ``t`` of an article, and the rows in transit.

    Rows in transit have entered its partition, or left it, in a generation that the Subscriber does not have yet.
    """
    cursor = await connection.execute(_SUBSCRIBER, (subscriber, article.artid))
    row = await cursor.fetchone()
    if row is None:
        return sql.SQL("true"), []
    partition, sent = row
    cursor = await connection.execute(
        _ON_THEIR_WAY, {"n": article.nickname, "p": partition, "g": sent}
    )
    condition = sql.SQL(
        "t.{} in (select c.rowguid from msrepl.msmerge_current_partition_mappings as c"
        " where c.tablenick = {} and c.partition_id = {} and c.generation <= {})"
    ).format(
        sql.Identifier(article.rowguid),
        sql.Literal(article.nickname),
        sql.Literal(partition),
        sql.Literal(sent),
    )
    return condition, [rowguid for (rowguid,) in await cursor.fetchall()]


async def left_behind(connection: Connection, article: MergeArticle, subscriber: str) -> list[UUID]:
    """Return rows of an article that have left a Subscriber's partition and stay there, because the article does
    not realign.
    """
    cursor = await connection.execute(_LEFT_BEHIND, (subscriber, article.artid))
    return [rowguid for (rowguid,) in await cursor.fetchall()]


async def touch_partition(
    connection: Connection, article: MergeArticle, subscriber: str, rowguids: Sequence[UUID]
) -> None:
    """Send a Subscriber again which of these rows do not belong to it, and the other rows."""
    row = await (await connection.execute(_SUBSCRIBER, (subscriber, article.artid))).fetchone()
    if row is not None:
        await connection.execute(
            "select msrepl.merge_touch_partition(%s, %s, %s::uuid[], true)",
            (article.nickname, row[0], [*rowguids]),
        )


async def add_partition(
    connection: Connection, host_name: str | None, login: str | None
) -> MergePartition:
    """Create a partition before its first subscription (sp_addmergepartition), or return the existing one.

    Raises:
        SubscriptionError: no filter uses a value of a Subscriber (20674); see `check_named`.
    """
    used = await values_used(connection)
    if not used:
        raise SubscriptionError(
            "no filter of this publication looks at host_name() or suser_sname(): all Subscribers get the same rows "
            "(20674)"
        )
    values = check_named(used, "partition", host_name, login)
    async with connection.transaction():
        await connection.execute("set transaction isolation level repeatable read")
        await connection.execute("lock table msrepl.msmerge_genhistory in share row exclusive mode")
        number = await partition_of(connection, **values)
        assert number is not None
        await map_new(connection, number, await close_generation(connection))
    return await find_partition(connection, number)


async def map_new(connection: Connection, partition: int, generation: Generation) -> None:
    """Evaluate the rows of a new partition, in the transaction that has closed the generation."""
    cursor = await connection.execute(
        "update msrepl.msmerge_partition_groups as p set maxgen_whenadded = %s"
        " where p.partition_id = %s and p.maxgen_whenadded is null",
        (generation.number, partition),
    )
    if cursor.rowcount:
        await connection.execute(
            "select msrepl.merge_map(g.generation, g.snap, true, %s) from msrepl.msmerge_genhistory as g"
            " where g.generation = %s",
            (partition, generation.number),
        )


async def mapped_rows(connection: Connection, partition: int) -> AsyncIterator[bytes]:
    """Yield nickname and rowguid of each row of a partition, as COPY text."""
    command = sql.SQL(
        "copy (select tablenick, rowguid from msrepl.msmerge_current_partition_mappings where partition_id = {})"
        " to stdout"
    ).format(sql.Literal(partition))
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        async for block in copy:
            yield bytes(block)


async def wrong_mappings(connection: Connection) -> list[WrongMapping]:
    """Return the differences between the mappings and the filters of all rows, as of the newest generation.

    Must run in the transaction that has just closed the generation, so that later changes of applications are not
    reported.
    """
    wrong = []
    for each in await filtered_articles(connection):
        belongs = sql.Identifier(names.SCHEMA, names.merge_object("belongs", each.artid))
        compare = sql.SQL(_COMPARE).format(belongs=belongs, nickname=sql.Literal(each.nickname))
        for query, arguments in ((compare, ()), (sql.SQL(_SHARED), (each.artid,))):
            cursor = await connection.execute(query, arguments or None)
            wrong += [
                WrongMapping(table=each.name, rowguid=rowguid, partition=partition, reason=reason)
                for rowguid, partition, reason in await cursor.fetchall()
            ]
    return wrong
