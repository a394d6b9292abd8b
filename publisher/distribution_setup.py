"""Publisher's part of distribution: formats of an article's changes, what the log must contain for them, and row
filters, which are evaluated at the Publisher.

The module knows nothing of Subscribers, nor of the distribution database. Every function takes an administrator's
connection, inside a transaction.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article, Table
from twopc.distributed_article import DistributedArticle, default_procedures
from twopc.errors import ArticleError
from twopc.propagation import Format, Propagation
from twopc.publisher import logical_publication
from twopc.publisher.catalog import StoredArticle, get_article, guard, unguard
from twopc.publisher.logical_publication import LogRequirements
from twopc.publisher.rights import RequiredObject
from twopc.publisher.row_filter import read_filter
from twopc.sql import fragments as f
from twopc.sql.catalog_texts import full_names
from twopc.sql.describe import describe
from twopc.sql.render import render

Connection = AsyncConnection[Any]

_COLUMNS = """
select a.attname::text, a.atttypid::bigint, a.attgenerated <> '' from pg_attribute a
where a.attrelid = %s and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""


def check(article: Article, propagation: Propagation) -> None:
    """Check a propagation as far as possible without a server.

    Raises:
        ArticleError: the propagation names columns that are not published.
    """
    known = {column.name for column in article.value_columns} | {names.VERSION_COLUMN}
    for name in propagation.large or ():
        if name not in known:
            raise ArticleError(
                f"article {article.name}: {name!r} is named as a large column and is not published; "
                f"published are {', '.join(sorted(known))}"
            )


# -- an article -----------------------------------------------------------------------------------


async def fit(
    connection: Connection, stored: StoredArticle, table: Table, article: Article, owner: str
) -> None:
    """Make the log's content of an article's table, and the article's filters, fit the article.

    The objects that `drop_objects` drops must not exist.
    """
    propagation = Propagation.from_json(stored.propagation)
    filters = await _filters(connection, stored.article_id)
    await unguard(connection, stored.article_id)
    await logical_publication.add(connection, article.schema, article.table)
    await logical_publication.identify_rows(
        connection, stored.article_id, stored.objid, _requirements(article, propagation, filters)
    )
    await connection.execute(
        "update msrepl.sysarticles set destination_procedures = %s where article_id = %s",
        (json.dumps(await _procedures(connection, article)), stored.article_id),
    )
    await guard(connection, stored.article_id)
    requested = {number: condition_of(article.row_filter, text) for number, text in filters.items()}
    if article.row_filter is not None:
        requested[stored.article_id] = article.row_filter
    for number, condition in requested.items():
        # an existing filter fits, and the log reader may be calling it
        if not await _has_filter(connection, number):
            await _create_filter(connection, table, number, condition, owner)


def _requirements(
    article: Article, propagation: Propagation, filters: Mapping[int, str]
) -> LogRequirements:
    formats = {propagation.upd.format, propagation.dele.format}
    needed_by = "XCALL" if Format.XCALL in formats else ""
    if article.row_filter is not None or filters:
        needed_by = "its row filter"
    whole = propagation.upd.format in (Format.CALL, Format.MCALL)
    return LogRequirements(
        name=article.name,
        old_rows=propagation.needs_old_rows or bool(needed_by),
        needed_by=needed_by,
        columns=tuple(column.name for column in article.value_columns) if whole else (),
        columns_for=str(propagation.upd.format),
    )


async def _procedures(connection: Connection, article: Article) -> dict[str, str]:
    """Return names that no other article's procedures have, since they are shown without their schema."""
    requested = default_procedures(article.schema, article.table)
    cursor = await connection.execute(
        """
        select from msrepl.sysarticles a cross join jsonb_each_text(a.destination_procedures) as p
        where (a.source_schema, a.source_object) <> (%s, %s) and p.value = any (%s)
        """,
        (article.schema, article.table, list(requested.values())),
    )
    if not cursor.rowcount:
        return requested
    return default_procedures(article.schema, article.table, apart=True)


async def drop_objects(connection: Connection, article_id: int) -> None:
    """Drop the filters that `fit` created in schema msrepl."""
    for number in (article_id, *await _filters(connection, article_id)):
        await _drop_filter(connection, number)


