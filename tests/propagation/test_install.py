"""Procedures are created with a subscription, can be replaced and regenerated, and are dropped with it."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.propagation.here import AGENT, Here, mask, propagation
from twopc.errors import SubscriptionError
from twopc.subscriber import propagation as procedures

TABLE = "create table t (id int primary key, name varchar(15), price numeric(12,2))"
_WHAT = """
select p.oid::regprocedure::text from pg_proc p where p.pronamespace in ('msrepl'::regnamespace, 'public'::regnamespace)
union all select t.typname from pg_type t where t.typnamespace = 'msrepl'::regnamespace and t.typtype = 'c'
union all select format('%s %s', relname, relacl) from pg_class where relname ~ '^t'
  and relnamespace = 'public'::regnamespace
union all select nspacl::text from pg_namespace where nspname = 'public'
order by 1
"""


async def what(here: Here) -> list[str]:
    """Return routines, row types and privileges."""
    cursor = await here.admin.execute(_WHAT)
    return [row[0] for row in await cursor.fetchall()]


async def test_nothing_is_left(here: Here) -> None:
    await here.admin.execute(TABLE)
    await here.admin.execute(
        "alter table t add own serial; create function mine(int) returns void return null"
    )
    article = await here.article("t")
    await here.admin.execute(
        "grant select on t, t_own_seq to public; revoke select on t, t_own_seq from public"
    )
    before = await what(here)
    for methods in ({}, {"upd": "XCALL", "dele": "CALL mine"}, {"ins": "SQL", "upd": "NONE"}):
        await procedures.create(here.admin, article, 7, propagation(**methods), AGENT)
        assert await what(here) != before
    await procedures.drop(here.admin, 7)
    await procedures.drop(here.admin, 7)
    assert await what(here) == before
    await procedures.create(here.admin, article, 7, propagation(), AGENT)
    await here.admin.execute("drop table t cascade")
    await procedures.drop_all(here.admin)
    assert "sp_msins_t" not in str(await what(here))


async def test_two_articles_of_one_table(here: Here) -> None:
    """Each article has its own types and wrappers; the Publisher chooses the procedures' names."""
    await here.subscribe(TABLE)
    article = await here.article("t")
    chosen = {each: f"sp_ms{each}_t_12345678" for each in ("ins", "upd", "del")}
    with pytest.raises(
        SubscriptionError, match=r"function sp_msins_t\(.*\) of 'test_\d+' has the name and the"
    ):
        await procedures.create(here.admin, article, 8, propagation(), AGENT)
    await procedures.create(here.admin, article, 8, propagation(), AGENT, procedures=chosen)
    await here.apply("ins", 1, "a", "1.50", article_id=8)
    await procedures.drop(here.admin, 7)
    await here.apply("del", 1, article_id=8)


async def test_a_function_of_the_users_is_not_overwritten(here: Here) -> None:
    await here.admin.execute(TABLE)
    await here.admin.execute("create function sp_msdel_t(x int) returns int return x")
    with pytest.raises(
        SubscriptionError,
        match=r"function sp_msdel_t\(integer\) .* default procedure of t: drop or rename it, or name it",
    ):
        await here.subscribe("select")
    assert await here.rows("sp_msdel_t(5)") == [(5,)]


async def test_replacing_and_regenerating(here: Here, caplog: pytest.LogCaptureFixture) -> None:
    """A default procedure that a user replaced stays in use until it is regenerated, which logs a warning."""
    article = await here.subscribe(TABLE)
    await here.apply("ins", 1, "a", "1.50")
    await here.admin.execute(
        "create or replace function sp_msdel_t(pkc1 int) returns void language plpgsql as "
        "$$ begin update public.t set name = 'kept' where id = pkc1; end $$"
    )
    await here.apply("del", 1)
    assert await here.apply_set("del", [1]) == -1
    assert [row[1] for row in await here.rows()] == ["kept"]
    again = await procedures.regenerate(here.admin, article, 7, propagation(), AGENT)
    assert "default procedures that were replaced are the default again" in caplog.text
    assert again == ["sp_msdel_t(integer)"]
    assert await procedures.regenerate(here.admin, article, 7, propagation(), AGENT) == []
    await here.apply("del", 1)
    assert await here.rows() == []


async def test_the_owner_of_the_table_may_replace_its_procedures(here: Here) -> None:
    await here.admin.execute("drop role if exists shopkeeper; create role shopkeeper")
    try:
        await here.admin.execute("create schema shop authorization shopkeeper")
        await here.subscribe(
            "create table shop.t (id int primary key); alter table shop.t owner to shopkeeper",
            schema="shop",
        )
        await here.admin.execute("set role shopkeeper")
        await here.admin.execute(
            "create or replace function shop.sp_msins_shopt(c1 int) returns void begin atomic select 1; end"
        )
        await here.admin.execute("reset role")
        await here.apply("ins", 1)
        assert await here.rows("shop.t") == []
    finally:
        await here.admin.execute(
            "reset role; drop owned by shopkeeper cascade; drop role shopkeeper"
        )


