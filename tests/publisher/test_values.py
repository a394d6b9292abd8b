"""Values of every type that are changed at a Subscriber arrive at the Publisher unchanged."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Json, Jsonb

from tests.fix_topology import MakePair, Pair

TYPES = (
    """create type mood as enum ('sad', 'so so', 'it''s, "odd"', '{}', '')""",
    "create domain code as varchar(9) collate \"C\" default 'dflt' check (value <> 'never')",
    "create domain numbers as int[] check (array_ndims(value) < 3)",
    "create type place as (street text, number int, moods mood[])",
    'create type "Odd, \'type\'" as ("a b" place, "c""d" code, e numbers)',
    "create type span as range (subtype = float8, subtype_diff = float8mi)",
    "create type spot as (p point, j json)",
    "create schema \"its own\"",
    "create type \"its own\".colour as enum ('red', 'green')",
)  # fmt: skip
EXTENSIONS = ("create extension hstore", "create extension citext")

#: Values to test for each type; NULL is tested with every type.
VALUES: dict[str, list[str]] = {
    "smallint": ["0", "-32768", "32767"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "numeric": [
        "'NaN'", "'Infinity'", "'-Infinity'", "0.000", "-0.0001", "1e300", "1.10",
        "123456789012345678901234567890.123456789",
    ],
    "numeric(12, 4)": ["1.5", "-99999999.9999"],
    "numeric(3, -2)": ["12345"],
    "real": ["0.1", "'-0'", "'NaN'", "'Infinity'", "1e-45", "3.4028235e38"],
    "double precision": ["0.1", "'-0'", "'NaN'", "'-Infinity'", "5e-324", "0.30000000000000004"],
    "text": [
        "''", "' '", "'''\"\\{}(),'", r"E'\\n\n\t\r\x01'", "'NULL'", "'null'", "'$msrepl$ $$ %s %'",
        "'日本語 ünïcödé 👍'", "repeat('x\\,\"', 2000)", "E'\\u00a0'",
    ],
    "varchar(5)": ["'ab   '", "'abcde'"],
    "char(5)": ["'ab'", "''"],
    '"char"': ["'x'", r"'\377'", "''"],
    "name": ["'a name'"],
    "citext": ["'ÄbC'"],
    "bytea": [r"'\x'", r"'\x00ff5c2722'", "decode(repeat('00ff', 3000), 'hex')"],
    "boolean": ["true", "false"],
    "date": ["'0044-03-15 BC'", "'2024-02-29'", "'infinity'", "'-infinity'", "'5874897-12-31'"],
    "time": ["'24:00:00'", "'00:00:00.000001'"],
    "time(2)": ["'12:34:56.78'"],
    "timetz": ["'12:00:00+05:45'", "'00:00:00-15:59:59'"],
    "timestamp": ["'2024-01-02 03:04:05.678901'", "'4713-01-01 00:00:00 BC'", "'infinity'"],
    "timestamptz": [
        "'2024-10-27 01:30:00+00'", "'1883-11-18 12:00:00-05'", "'infinity'", "'0001-01-01 00:00:00+00'",
        "'294276-12-31 23:59:59.999999+00'",
    ],
    "interval": ["'1 mon -1 day +00:00:00.000001'", "'-178000000 years'", "'infinity'", "'0'"],
    "interval day to second(2)": ["'1 2:03:04.56'"],
    "uuid": ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
    "json": ["""'{"a" :  1, "a": [null, "\\u0041\\\\", 1.0]}'""", "'null'", "'\"x\"'"],
    "jsonb": ["""'{"b": {"c": "\\"quoted\\""}, "a": 1e5}'""", "'null'", "'[]'", "'1.10'"],
    "jsonpath": ["'$.a[*] ? (@ > 1)'"],
    "point": ["'(0.1,-0)'", "'(NaN,Infinity)'"],
    "line": ["'{1,2,3}'"],
    "lseg": ["'[(0,0),(1,1)]'"],
    "box": ["'(1,1),(0,0)'"],
    "box[]": ["'{(1,1),(0,0);(2,2),(1,1)}'"],
    "path": ["'[(0,0),(1,1)]'", "'((0,0),(1,1))'"],
    "polygon": ["'((0,0),(1,1),(1,0))'"],
    "circle": ["'<(0.1,0),2>'"],
    "inet": ["'10.1.2.3/8'", "'::ffff:1.2.3.4'"],
    "cidr": ["'10.0.0.0/8'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "bit(3)": ["B'101'"],
    "bit varying": ["B''", "B'10101010101'"],
    "tsvector": ["$$'it''s' 'a\\\\b':1A,2 'c d'$$"],
    "tsquery": ["$$'it''s' & !('a b' <-> c:*A)$$"],
    "pg_lsn": ["'16/B374D848'"],
    "xid8": ["'18446744073709551615'"],
    "oid": ["4294967295"],
    "int4range": ["'empty'", "'(,)'", "'[1,5)'"],
    "tstzrange": ["'[2024-01-01 00:00:00+00,infinity)'", "'(,\"2024-01-01 00:00:00+00\"]'"],
    "daterange[]": ["""'{"[2024-01-01,2024-02-01)",empty,NULL}'"""],
    "nummultirange": ["'{}'", "'{[1.0,2.00],(5,)}'"],
    "span": ["'[0.1,0.3)'", "'empty'"],
    "span_multirange": ["'{[0.1,0.3)}'"],
    "int[]": ["'{}'", "'{{1,2},{3,NULL}}'", "'[0:1]={7,8}'", "'[-1:0][5:5]={{1},{2}}'"],
    "text[]": [
        """array['', 'NULL', 'null', null, 'a,b', '"', '\\', '{}', E'\\n', ' x ', '日本']""",
        "array[['a', 'b'], ['c', null]]",
    ],
    "bytea[]": [r"""array['\x00'::bytea, '\x5c22', null]"""],
    "jsonb[]": ["""array['{"a": "b,c"}'::jsonb, 'null', null]"""],
    "json[]": ["""array['{"a":  "b,c"}'::json, 'null', null]"""],
    "timestamptz[]": ["array['2024-01-01 00:00:00+00'::timestamptz, null]"],
    "mood": ["'it''s, \"odd\"'", "'{}'", "''"],
    "mood[]": ["""array['sad', 'it''s, "odd"', '{}', '', null]::mood[]"""],
    "code": ["'A b'", "''"],
    "code[]": ["array['a', 'b,c', null]::code[]"],
    "numbers": ["'{1,2}'", "'{{1},{2}}'"],
    "place": ["row('x, \"y\" (z)', 1, array['sad', null]::mood[])", "row(null, null, null)", "row('', 0, '{}')"],
    "place[]": ["array[row('a,b', 1, array['so so']::mood[])::place, row(null, null, null), null]"],
    '"Odd, \'type\'"': ["""row(row('\\', -1, '{}')::place, 'c', '{1,2}')"""],
    "spot": ["row('(0.1,2)', '{\"a\" :  1}')"],
    '"its own".colour': ["'green'"],
    "hstore": ["""'"a,b"=>"c\\"d", e=>NULL'"""],
    "xml": ["""'<a b="c">&lt;x&gt; "y"</a>'""", "'text <b/>'"],
}  # fmt: skip

#: Settings that an application may have in its session.
ODD_SETTINGS = {
    "DateStyle": "'SQL, DMY'",
    "TimeZone": "'Asia/Kathmandu'",
    "IntervalStyle": "'sql_standard'",
    "extra_float_digits": "-15",
    "bytea_output": "'escape'",
    "xmlbinary": "'hex'",
    "xmloption": "'document'",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
    "search_path": "''",
    "backslash_quote": "off",
    "escape_string_warning": "off",
    "transform_null_equals": "on",
    "row_security": "off",
    "client_encoding": "'LATIN1'",
    "plpgsql.variable_conflict": "'use_variable'",
    "plpgsql.extra_errors": "'all'",
}


async def has_xml(topology: Any) -> bool:
    """Return whether the server was built with libxml."""
    found = await topology.execute(
        "pub", "select count(*) from pg_config() where name = 'CONFIGURE' and setting ~ 'libxml'"
    )
    return bool(found[0][0])


async def known_types(make_topology: Any) -> dict[str, list[str]]:
    """Return the types that this server supports, with their values."""
    probe = await make_topology(subscribers=())
    return {t: v for t, v in VALUES.items() if t != "xml" or await has_xml(probe)}


def everything(types: dict[str, list[str]]) -> str:
    """Return the definition of a table with a column ``c<n>`` for each type."""
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(types))
    return f"create table everything (id int primary key, {columns})"


def rows_of(types: dict[str, list[str]]) -> list[str]:
    """Return queries for rows that contain each value of each type, and a row of NULLs."""
    count = max(len(values) for values in types.values()) + 1
    rows = []
    for place in range(count):
        values = ", ".join(
            f"({values[place]})::{kind}" if place < len(values) else f"null::{kind}"
            for kind, values in types.items()
        )
        rows.append(f"select {place} as id, {values}")
    return rows


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("odd", [False, True], ids=["plain", "odd_settings"])
async def test_every_type(
    make_pair: MakePair, make_topology: Any, shipping: str, odd: bool
) -> None:
    """INSERT, UPDATE and DELETE work for every value of every type, whatever the session's settings."""
    types = await known_types(make_topology)
    pair = await make_pair(
        *EXTENSIONS,
        *TYPES,
        everything(types),
        publish=["everything"],
        at_subscriber=EXTENSIONS,
    )
    for statement in (
        everything(types).replace("everything", "sample"),
        *(f"insert into sample {row}" for row in rows_of(types)),
        "grant select on sample to public",
    ):
        await pair.topology.execute("sub1", statement)
    if odd:
        for name, value in ODD_SETTINGS.items():
            await pair.app.execute(f"set {name} = {value}")
    names = [f"c{place}" for place in range(len(types))]
    columns = ", ".join(["id", *names])

    await pair.run(
        f"insert into public.everything ({columns}) select {columns} from public.sample",
        shipping=shipping,
    )
    assert len(await pair.same("everything")) == len(rows_of(types))

    # each row gets the values of the next row, and the last one gets NULLs
    sources = ", ".join(f"s.{name}" for name in names)
    await pair.run(
        f"update public.everything as e set ({', '.join(names)}) = ({sources})"
        " from public.everything as f left join public.sample as s on s.id = f.id + 1 where e.id = f.id",
        "update public.everything set id = -id where id > 3",
        shipping=shipping,
    )
    await pair.same("everything")
    await pair.run("delete from public.everything where id < 2", shipping=shipping)
    await pair.run("delete from public.everything", shipping=shipping)
    assert await pair.same("everything") == []