async def leave(connection: Connection, stored: StoredArticle) -> None:
    """Restore what the log contained of a table before it was published."""
    await unguard(connection, stored.article_id)
    await logical_publication.restore(connection, stored.article_id)
    if stored.schema is not None and stored.table is not None:
        await logical_publication.remove(connection, stored.schema, stored.table)


# -- row filters ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRequirements:
    """Columns and objects that the table's role must be able to use for the filters of an article."""

    columns: tuple[str, ...]
    needs: tuple[RequiredObject, ...]


async def filter_needs(connection: Connection, article_id: int, table: Table) -> FilterRequirements:
    """Return the requirements of filters for single Subscribers; see `twopc.publisher.rights`."""
    columns: dict[str, None] = {}
    needs: list[RequiredObject] = []
    for text in (await _filters(connection, article_id)).values():
        async with full_names(connection):
            result = await read_filter(connection, table, text)
        columns |= dict.fromkeys(result.columns)
        needs += result.needs
    return FilterRequirements(columns=tuple(columns), needs=tuple(needs))


async def add_filter(connection: Connection, stored: StoredArticle, row_filter: str) -> int:
    """Insert a further article on the same table: the rows of the base that satisfy a condition.

    Returns:
        The number of the article; that of an existing article with this condition, if there is one.
    """
    assert stored.schema is not None
    assert stored.table is not None
    table = await describe(connection, stored.schema, stored.table)
    text = (await read_filter(connection, table, row_filter)).text
    cursor = await connection.execute(
        "select article_id from msrepl.sysfilteredarticles where (base, filter_clause) = (%s, %s)",
        (stored.article_id, text),
    )
    if cursor.rowcount == 0:
        cursor = await connection.execute(
            """
            insert into msrepl.sysfilteredarticles (article_id, base, filter_clause)
            values (nextval(pg_get_serial_sequence('msrepl.sysarticles', 'article_id')), %s, %s)
            returning article_id
            """,
            (stored.article_id, text),
        )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def drop_filter(connection: Connection, article_id: int) -> None:
    """Remove an article that `add_filter` inserted; does nothing if it does not exist."""
    await connection.execute(
        "delete from msrepl.sysfilteredarticles where article_id = %s", (article_id,)
    )
    await _drop_filter(connection, article_id)


async def base_of(connection: Connection, schema: str, table: str) -> StoredArticle:
    """Return the article whose rows a filter is to choose from.

    Raises:
        ArticleError: the article no longer fits its table, or the table is not published.
    """
    stored = await get_article(connection, schema, table)
    if stored.stale is not None or stored.table is None:
        raise ArticleError(
            f"article {names.article_name(schema, table)} no longer fits its table: "
            "`twopc regenerate` or `twopc unpublish` it first"
        )
    return stored


async def parts_of(connection: Connection, article_id: int) -> tuple[tuple[int, str], ...]:
    """Return the value of `Article.parts`."""
    return tuple((await _filters(connection, article_id)).items())


async def _filters(connection: Connection, article_id: int) -> dict[int, str]:
    """Return the conditions of the further articles on a table, by number."""
    cursor = await connection.execute(
        """
        select article_id, filter_clause from msrepl.sysfilteredarticles
        where base = %s order by article_id
        """,
        (article_id,),
    )
    return dict(await cursor.fetchall())


def condition_of(base: str | None, own: str) -> str:
    """Return the row filter of an article for single Subscribers, combined with that of its base."""
    return own if base is None else f"({base}) and ({own})"


def _function(article_id: int) -> sql.Identifier:
    return sql.Identifier(names.SCHEMA, f"row_filter_{article_id}")


def _image_type(article_id: int) -> sql.Identifier:
    return sql.Identifier(names.SCHEMA, f"row_image_{article_id}")


async def _has_filter(connection: Connection, article_id: int) -> bool:
    rows = await connection.execute(
        "select from pg_proc where pronamespace = 'msrepl'::regnamespace and proname = %s",
        (f"row_filter_{article_id}",),
    )
    return rows.rowcount > 0


async def _create_filter(
    connection: Connection, table: Table, article_id: int, condition: str, owner: str
) -> None:
    for text in filter_texts(table, article_id, condition, owner):
        await connection.execute(text.encode())


