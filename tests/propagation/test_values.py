"""Values of all types arrive unchanged, whatever the names of tables and columns."""

from __future__ import annotations

import pytest

from tests.propagation.here import Here, mask
from twopc import names
from twopc.articles import Article

#: Type, a value and another value, as they are in the log.
CLASSES = [
    ("smallint", "-7", "7"),
    ("bigint", "9223372036854775807", "0"),
    ("numeric(12,2)", "-1234567.10", "0.00"),
    ("numeric", "NaN", "1e-3"),
    ("double precision", "0.1", "-Infinity"),
    ("money", "$1,234.50", "-$0.01"),
    ("boolean", "t", "f"),
    ("text", 'a "quoted", \\ (line)\nand\ttab', ""),
    ("character varying(15)", "AW00000001", "ü€😀"),
    ("character(5)", "ab   ", "abcde"),
    ('"char"', "x", "y"),
    ("name", "somebody", "else"),
    ("bytea", "\\xdeadbeef", "\\x"),
    ("uuid", "6e1b3c4e-3f7c-4d55-9d55-0242ac120002", "00000000-0000-0000-0000-000000000000"),
    ("date", "0044-03-15 BC", "infinity"),
    ("time with time zone", "12:00:00+02", "00:00:00-11"),
    ("timestamp(3) without time zone", "2026-02-28 23:59:59.123", "-infinity"),
    ("timestamp with time zone", "2026-02-28 23:59:59.123456+00", "infinity"),
    ("interval", "1 mon -2 days +03:04:05", "00:00:00"),
    ("json", '{"a": [1, null], "a": "\\\\"}', "null"),
    ("jsonb", '{"a": [1, null]}', '"x"'),
    ("point", "(1,2)", "(0,0)"),
    ("inet", "192.168.0.1/24", "::1"),
    ("bit(3)", "101", "000"),
    ("bit varying", "1", ""),
    ("int4range", "[1,5)", "empty"),
    ("int4multirange", "{[1,3),[5,7)}", "{}"),
    ("integer[]", "{1,NULL,3}", "{}"),
    ("text[]", '{"a,b",NULL,"\\"","{}"}', "{{a,b},{c,d}}"),
    ("tsvector", "'a':1 'b'", "'c'"),
    ("mood", "glad", "not so glad"),
    ("mood[]", '{glad,"not so glad"}', "{}"),
    ("must", "5", "6"),
    ("code", "abc", "xyz"),
    ("pair", '(1,"a b")', '(,"")'),
    ("hstore", '"a"=>"1", "b"=>NULL', ""),
]  # fmt: skip
TYPES = """
create extension hstore;
create type mood as enum ('glad', 'not so glad');
create domain positive as integer check (value > 0);
create domain must as positive not null;
create domain code as varchar(3) check (value ~ '^[a-z]+$');
create type pair as (a int, b text);
"""
COUNT = len(CLASSES)


@pytest.mark.parametrize("upd", ["CALL", "SCALL", "MCALL", "XCALL"])
async def test_every_class_of_values(here: Here, upd: str) -> None:
    """Values are inserted, updated, left unchanged, and set to NULL, which a bitmask distinguishes from unchanged."""
    definitions = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(CLASSES, 1))
    await here.subscribe(
        f"{TYPES} create table t (id int primary key, {definitions})", methods={"upd": upd}
    )
    first, second = [a for _, a, _ in CLASSES], [b for _, _, b in CLASSES]
    nothing = [None if kind != "must" else "9" for kind, _, _ in CLASSES]
    await here.apply("ins", 1, *first)
    await here.apply("ins", 2, *nothing)
    await expect(here, 1, first)
    await expect(here, 2, nothing)
    for old, new in ((first, second), (second, nothing), (nothing, first)):
        await here.apply("upd", *update(upd, old, new))
        await expect(here, 1, new)
    await expect(here, 2, nothing)
    await here.apply_set("ins", *[[key, *second] for key in range(10, 20)])
    if upd == "SCALL":
        # no column at all, then one in the middle: columns that are not sent remain unchanged
        bits = mask(COUNT + 1)
        await here.apply("upd", 1, *[None] * COUNT, 1, bits)
        await expect(here, 1, first)
        sent = [None] * COUNT
        await here.apply("upd", None, *sent, 1, mask(COUNT + 1, 20))
        await expect(here, 1, [*first[:18], None, *first[19:]])


def update(form: str, old: list[str | None], new: list[str | None]) -> list[object]:
    """Return the arguments of a call that changes all columns of row 1 but its key."""
    bits = mask(COUNT + 1, *range(2, COUNT + 2))
    match form:
        case "CALL":
            return [1, *new, 1]
        case "SCALL":
            return [None, *new, 1, bits]
        case "MCALL":
            return [1, *new, 1, bits]
    before = [None if kind == "bytea" else v for (kind, _, _), v in zip(CLASSES, old, strict=True)]
    return [1, *before, 1, *new]


async def expect(here: Here, key: int, values: list[str | None]) -> None:
    """Assert that the row holds these values, as PostgreSQL reads them."""
    for (kind, _, _), place, value in zip(CLASSES, range(1, COUNT + 1), values, strict=True):
        base = {"must": "integer", "code": "text"}.get(kind, kind)
        cursor = await here.admin.execute(
            f"select c{place}::text, (%s::{base})::text from t where id = %s".encode(), (value, key)
        )
        row = await cursor.fetchone()
        assert row is not None and row[0] == row[1], (kind, row, value)


