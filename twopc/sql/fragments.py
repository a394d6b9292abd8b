"""Fragments of SQL that fill placeholders: column lists, key predicates, row images. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from psycopg import sql

from twopc.articles import Article, Column

COMMA = sql.SQL(", ")
AND = sql.SQL(" and ")

#: Salt from which a new row's version is derived in addition to other values: constant throughout a transaction,
#: and not a setting. A setting might change between the rows of a statement, whose old and new rows would then be
#: paired wrongly.
SALT = sql.SQL("extract(epoch from now()) || ' ' || pg_backend_pid()")


def qualified(schema: str, name: str) -> sql.Identifier:
    """Return ``"schema"."name"``."""
    return sql.Identifier(schema, name)


def numbered(prefix: str, count: int) -> list[str]:
    """Return ``n1 … n<count>``: attribute names that cannot be confused with columns of a user's table, because
    they are always qualified by an alias.
    """
    return [f"{prefix}{place}" for place in range(1, count + 1)]


def identifiers(names: Iterable[str], alias: str | None = None) -> sql.Composed:
    """Return a comma-separated list of identifiers, each qualified by `alias` if given."""
    if alias is None:
        return COMMA.join([sql.Identifier(name) for name in names])
    return COMMA.join([sql.Identifier(alias, name) for name in names])


def attribute_definitions(pairs: Iterable[tuple[str, Column]]) -> sql.Composed:
    """Return ``n1 integer, n2 text …`` for a row type."""
    # format_type output is SQL already; it comes from the server's catalogs, quoted.
    return COMMA.join(
        [sql.SQL("{} {}").format(sql.Identifier(name), raw(column.type)) for name, column in pairs]
    )


def plain_definitions(pairs: Iterable[tuple[str, Column]]) -> sql.Composed:
    """Return `attribute_definitions` for types without width and precision."""
    return attribute_definitions(
        [(name, replace(column, type=column.plain_type or column.type)) for name, column in pairs]
    )


def raw(text: str) -> sql.SQL:
    """Return SQL text that the server itself produced (a type's name, an expression) or that an administrator wrote
    (a row filter). Must not be used for values or texts from an application.
    """
    return sql.SQL(text)


def equal(left: sql.Composable, right: sql.Composable, operator: str = "=") -> sql.Composed:
    """Return ``left = right``, independent of the search path: for keys, which are never NULL; see
    `Column.equality`.
    """
    if operator == "=":
        operator = "operator(pg_catalog.=)"
    return sql.SQL("{} {} {}").format(left, raw(operator), right)


def same_value(column: Column, left: sql.Composable, right: sql.Composable) -> sql.Composed:
    """Return a NULL-safe test for identical values; by text if the type has no equality that distinguishes values.

    IS NOT DISTINCT FROM is not used, because it looks its operator up by the search path.
    """
    if not column.comparable:
        # the text of a row uses the types' output functions; a cast could call the owner's function
        left, right = sql.SQL("row({})::text").format(left), sql.SQL("row({})::text").format(right)
    return sql.SQL("({} or {} is null and {} is null)").format(equal(left, right), left, right)


def pairs_equal(
    left: str,
    left_names: Sequence[str],
    right: str,
    right_names: Sequence[str],
    operators: Sequence[str] | None = None,
) -> sql.Composed:
    """Return ``left.a = right.x and left.b = right.y``, with the given operators or ``=``."""
    return AND.join(
        [
            equal(sql.Identifier(left, a), sql.Identifier(right, b), operator)
            for a, b, operator in zip(
                left_names, right_names, operators or ["="] * len(left_names), strict=True
            )
        ]
    )


def table_of(article: Article) -> sql.Identifier:
    """Return the published table's quoted, qualified name."""
    return qualified(article.schema, article.table)
