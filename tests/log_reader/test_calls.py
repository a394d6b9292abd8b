"""Tests of calls of published routines on a Publisher, read from its log and stored."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.fix_server import MakeDatabase
from tests.log_reader.rig import Rig, rig, rows, value
from twopc.drivers.points import Points
from twopc.proc_execution import BESIDE, ProcArticle, ProcCall
from twopc.publisher import distribution, proc_execution
from twopc.publisher.log_reader import LogReaderProfile

GIVE_RAISE = """
create procedure give_raise(pct numeric) language sql
as $$ update item set price = price * (100 + pct) / 100 $$
"""
#: Reads as little as possible at a time, so that parts of transactions are stored.
LITTLE = LogReaderProfile(catch_up_bytes=0, store_bytes=1, peek_messages=1)


@pytest.fixture
async def called(make_database: MakeDatabase) -> AsyncIterator[Rig]:
    """A Publisher with three rows in ``item``, stored calls of ``give_raise``, and a read-only Subscriber."""
    async with rig(make_database(), make_database()) as made:
        await made.pub.execute(
            "create table item (id int primary key, price numeric); "
            "insert into item select g, 100 from generate_series(1, 3) g"
        )
        await made.publish("item")
        await made.pub.execute(GIVE_RAISE.encode())
        await publish(made, "give_raise")
        yield made


async def publish(made: Rig, name: str, *, mode: str = "read only") -> ProcArticle:
    """Publish a routine, subscribe a Subscriber to it, and store its calls."""
    article = await proc_execution.publish_procedure(made.pub, "public", name)
    await distribution.put_proc_article(made.dist, made.number, article)
    known = [each.article_id for each in await distribution.articles(made.dist, made.number)]
    for number in (*known, article.article_id + BESIDE, article.article_id):
        if number != article.article_id or mode == "read only":
            await distribution.add_subscription(
                made.dist, made.number, number, f"sub {mode}", status=distribution.ACTIVE,
                update_mode=mode, subscription_seqno="0/1",
            )  # fmt: skip
    await switch(made)
    return article


async def switch(made: Rig) -> None:
    """Store the calls of routines with subscriptions."""
    await proc_execution.set_called(made.pub, await distribution.set_calls(made.dist, made.number))


async def call(made: Rig, *statements: str) -> None:
    """Run a serializable transaction, by default with one call."""
    text = "; ".join(statements or ("call give_raise(10)",))
    await made.pub.execute(f"begin isolation level serializable; {text}; commit".encode())


async def kinds(made: Rig) -> list[tuple[int, int]]:
    """Return transaction and type of every command."""
    return [(at, kind) for at, _, kind, _ in await made.commands()]


@pytest.mark.parametrize("peek", [True, False])
async def test_one_command(called: Rig, peek: bool) -> None:
    await call(called)
    await called.pub.execute("update item set price = 1 where id = 1")
    await called.read(reading=LogReaderProfile(catch_up_bytes=0 if peek else 1 << 40))
    stored = await called.commands()
    assert [(at, kind) for at, _, kind, _ in stored] == [(1, 30), (2, 2)]
    assert ProcCall.parse(stored[0][3]).values == ("10",)
    assert len(stored[0][3]) < 120


async def test_browsed(called: Rig) -> None:
    await call(called)
    await called.pub.execute(
        "create or replace procedure give_raise(pct numeric) language sql as $$ select 1 $$"
    )
    await called.read()
    found = await distribution.browse(called.dist, "pub")
    assert [each.article for each in found] == ["give_raise", "give_raise"]
    assert found[0].text == '{call "public"."give_raise" (10)}'
    assert found[1].text.startswith("CREATE OR REPLACE PROCEDURE public.give_raise(IN pct numeric)")
    assert found == await distribution.browse(called.dist, "pub", article="give_raise")


async def test_outside_of_serializable_rows_travel(called: Rig) -> None:
    await called.pub.execute("call give_raise(10)")
    await called.read()
    assert await kinds(called) == [(1, 2)] * 3


async def test_what_is_rolled_back_is_not_stored(called: Rig) -> None:
    await call(
        called,
        "savepoint s", "call give_raise(1)", "rollback to s",
        "call give_raise(2)",
        "savepoint t", "call give_raise(3)", "release t",
    )  # fmt: skip
    await called.read()
    assert [ProcCall.parse(text).values for text in await called.texts()] == [("2",), ("3",)]


async def test_a_prepared_caller(called: Rig) -> None:
    """A prepared call is stored at its commit, as rows if an unseen writer committed before."""
    for gid, between in (("g1", False), ("g2", True)):
        await called.pub.execute(
            f"begin isolation level serializable; call give_raise(10); prepare transaction '{gid}'".encode()
        )
        if between:
            await called.pub.execute("insert into item values (9, 1)")
        await called.pub.execute(f"commit prepared '{gid}'".encode())
    await called.read()
    assert await kinds(called) == [(1, 30), (2, 1), *[(3, 2)] * 3]
    assert await rows(
        called.dist, "select event, command from msrepl.msdistribution_history where event = 'rows'"
    ) == [("rows", "call of public.give_raise")]


async def test_a_writer_that_was_not_seen_counts_after_a_restart(called: Rig) -> None:
    """After a restart, a call becomes rows if its snapshot precedes the horizon of known writers."""
    other = await called.pub.__class__.connect(called.publisher.dsn, autocommit=True)
    async with other:
        await other.execute("begin isolation level serializable; select from item")
        await called.pub.execute("insert into item values (9, 1)")
        await called.read()
        await other.execute("call give_raise(10)")
        await other.execute("commit")
    await called.read()
    await call(called)
    await called.read()
    assert await kinds(called) == [(1, 1), *[(2, 2)] * 3, (3, 30)]


@pytest.mark.parametrize("between", [False, True])
async def test_an_obstacle_that_the_caller_has_not_seen(called: Rig, between: bool) -> None:
    """A call becomes rows if its snapshot precedes a trigger, which fires nevertheless.

    The same holds if a reader that stored nothing has read the trigger's definition in between.
    """
    other = await called.pub.__class__.connect(called.publisher.dsn, autocommit=True)
    async with other:
        await other.execute("begin isolation level serializable; select 1 from pg_class limit 1")
        await called.pub.execute(
            """create function f() returns trigger language plpgsql as $$ begin new.price := 0; return new; end $$;
            create trigger t before update on item for each row execute function f()"""
        )
        if between:
            assert (await called.read()).transactions == 0
        await other.execute("call give_raise(10)")
        await other.execute("commit")
    await called.read()
    assert await kinds(called) == [(1, 2)] * 3
    assert await value(called.pub, "select count(*) from msrepl.call_marker") == 2


async def test_nobody_takes_calls_any_more(called: Rig) -> None:
    """Calls marked before the last subscription was dropped, but read later, become rows."""
    await call(called)
    await distribution.drop_subscription(called.dist, called.number, "sub read only")
    await switch(called)
    await call(called)
    await called.read()
    assert await kinds(called) == [*[(1, 2)] * 3, *[(2, 2)] * 3]


async def test_rows_beside_for_who_changes_its_copy(called: Rig) -> None:
    article = await value(called.dist, "select max(article_id) from msrepl.mssubscriptions")
    await distribution.add_subscription(
        called.dist, called.number, 1, "sub2", status=distribution.ACTIVE
    )
    await distribution.add_subscription(
        called.dist, called.number, article, "sub2", status=distribution.ACTIVE
    )
    await call(called)
    await called.read()
    assert [(number, kind) for _, number, kind, _ in await called.commands()] == [
        *[(1 + BESIDE, 2)] * 3,
        (article - BESIDE, 30),
    ]


async def test_killed_within_a_call(called: Rig) -> None:
    """A log reader that crashes within a call leaves no streamed rows of the call behind."""
    await distribution.add_subscription(
        called.dist, called.number, 1, "sub2", status=distribution.ACTIVE
    )
    await called.pub.execute("insert into item select g, 1 from generate_series(4, 3000) g")
    await called.read()
    await call(called)
    points = Points()
    points.arm("log_reader.streamed", _die)
    reader = called.reader(reading=LITTLE, points=points)
    with pytest.raises(ZeroDivisionError):
        await reader.run_once()
    await reader.close()
    assert {at for at, _ in await kinds(called)} == {1}
    await called.read(reading=LITTLE)
    assert [kind for at, kind in await kinds(called) if at == 2] == [*[2] * 3000, 30]


def _die(_: str) -> None:
    raise ZeroDivisionError


async def test_definitions_stand_among_calls(called: Rig) -> None:
    await call(called)
    await called.pub.execute(GIVE_RAISE.replace("create", "create or replace", 1).encode())
    await call(called)
    await called.read()
    stored = await called.commands()
    assert [kind for *_, kind, _ in stored] == [30, 31, 30]
    assert json.loads(stored[1][3])["definition"].startswith("CREATE OR REPLACE PROCEDURE")


async def test_old_marks_go(called: Rig) -> None:
    await call(called)
    await called.pub.execute(
        "update msrepl.call_marker set created_at = now() - interval '2 hours'"
    )
    await call(called)
    await called.read()
    assert await value(called.pub, "select count(*) from msrepl.call_marker") == 2
