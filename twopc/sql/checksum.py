"""Checksums of an article's rows, the same at both ends, and the queries that compare by them.

A row's checksum is 64 bits over the values that travel, those of large columns among them. Equal values
have equal checksums whatever the database: no OID is in them, no collation, no setting. Values that are
equal to an operator but not the same (1.0 and 1.00, 'a' and 'A' in a collation that ignores case) have
different ones.

Knows no Publisher and no Subscriber: both execute the same text, after `PINNED`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg import sql

from twopc.articles import Article, Column
from twopc.names import VERSION_COLUMN
from twopc.sql import fragments as f
from twopc.sql import path

#: How many parts of an article are compared before its rows are.
BUCKETS = 1024

#: What values' texts depend on, set for the session as the log reader sets it.
PINNED = path.FOR_VALUES

_ALL = sql.SQL("true")

# Types whose hash is over all the bits of the value.
_PLAIN = {"boolean", "smallint", "integer", "oid", "uuid", "bytea", "date", '"char"'}
_TEXT = {"text", "character varying"}
# Types whose hash is the same for several values, be it that they are equal to an operator or that 64 bits
# are folded to 32: the binary form tells all.
_SENT = {
    "bigint": "int8send",
    "time without time zone": "time_send",
    "timestamp without time zone": "timestamp_send",
    "timestamp with time zone": "timestamptz_send",
    "real": "float4send",
    "double precision": "float8send",
    "numeric": "numeric_send",
    "character": "bpcharsend",
    "bpchar": "bpcharsend",
    "interval": "interval_send",
    "time with time zone": "timetz_send",
}
#: Stands for a parameter until `executable` puts ``%s`` there.
PARAMETER = sql.SQL(" $msrepl_parameter$ ")
_MODIFIER = re.compile(r"\([^()]*\)")


def executable(query: sql.Composed) -> bytes:
    """The query for psycopg, to which a percent sign in a name or condition is a placeholder."""
    text = query.as_string(None).replace("%", "%%")
    return text.replace(PARAMETER.as_string(None), "%s").encode()


def _hashed(column: Column, value: sql.Composable) -> sql.Composable:
    """An expression whose hash is that of the value, to the bit."""
    name = _MODIFIER.sub("", column.type)
    if name in _PLAIN:
        return value
    if name in _TEXT:
        return sql.SQL('{} collate "C"').format(value)
    if name in _SENT:
        return sql.SQL("pg_catalog.{}({})").format(sql.Identifier(_SENT[name]), value)
    # arrays, enums, ranges, json, domains and all others: printed as part of a row, by their types' output functions.
    # A cast to text would be one that the owner of the type may have made.
    return sql.SQL('row({})::text collate "C"').format(value)


def _hash(columns: Sequence[Column], values: Sequence[sql.Composable]) -> sql.Composed:
    return sql.SQL("hash_record_extended(row({}), 0)").format(
        f.COMMA.join([_hashed(c, v) for c, v in zip(columns, values, strict=True)])
    )


class ChecksumTexts:
    """The queries for one article. Keys are given as an array of texts per key column."""

    def __init__(
        self, article: Article, *, belongs: sql.Composable = _ALL, versions: bool = True
    ) -> None:
        """`belongs`: at the Publisher, a condition on the table as `t`, which holds for the article's rows.
        `versions`: False: the row version is not in the checksum."""
        self._article = article
        self._values = article.value_columns
        self._hashed = [c for c in self._values if versions or c.name != VERSION_COLUMN]
        self._key = article.key_columns
        self._table = f.table_of(article)
        self._filter = belongs

    def _row_hash(self) -> sql.Composed:
        return _hash(self._hashed, [sql.Identifier(c.name) for c in self._hashed])

    def _key_hash(self) -> sql.Composed:
        return _hash(self._key, [sql.Identifier(c.name) for c in self._key])

    def _key_text(self, alias: str | None = None) -> sql.Composed:
        return sql.SQL("row({})::text").format(f.identifiers(self._article.key, alias))

    def _given(self) -> sql.Composed:
        """Rows ``u(k1, …)``, of a parameter per key column.

        By way of json, since it reads values by their types' input functions, and a cast might be the type's owner's.
        """
        names = f.numbered("k", len(self._key))
        return sql.SQL(
            "json_to_recordset((select json_agg(json_build_object({})) from unnest({}) as g({}))) as u({})"
        ).format(
            f.COMMA.join(
                [sql.SQL("{}, {}").format(sql.Literal(k), sql.Identifier("g", k)) for k in names]
            ),
            f.COMMA.join([sql.SQL("{}::text[]").format(PARAMETER)] * len(names)),
            f.identifiers(names),
            f.attribute_definitions(zip(names, self._key, strict=True)),
        )

    def _given_values(self) -> list[sql.Composable]:
        return [sql.Identifier("u", name) for name in f.numbered("k", len(self._key))]

    def _hashes(self) -> sql.Composed:
        """Key and row hashes of the article's rows, without those of the keys given."""
        return sql.SQL(
            "with apart(k) as materialized (select {given_hash} from {given})\n"
            "select * from (select {key_hash} as k, {row_hash} as r, {key_text} as t\n"
            "               from {table} as t where {filter}) as h\n"
            "where h.k not in (select a.k from apart as a)"
        ).format(
            given_hash=_hash(self._key, self._given_values()),
            given=self._given(),
            key_hash=self._key_hash(),
            row_hash=self._row_hash(),
            key_text=self._key_text(),
            table=self._table,
            filter=self._filter,
        )

    def buckets(self) -> bytes:
        """Bucket, number of rows and checksum. Parameters: keys to leave out."""
        query = sql.SQL(
            "select (h.k & {mask})::int, count(*), bit_xor(h.r)\nfrom ({hashes}) as h\ngroup by 1"
        ).format(mask=sql.Literal(BUCKETS - 1), hashes=self._hashes())
        return executable(query)

    def rows(self) -> bytes:
        """Key's hash, row's hash and key, in that order. Parameters: keys to leave out, buckets."""
        query = sql.SQL(
            "select h.k, h.r, h.t\nfrom ({hashes}) as h\n"
            "where (h.k & {mask})::int = any ({buckets})\n"
            'order by h.k, h.t collate "C"'
        ).format(mask=sql.Literal(BUCKETS - 1), hashes=self._hashes(), buckets=PARAMETER)
        return executable(query)

    def rows_by_key(self, *, values: bool = False, lock: bool = False) -> bytes:
        """Key and row's hash of the keys given, and the row itself if its `values` are wanted."""
        requested: list[sql.Composable] = [self._key_text("h"), sql.Identifier("h", "msrepl_hash")]
        if values:
            names = [column.name for column in self._values]
            requested.append(sql.SQL("row({})::text").format(f.identifiers(names, "h")))
        query = sql.SQL(
            "select {wanted}\nfrom {given}\n"
            "join lateral (select t.*, {row_hash} as msrepl_hash from {table} as t\n"
            "              where {same} and {filter}{lock}) as h on true"
        ).format(
            wanted=f.COMMA.join(requested),
            given=self._given(),
            row_hash=self._row_hash(),
            table=self._table,
            same=f.AND.join(
                [
                    f.equal(sql.Identifier("t", column.name), value, column.equality)
                    for column, value in zip(self._key, self._given_values(), strict=True)
                ]
            ),
            filter=self._filter,
            lock=sql.SQL(" for update" if lock else ""),
        )
        return executable(query)
