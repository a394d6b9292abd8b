"""Tests of row filters, evaluated at the Publisher for the rows in the log."""

from __future__ import annotations

import pytest
from psycopg import AsyncConnection

from tests.distribution.logged import Logged
from tests.distribution.made import propagation
from twopc.errors import ArticleError
from twopc.propagation import record_values
from twopc.publisher import publication
from twopc.publisher.commands import CommandBuilder
from twopc.publisher.filters import RowFilters

INSERT, UPDATE, DELETE = 1, 2, 3


async def commands(logged: Logged) -> list[tuple[int, int, bytes | None]]:
    """Return article, type and first value of every command since the last call."""
    return [
        (article, kind, next((v for v in record_values(text) if v is not None), None))
        for article, kind, _, text in await logged.commands()
    ]


async def test_rows_move_in_and_out(logged: Logged) -> None:
    """A row that enters the partition is an insert, one that leaves it a delete, one outside nothing."""
    await logged.execute("create table t (id int primary key, n int, body text)")
    await publication.publish(logged.connection, "public", "t", row_filter="n > 10")
    await logged.execute("insert into t values (1, 5, 'a'), (2, 50, 'b'), (3, null, 'c')")
    await logged.execute("update t set body = 'x'")
    await logged.execute("update t set n = case id when 1 then 11 when 2 then 10 else 12 end")
    await logged.execute("update t set id = id + 10 where n > 10")
    await logged.execute("delete from t")
    found = await logged.commands()
    assert [(kind, record_values(text)[:2]) for _, kind, _, text in found] == [
        (INSERT, [b"2", b"50"]),
        (UPDATE, [None, None]),
        (INSERT, [b"1", b"11"]),
        (DELETE, [b"2"]),
        (INSERT, [b"3", b"12"]),
        (UPDATE, [b"11", None]),
        (UPDATE, [b"13", None]),
        (DELETE, [b"11"]),
        (DELETE, [b"13"]),
    ]
    [_, (*_, update), *_] = found
    assert record_values(update)[2] == b"x"


@pytest.mark.parametrize(
    ("condition", "inside", "outside"),
    [
        ("kind = 'so \"so\"'", "kind = 'so \"so\"'", "kind = 'bad'"),
        ("rules.wanted(t)", "n = 7", "n = 8"),
        ("rules.is_big(n)", "n = 1000", "n = 1"),
        ("t.\"se'lect\" like 'a%'", "\"se'lect\" = 'ab'", "\"se'lect\" = 'ba'"),
        ("twice > 10", "n = 6", "n = 5"),
        ("tags @> array['x']", "tags = '{y,x}'", "tags = '{y}'"),
        ("doc ->> 'a' = '\"'", 'doc = \'{"a": "\\""}\'', "doc = '{\"a\": 1}'"),
        ("secret is null", "secret = null", "secret = 's'"),
        (
            "at >= '2024-01-01 00:00+00'",
            "at = '2024-01-01 00:00+00'",
            "at = '2023-12-31 23:59:59.999999+00'",
        ),
        (
            "images = 1 and place = 2 and image = 3 and sent = 4",
            "images = 1, place = 2, image = 3, sent = 4",
            "sent = 5",
        ),
        ("n > 1 -- a comment", "n = 2", "n = 1"),
    ],
)
async def test_conditions(logged: Logged, condition: str, inside: str, outside: str) -> None:
    """Filters may use types, functions, the whole row, generated and unpublished columns, and any names."""
    await logged.execute(
        """create schema rules;
        create type rules.mood as enum ('so "so"', 'bad');
        create table t (id int primary key, gone int, kind rules.mood, n int,
            twice int generated always as (n * 2) stored, "se'lect" text, tags text[], doc jsonb,
            secret text, at timestamptz, images int, place int, image int, sent int);
        alter table t drop column gone;
        create function rules.wanted(t) returns boolean language sql as 'select $1.n = 7';
        create function rules.is_big(int) returns boolean language plpgsql as 'begin return $1 > 999; end';
        revoke all on all functions in schema rules from public"""
    )
    # as for sync procedures, the search path at publishing does not matter later
    await logged.execute("set search_path = public, rules")
    chosen = ("id", "n", "twice", "kind")
    await publication.publish(
        logged.connection,
        "public",
        "t",
        row_filter=condition,
        columns=chosen,
        propagation=propagation("CALL"),
    )
    await logged.execute(
        "reset search_path; set timezone = 'Asia/Tokyo'; insert into t (id) values (1)"
    )
    await commands(logged)
    await logged.execute(f"update t set {outside}")
    await commands(logged)
    await logged.execute(f"update t set {inside}")
    assert [kind for _, kind, _ in await commands(logged)] == [INSERT]
    await logged.execute(f"update t set {outside}")
    assert [kind for _, kind, _ in await commands(logged)] == [DELETE]