async def test_after_alter_table(here: Here) -> None:
    """Calls of another shape are refused with a hint, until the procedures are regenerated."""
    await here.subscribe(TABLE)
    await here.apply("ins", 1, "a", "1.50")
    error = await here.fails("ins", 2, "b", "1.50", "new")
    assert error.sqlstate == "55000"
    assert str(error.diag.message_primary).startswith(
        'a call for table t does not fit its procedure "public"."sp_msins_t": malformed record literal'
    )
    assert "Too many columns" in str(error.diag.message_primary)
    assert error.diag.message_hint == (
        "If the table was altered at the Publisher, or `twopc article change` was cut off, "
        "run: twopc regenerate t"
    )
    facts = json.loads(error.diag.message_detail or "")
    assert (facts["kind"], facts["sqlstate"]) == ("stale_article", "22P02")
    assert await here.apply_set("ins", (2, "b", "1.50", "new")) == -1
    error = await here.fails("ins", "no number", "b", "1.50")
    assert "does not fit" in str(error)
    await here.subscribe("alter table t add extra text; alter table t drop price")
    await here.apply("ins", 2, "b", "new")
    await here.apply("upd", None, None, "set", 1, mask(3, 3))
    assert await here.rows() == [(1, "a", "set"), (2, "b", "new")]
    error = await here.fails("ins", 3, "b")
    assert "Too few columns" in str(error.diag.message_primary)


async def test_statements(here: Here) -> None:
    """SQL statements run with the agent's privileges; one that affects no row fails with 20598 as well."""
    await here.subscribe(TABLE, methods={"ins": "SQL", "upd": "SQL", "dele": "SQL"})
    await here.apply_text("ins", b"insert into public.t (id, name) values (1, 'a')")
    await here.apply_text("upd", b"update public.t set name = 'b' where id = 1")
    assert await here.rows() == [(1, "b", None)]
    statement = b"delete from public.t where id = 2"
    with pytest.raises(psycopg.errors.NoDataFound) as caught:
        await here.apply_text("del", statement)
    assert caught.value.diag.message_primary == (
        "the row was not found at the Subscriber when applying the replicated DELETE command for table t (20598)"
    )
    assert json.loads(caught.value.diag.message_detail or "")["statement"] == statement.decode()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await here.apply_text("del", b"delete from pg_catalog.pg_class")


async def test_nobody_else_may_call(here: Here) -> None:
    await here.subscribe(TABLE)
    await here.admin.execute("drop role if exists stranger; create role stranger")
    try:
        await here.admin.execute("grant usage on schema msrepl to stranger; set role stranger")
        for call in (
            "msrepl.apply_7_del('(1)')",
            "msrepl.set_7_del('{(1)}')",
            "msrepl.apply_net('{703}', '{(1)}')",
            "sp_msdel_t(1)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await here.admin.execute(f"select {call}".encode())
    finally:
        await here.admin.execute("reset role; drop owned by stranger; drop role stranger")


async def test_row_security_must_not_hide_rows(here: Here) -> None:
    await here.admin.execute(f"{TABLE}; alter table t enable row level security".encode())
    with pytest.raises(SubscriptionError, match=r"t at .* has row level security.*BYPASSRLS"):
        await here.subscribe("select")
    try:
        await here.admin.execute(f"alter role {AGENT} bypassrls".encode())
        await here.subscribe("select")
        await here.apply("ins", 1, "a", None)
    finally:
        await here.admin.execute(f"alter role {AGENT} nobypassrls".encode())


async def test_no_operator_of_a_users_is_meant(here: Here) -> None:
    """An ``=`` operator that a user creates for varchar, which has none of its own, is not used."""
    await here.subscribe(
        """
        create table t (id varchar(10) primary key, ids int[]);
        create function never(varchar, varchar) returns bool return false;
        create operator = (function = never, leftarg = varchar, rightarg = varchar);
        """
    )
    await here.apply("ins", "a", None)
    await here.apply("upd", None, "{1}", "a", mask(2, 2))
    assert await here.apply_set("del", ["a"]) == 1


async def test_more_values_than_a_row_type_takes(here: Here) -> None:
    columns = ", ".join(f"c{n} int" for n in range(1, 802))
    await here.admin.execute(f"create table t (id int primary key, {columns})".encode())
    with pytest.raises(
        SubscriptionError, match=r"t: XCALL for upd brings 1604 values, PostgreSQL takes 1600"
    ):
        await here.subscribe("select", methods={"upd": "XCALL"})
    await here.subscribe("select", methods={"upd": "MCALL"})
    await here.apply("ins", 1, *range(801))
    await here.apply("upd", 1, *range(801, 0, -1), 1, mask(802, 802))
    assert await here.rows(columns="c1, c801") == [(0, 1)]
