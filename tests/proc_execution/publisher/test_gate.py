"""Tests of the gate: which calls are marked, and that only the runner can mark a call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.proc_execution.publisher.home import GIVE_RAISE, Home
from twopc.proc_execution import GateFacts, ProcType, gate_verdict

USER = "test_user"
CALL = "call give_raise(10)"
SERIALIZABLE = "begin isolation level serializable"


@pytest.fixture
async def published(home: Home) -> Home:
    """A Publisher with a routine whose calls are stored."""
    await home.publish(GIVE_RAISE)
    return home


@pytest.fixture
async def user(published: Home) -> AsyncIterator[AsyncConnection[Any]]:
    """A session of a role that may create schemas, but has no administrator's privileges."""
    await published.connection.execute(
        f"create role {USER}; grant all on database {published.connection.info.dbname} to {USER}; "
        f"grant all on emp to {USER}"
    )
    connection = await published.another()
    try:
        await connection.execute(f"set session authorization {USER}".encode())
        yield connection
    finally:
        await connection.close()
        await published.connection.execute(f"drop owned by {USER} cascade; drop role {USER}")


async def told(connection: AsyncConnection[Any], *statements: str) -> list[str]:
    """Return the reasons why calls are sent as rows, from the session's notices."""
    notices: list[str] = []
    connection.add_notice_handler(
        lambda diag: (
            notices.append(str(diag.message_primary))
            if "travels" in str(diag.message_primary)
            else None
        )
    )
    await connection.execute("set client_min_messages = debug1")
    for statement in statements:
        await connection.execute(statement.encode())
    return [each.rpartition(": ")[2] for each in notices]


@pytest.mark.parametrize(
    ("reason", "before"),
    [
        ("read_only", ["begin read only"]),
        ("isolation", ["begin isolation level repeatable read"]),
        ("replica", ["set session_replication_role = replica", SERIALIZABLE]),
        ("temporary", ["create temporary table t (id int)", SERIALIZABLE]),
        ("temporary", ["create temporary view v as select 1", SERIALIZABLE]),
        (
            "branch",
            [
                SERIALIZABLE,
                "insert into msrepl.branch_marker (gid, xid, participants) values ('g', pg_current_xact_id(), '{}')",
            ],
        ),
        (
            None,
            [
                SERIALIZABLE,
                "insert into msrepl.branch_marker (gid, xid, participants, fence) "
                "values ('g', pg_current_xact_id(), '{}', true)",
            ],
        ),
        (None, [SERIALIZABLE]),
        (None, ["set default_transaction_isolation = serializable"]),
    ],
)
async def test_reasons(published: Home, reason: str | None, before: list[str]) -> None:
    connection = published.connection
    if reason == "read_only":
        await published.publish("create procedure nothing() language sql as 'select 1'", "nothing")
        assert await told(connection, *before, "call nothing()") == [reason]
    else:
        assert await told(connection, *before, CALL) == ([] if reason is None else [reason])
    if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        await connection.execute("commit")
    assert len(await published.marks()) == (0 if reason else 2)


async def test_nobody_takes_calls(published: Home) -> None:
    await published.connection.execute("update msrepl.sysprocarticles set called = false")
    assert await told(published.connection, SERIALIZABLE, CALL, "commit") == ["nobody"]


@pytest.mark.parametrize(
    "ddl",
    [
        "create function f() returns trigger language plpgsql as 'begin return new; end'; "
        "create trigger t before update on emp for each row execute function f()",
        "create rule r as on delete to emp do instead nothing",
        "create table child (emp int references emp on delete cascade)",
    ],
    ids=["trigger", "rule", "foreign key"],
)
async def test_obstacles_come_and_go(published: Home, ddl: str) -> None:
    connection = published.connection
    await connection.execute(ddl.encode())
    assert await told(connection, SERIALIZABLE, CALL, "commit") == ["obstacle"]
    kind = ddl.split()[1]
    drop = {
        "function": "drop trigger t on emp",
        "rule": "drop rule r on emp",
        "table": "drop table child",
    }[kind]
    await connection.execute(drop.encode())
    await published.serializable(CALL)
    assert len(await published.marks()) == 2


async def test_plain_calls(home: Home) -> None:
    """Plain calls are also marked outside of serializable transactions."""
    await home.publish(GIVE_RAISE, type=ProcType.PLAIN)
    for isolation, marks in (
        ("read uncommitted", 0),
        ("read committed", 2),
        ("repeatable read", 4),
        ("serializable", 6),
    ):
        await home.connection.execute(f"begin isolation level {isolation}; {CALL}; commit".encode())
        assert len(await home.marks()) == marks, isolation
        facts = GateFacts(
            type=ProcType.PLAIN, isolation=isolation, read_only=False, called=True, origin=True,
            obstacle=False, temporary=False, branch=False,
        )  # fmt: skip
        assert (gate_verdict(facts) is None) is (marks > 0)


