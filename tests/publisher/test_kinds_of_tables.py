"""Changes at a Subscriber of tables with all kinds of keys, names and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fix_topology import MakePair, Pair
from twopc.publisher import publication

KEYS = [
    ("bigint", "1", "2"),
    ("text", "'a''\\\\{},\"b'", "E'new\\nline'"),
    ("uuid", "'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-00000000000f'"),
    ("numeric", "1.50", "'NaN'"),
    ("date", "'2024-02-29'", "'infinity'"),
    ("timestamptz", "'2024-02-29 23:59:59.123456+05:30'", "'-infinity'"),
    ("interval", "'1 mon -3 days 00:00:00.000001'", "'-1 year'"),
    ("bytea", r"'\x00ff5c27'", r"'\x'"),
    ("char(5)", "'ab'", "'abc'"),
    ("boolean", "false", "true"),
    ("float8", "'1e-300'", "'-Infinity'"),
    ("inet", "'10.0.0.1/8'", "'::1'"),
    ("macaddr", "'08:00:2b:01:02:03'", "'08:00:2b:01:02:04'"),
    ("bit(5)", "B'10101'", "B'00000'"),
    ("int4range", "'[1,5)'", "'empty'"),
    ("int[]", "'{{1,2},{3,4}}'", "'[5:6]={1,NULL}'"),
    ("text[]", """'{"a,b","c\\"d",NULL,"NULL",""}'""", "'{}'"),
    ("jsonb", """'{"a": [1, null]}'""", "'[]'"),
    ("mood", "'so so'", "'it''s \"odd\"'"),
    ("code", "'AB'", "'ZZ'"),
    ("place", "row('x, y', 1)", "row(null, 2)"),
    ("citext", "'Straße'", "'other'"),
    ('text collate "C"', "'z'", "'Z'"),
    ('text collate "folded"', "'z'", "'y'"),
]
TYPES = (
    """create type mood as enum ('so so', 'it''s "odd"')""",
    "create domain code as text check (value ~ '^[A-Z]+$') not null",
    "create type place as (street text, number int)",
    "create extension citext",
    "create collation folded (provider = libc, locale = 'C')",
)
AT_SUBSCRIBER = (
    "create extension citext",
    "create collation folded (provider = libc, locale = 'C')",
)


@contextmanager
def about(what: str) -> Iterator[None]:
    """Add a note to any exception that is raised within the block."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"about {what!r}")
        raise


async def test_key_of_any_type(make_pair: MakePair) -> None:
    """A row is found by a key of any type, and the key itself can be changed."""
    tables = [f"item_{place}" for place in range(len(KEYS))]
    pair = await make_pair(
        *TYPES,
        *(
            f"create table {table} (id {kind} primary key, note text)"
            for table, (kind, _, _) in zip(tables, KEYS, strict=True)
        ),
        *(
            f"insert into {table} values ({first}, 'one')"
            for table, (_, first, _) in zip(tables, KEYS, strict=True)
        ),
        publish=tables,
        at_subscriber=AT_SUBSCRIBER,
    )

    for table, (kind, first, second) in zip(tables, KEYS, strict=True):
        with about(kind):
            await pair.run(
                f"update {table} set note = 'changed'",
                f"insert into {table} values ({second}, 'two')",
            )
            assert len(await pair.same(table)) == 2
            await pair.run(f"delete from {table} where note = 'changed'")
            await pair.run(f"update {table} set id = {first}")
            assert len(await pair.same(table)) == 1


async def test_composite_key(make_pair: MakePair) -> None:
    """A key can have three columns of three types, in another order than in the table."""
    pair = await make_pair(
        'create table line (a int, "B b" date, c text, note text, primary key (c, a, "B b"))',
        "insert into line select g, date '2024-01-01' + g, 'c' || g, 'n' from generate_series(1, 5) as g",
        publish=["line"],
    )

    await pair.run(
        "update line set note = 'x' where a > 2",
        'update line set "B b" = "B b" + 1, a = a * 10 where a < 3',
        "delete from line where a = 4",
        "insert into line values (9, '2025-01-01', 'c9', null)",
    )
    assert len(await pair.same("line")) == 5
    error = await pair.refused("insert into line select 1, '2024-01-02', 'c1'", "select 1/0")
    assert error.sqlstate == "22012"


