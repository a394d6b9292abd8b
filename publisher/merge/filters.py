"""Filters of merge articles: row filters and join filters, as parsed by the server.

A row filter is a condition over the columns of its table, in which ``msrepl.host_name()`` and
``msrepl.suser_sname()``
stand for a Subscriber's values. A join filter is a condition over the columns of a table and of its parent.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql

from twopc.articles import Table
from twopc.drivers.merge import tracking
from twopc.drivers.merge.partitions import stored_filter
from twopc.drivers.merge.tracking import StoredMergeArticle
from twopc.errors import ArticleError
from twopc.merge.articles import MergeArticle
from twopc.merge.partitions import (
    JoinFilter,
    MergeFilter,
    PartitionOption,
    values_of,
    with_values,
)
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.publisher.rights import RequiredObject, needs
from twopc.publisher.row_filter import read_filter
from twopc.sql.catalog_texts import full_names
from twopc.sql.fragments import AND, qualified
from twopc.sql.merge_filter_texts import FilterTexts

Connection = AsyncConnection[Any]

_VIEW = sql.Identifier("pg_temp", "msrepl_join_filter")
_USED = """
select pg_get_viewdef(v.oid), r.oid, array(
    select distinct d.refobjid::regclass::text from pg_depend as d
    where d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
      and d.refobjid <> all (array[v.oid, %s::text::regclass, %s::text::regclass])),
    r.ev_action::text ~ ':varattno 0 '
from pg_class as v join pg_rewrite as r on r.ev_class = v.oid
where v.oid = 'pg_temp.msrepl_join_filter'::regclass
"""
_IS_VALID = """
select k.convalidated from pg_constraint as k where k.conrelid = %s::text::regclass and k.conname = %s and k.contype = 'f'
"""


@dataclass(frozen=True, slots=True)
class Join:
    """A join filter as written by a user: rows go to the partitions of the `parent` rows to which they refer."""

    parent: str
    """Parent table, published before: ``table``, or ``schema.table``."""
    condition: str
    """Condition over both tables' qualified columns: ``purchase.customer = customer.id``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters of an article as written by a user: rows go to Subscribers by the row filter, and by each join."""

    row_filter: str | None = None
    """Condition over the table's columns, ``msrepl.host_name()`` and ``msrepl.suser_sname()``."""
    joins: Sequence[Join] = ()
    precomputed: bool = True
    """Whether closing a generation recomputes the partitions of changed rows only, if possible; False
    recomputes those of all rows.
    """
    partition: int = 0
    """See `PartitionOption`."""
    realigns: bool = True
    """Whether rows that leave a Subscriber's partition are removed at the Subscriber."""


NO_FILTERS = Filters()


async def read_filters(
    connection: Connection,
    table: Table,
    where: str,
    filters: Filters,
    others: Sequence[StoredMergeArticle],
) -> tuple[MergeFilter | None, tuple[RequiredObject, ...]]:
    """Have the server parse an article's filters; return them, or None, and the objects that they need.

    Args:
        where: the article, for messages.
        others: the articles that are published already.

    Raises:
        ArticleError: a filter cannot be used; nothing is changed.
    """
    filtered = await _filtered_articles(connection)
    if filters.row_filter is None and not filters.joins:
        for key in table.references:
            target = next((o for o in others if _is(o, key.target_schema, key.target_table)), None)
            if target is not None and target.artid in filtered:
                raise ArticleError(
                    f"{where} refers to {target.source_object}, of which not every Subscriber gets every row: give it a "
                    f"join filter, join=Join({target.source_object!r}, ...)"
                )
        return None, ()
    needed: list[RequiredObject] = []
    condition = None
    is_timed = False
    if filters.row_filter is not None:
        read = await read_filter(connection, table, filters.row_filter)
        if read.looks_at_row:
            raise _looks_at_row(f"{where}: row filter {filters.row_filter!r}")
        condition, needed = read.text, [*read.needs]
        is_timed = not await _is_immutable(connection, table, condition)
    read_joins = []
    for join in filters.joins:
        parent = _parent(join, where, others, filtered)
        read_join, used = await _read_join(connection, table, where, join, parent)
        read_joins.append(read_join)
        needed += used
    option = await _option(connection, where, filters, read_joins)
    return (
        MergeFilter(
            condition=condition,
            joins=tuple(read_joins),
            is_precomputed=filters.precomputed
            and not is_timed
            and all(join.is_key for join in read_joins),
            is_timed=is_timed,
            option=option,
            realigns=filters.realigns,
        ),
        tuple(dict.fromkeys(needed)),
    )


