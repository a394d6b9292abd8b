"""Tests of values of every type, from the log into commands and back, on a server."""

from __future__ import annotations

import pytest

from tests.distribution.logged import Logged
from tests.distribution.made import propagation
from twopc.propagation import CommandType
from twopc.publisher import publication

TYPES = """
create schema "my types";
create type "my types"."Mood" as enum ('so "so"', 'it''s', 'a\\b', '');
create domain "my types".pos as integer check (value > 0);
create type "my types".pair as (a integer, "b c" text);
create type "my types".span as range (subtype = integer);
"""

TABLE = '"it\'s all"'

#: Types, each with values as SQL expressions, except xml, which the embedded server lacks. In a
#: further row every column is NULL, unless it may not be.
VALUES: dict[str, tuple[str, ...]] = {
    "smallint": ("-32768", "0"),
    "integer": ("2147483647", "-1"),
    "bigint": ("-9223372036854775808", "9"),
    "numeric": ("'NaN'", "123456789012345678901234567890.000100", "'-Infinity'", "1e-30"),
    "numeric(8,2)": ("-123456.78", "0"),
    "real": ("'-Infinity'", "3.4028235e38", "'-0'", "0.1"),
    "double precision": ("'NaN'", "1.7976931348623157e308", "4.9e-324", "0.1"),
    "boolean": ("true", "false"),
    "text": (
        "''",
        "'\"quoted\" \\\\ it''s, (a) {b}'",
        "E'line\\nfeed\\ttab'",
        "'NULL'",
        "repeat('x', 5000)",
    ),
    "character varying(5)": ("'abcde'", "'a '"),
    "character(5)": ("'ab'", "''"),
    '"char"': ("'x'", "''"),
    "name": ("'a name'", "'x'"),
    "bytea": ("'\\x00ff5c22'", "''"),
    "date": ("'infinity'", "'0044-03-15 BC'", "'2024-02-29'"),
    "time without time zone": ("'23:59:59.999999'", "'24:00'"),
    "time with time zone": ("'12:00:00+05:30'", "'00:00-15'"),
    "timestamp without time zone": ("'-infinity'", "'2024-02-29 12:34:56.789012'"),
    "timestamp with time zone": ("'2024-06-30 23:59:59.5-07'", "'0001-01-01 00:00:00+00 BC'"),
    "interval": ("'-1 year 2 mons -3 days 04:05:06.789'", "'178000000 years'"),
    "uuid": ("'00000000-0000-0000-0000-00000000000a'",),
    "json": ('\'{"b": 1, "a":  [null, "\\\\u0041"]}\'', "'null'"),
    "jsonb": ('\'{"b": 1.50, "a": ["it\'\'s", {}]}\'', "'\"text\"'"),
    "inet": ("'192.168.0.1/24'", "'::1'"),
    "cidr": ("'10.0.0.0/8'",),
    "macaddr": ("'08:00:2b:01:02:03'",),
    "bit(5)": ("B'10101'",),
    "bit varying": ("B''", "B'1'"),
    "point": ("'(1.5,-2)'",),
    "polygon": ("'((0,0),(1,1),(2,0))'",),
    "int4range": ("'[1,5)'", "'empty'", "'(,)'"),
    "tstzrange": ("'[2024-01-01 00:00+02,)'",),
    "int4multirange": ("'{[1,2],[5,7)}'", "'{}'"),
    "tsvector": ("'a:1 ''it''''s'':2'",),
    "integer[]": ("'{1,NULL,3}'", "'{}'", "'{{1,2},{3,4}}'", "'[0:1]={7,8}'"),
    "text[]": ("array['', 'NULL', null, 'a\"b', 'c\\d', '{e,f}', ' ']",),
    "jsonb[]": ('array[\'{"a": "b"}\'::jsonb, null]',),
    "pg_lsn": ("'16/B374D848'",),
    '"my types"."Mood"': ("'so \"so\"'", "'it''s'", "'a\\b'", "''"),
    '"my types"."Mood"[]': ('array[\'a\\b\', \'so "so"\', null]::"my types"."Mood"[]',),
    '"my types".pos': ("7",),
    '"my types".pair': ("row(1, 'a \"b\", (c)')", "row(null, '')", "row(null, null)"),
    '"my types".pair[]': ('array[row(1, \'x,"y\')::"my types".pair, null]',),
    '"my types".span': ("'[1,9)'",),
}


def create(name: str) -> str:
    """Return the SQL of a table with a column of every type, the key first."""
    columns = [f"c{n} {kind}" for n, kind in enumerate(VALUES, 1)]
    return f"create table {name} (id integer primary key, {', '.join(columns)})"


def rows() -> list[str]:
    """Return SQL of rows: every value once, each column NULL beside values, and NULL everywhere."""
    longest = max(len(values) for values in VALUES.values())
    made = []
    for place in range(longest):
        values = [
            f"({each[min(place, len(each) - 1)]})::{kind}"
            if place % 2 == 0 or place < len(each)
            else "null"
            for kind, each in VALUES.items()
        ]
        made.append(", ".join(values))
    return [*made, ", ".join(["null"] * len(VALUES))]


