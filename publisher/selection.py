"""Choice of the published columns: from a `Table` to an `Article`, or the reason why it cannot be published.

Pure. The numbers in messages are those of the original.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from twopc import names
from twopc.articles import Article, Check, Column, ForeignKey, Table
from twopc.errors import ArticleError
from twopc.sql.render import BODY_TAG

_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "i": "an index",
    "I": "an index",
    "c": "a composite type",
    "t": "a TOAST table",
}
_PERSISTENCE = {
    "t": "is temporary, so no other session sees it: publish an ordinary table",
    "u": "is unlogged, so its rows do not outlive a crash: ALTER TABLE {table} SET LOGGED first",
}


def article_of(
    table: Table,
    *,
    columns: tuple[str, ...] | None = None,
    row_filter: str | None = None,
) -> Article:
    """Return the article that publishes `table`, or the named columns of it.

    The row version is among the columns once the table has it.

    Raises:
        ArticleError: the table cannot be published in this way; the message names object and remedy.
    """
    _check_table(table, row_filter)
    chosen = _chosen_columns(table, columns)
    kept = {column.name for column in chosen}
    for column in chosen:
        if column.monetary:
            raise ArticleError(
                f"{_where(table)}: column {column.name!r} is money, whose text means another amount "
                "where lc_monetary differs: ALTER TABLE ... ALTER COLUMN ... TYPE numeric"
            )
    return Article(
        schema=table.schema,
        table=table.name,
        columns=chosen,
        key=table.key,
        row_filter=row_filter,
        uniques=tuple(unique for unique in table.uniques if kept.issuperset(unique.columns)),
        writes_back=any(t.insert or t.update for t in (*table.triggers, *table.partition_triggers)),
        referenced_by=table.referenced_by,
        references=table.references,
        checks=tuple(check for check in table.checks if _holds_at_subscriber(check, kept)),
        types=tuple(t for t in table.types if not kept.isdisjoint(t.columns)),
    )


def _holds_at_subscriber(check: Check, kept: set[str]) -> bool:
    """Return whether a constraint has the same meaning at a Subscriber: built-in functions, published columns."""
    return check.portable and set(check.columns) <= kept


def _where(table: Table) -> str:
    return f"table {table.schema}.{table.name}"


def _check_table(table: Table, row_filter: str | None) -> None:
    where = _where(table)
    if table.schema.startswith(("pg_", names.SCHEMA)) or table.schema == "information_schema":
        raise ArticleError(f"{where} belongs to the system: publish a table of your own")
    if table.kind not in ("r", "p"):
        what = _KINDS.get(table.kind, "something else")
        raise ArticleError(
            f"{table.schema}.{table.name} is {what}, and only tables can be published: "
            "publish the table behind it"
        )
    if table.persistence != "p":
        problem = _PERSISTENCE[table.persistence]
        raise ArticleError(f"{where} {problem.format(table=f'{table.schema}.{table.name}')}")
    if table.is_partition:
        raise ArticleError(f"{where} is a partition: publish its parent instead")
    if table.inherits:
        raise ArticleError(
            f"{where} has a parent or children by INHERITS, which share no key: "
            "use partitions, or ALTER TABLE ... NO INHERIT"
        )
    if table.has_rules:
        raise ArticleError(
            f"{where} has rules, which would rewrite what the sync procedures do: DROP RULE first"
        )
    if table.row_security:
        raise ArticleError(
            f"{where} has row security, which would hide rows from the sync procedures: "
            "publish a row filter instead and DISABLE ROW LEVEL SECURITY"
        )
    for text in _texts(table, row_filter):
        if BODY_TAG in text:
            raise ArticleError(
                f"{where}: {text!r} contains {BODY_TAG}, which ends the functions made here: rename it"
            )
    _check_key(table)
    _check_version(table)
    _check_triggers(table)


def _texts(table: Table, row_filter: str | None) -> Iterator[str]:
    """Yield all texts of a table that become part of a function."""
    yield from (table.schema, table.name, row_filter or "")
    for column in table.columns:
        yield from (column.name, column.type, column.default or "", column.collation or "")
    for unique in table.uniques:
        yield unique.name
    for key in (*table.references, *table.referenced_by):
        yield from (key.name, key.schema, key.table, *key.columns)


def _check_key(table: Table) -> None:
    where = _where(table)
    if not table.key:
        raise ArticleError(
            f"{where} has no primary key, by which rows are found at the other end, or one WITHOUT OVERLAPS, by "
            f"which they are not: ALTER TABLE {table.schema}.{table.name} ADD PRIMARY KEY (...)"
        )
    for name in table.key:
        if table.column(name).generated:
            raise ArticleError(
                f"{where}: key column {name!r} is generated, so a Subscriber cannot send it: "
                f"ALTER TABLE ... ALTER COLUMN {name} DROP EXPRESSION, or choose another key"
            )


def _check_version(table: Table) -> None:
    """Check that an existing row version column can be used (21192)."""
    for column in table.columns:
        if column.name != names.VERSION_COLUMN:
            continue
        where = f"{_where(table)}: column {names.VERSION_COLUMN}"
        if column.type != "uuid" or not column.not_null or column.generated:
            kind = f"{column.type}{' NOT NULL' if column.not_null else ''}"
            raise ArticleError(f"{where} is {kind}, it must be uuid NOT NULL (21192)")
        if column.default is None:
            raise ArticleError(
                f"{where} has no default, so rows inserted at the Publisher would get no version: "
                "ALTER TABLE ... ALTER COLUMN ... SET DEFAULT gen_random_uuid()"
            )


def _check_triggers(table: Table) -> None:
    """Check that no trigger can change a row after its version is set."""
    own = names.version_trigger(table.schema, table.name)
    for trigger in (*table.triggers, *table.partition_triggers):
        late = trigger.name.encode() > own.encode()  # in the server's order
        if late and trigger.before and trigger.row and (trigger.insert or trigger.update):
            raise ArticleError(
                f"{_where(table)}: trigger {trigger.name!r} fires after ours that gives a row its version: "
                f"rename it so that it sorts before {own!r}, or drop it"
            )


def _chosen_columns(table: Table, requested: tuple[str, ...] | None) -> tuple[Column, ...]:
    if requested is None:
        return table.columns
    where = _where(table)
    known = {column.name for column in table.columns}
    missing = [name for name in requested if name not in known]
    if missing:
        raise ArticleError(
            f"{where} has no column {missing[0]!r}; it has {', '.join(sorted(known))}"
        )
    kept = set(requested) | {names.VERSION_COLUMN}
    for name in table.key:
        if name not in kept:
            raise ArticleError(f"{where}: key column {name!r} must be published (21250)")
    for column in table.columns:
        filled = column.default or column.identity or column.generated
        if column.name not in kept and column.not_null and not filled:
            raise ArticleError(
                f"{where}: column {column.name!r} is NOT NULL without a default, so it must be "
                "published (21164)"
            )
        for source in column.generated_from if column.name in kept else ():
            if source not in kept:
                raise ArticleError(
                    f"{where}: column {source!r} must be published, because {column.name!r} is "
                    "generated from it (21283)"
                )
    for unique in table.uniques:
        left_out = [c for c in unique.columns if c not in kept]
        if left_out:
            raise ArticleError(
                f"{where}: column {left_out[0]!r} of unique index {unique.name!r} must be published "
                "(21347)"
            )
    return tuple(column for column in table.columns if column.name in kept)


def known_references(article: Article, published: set[tuple[str | None, str | None]]) -> Article:
    """Return the article with only those foreign keys that are between published tables."""

    def known(keys: tuple[ForeignKey, ...], *, child: bool) -> tuple[ForeignKey, ...]:
        return tuple(
            key
            for key in keys
            if ((key.schema, key.table) if child else (key.target_schema, key.target_table))
            in published
        )

    return dataclasses.replace(
        article,
        referenced_by=known(article.referenced_by, child=True),
        references=known(article.references, child=False),
    )