#: Names of variables in our functions.
FAMILIAR = """
    t r u c o v h n x held sync branch sites n1 k1 o1 c1 inside shown sent done again bad stored violated
    detail old new news olds salt changed arguments step queued transaction call marker inserted deleted
    user select group new_rows old_rows found gid xid calls context message key image name names sqlstate
    kept waited shape place later lower rank pending originator participants
"""
#: Names with characters that are special in SQL, format strings, psycopg or dollar quoting.
STRANGE = [
    *(
        'a "b"',
        "it's",
        "100%",
        "%s",
        "%(x)s",
        "{brace}",
        "{}",
        "back\\slash",
        "$$",
        "$1",
        "a$b",
        "$",
    ),
    *(
        "Ünïcödé",
        "日本語",
        " leading",
        "a;b",
        "--",
        "/*",
        "é" * 31,
        "line\nbreak",
        "tab\t",
        "\\",
        ":x",
    ),
]
HOSTILE = [*FAMILIAR.split(), *STRANGE]


def quoted(name: str) -> str:
    """Return the name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


async def test_hostile_column_names(make_pair: MakePair) -> None:
    """No column name is mistaken for a variable of our functions, ends a string, or is executed as SQL."""
    columns = ", ".join(f"{quoted(name)} text default 'd'" for name in HOSTILE)
    pair = await make_pair(
        f"create table odd (id int primary key, {columns})",
        "insert into odd (id) values (1), (2), (3)",
        publish=["odd"],
    )

    assignments = ", ".join(f"{quoted(name)} = 'changed'" for name in HOSTILE)
    for shipping in ("eager", "lazy"):
        await pair.run(
            f"update odd set {assignments} where id < 3".replace("%", "%%").replace("%%", "%"),
            "insert into odd (id) select coalesce(max(id), 0) + 1 from odd",
            "update odd set id = id + 100 where id in (select max(id) from odd)",
            "delete from odd where id = 3",
            shipping=shipping,
        )
    assert len(await pair.same("odd")) == 4

    await pair.topology.execute("pub", f"update odd set {assignments}")
    for statement in ("update odd set t = null", "delete from odd", "insert into odd values (77)"):
        await pair.topology.execute(
            "pub", "insert into odd (id) values (77) on conflict do nothing"
        )
        error = await pair.refused(statement)
        assert error.sqlstate in ("40001", "23505")


async def test_hostile_table_and_schema_names(make_pair: MakePair) -> None:
    """Tables, schemas and constraints can have such names as well."""
    hostile = [*STRANGE, "t", "held", "sync", "select", "user"]
    schemas = {name: f"s{name}"[:31] for name in hostile}
    tables = {name: f"{quoted(schemas[name])}.{quoted(name)}" for name in hostile}
    pair = await make_pair(
        *(f"create schema {quoted(schema)}" for schema in schemas.values()),
        *(
            f"create table {table} ({quoted(name)} int generated always as identity,"
            f" {quoted('2' + name)} text, primary key ({quoted(name)}),"
            f" constraint {quoted('k' + name)} unique ({quoted('2' + name)}))"
            for name, table in tables.items()
        ),
        *(
            f"insert into {table} ({quoted('2' + name)}) values ('a'), ('b')"
            for name, table in tables.items()
        ),
        publish=[{"table": name, "schema": schema} for name, schema in schemas.items()],
    )

    for name, table in tables.items():
        with about(name):
            other = quoted("2" + name)
            await pair.run(
                f"insert into {table} ({other}) values ('c'), ('d')",
                f"update {table} set {other} = 'z' where {other} = 'a'",
                f"delete from {table} where {other} = 'b'",
            )
            assert len(await pair.same(table)) == 3
            await pair.topology.execute("pub", f"update {table} set {other} = 'y' || {other}")
            error = await pair.refused(f"update {table} set {other} = 'x' || {other}")
            assert error.sqlstate == "40001"
            assert f"{schemas[name]}.{name}" in str(error.diag.message_primary)


async def test_names_longer_than_the_server_keeps(make_pair: MakePair) -> None:
    """A name over 63 bytes refers to the table whose name the server has truncated."""
    name = "é" * 40
    pair = await make_pair(f"create table {name} (id int primary key)", publish=[name])

    await pair.run(f"insert into {name} values (1)")
    assert len(await pair.same(name)) == 1
    [article] = await publication.articles(await pair.topology.admin("pub"))
    assert article.table == "é" * 31


async def test_names_that_would_meet_in_one_object(make_pair: MakePair) -> None:
    """Tables such as public.a_b, a.b and a__b have separate procedures and triggers."""
    tables = [
        ("public", "a_b"), ("a", "b"), ("public", "a__b"), ("a_", "b"), ("a", "_b"),
        ("public", "x" * 63), ("public", "x" * 62), ("public", "x" * 61 + "y"), ("x" * 60, "x" * 60),
    ]  # fmt: skip
    pair = await make_pair(
        *(f"create schema {quoted(schema)}" for schema in ("a", "a_", "x" * 60)),
        *(
            f"create table {quoted(schema)}.{quoted(table)} (id int primary key, column_{place} text)"
            for place, (schema, table) in enumerate(tables)
        ),
        publish=[{"schema": schema, "table": table} for schema, table in tables],
    )

    for place, (schema, table) in enumerate(tables):
        name = f"{quoted(schema)}.{quoted(table)}"
        await pair.run(
            f"insert into {name} values ({place}, 'x')", f"update {name} set column_{place} = 'y'"
        )
        [row] = await pair.same(name)
        assert row[0].startswith(f"({place},y,")


@pytest.mark.parametrize("count", [101, 246, 1000])
async def test_many_columns(make_pair: MakePair, count: int) -> None:
    """A table may have more columns than a procedure can have parameters, up to PostgreSQL's limit."""
    columns = ", ".join(f"c{place} int default {place}" for place in range(1, count))
    pair = await make_pair(
        f"create table wide (id int primary key, {columns})",
        "insert into wide (id) select generate_series(1, 3)",
        publish=["wide"],
    )

    changes = ", ".join(f"c{place} = -{place}" for place in range(1, count))
    await pair.run(f"update wide set {changes} where id = 1", "insert into wide (id) values (4)")
    await pair.run("delete from wide where id = 2")
    assert len(await pair.same("wide")) == 3
    await pair.topology.execute("pub", "update wide set c1 = 0")
    error = await pair.refused("update wide set c1 = 5 where id = 1")
    assert error.sqlstate == "40001"