async def test_initial_copy_of_every_type(make_pair: MakePair, make_topology: Any) -> None:
    """Existing rows are copied unchanged to a new Subscriber, into a table with the same definition."""
    types = await known_types(make_topology)
    pair = await make_pair(
        *EXTENSIONS,
        *TYPES,
        everything(types),
        *(f"insert into everything {row}" for row in rows_of(types)),
        publish=["everything"],
        at_subscriber=EXTENSIONS,
    )

    assert len(await pair.same("everything")) == len(rows_of(types))
    definition = """
        select attname, format_type(atttypid, atttypmod), attnotnull, attcollation::regcollation::text
        from pg_attribute where attrelid = 'everything'::regclass and attnum > 0 and not attisdropped
        order by attnum"""
    there, here = await pair.rows(definition)
    assert there == here


async def test_null_wherever_it_may_be(make_pair: MakePair) -> None:
    """NULL works in every column but the key, in unique keys and inside composite values.

    NULL is the only value of ``xml``, which has no equality, on a server without libxml.
    """
    pair = await make_pair(
        "create type pairs as (a int, b int)",
        "create table gaps (id int primary key, a int unique, b text, c pairs, d int[], e json, f xml, g xml[])",
        "insert into gaps (id) select generate_series(1, 4)",
        publish=["gaps"],
    )
    await pair.run(
        "insert into gaps (id) values (5), (6)",
        "update gaps set c = row(null, null), d = '{NULL}', e = 'null' where id < 3",
        "update gaps set a = id",
        "update gaps set a = null, c = null, d = null, e = null where id <> 2",
        "delete from gaps where id in (1, 2)",
    )
    await pair.run("delete from gaps where a is null")
    assert await pair.same("gaps") == []