async def test_hostile_names(here: Here) -> None:
    """Columns named like parameters, variables and keywords work, as does a table whose name needs quotes."""
    columns = [
        "pkc1", "c2", "c1", "bitmap", "old_c1", "c", "t", "rows", "done", "command", "held", "call", "user",
        'say "hi"', "%s", "{}", "$1", "ä b", "x" * 63, "new_row", "msrepl",
    ]  # fmt: skip
    quoted = ['"' + name.replace('"', '""') + '"' for name in columns]
    definitions = ", ".join(f"{name} text" for name in quoted)
    article = await here.subscribe(
        f'create schema "my schema"; create table "my schema"."tab""le; $1"'
        f" ({definitions}, primary key ({quoted[0]}, {quoted[2]}))",
        schema="my schema",
        table='tab"le; $1',
    )
    await exercise(here, article, '"my schema"."tab""le; $1"')


async def exercise(here: Here, article: Article, table: str) -> None:
    """Make every kind of call on a table of text columns, one by one and as a set."""
    count = len(article.columns)
    row = [f"v{n}" for n in range(count)]
    await here.apply("ins", *row)
    assert await here.rows(table) == [tuple(row)]
    new = [f"w{n}" for n in range(count)]
    await here.apply("upd", *new, "v0", "v2", mask(count, *range(1, count + 1)))
    assert await here.rows(table) == [tuple(new)]
    only = [None] * count
    only[1] = "other"
    assert await here.apply_set("upd", [*only, "w0", "w2", mask(count, 2)]) == 1
    assert await here.rows(table) == [("w0", "other", *new[2:])]
    error = await here.fails("upd", *only, "w0", "nobody", mask(count, 2))
    assert "primary key pkc1 = w0, c1 = nobody" in str(error.diag.message_primary) or (
        "c1 = nobody, pkc1 = w0" in str(error.diag.message_primary)
    )
    assert await here.apply_set("del", ["w0", "w2"]) == 1
    assert await here.apply_set("ins", row, new) == 2
    await here.apply("del", "v0", "v2")
    assert await here.rows(table) == [tuple(new)]


async def test_generated_and_own_columns(here: Here) -> None:
    """Columns that the Subscriber generates, numbers or fills itself get their values there."""
    await here.subscribe(
        """
        create table t (
            w int, id int generated always as identity primary key, h int,
            area int generated always as (w * h) stored, outline int generated always as (2 * (w + h)),
            name text)
        """
    )
    await here.admin.execute(
        "alter table t add seen text default current_user, add place serial; "
        "create function note() returns trigger language plpgsql as "
        "$$ begin new.name := upper(new.name); return new; end $$; "
        "create trigger note before insert or update on t for each row execute function note(); "
        "alter table t enable always trigger note"
    )
    article = await here.article("t")
    published = Article(schema="public", table="t", columns=article.columns[:-2], key=("id",))
    await here.subscribe("select", article=published)
    await here.apply("ins", 2, 100, 3, "a")
    await here.apply("upd", 5, None, None, None, 100, mask(4, 1))
    assert await here.apply_set("ins", [1, 7, 1, "b"], [1, 8, 1, None]) == 2
    role = names.table_role(here.owner, "public", "t")
    assert await here.rows() == [
        (1, 7, 1, 1, 4, "B", role, 2),
        (1, 8, 1, 1, 4, None, role, 3),
        (5, 100, 3, 15, 16, "A", role, 1),
    ]
    # the sequence of the identity column is not affected, and the column cannot be changed
    assert await here.rows("pg_sequences", "last_value, sequencename") == [
        (3, "t_place_seq"), (None, "t_id_seq"),
    ]  # fmt: skip
    error = await here.fails("upd", None, 101, None, None, 100, mask(4, 2))
    assert "identity column id of t is GENERATED ALWAYS at the Subscriber" in str(error)
    assert await here.apply_set("upd", [9, None, None, None, 7, mask(4, 1)]) == -1


async def test_a_column_that_only_the_publisher_generates(here: Here) -> None:
    """A column that only the Publisher generates is not sent: the procedures compute it."""
    await here.subscribe(
        "create table t (c1 int, pkc1 int primary key, area int generated always as (c1 * pkc1) stored)"
    )
    article = await here.article("t")
    await here.admin.execute("alter table t alter area drop expression")
    await here.subscribe("select", article=article)
    await here.apply("ins", 2, 3)
    assert await here.apply_set("ins", [5, 5], [6, 6]) == 2
    await here.apply("upd", 4, None, 3, mask(2, 1))
    await here.apply("upd", None, 7, 5, mask(2, 2))
    assert await here.apply_set("upd", [1, None, 6, mask(2, 1)]) == 1
    assert await here.rows() == [(1, 6, 6), (4, 3, 12), (5, 7, 35)]


async def test_partitions(here: Here) -> None:
    """Rows are inserted into their partition, and move to another one when their key changes."""
    await here.subscribe(
        "create table t (id int, year int, n int, primary key (id, year)) partition by range (year);"
        "create table t_1 partition of t for values from (0) to (10);"
        "create table t_2 partition of t for values from (10) to (20)"
    )
    await here.apply("ins", 1, 5, 0)
    assert await here.apply_set("ins", [2, 6, 0], [3, 15, 0]) == 2
    await here.apply("upd", None, 16, None, 1, 5, mask(3, 2))
    assert await here.apply_set("upd", [None, None, 7, 3, 15, mask(3, 3)]) == 1
    assert await here.rows("t_1") == [(2, 6, 0)]
    assert await here.rows("t_2") == [(1, 16, 0), (3, 15, 7)]
    assert await here.apply_set("del", [1, 16], [2, 6]) == 2
    assert await here.rows() == [(3, 15, 7)]