def filter_texts(table: Table, article_id: int, condition: str, owner: str) -> list[str]:
    """Return the texts of the type and the function that evaluate a filter for images of a table's rows."""
    name = names.article_name(table.schema, table.name)
    logged = [column for column in table.columns if column.takes_values]
    sent, image, place = _free_names(table)
    return [
        render(
            "twopc.publisher",
            "row_type",
            type=_image_type(article_id),
            attributes=f.attribute_definitions([(column.name, column) for column in logged]),
            owner=sql.Identifier(owner),
            comment=sql.Literal(f"Rows of {name} as the log holds them"),
        ),
        render(
            "twopc.publisher",
            "row_filter",
            function=_function(article_id),
            type=_image_type(article_id),
            sent=sql.Identifier(sent),
            image=sql.Identifier(image),
            place=sql.Identifier(place),
            rows=_rows(table, sql.Identifier(sent, image), condition),
            alias=sql.Identifier(table.name),
            condition=f.raw(condition),
            owner=sql.Identifier(names.table_role(owner, table.schema, table.name)),
            caller=sql.Identifier(owner),
            comment=sql.Literal(f"Whether rows of {name} belong to article {article_id}"),
        ),
    ]


def _free_names(table: Table) -> list[str]:
    """Return names that neither the table nor any of its columns has."""
    taken = {table.name, *(column.name for column in table.columns)}
    results = []
    for name in ("sent", "image", "place"):
        while name in taken:
            name += "_"
        results.append(name)
    return results


def _rows(table: Table, image: sql.Composable, condition: str) -> sql.Composed:
    """Return the expression that replaces the table in a filter: a row made of an image.

    Only a condition that refers to the row as a whole needs a row of the table's type, which is more expensive.
    """
    fields = [
        sql.SQL("({}).{} as {}").format(image, *[sql.Identifier(column.name)] * 2)
        for column in table.columns
        if column.takes_values
    ]
    inner = sql.SQL("(select {}) as {}").format(f.COMMA.join(fields), sql.Identifier(table.name))
    values = [
        sql.Identifier(table.name, column.name)
        if column.takes_values
        else sql.SQL("({}) as {}").format(f.raw(str(column.default)), sql.Identifier(column.name))
        for column in table.columns
    ]
    plain = sql.SQL("(select {} from {})").format(f.COMMA.join(values), inner)
    if ".*" not in condition:
        return plain
    return sql.SQL("unnest(array[(select row(made.*)::{} from {} as made)])").format(
        f.qualified(table.schema, table.name), plain
    )


async def _drop_filter(connection: Connection, article_id: int) -> None:
    await connection.execute(
        sql.SQL("drop function if exists {}(text[])").format(_function(article_id))
    )
    await connection.execute(sql.SQL("drop type if exists {}").format(_image_type(article_id)))


# -- what is distributed --------------------------------------------------------------------------


async def distributed(
    connection: Connection, articles: Sequence[tuple[StoredArticle, Article]]
) -> tuple[DistributedArticle, ...]:
    """Return the articles as the distribution database stores them, those for single Subscribers after their base."""
    made: list[DistributedArticle] = []
    for stored, article in articles:
        columns = await (await connection.execute(_COLUMNS, (stored.objid,))).fetchall()
        types = {name: oid for name, oid, generated in columns if not generated}
        kept = {column.name for column in article.value_columns}
        base: dict[str, Any] = {
            "propagation": Propagation.from_json(stored.propagation),
            "procedures": stored.destination_procedures,
            "types": tuple(types[column.name] for column in article.value_columns),
            "left_out": tuple(name for name in types if name not in kept),
            "generated": tuple(name for name, _, generated in columns if generated),
        }
        article = dataclasses.replace(
            article, parts=()
        )  # each part is a separate article in the distribution database
        made.append(DistributedArticle(article_id=stored.article_id, article=article, **base))
        for number, text in (await _filters(connection, stored.article_id)).items():
            part = dataclasses.replace(article, row_filter=condition_of(article.row_filter, text))
            made.append(DistributedArticle(article_id=number, article=part, **base))
    return tuple(made)