async def test_large_value(make_pair: MakePair) -> None:
    """Values of a megabyte of quotes and backslashes are replicated, and a conflict over them is reported."""
    pair = await make_pair(
        "create table large (id int primary key, body text, raw bytea)",
        "insert into large values (1, 'x', 'y')",
        publish=["large"],
    )
    for value in ("repeat('x', 1000000)", """repeat('\\"''', 350000)"""):
        await pair.run(f"update large set body = {value}, raw = convert_to({value}, 'UTF8')")
        await pair.same("large")
    await pair.topology.execute("pub", "update large set raw = raw || raw")
    error = await pair.refused("update large set body = 'short'")
    assert error.sqlstate == "40001"
    assert "is not shown" in str(error.diag.message_primary)
    assert len(str(error.diag.message_detail)) < 2000
    error = await pair.refused("delete from large")
    assert error.sqlstate == "40001"


#: Text that PostgreSQL accepts: no NUL, no surrogates.
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30) | st.text(
    "\\'\"{}(),; \n\t%$:NULnul", max_size=12
)
FLOATS = st.floats(width=64)
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False) | st.just(Decimal("NaN"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ROW = st.tuples(
    st.none() | TEXT,
    st.none() | st.binary(max_size=40),
    st.none() | FLOATS,
    st.none() | st.floats(width=32),
    st.none() | NUMBERS.filter(lambda n: not n.is_finite() or abs(n.adjusted()) < 1000),
    st.none() | st.lists(st.none() | TEXT, max_size=4),
    st.none() | JSON.map(Json),
    st.none() | JSON.map(Jsonb),
    st.none() | st.datetimes(),
    st.none() | st.tuples(st.none() | TEXT, st.none() | TEXT),
    st.none() | st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=3),
)
INSERT = """
insert into anything select %s, %s::text, %s::bytea, %s::float8, %s::float4, %s::numeric, %s::text[], %s::json,
    %s::jsonb, %s::timestamp, %s::text::twin, %s::text::twin[]
"""
UPDATE = """
update anything set (a, b, c, d, e, f, g, h, i, j, k) = (select %s::text, %s::bytea, %s::float8, %s::float4,
    %s::numeric, %s::text[], %s::json, %s::jsonb, %s::timestamp, %s::text::twin, %s::text::twin[])
where id = %s
"""


def _quoted_in_row(value: str | None) -> str:
    if value is None:
        return ""
    return '"' + value.replace("\\", "\\\\").replace('"', '""') + '"'


def _parameters(row: tuple[Any, ...]) -> list[Any]:
    *plain, twin, twins = row
    text = None if twin is None else f"({_quoted_in_row(twin[0])},{_quoted_in_row(twin[1])})"
    many = None
    if twins is not None:
        inner = [f"({_quoted_in_row(a)},{_quoted_in_row(b)})" for a, b in twins]
        escaped = ['"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"' for one in inner]
        many = "{" + ",".join(escaped) + "}"
    return [*plain, text, many]


async def test_any_values(make_pair: MakePair) -> None:
    """After each insert, update and delete of random values, both ends are equal."""
    pair = await make_pair(
        "create type twin as (a text, b text)",
        """create table anything (id int primary key, a text, b bytea, c float8, d float4, e numeric, f text[],
            g json, h jsonb, i timestamp, j twin, k twin[])""",
        publish=["anything"],
    )
    await check_values(pair)


async def check_values(pair: Pair) -> None:
    """Draw rows, and replicate inserts, updates and deletes of them."""
    drawn: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = []

    @settings(
        max_examples=60,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(ROW, min_size=1, max_size=4), st.lists(ROW, min_size=1, max_size=4))
    def draw(first: list[tuple[Any, ...]], second: list[tuple[Any, ...]]) -> None:
        drawn.append((first, second))

    draw()
    for first, second in drawn:
        await pair.begin()
        for place, row in enumerate(first):
            await pair.execute(INSERT, [place, *_parameters(row)])
        for place, row in enumerate(second):
            await pair.execute(UPDATE, [*_parameters(row), place])
        await pair.commit()
        await pair.same("anything")
        await pair.run("delete from anything")
    assert await pair.same("anything") == []