async def prepare(logged: Logged, how: str) -> None:
    """Publish a table of every type with one format, and create an empty copy of it."""
    await logged.execute(TYPES)
    await logged.execute(create(TABLE))
    calls = ("CALL", how, "XCALL" if how == "XCALL" else "CALL")
    formats = ("SQL", "SQL", "SQL") if how == "SQL" else calls
    await publication.publish(
        logged.connection, "public", "it's all", propagation=propagation(*formats, large=())
    )
    await logged.execute('create table copy (like "it\'s all" including all)')


async def change_everything(logged: Logged) -> None:
    """Insert rows, update each column from and to NULL, change keys, and delete a row."""
    for number, values in enumerate(rows(), 1):
        await logged.execute(f'insert into "it\'s all" values ({number}, {values})')
    for place in range(1, len(VALUES) + 1):
        await logged.execute(
            f'update "it\'s all" set c{place} = (select c{place} from "it\'s all" where id = 1) where id in (2, 5)'
        )
    await logged.execute('update "it\'s all" set c1 = null, id = 30 where id = 3')
    await logged.execute('update "it\'s all" set c1 = c1 where id = 30')
    await logged.execute('delete from "it\'s all" where id = 4')


async def same(logged: Logged) -> None:
    """Assert that both tables have the same rows as text."""
    there, here = [
        await logged.execute(f"select t::text from {name} as t order by id")
        for name in (TABLE, "copy")
    ]
    assert there
    assert here == there


async def test_statements_bring_every_value(logged: Logged) -> None:
    """Stored statements, executed unchanged, produce an equal table in sessions with other settings."""
    await prepare(logged, "SQL")
    await change_everything(logged)
    commands = await logged.commands()
    for setting in (
        "datestyle = 'SQL, DMY'",
        "intervalstyle = 'sql_standard'",
        "timezone = 'Asia/Tokyo'",
    ):
        await logged.execute(f"set {setting}")
    for _, kind, hashkey, text in commands:
        assert kind in (CommandType.SQL_INSERT, CommandType.SQL_UPDATE, CommandType.SQL_DELETE)
        assert hashkey == 0
        await logged.execute(text.decode().replace('"it\'s all"', '"copy"'))
    await logged.execute("reset datestyle; reset intervalstyle; reset timezone")
    await same(logged)


@pytest.mark.parametrize("how", ["CALL", "SCALL", "MCALL", "XCALL"])
async def test_calls_bring_every_value(logged: Logged, how: str) -> None:
    """The text of a call, parsed as a row of its parameters, produces an equal table."""
    await prepare(logged, how)
    await change_everything(logged)
    commands = await logged.commands()
    await logged.execute("set datestyle = 'SQL, DMY'; set timezone = 'Asia/Tokyo'")
    names = ["id", *(f"c{n}" for n in range(1, len(VALUES) + 1)), "msrepl_tran_version"]
    kinds = ["integer", *VALUES, "uuid"]
    new = [f"n{n} {kind}" for n, kind in enumerate(kinds)]
    old = [f"o{n} {kind}" for n, kind in enumerate(kinds)]
    takes = {
        "CALL": [*new, "k integer"],
        "SCALL": [*new, "k integer", "mask bytea"],
        "MCALL": [*new, "k integer", "mask bytea"],
        "XCALL": [*old, *new],
    }[how]
    for name, parts in {
        "ins": new,
        "upd": takes,
        "del": old if how == "XCALL" else ["k integer"],
    }.items():
        await logged.execute(f"create type call_{name} as ({', '.join(parts)})")
    found = "o0" if how == "XCALL" else "k"
    sets = [
        f"{name} = case when get_bit(c.mask, {n}) = 1 then c.n{n} else t.{name} end"
        if how == "SCALL"
        else f"{name} = c.n{n}"
        for n, name in enumerate(names)
    ]
    texts = {
        CommandType.INSERT: "insert into copy select (%s::text::call_ins).*",
        CommandType.UPDATE: f"""update copy as t set {", ".join(sets)}
            from (select (%s::text::call_upd).*) as c where t.id = c.{found}""",
        CommandType.DELETE: f"delete from copy as t using (select (%s::text::call_del).*) as c where t.id = c.{found}",
    }
    for _, kind, _, text in commands:
        cursor = await logged.connection.execute(texts[kind].encode(), (text.decode(),))
        assert cursor.rowcount == 1
    await logged.execute("reset datestyle; reset timezone")
    await same(logged)


async def test_unchanged_large_values(logged: Logged) -> None:
    """Unchanged large values are not in the log; MCALL, XCALL and CALL take them from the old row."""
    for how in ("SCALL", "MCALL", "XCALL", "CALL", "SQL"):
        await logged.execute(
            "create table doc (id integer primary key, n integer, body text, data bytea)"
        )
        await logged.execute(
            "alter table doc alter body set storage external, alter data set storage external"
        )
        await publication.publish(
            logged.connection, "public", "doc", propagation=propagation(upd=how, large=())
        )
        await logged.execute(
            "insert into doc values (1, 1, repeat('x', 9000), decode(repeat('ab', 9000), 'hex'))"
        )
        await logged.execute("update doc set n = 2")
        await logged.execute("update doc set id = 2, n = null")
        commands = await logged.commands()
        assert len(commands) == 3
        for _, kind, _, text in commands[1:]:
            carried = b"x" * 9000 in text
            assert carried == (how in ("MCALL", "XCALL", "CALL")), (how, kind)
        await publication.unpublish(logged.connection, "public", "doc")
        await logged.execute("drop table doc")
