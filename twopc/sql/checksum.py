"""Checksums of an article's rows, the same at both ends, and the queries that compare them.

A row's checksum has 64 bits and covers the values that are sent, including those of large columns. Equal values
have equal checksums in every database: checksums depend on no OID, collation or setting. Values that are equal to
an operator but not the same (1.0 and 1.00, 'a' and 'A' in a collation that ignores case) have different checksums.

Independent of Publisher and Subscriber: both execute the same text, after `PINNED`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg import sql

from twopc.articles import Article, Column
from twopc.names import VERSION_COLUMN
from twopc.sql import fragments as f
from twopc.sql import path

#: Number of buckets of an article that are compared before single rows are.
BUCKETS = 1024

#: Settings on which the texts of values depend, set for the session as the log reader sets them.
PINNED = path.FOR_VALUES

_ALL = sql.SQL("true")

# Types whose hash covers all bits of the value.
_PLAIN = {"boolean", "smallint", "integer", "oid", "uuid", "bytea", "date", '"char"'}
_TEXT = {"text", "character varying"}
# Types whose hash is the same for several values, either because the values are equal to an operator or because
# 64 bits are folded to 32: the binary form distinguishes them.
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
#: Placeholder of a parameter until `executable` replaces it by ``%s``.
PARAMETER = sql.SQL(" $msrepl_parameter$ ")
_MODIFIER = re.compile(r"\([^()]*\)")


def executable(query: sql.Composed) -> bytes:
    """Return the query for psycopg, with percent signs in names and conditions escaped."""
    text = query.as_string(None).replace("%", "%%")
    return text.replace(PARAMETER.as_string(None), "%s").encode()


def _hashed(column: Column, value: sql.Composable) -> sql.Composable:
    """Return an expression whose hash covers every bit of the value."""
    name = _MODIFIER.sub("", column.type)
    if name in _PLAIN:
        return value
    if name in _TEXT:
        return sql.SQL('{} collate "C"').format(value)
    if name in _SENT:
        return sql.SQL("pg_catalog.{}({})").format(sql.Identifier(_SENT[name]), value)
    # Arrays, enums, ranges, json, domains and all others are printed as part of a row, by their types' output
    # functions. A cast to text could be one that the owner of the type has made.
    return sql.SQL('row({})::text collate "C"').format(value)


def _hash(columns: Sequence[Column], values: Sequence[sql.Composable]) -> sql.Composed:
    return sql.SQL("hash_record_extended(row({}), 0)").format(
        f.COMMA.join([_hashed(c, v) for c, v in zip(columns, values, strict=True)])
    )


class ChecksumTexts:
    """The queries for one article. Keys are passed as one array of texts for each key column."""

    def __init__(
        self, article: Article, *, belongs: sql.Composable = _ALL, versions: bool = True
    ) -> None:
        """Prepare the queries.

        Args:
            belongs: at the Publisher, a condition on the table as `t`, true for the article's rows.
            versions: whether the checksum covers the row version.
        """
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
        """Return the source of rows ``u(k1, …)`` from one parameter for each key column.

        The values are read by way of json, which uses their types' input functions; a cast could be one that the
        type's owner made.
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
        """Return the query of key and row hashes of the article's rows, except for the keys given."""
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
        """Return the query of bucket, number of rows and checksum. Parameters: keys to leave out."""
        query = sql.SQL(
            "select (h.k & {mask})::int, count(*), bit_xor(h.r)\nfrom ({hashes}) as h\ngroup by 1"
        ).format(mask=sql.Literal(BUCKETS - 1), hashes=self._hashes())
        return executable(query)

    def rows(self) -> bytes:
        """Return the query of key hash, row hash and key, ordered by key hash. Parameters: keys to leave out,
        buckets.
        """
        query = sql.SQL(
            "select h.k, h.r, h.t\nfrom ({hashes}) as h\n"
            "where (h.k & {mask})::int = any ({buckets})\n"
            'order by h.k, h.t collate "C"'
        ).format(mask=sql.Literal(BUCKETS - 1), hashes=self._hashes(), buckets=PARAMETER)
        return executable(query)

    def rows_by_key(self, *, values: bool = False, lock: bool = False) -> bytes:
        """Return the query of key and row hash for the keys given, and of the row itself with `values`."""
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
