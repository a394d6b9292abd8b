"""Comparison of the rows of Publisher and Subscribers, by key and column, with row versions where a Subscriber may
change rows.

For tests and scenarios: it reads whole tables, and reports more than a checksum can. Independent of how changes are
propagated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.names import VERSION_COLUMN
from twopc.publisher import membership
from twopc.sql import fragments as f

Connection = AsyncConnection[Any]
Rows = Mapping[tuple[str, ...], tuple[str | None, ...]]

#: Maximum number of differing keys that are reported per table.
_KEYS_MAX = 10
#: Settings by which both ends print values alike, independent of their databases' settings.
_SETTINGS = (
    "set local timezone = 'UTC'; set local datestyle = 'ISO'; set local intervalstyle = 'postgres'; "
    "set local extra_float_digits = 1; set local bytea_output = 'hex'; set local lc_monetary = 'C'"
)


async def differences(
    publisher: Connection,
    subscriber: Connection,
    article: Article,
    *,
    publisher_name: str,
    subscriber_name: str,
    versions: bool = True,
) -> list[str]:
    """Return the rows that a Subscriber's copy lacks, has in excess, or has with other values; one line per key.

    Args:
        article: with the filter of this Subscriber.
        versions: False: row versions are not compared.
    """
    names = [each.name for each in article.columns if versions or each.name != VERSION_COLUMN]
    belongs = await membership.condition(publisher, article)
    there = await _rows(publisher, article, names, belongs)
    here = await _rows(subscriber, article, names, sql.SQL("true"))
    lines = []
    for key in sorted(there.keys() | here.keys()):
        requested, held = there.get(key), here.get(key)
        if requested == held:
            continue
        where = f"{article.name} {_key(article, key)} at {subscriber_name}"
        if held is None:
            lines.append(f"{where} is missing")
        elif requested is None:
            lines.append(f"{where} is not at {publisher_name}")
        else:
            differ = _differ(names, requested, held)
            lines.append(f"{where} differs from {publisher_name}: {', '.join(differ)}")
    if len(lines) > _KEYS_MAX:
        lines[_KEYS_MAX:] = [
            f"{article.name} at {subscriber_name}: {len(lines) - _KEYS_MAX} keys more"
        ]
    return lines


def _differ(
    names: Sequence[str], requested: Sequence[str | None], held: Sequence[str | None]
) -> list[str]:
    """Return the columns whose values differ; for row versions without the values, which mean nothing to a reader."""
    lines = []
    for name, there, here in zip(names, requested, held, strict=True):
        if there != here:
            lines.append(
                "row version" if name == VERSION_COLUMN else f"{name} {here!r}, not {there!r}"
            )
    return lines


def _key(article: Article, key: Sequence[str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in zip(article.key, key, strict=True))


async def _rows(
    connection: Connection, article: Article, names: Sequence[str], condition: sql.Composable
) -> Rows:
    """Return the rows by their key, every value as text."""
    query = sql.SQL("select {}, {} from {} as t where {}").format(
        _texts(article.key),
        _texts(names),
        f.table_of(article),
        condition,
    )
    width = len(article.key)
    async with connection.transaction():
        await connection.execute(_SETTINGS)
        cursor = await connection.execute(query)
        return {tuple(row[:width]): tuple(row[width:]) for row in await cursor.fetchall()}


def _texts(columns: Sequence[str]) -> sql.Composed:
    # printed by the types' output functions: a cast to text may be defined by the type's owner, and would run as
    # a superuser
    printed = sql.SQL(
        "case when pg_catalog.num_nulls({0}) operator(pg_catalog.=) 0 then pg_catalog.format('%s', {0}) end"
    )
    return sql.SQL(", ").join(printed.format(sql.Identifier(name)) for name in columns)