async def install_filters(
    connection: Connection,
    article: MergeArticle,
    needed: Sequence[RequiredObject],
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> None:
    """Install an article's filters at the Publisher; does nothing if there are none.

    Args:
        without: protections that are omitted, to show their purpose.
    """
    merge_filter = article.filter
    if merge_filter is None:
        return
    await connection.execute(
        "insert into msrepl.sysmergepartitioninfo (artid, subset_filterclause, use_partition_groups, filters_on_time,"
        " partition_options, allow_partition_realignment) values (%s, %s, %s, %s, %s, %s)",
        (
            article.artid,
            merge_filter.condition,
            merge_filter.is_precomputed,
            merge_filter.is_timed,
            merge_filter.option,
            merge_filter.realigns,
        ),
    )
    # the article's rows are not mapped yet: existing partitions count as new when a Subscriber gets one of them
    await connection.execute("lock table msrepl.msmerge_genhistory in share row exclusive mode")
    await connection.execute("update msrepl.msmerge_partition_groups set maxgen_whenadded = null")
    for join in merge_filter.joins:
        await connection.execute(
            "insert into msrepl.sysmergesubsetfilters (artid, art_nickname, join_articleid, join_nickname,"
            " join_filterclause, join_unique_key) values (%s, %s, %s, %s, %s, %s)",
            (
                article.artid,
                article.nickname,
                join.parent,
                join.parent_nickname,
                join.condition,
                join.is_key,
            ),
        )
    texts = FilterTexts(article, tracking.owner_role(connection.info.dbname), without)
    for text in texts.all(merge_filter):
        await connection.execute(text.encode())
    for each in needed:
        grant = f"grant {each.privilege} on {each.kind} {each.name} to "
        await connection.execute(grant.encode() + texts.role.as_bytes(connection))


async def refuse_if_joined(connection: Connection, stored: StoredMergeArticle) -> None:
    """Check that no join filter refers to an article before it is removed.

    Raises:
        ArticleError: names the articles with such join filters.
    """
    cursor = await connection.execute(
        "select a.source_object from msrepl.sysmergesubsetfilters as j"
        " join msrepl.sysmergearticles as a on a.artid = j.artid where j.join_articleid = %s order by 1",
        (stored.artid,),
    )
    if names := [name for (name,) in await cursor.fetchall()]:
        raise ArticleError(
            f"table {stored.source_schema}.{stored.source_object}: join filters of {', '.join(names)} name it: take "
            "these back first"
        )


async def _option(
    connection: Connection, where: str, filters: Filters, joins: Sequence[JoinFilter]
) -> PartitionOption:
    """Return the partition option, after checking that the filters allow it."""
    if filters.partition not in [*PartitionOption]:
        raise ArticleError(f"{where}: partition option {filters.partition!r}: use 0, 1, 2 or 3")
    option = PartitionOption(filters.partition)
    if option < PartitionOption.APART:
        return option
    if (filters.row_filter is not None) + len(joins) != 1:
        raise ArticleError(
            f"{where}: with partition option {option} it has either a row filter or one join filter: else a row might "
            "belong to several partitions"
        )
    for join in joins:
        stored = await stored_filter(connection, join.parent)
        if not join.is_key or stored is None or stored.option < option:
            raise ArticleError(
                f"{where}: with partition option {option} its join filter must be a foreign key, and {join.parent_table} "
                f"have partition option {option} as well: else a row might belong to several partitions"
            )
    return option


async def _filtered_articles(connection: Connection) -> set[UUID]:
    cursor = await connection.execute("select artid from msrepl.sysmergepartitioninfo")
    return {artid for (artid,) in await cursor.fetchall()}


def _is(stored: StoredMergeArticle, schema: str, table: str) -> bool:
    return (stored.source_schema, stored.source_object) == (schema, table)


def _parent(
    join: Join, where: str, others: Sequence[StoredMergeArticle], filtered: set[UUID]
) -> StoredMergeArticle:
    schema, _, table = join.parent.rpartition(".")
    parent = next((o for o in others if _is(o, schema or "public", table)), None)
    if parent is None:
        raise ArticleError(
            f"{where}: its join filter names {join.parent!r}, which is not published: publish it first; a table can "
            "be joined neither to itself nor in a circle"
        )
    if parent.artid not in filtered:
        raise ArticleError(
            f"{where}: its join filter names {join.parent!r}, of which every Subscriber gets every row: give that a "
            "filter, or leave the join filter out"
        )
    return parent


async def _read_join(
    connection: Connection, table: Table, where: str, join: Join, parent: StoredMergeArticle
) -> tuple[JoinFilter, tuple[RequiredObject, ...]]:
    child, other = (
        qualified(table.schema, table.name),
        qualified(parent.source_schema, parent.source_object),
    )
    problem = f"{where}: join filter {join.condition!r}"
    if table.name == parent.source_object:
        raise ArticleError(
            f"{where}: its join filter names {join.parent!r}, a table of the same name: rename one of them"
        )
    try:
        prefix, _, _, _ = await _printed(connection, child, other, sql.SQL("true"))
        # with IS TRUE, a text that closes the parenthesis early is a syntax error
        asked = sql.SQL("((\n{}\n) is true)").format(sql.SQL(join.condition))
        await _printed(connection, child, other, asked)
        text, used, tables, looks_at_row = await _printed(
            connection, child, other, sql.SQL("(\n{}\n)").format(sql.SQL(join.condition))
        )
        condition = _condition_after(prefix, text)
    except psycopg.Error as error:
        raise ArticleError(
            f"{problem} is not a condition over the columns of both tables: {error.diag.message_primary or error}"
        ) from error
    if tables:
        raise ArticleError(
            f"{problem} looks at {', '.join(tables)}: use columns of both tables only"
        )
    if looks_at_row:
        raise _looks_at_row(problem)
    if values := values_of(condition):
        raise ArticleError(
            f"{problem} uses {', '.join(sorted(values))}, which row filters alone may: filter the parent by it"
        )
    is_key = False
    for key in table.references:
        if (key.target_schema, key.target_table) != (parent.source_schema, parent.source_object):
            continue
        valid = await connection.execute(_IS_VALID, (child.as_string(connection), key.name))
        if await valid.fetchone() != (True,):
            continue
        pairs = [
            (sql.Identifier(table.name, here), sql.Identifier(parent.source_object, there))
            for here, there in zip(key.columns, key.target_columns, strict=True)
        ]
        for forwards in (True, False):
            equal = AND.join(
                sql.SQL("{} = {}").format(*(pair if forwards else pair[::-1])) for pair in pairs
            )
            expected, _, _, _ = await _printed(connection, child, other, equal)
            is_key = is_key or _condition_after(prefix, expected) == condition
    return (
        JoinFilter(
            parent=parent.artid,
            parent_nickname=parent.nickname,
            parent_schema=parent.source_schema,
            parent_table=parent.source_object,
            parent_rowguid=parent.rowguid,
            condition=condition,
            is_key=is_key,
        ),
        used,
    )


async def _printed(
    connection: Connection, child: sql.Identifier, parent: sql.Identifier, condition: sql.Composable
) -> tuple[str, tuple[RequiredObject, ...], list[str], bool]:
    """Return a query of both tables with a condition as the server prints it, and what the condition uses.

    Returns:
        The query, the objects that it uses, other tables in it, and whether it uses a row as a whole.
    """
    async with connection.transaction():
        await connection.execute(
            sql.SQL("create view {} as select 1 as found from {}, {} where {}").format(
                _VIEW, child, parent, condition
            )
        )
        async with full_names(connection):
            cursor = await connection.execute(
                _USED, (child.as_string(connection), parent.as_string(connection))
            )
            row = await cursor.fetchone()
        assert row is not None
        text, rule, tables, looks_at_row = row
        used = await needs(connection, "pg_rewrite", [rule])
        await connection.execute(sql.SQL("drop view {}").format(_VIEW))
    return text, used, tables, looks_at_row


def _looks_at_row(problem: str) -> ArticleError:
    return ArticleError(
        f"{problem} looks at the row as a whole, and so says something else once a column is added or dropped: name the "
        "columns"
    )


def _condition_after(prefix: str, text: str) -> str:
    """Return the condition of a printed query, given the query printed with the condition ``true``."""
    head = prefix.removesuffix("true;")
    assert text.startswith(head), text
    return text.removeprefix(head).removesuffix(";")


async def _is_immutable(connection: Connection, table: Table, condition: str) -> bool:
    """Return whether a row filter's result depends on the row only, so that it could be an index predicate."""
    text = with_values(condition, "''::text", "''::text")
    copy = sql.Identifier("pg_temp", table.name)  # a condition may name its table
    try:
        async with connection.transaction(force_rollback=True):
            await connection.execute(
                sql.SQL("create temporary table {} (like {})").format(
                    copy, qualified(table.schema, table.name)
                )
            )
            await connection.execute(
                sql.SQL("create index on {} ((true)) where {}").format(copy, sql.SQL(text))
            )
    except psycopg.errors.InvalidObjectDefinition:
        return False
    return True
