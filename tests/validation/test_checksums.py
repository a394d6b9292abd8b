"""Tests of a row's checksum: it is the same in every database, and differs if one bit of the row differs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.fix_server import Database, MakeDatabase
from twopc.articles import Article, Column
from twopc.sql.checksum import PINNED, ChecksumTexts

TYPES = """
create type mood as enum ('sad', 'ok', 'happy');
create domain positive as int check (value > 0);
create type pair as (a int, b text);
"""
#: Types, and values that must all have different checksums, although operators call some of them equal.
VALUES: dict[str, Sequence[str | None]] = {
    "boolean": ("t", "f", None),
    "smallint": ("0", "1", "-1", None),
    "integer": ("0", "1", "-1", None),
    "bigint": ("0", "1", "4294967296", None),
    "numeric": ("0", "0.0", "1", "1.0", "1.00", "NaN", "Infinity", None),
    "numeric(10,2)": ("1.00", "1.01", None),
    "real": ("0", "-0", "1.5", "NaN", None),
    "double precision": ("0", "-0", "0.1", "0.10000000000000002", "NaN", None),
    "money": ("1.00", "1.01", None),
    "text": ("", "a", "A", "a ", "ab", "ä", "a\u0308", None),
    'text COLLATE "C.utf8"': ("a", "A", "ä", "Ä", None),
    "character varying(5)": ("", "a", "A", "a ", None),
    "character(5)": ("a", "A", "ab", None),
    "bpchar": ("a", "a ", "A", None),
    '"char"': ("a", "A", None),
    "name": ("a", "A", None),
    "bytea": ("", r"\x00", r"\x0000", r"\x01", None),
    "uuid": ("00000000-0000-0000-0000-000000000000", "10000000-0000-0000-0000-000000000000", None),
    "date": ("2024-02-29", "infinity", None),
    "time without time zone": ("12:00", "12:00:00.000001", None),
    "time with time zone": ("12:00+00", "13:00+01", None),
    "timestamp without time zone": ("2024-02-29", "2024-02-29 00:00:00.000001", None),
    "timestamp with time zone": ("2024-02-29 00:00+00", "2024-02-29 01:00+00", None),
    "interval": ("1 day", "24 hours", "30 days", "1 month", None),
    "json": ('{"a":1}', '{"a": 1}', None),
    "jsonb": ('{"a": 1}', '{"a": 1.0}', '{"a": null}', "null", None),
    "inet": ("10.0.0.1", "10.0.0.1/24", None),
    "bit(3)": ("101", "100", None),
    "bit varying": ("1", "10", None),
    "point": ("(0,0)", "(0,0.0000001)", None),
    "tsvector": ("a", "b", None),
    "int4range": ("empty", "[1,2)", "[1,3)", None),
    "integer[]": ("{}", "{1}", "{1,NULL}", "[0:0]={1}", None),
    "numeric[]": ("{1}", "{1.0}", None),
    "public.mood": ("sad", "ok", None),
    "public.mood[]": ("{sad}", "{ok}", None),
    "public.positive": ("1", "2", None),
    "public.pair": ("(1,)", '(1,"")', "(1,a)", "(,)", None),
}
NASTY = """
set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard'; set timezone = 'Asia/Kathmandu';
set extra_float_digits = -15; set bytea_output = 'escape'; set search_path = public;
"""


def article(types: Sequence[str]) -> Article:
    columns = [Column(name="id", type="integer")]
    columns += [
        Column(name=f"c{n}", type=name.partition(" COLLATE")[0]) for n, name in enumerate(types)
    ]
    return Article(schema="public", table="t", columns=tuple(columns), key=("id",))


def filled(database: Database, *before: str) -> psycopg.Connection[Any]:
    """Fill a table with every value of every type, each type in its own column."""
    connection = database.connect()
    for statement in before:
        connection.execute(statement.encode())
    connection.execute(TYPES)
    columns = ", ".join(f"c{n} {name}" for n, name in enumerate(VALUES))
    connection.execute(f"create table t (id int primary key, {columns})")
    for row in range(max(map(len, VALUES.values()))):
        values = [each[row] if row < len(each) else None for each in VALUES.values()]
        places = sql.SQL(", ").join([sql.Placeholder()] * (len(values) + 1))
        connection.execute(sql.SQL("insert into t values ({})").format(places), [row, *values])
    return connection


def rows(connection: psycopg.Connection[Any], texts: ChecksumTexts) -> dict[str, int]:
    """Return checksums by key."""
    connection.execute(PINNED)
    found = connection.execute(texts.rows(), ([], list(range(1024)))).fetchall()
    return {key: checksum for _, checksum, key in found}


def test_every_value_has_its_own(fresh_database: Database) -> None:
    """All values of a type have different checksums, also those that an operator calls equal, and NULL."""
    with filled(fresh_database) as connection:
        connection.execute(PINNED)
        for place, (name, values) in enumerate(VALUES.items()):
            only = Article(
                schema="public",
                table="t",
                columns=(Column(name=f"c{place}", type=name.partition(" COLLATE")[0]),),
                key=(f"c{place}",),
            )
            query = ChecksumTexts(only).rows()
            found = connection.execute(query, ([], list(range(1024)))).fetchall()
            assert len({checksum for _, checksum, _ in found}) == len(values), name


def test_the_same_rows_have_the_same_in_every_database(make_database: MakeDatabase) -> None:
    """Checksums depend neither on OIDs of types, nor on settings, nor on the place of rows and columns."""
    texts = ChecksumTexts(article(tuple(VALUES)))
    with (
        filled(make_database()) as one,
        filled(make_database(), "create type before_it as enum ('x', 'y'); create table filler ()", NASTY)
        as other,
    ):  # fmt: skip
        other.execute("alter table t add column own int default 7")
        other.execute("update t set id = id")
        assert rows(one, texts) == rows(other, texts)
        query = texts.buckets()
        assert sorted(one.execute(query, ([],))) == sorted(other.execute(query, ([],)))


@pytest.mark.parametrize(
    ("kind", "flip"),
    [
        ("bigint", "c0 # (1::bigint << %s)"),
        ("integer", "c0 # (1 << %s)"),
        ("double precision", ""),
        ("bytea", "set_bit(c0, %s, 1 - get_bit(c0, %s))"),
        ("uuid", "encode(set_bit(uuid_send(c0), %s, 1 - get_bit(uuid_send(c0), %s)), 'hex')::uuid"),
    ],
)  # fmt: skip
def test_every_bit_counts(fresh_database: Database, kind: str, flip: str) -> None:
    """Rows that differ in one bit have different checksums."""
    bits = {"bigint": 64, "integer": 32, "double precision": 64, "uuid": 128, "bytea": 20_000}[kind]
    value = {
        "double precision": "0.1",
        "uuid": "2981a6e6-77a8-407b-bf59-805dfe0b38c3",
        "bytea": r"\x" + "5a" * 2500,
    }.get(kind, "12345")
    with fresh_database.connect() as connection:
        connection.execute(f"create table t (id int primary key, c0 {kind})")
        places = range(bits) if bits < 1000 else range(0, bits, 97)
        connection.execute("insert into t values (-1, %s)", (value,))
        for place in places:
            flipped = _flipped(connection, kind, flip, place)
            connection.execute("insert into t values (%s, %s)", (place, flipped))
        # the key is part of a row: compare without it
        only = Article(
            schema="public", table="t", columns=(Column(name="c0", type=kind),), key=("c0",)
        )
        connection.execute(PINNED)
        found = connection.execute(ChecksumTexts(only).rows(), ([], list(range(1024)))).fetchall()
        assert len(found) == len(places) + 1, sorted(k for _, _, k in found)
        assert len({checksum for _, checksum, _ in found}) == len(places) + 1


def _flipped(connection: psycopg.Connection[Any], kind: str, flip: str, place: int) -> Any:
    row = connection.execute("select c0 from t where id = -1").fetchone()
    assert row is not None
    if kind == "double precision":  # there is no cast from bits
        (bits,) = struct.unpack("!Q", struct.pack("!d", row[0]))
        return struct.unpack("!d", struct.pack("!Q", bits ^ 1 << place))[0]
    found = connection.execute(
        f"select {flip.replace('%s', str(place))} from t where id = -1"
    ).fetchone()
    assert found is not None
    return found[0]


def test_keys_are_left_out_by_value(fresh_database: Database) -> None:
    """Rows whose keys, as text, are listed are left out of the buckets."""
    texts = ChecksumTexts(article(()), belongs=sql.SQL("t.id % 2 = 0"))
    with fresh_database.connect() as connection:
        connection.execute("create table t as select g as id from generate_series(1, 1000) g")
        connection.execute(PINNED)
        everything = connection.execute(texts.buckets(), ([],)).fetchall()
        assert sum(count for _, count, _ in everything) == 500
        some = connection.execute(texts.buckets(), (["2", "4", "5"],)).fetchall()
        assert sum(count for _, count, _ in some) == 498
        changed = {b for b, *_ in set(everything) ^ set(some)}
        assert len(changed) in (1, 2)
        found = connection.execute(texts.rows(), ([], list(changed))).fetchall()
        assert {"(2)", "(4)"} <= {key for _, _, key in found}


def test_no_cast_of_the_owners_is_called(fresh_database: Database) -> None:
    """Keys and values are read and printed without the casts that the owner of a type has defined."""
    with fresh_database.connect() as connection:
        connection.execute(
            "create type mood as enum ('calm', 'cross');"
            "create table t (id mood primary key, c0 mood); insert into t values ('calm', 'cross'), ('cross', 'calm');"
            "create function trap(mood) returns text language plpgsql as $$ begin raise 'called'; end $$;"
            "create function trap(text) returns mood language plpgsql as $$ begin raise 'called'; end $$;"
            "create cast (mood as text) with function trap(mood) as assignment;"
            "create cast (text as mood) with function trap(text) as assignment"
        )
        columns = tuple(Column(name=name, type="public.mood") for name in ("id", "c0"))
        texts = ChecksumTexts(Article(schema="public", table="t", columns=columns, key=("id",)))
        connection.execute(PINNED)
        found = connection.execute(texts.rows(), (["cross"], [*range(1024)])).fetchall()
        assert [key for _, _, key in found] == ["(calm)"]
        assert [key for key, _ in connection.execute(texts.rows_by_key(), (["cross"],))] == [
            "(cross)"
        ]