OPENING = "select msrepl_call.open_bracket({article}, '{{}}')"
FORGED = {
    "directly": [OPENING],
    "nothing": ["select msrepl_call.open_bracket(null, '{{}}')"],
    "closing": ["select msrepl_call.close_bracket({article}, 1, null)"],
    "do": ["do $$ declare n text; begin n := msrepl_call.open_bracket({article}, '{{}}'); end $$"],
    "a function of that name": [
        "create schema evil",
        'create function evil."msrepl_call.run_{article}("() returns bigint language plpgsql '
        "as $$ declare n bigint; begin n := msrepl_call.open_bracket({article}, '{{}}'); return n; end $$",
        'set search_path = evil, "$user", public',
        'select evil."msrepl_call.run_{article}("()',
    ],
    "a schema of that name": [
        'create schema "msrepl_call.run_{article}("',
        'create function "msrepl_call.run_{article}(".f() returns bigint language plpgsql '
        "as $$ declare n bigint; begin n := msrepl_call.open_bracket({article}, '{{}}'); return n; end $$",
        'select "msrepl_call.run_{article}(".f()',
    ],
    "a comment": [
        "do $$ begin execute E'select /*\\nPL/pgSQL function msrepl_call.run_{article}(numeric) line 1 at assignment\\n"
        "*/ msrepl_call.open_bracket({article}, ''{{}}'')'; end $$"
    ],
    "another language of messages": ["set lc_messages = 'C'", "set role none", OPENING],
    "a row": ["insert into msrepl.call_marker (article_id) values ({article})"],
    "a schema that is there": [
        "create function msrepl_call.run_x() returns void language sql as 'select 1'"
    ],
    "settings": ["set msrepl.in_call = '{article}'", "reset all", OPENING],
}


@pytest.mark.parametrize("name", FORGED)
async def test_forged(published: Home, user: AsyncConnection[Any], name: str) -> None:
    """Every attempt to forge a call marker fails with 42501."""
    [(article,)] = await published.rows("select article_id from msrepl.sysprocarticles")
    *before, last = [statement.format(article=article) for statement in FORGED[name]]
    await user.execute("set default_transaction_isolation = serializable")
    for statement in before:
        try:
            await user.execute(statement.encode())
        except psycopg.errors.InsufficientPrivilege:
            assert "lc_messages" in statement
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await user.execute(last.encode())
    assert await published.marks() == []


async def test_users_call(published: Home, user: AsyncConnection[Any]) -> None:
    """Calls of any role are marked, and so are direct calls of the runner."""
    [(article,)] = await published.rows("select article_id from msrepl.sysprocarticles")
    await user.execute("set default_transaction_isolation = serializable")
    await user.execute(CALL.encode())
    await user.execute(f"call msrepl_call.run_{article}(1)".encode())
    assert [call["v"] for call in await published.calls()] == [["10"], ["1"]]


async def test_our_schema_in_the_callers_path(published: Home, user: AsyncConnection[Any]) -> None:
    """A call with msrepl_call in its search path is refused with a remedy.

    Its context would name the runner without its schema.
    """
    await user.execute("set default_transaction_isolation = serializable")
    await user.execute("set search_path = msrepl_call, public")
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        await user.execute(CALL.encode())
    assert "never had msrepl_call" in str(caught.value.diag.message_hint)


async def test_sessions_that_quote_every_name(published: Home, user: AsyncConnection[Any]) -> None:
    """Calls are marked and the runner is guarded even if the session quotes all identifiers."""
    [(article,)] = await published.rows("select article_id from msrepl.sysprocarticles")
    await user.execute("set default_transaction_isolation = serializable")
    await user.execute("set quote_all_identifiers = on")
    await user.execute(CALL.encode())
    assert [call["v"] for call in await published.calls()] == [["10"]]
    async with await published.another() as admin:
        await admin.execute("set quote_all_identifiers = on")
        for statement in (
            "drop routine msrepl_call.run_{}",
            "alter routine msrepl_call.run_{} security definer",
        ):
            with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="run_"):
                await admin.execute(statement.format(article).encode())


async def test_two_callers_do_not_depend_on_each_other(home: Home) -> None:
    """Serializable calls of routines on two tables do not conflict, not even in internal tables."""
    await home.connection.execute("create table a (n int); create table b (n int)")
    for table in ("a", "b"):
        await home.publish(
            f"create procedure to_{table}() language sql as 'insert into {table} select count(*) from {table}'",
            f"to_{table}",
        )
    first, second = await home.another(), await home.another()
    for _ in range(5):
        for connection in (first, second):
            await connection.execute(SERIALIZABLE.encode())
        await first.execute("call to_a()")
        await second.execute("call to_b()")
        await first.execute("commit")
        await second.execute("commit")
    for connection in (first, second):
        await connection.close()
    assert len(await home.marks()) == 20


async def test_a_stranger_who_holds_the_lock_of_a_routine(
    published: Home, user: AsyncConnection[Any]
) -> None:
    """A stranger's advisory lock does not delay a call, which is sent as rows; a notice names the holder."""
    (article,) = [row[0] for row in await (
        await published.connection.execute("select article_id from msrepl.sysprocarticles")
    ).fetchall()]  # fmt: skip
    await published.connection.execute(f"alter role {USER} login password 'x'")
    dsn = make_conninfo(published.dsn, user=USER, password="x")
    async with await AsyncConnection.connect(dsn, autocommit=True) as stranger:
        await stranger.execute("select pg_advisory_lock(1836282470, %s)", (article,))
        notices: list[str] = []
        user.add_notice_handler(lambda diag: notices.append(str(diag.message_primary)))
        await user.execute("set statement_timeout = '10s'")
        await user.execute(SERIALIZABLE.encode())
        await user.execute(CALL.encode())
        await user.execute("commit")
        (notice,) = notices
        assert f"pid {stranger.info.backend_pid} of role {USER} holds" in notice