async def test_parts_for_single_subscribers(logged: Logged) -> None:
    """Parts are articles of the same table with their own filters, within that of the base article."""
    await logged.execute("create table t (id int primary key, n int)")
    await publication.publish(logged.connection, "public", "t", row_filter="id < 100")
    [base] = await publication.distributed_articles(logged.connection)
    low = await publication.publish_part(logged.connection, "public", "t", "n < 10")
    assert await publication.publish_part(logged.connection, "public", "t", "(n) < 10 ") == low
    high = await publication.publish_part(logged.connection, "public", "t", "n >= 10")
    found = await publication.distributed_articles(logged.connection)
    assert [each.article_id for each in found] == [base.article_id, low, high]
    assert len({base.article_id, low, high}) == 3

    await logged.execute("insert into t values (1, 1), (2, 20), (200, 1)")
    await logged.execute("update t set n = 15 where id = 1")
    expected = [
        (base.article_id, INSERT, b"1"),
        (low, INSERT, b"1"),
        (base.article_id, INSERT, b"2"),
        (high, INSERT, b"2"),
        (base.article_id, UPDATE, b"15"),
        (low, DELETE, b"1"),
        (high, INSERT, b"1"),
    ]
    assert await commands(logged) == expected

    await publication.regenerate(logged.connection, "public", "t")
    await logged.execute("delete from t where id = 1")
    assert await commands(logged) == [(base.article_id, DELETE, b"1"), (high, DELETE, b"1")]
    await publication.unpublish_part(logged.connection, low)
    found = await publication.distributed_articles(logged.connection)
    assert [each.article_id for each in found] == [base.article_id, high]
    await publication.unpublish(logged.connection, "public", "t")
    left = "select proname from pg_proc where proname like 'row\\_filter%'"
    assert await logged.execute(left) == []
    assert await logged.execute("select from pg_type where typname like 'row\\_image%'") == []
    with pytest.raises(ArticleError, match="is not published"):
        await publication.publish_part(logged.connection, "public", "t", "n < 10")


async def test_a_part_of_an_article_without_filter(logged: Logged) -> None:
    """For a part, old rows are logged even if the base article needs keys only."""
    await logged.execute("create table t (id int primary key, n int)")
    how = propagation(upd="CALL")
    await publication.publish(logged.connection, "public", "t", propagation=how)
    await publication.publish_part(logged.connection, "public", "t", "n > 1")
    await logged.execute("insert into t values (1, 5); update t set n = 0; delete from t")
    assert [kind for _, kind, _ in await commands(logged)] == [1, 1, 2, 3, 3]
    with pytest.raises(ArticleError, match="is not a condition"):
        await publication.publish_part(logged.connection, "public", "t", "no_such > 1")


async def test_a_filter_that_fails(logged: Logged) -> None:
    """A filter that fails is reported with its article and the server's reason; the session continues."""
    await logged.execute("create table t (id int primary key, n int)")
    await publication.publish(logged.connection, "public", "t", row_filter="10 / n > 1")
    await logged.execute("insert into t values (1, 0)")
    with pytest.raises(
        ArticleError, match=r"row filter .* of article t cannot be .* division by zero"
    ):
        await logged.commands()
    await logged.execute("insert into t values (2, 1)")
    assert len(await commands(logged)) == 1


async def test_rights(logged: Logged) -> None:
    """The log reader's role evaluates filters through one function, and can do nothing else."""
    await logged.execute("create table t (id int primary key, n int)")
    await publication.publish(logged.connection, "public", "t", row_filter="n > 1")
    await logged.execute("create role test_reader login replication")
    try:
        await publication.admit_log_reader(logged.connection, "test_reader")
        await publication.admit_log_reader(logged.connection, "test_reader")
        articles = await publication.distributed_articles(logged.connection)
        await logged.execute("insert into t values (1, 1), (2, 2)")
        changes = await logged.changes()
        reader = logged.reader
        await reader.execute("set session authorization test_reader")
        found = await RowFilters(reader, CommandBuilder(articles)).belongings(changes)
        assert found == [[(False, False)], [(False, True)]]
        for refused in (
            "select from t",
            "select msrepl.row_filter_1(null)",
            "insert into msrepl.branch_marker values ('x', pg_current_xact_id(), '{}')",
            "insert into msrepl.log_message (kind, body) values ('tracer_token', '{}')",
            "select from msrepl.branch_marker",
            "update msrepl.sysarticles set stale = 'x'",
        ):
            await assert_denied(reader, refused)
        await reader.execute("select pg_log_standby_snapshot()")
        await reader.execute("reset session authorization")
    finally:
        await logged.execute("drop owned by test_reader; drop role test_reader")


async def assert_denied(connection: AsyncConnection[object], statement: str) -> None:
    """Assert that the role is denied a statement."""
    with pytest.raises(Exception, match="permission denied"):
        await connection.execute(statement.encode())
