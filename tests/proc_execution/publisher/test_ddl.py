"""Tests of DDL on a published routine: a new text is adopted and posted, everything else is refused."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.proc_execution.publisher.home import GIVE_RAISE, Home
from twopc.proc_execution import ProcType
from twopc.publisher import proc_execution

AGAIN = """
create or replace procedure give_raise(pct numeric default 2) language plpgsql as
$$ begin update emp set salary = give_raise.pct; end $$
"""


async def posted(home: Home) -> list[dict[str, Any]]:
    """Return the posted messages about routines."""
    return [
        body
        for (body,) in await home.rows(
            "select body from msrepl.log_message where kind = 'procedure' order by id"
        )
    ]


async def test_a_new_text(home: Home) -> None:
    """A new text is executed, marked and posted, and remains after the routine is unpublished."""
    article = await home.publish(GIVE_RAISE)
    await home.connection.execute(AGAIN.encode())
    [body] = await posted(home)
    assert body["article"] == article.article_id
    assert "give_raise(IN pct numeric DEFAULT 2)" in body["definition"]
    await home.serializable("call give_raise()")
    assert await home.rows("select distinct salary::int from emp") == [(2,)]
    assert [call["v"] for call in await home.calls()] == [["2"]]
    [known] = await proc_execution.proc_articles(home.connection)
    assert known.definition == body["definition"]
    await proc_execution.unpublish_procedure(home.connection, article.article_id)
    assert await home.rows("select pg_get_functiondef('public.give_raise'::regproc)") == [
        (body["definition"] + "\n",)
    ]
    await home.connection.execute(AGAIN.encode())
    assert len(await posted(home)) == 1


async def test_a_new_text_of_a_function(home: Home) -> None:
    await home.publish(
        "create function r(a int, out b int, out c int) language sql as 'select 1, a'", "r"
    )
    await home.connection.execute(
        "create or replace function r(a int, out b int, out c int) language sql strict as 'select 2, a'"
    )
    connection = home.connection
    await connection.execute("begin isolation level serializable")
    cursor = await connection.execute("select * from r(5)")
    assert await cursor.fetchall() == [(2, 5)]
    cursor = await connection.execute("select * from r(null)")
    assert await cursor.fetchall() == [(None, None)]
    await connection.execute("commit")
    assert len(await home.marks()) == 2


async def test_rolled_back(home: Home) -> None:
    await home.publish(GIVE_RAISE)
    await home.connection.execute(f"begin; {AGAIN}; rollback".encode())
    await home.serializable("call give_raise(100)")
    assert await home.rows("select salary::int from emp where id = 1") == [(200,)]
    assert await posted(home) == []


@pytest.mark.parametrize("ddl", [AGAIN, "drop procedure give_raise", "create table more (id int)"])
async def test_behind_a_snapshot(home: Home, ddl: str) -> None:
    """DDL in a transaction whose snapshot precedes an article fails with a serialization failure."""
    await home.publish("create procedure other() language sql as 'select 1'", "other")
    begin = b"begin isolation level repeatable read; select from emp"
    async with await home.another() as session:
        await session.execute(begin)
        await home.publish(GIVE_RAISE)
        with pytest.raises(psycopg.errors.SerializationFailure):
            await session.execute(ddl.encode())
        await session.execute("rollback")
        await session.execute(begin)
        await session.execute("create table more (id int)")
        # DDL of one session does not wait for that of another
        await home.connection.execute(
            begin + b"; set local lock_timeout = '10s'; create table elsewhere (id int); commit"
        )
        await session.execute("commit")


@pytest.mark.parametrize("type", [ProcType.SERIALIZABLE, ProcType.SCHEMA_ONLY])
async def test_without_posting(home: Home, type: ProcType) -> None:
    article = await home.publish(GIVE_RAISE, replicate_ddl=False, type=type)
    await home.connection.execute(AGAIN.encode())
    assert await posted(home) == []
    altered = await proc_execution.alter_procedure(
        home.connection, article.article_id, replicate_ddl=True
    )
    assert altered.replicate_ddl
    await home.connection.execute(AGAIN.encode())
    assert len(await posted(home)) == 1


async def test_by_the_owner_of_the_routine(home: Home) -> None:
    """An owner without other privileges can redefine a routine, but cannot change its moved body."""
    await home.connection.execute(
        "create role test_owner; create schema app authorization test_owner; "
        "create procedure app.r() language sql as 'select 1'; alter procedure app.r() owner to test_owner"
    )
    try:
        article = await home.publish("", "r", schema="app")
        await home.connection.execute(
            "set role test_owner; create or replace procedure app.r() language plpgsql as "
            "$$ begin raise sqlstate 'ZZ001' using message = current_user; end $$; reset role"
        )
        with pytest.raises(psycopg.Error) as caught:
            await home.connection.execute("call app.r()")
        assert caught.value.sqlstate == "ZZ001"
        assert len(await posted(home)) == 1
        owners = await home.rows(
            "select distinct proowner::regrole::text from pg_proc where proname = 'r'"
        )
        assert owners == [("test_owner",)]
        for statement in (
            f"alter procedure msrepl_body_{article.article_id}.r() security definer",
            f"drop procedure msrepl_body_{article.article_id}.r()",
            f"create or replace procedure msrepl_body_{article.article_id}.r() language sql as ''",
        ):
            with pytest.raises(psycopg.Error) as caught:
                await home.connection.execute(
                    f"begin; set local role test_owner; {statement}".encode()
                )
            await home.connection.execute("rollback")
            assert caught.value.sqlstate in ("2BP01", "42501")
        await proc_execution.unpublish_procedure(home.connection, article.article_id)
    finally:
        await home.connection.execute(
            "reset role; drop schema app cascade; drop owned by test_owner; drop role test_owner"
        )


@pytest.mark.parametrize(
    "statement",
    [
        "drop procedure give_raise",
        "drop procedure give_raise(numeric) cascade",
        "alter procedure give_raise rename to take_raise",
        "alter procedure give_raise set schema app",
        "alter schema app rename to other",
        "drop schema app cascade",
        "alter procedure give_raise security definer",
        "alter procedure give_raise set work_mem = '1MB'",
    ],
)
async def test_refused(home: Home, statement: str) -> None:
    """Other DDL on a published routine is refused with a remedy, and has no effect."""
    await home.connection.execute("create schema app")
    await home.publish(GIVE_RAISE)
    await home.publish("create procedure app.r() language sql as 'select 1'", "r", schema="app")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist) as caught:
        await home.connection.execute(statement.encode())
    assert "npublish" in str(caught.value.diag.message_hint)
    await home.serializable("call give_raise(10)", "call app.r()")
    assert len(await home.marks()) == 4


async def test_other_routines_and_tables(home: Home) -> None:
    """DDL on other routines and tables is neither refused nor posted."""
    await home.publish(GIVE_RAISE)
    await home.connection.execute(
        "create procedure other(n int) language sql as 'select 1'; "
        "alter procedure other rename to another; drop procedure another; "
        "create table t (id int); create trigger x before update on t for each row "
        "execute function suppress_redundant_updates_trigger(); drop table t; "
        "create temporary table u (id int); drop table u; grant select on emp to public"
    )
    assert await posted(home) == []


async def test_a_trigger_is_posted(home: Home) -> None:
    """A trigger is posted to the log, because calls that have not seen it must be sent as rows."""
    article = await home.publish(GIVE_RAISE)
    await home.connection.execute(
        "create trigger x before update on emp for each row execute function suppress_redundant_updates_trigger()"
    )
    assert await posted(home) == [{"article": article.article_id}]
    await home.connection.execute("alter table emp disable trigger x")
    assert len(await posted(home)) == 2
    await home.serializable("call give_raise(10)")
    assert len(await home.marks()) == 2


async def test_ddl_waits_for_callers(home: Home) -> None:
    """DDL waits for calls, so that each call in the log ran the definition that precedes it."""
    article = await home.publish(GIVE_RAISE)
    other = await home.another()
    async with other:
        await other.execute("begin isolation level serializable; call give_raise(1)")
        await home.connection.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            await home.connection.execute(AGAIN.encode())
        with pytest.raises(psycopg.errors.LockNotAvailable):
            await proc_execution.unpublish_procedure(home.connection, article.article_id)
        await other.execute("commit")
    await home.connection.execute(AGAIN.encode())
    assert json.loads(json.dumps(await posted(home)))[0]["article"] == article.article_id


COMMITS = """
create or replace procedure give_raise(pct numeric) language plpgsql as $body$
begin
    update emp set salary = salary + pct;
    {text}
end
$body$
"""


async def test_a_new_text_that_ends_transactions(home: Home) -> None:
    """A new text that ends transactions is refused; words in strings and comments are ignored."""
    await home.publish(GIVE_RAISE)
    for text in ("commit;", "if pct > 0 then rollback; end if;", "/* a\n' */ COMMIT AND CHAIN;"):
        with pytest.raises(
            psycopg.errors.DependentObjectsStillExist, match="cannot end transactions"
        ) as caught:
            await home.connection.execute(COMMITS.format(text=text).encode())
        assert "twopc procedure unpublish" in str(caught.value.diag.message_hint)
    for text in ("-- then commit;", "/* ;\ncommit; */", "perform ';commit', e'\\';rollback';"):
        await home.connection.execute(COMMITS.format(text=text).encode())
    await home.serializable("call give_raise(1)")
    assert await home.rows("select salary from emp where id = 1") == [(101,)]