async def test_deferrable_and_other_unique_keys(make_pair: MakePair) -> None:
    """The copy has the Publisher's unique keys with their options, so k = k + 1 works as it does there."""
    pair = await make_pair(
        """create table seat (id int primary key deferrable, place int unique deferrable initially deferred,
            code text, who text, constraint one_code unique nulls not distinct (code))""",
        "create unique index seat_who on seat (who) include (place)",
        "insert into seat select g, g, g, g from generate_series(1, 5) as g",
        publish=["seat"],
    )

    await pair.run("update seat set id = id + 1, place = place + 1")
    await pair.run("insert into seat values (9, 9, null, null)", "update seat set id = -id")
    assert len(await pair.same("seat")) == 6
    there, here = await pair.rows(
        "select pg_get_constraintdef(oid) from pg_constraint where conrelid = 'seat'::regclass"
        " and contype in ('p', 'u') order by conname"
    )
    assert there == here
    error = await pair.refused("insert into seat values (10, 10, null, 'ten')")
    assert error.diag.constraint_name == "one_code"


async def check_same_after(pair: Pair, table: str, *statements: str) -> None:
    """Run statements, and assert that both ends are equal."""
    await pair.run(*statements)
    await pair.same(table)


async def test_values_that_the_publisher_makes(make_pair: MakePair) -> None:
    """The Publisher evaluates identity columns and sequence defaults; other defaults are copied."""
    pair = await make_pair(
        "create sequence own increment by 7",
        "create schema other",
        "create sequence other.nr",
        "create function other.made() returns text language sql as $$ select 'made by Publisher' $$",
        """create table thing (
            id bigint generated always as identity, pair int generated by default as identity,
            s serial, own int default nextval('own') * 10, nr int not null default nextval('other.nr'),
            made text default other.made(), constant text default 'it''s', at timestamptz default now(),
            sum int generated always as (pair + s) stored, virt text generated always as (constant || 'v') virtual,
            note text, primary key (id))""",
        "insert into thing (note) values ('first')",
        publish=["thing"],
    )

    await check_same_after(
        pair,
        "thing",
        "insert into thing (note) values ('a'), ('b'), ('c')",
        "insert into thing (pair, note) values (1000, 'own pair')",
        "update thing set note = note || '!' where note < 'c'",
        "update thing set constant = null, s = 5 where id = 3",
        "delete from thing where id = 2",
    )
    there = await pair.topology.execute("pub", "select made, virt, sum = pair + s, note from thing")
    assert {row[0] for row in there} == {"made by Publisher"}
    assert all(row[2] for row in there)
    await pair.topology.execute("pub", "insert into thing (note) values ('later')")
    await pair.begin()
    [(number, made)] = await pair.execute(
        "insert into thing (note) values ('returned') returning id, made"
    )
    assert made == "made by Publisher"
    await pair.commit()
    assert await pair.topology.execute(
        "pub", "select note from thing where id = %s", (number,)
    ) == [("returned",)]
