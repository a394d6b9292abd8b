"""Tests of agents that deliver calls of routines among rows."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.distribution_agent.ends import AGENT, SUBSCRIBER, Does, Ends, ins, upd
from tests.propagation.here import mask
from twopc.errors import DeliveryError
from twopc.lsn import lsn_text
from twopc.proc_execution import (
    BESIDE,
    CALL_TYPE,
    DEFINITION_TYPE,
    Argument,
    ProcArticle,
    ProcCall,
    beside,
)
from twopc.publisher.distribution import add_subscription, routines
from twopc.subscriber import proc_execution
from twopc.subscriber.distribution_agent.planner import ArticleTerms, BatchPlanner, PgSnapshot
from twopc.subscriber.distribution_agent.profile import Profile

TABLE = "create table t (id int primary key, n int, msrepl_tran_version text)"
ADD = ProcArticle(
    article_id=9,
    schema="public",
    name="add_to_all",
    kind="p",
    arguments=(Argument(name="", mode="i", type="integer"),),
    definition="CREATE OR REPLACE PROCEDURE public.add_to_all(integer) LANGUAGE plpgsql"
    " AS $$ begin update public.t set n = (n * 10 + $1) % 9973; end $$",
)
READ_ONLY: dict[str, Any] = {
    "originator_id": None,
    "loopback_detection": False,
    "update_mode": "read only",
}


async def prepare(ends: Ends, **terms: Any) -> None:
    """Create a table and a routine, by default with a read-only subscription."""
    given = {**READ_ONLY, **terms}
    await ends.subscribe(TABLE, **given)
    reads = given["update_mode"] == "read only"
    await proc_execution.create(ends.sub, ADD, AGENT, call=reads)
    await routines.put_proc_article(ends.admin, ends.publisher_id, ADD)
    for number in (ADD.article_id, beside(ADD.article_id))[not reads :]:
        await add_subscription(
            ends.admin,
            ends.publisher_id,
            number,
            SUBSCRIBER,
            **{"status": 2, "subscription_seqno": "0/0", **given},
        )


def add(value: int, **parts: Any) -> Does:
    """Return a call."""
    text = ProcCall(values=(str(value),), **parts).as_text()
    return Does(operation="", values=(), article_id=ADD.article_id, type=CALL_TYPE, text=text)


def aside(command: Does) -> Does:
    """Return a command as it is stored beside a call."""
    return Does(
        operation=command.operation,
        values=command.values,
        article_id=command.article_id + BESIDE,
        hashkey=command.hashkey,
    )


def row(key: int, n: int) -> Does:
    """Return an INSERT, for the stream of its key."""
    return ins(key, n, "v", hashkey=key)


def mixed(count: int) -> tuple[list[list[Does]], list[tuple[int, int]]]:
    """Return transactions, each with a call between two rows, and the resulting rows."""
    transactions, rows = [], {}
    for n in range(1, count + 1):
        transactions.append([row(n, n), add(n), row(n + 1000, n)])
        rows[n] = n
        rows = {key: after(value, n) for key, value in rows.items()}
        rows[n + 1000] = n
    return transactions, sorted(rows.items())


def after(value: int, added: int) -> int:
    """Return the routine's result for a value, which depends on the order of calls."""
    return (value * 10 + added) % 9973


@pytest.mark.parametrize("size", [1, 100])
async def test_calls_keep_their_places(ends: Ends, size: int) -> None:
    """Calls keep their order among rows, within a transaction and among those of one commit."""
    await prepare(ends)
    transactions, rows = mixed(40)
    await ends.store_all(transactions)

    done = await ends.agent(commit_batch_size=size).run_once()

    assert await ends.rows(columns="id, n") == rows
    assert (done.batches, done.commands) == (-(-40 // size), 120)


async def test_one_connection_for_calls(ends: Ends) -> None:
    """With several streams, a batch with a call uses one connection, and other batches use all."""
    await prepare(ends)
    transactions, rows = mixed(5)
    await ends.store_all(transactions)
    agent = ends.agent(subscription_streams=3)
    await agent.run_once()
    assert await ends.rows(columns="id, n") == rows
    await ends.store(row(1, 0), row(2, 0))
    assert "a call may touch any row" in (await ends.history("serial"))[0]["message"]
    assert len(await ends.history("serial")) == 1


async def test_one_connection_for_a_large_transaction(ends: Ends) -> None:
    """A large transaction in blocks falls back to one connection at its first call.

    What streams have applied of it before is rolled back.
    """
    await prepare(ends)
    before = [row(n, 0) for n in range(1, 61)]
    await ends.store(*before, add(7), *[row(n, 0) for n in range(61, 91)])
    agent = ends.agent(subscription_streams=3, block_commands=20)
    await agent.run_once()
    assert await ends.rows(columns="id, n") == [(n, 7 if n <= 60 else 0) for n in range(1, 91)]
    assert await ends.prepared() == []


async def test_nothing_moves_across_a_call(ends: Ends) -> None:
    """Commands of two tables are not grouped across a call, because a routine may see both."""
    await prepare(ends)
    await ends.subscribe(TABLE.replace("table t", "table u"), table="u", article_id=8, **READ_ONLY)
    count = 600
    commands = [
        each
        for n in range(1, count + 1)
        for each in (row(n, 0), ins(n, 0, "v", article_id=8, hashkey=n))
    ]
    await ends.store(*commands[:count], add(3), *commands[count:])
    await ends.agent().run_once()
    assert await ends.rows(columns="count(*), sum(n)") == [(count, 3 * count // 2)]
    assert await ends.rows("u", "count(*)") == [(count,)]


async def test_rows_beside_calls(ends: Ends) -> None:
    """A Subscriber that changes rows itself gets the rows of a call instead of the call."""
    await prepare(ends, originator_id=1, loopback_detection=True, update_mode="sync tran")
    await ends.store(row(1, 5), add(7), aside(upd(None, 57, None, 1, mask(3, 2))), row(2, 0))
    done = await ends.agent().run_once()
    assert await ends.rows(columns="id, n") == [(1, 57), (2, 0)]
    assert done.commands == 3


async def test_rows_beside_calls_keep_their_places(ends: Ends) -> None:
    """Rows beside calls keep their order among other commands of their table, despite grouping."""
    await prepare(ends, originator_id=1, loopback_detection=True, update_mode="sync tran")
    keys = range(1, 401)
    await ends.store(*[row(n, 0) for n in keys])
    agent = ends.agent(commit_batch_threshold=10_000)
    await agent.run_once()
    changes = [
        [upd(None, n, None, key, mask(3, 2), hashkey=key) for key in keys] for n in (1, 2, 3)
    ]
    await ends.store(*map(aside, changes[0]), *changes[1], *map(aside, changes[2][:100]))
    await ends.store(*map(aside, changes[0][100:300]))
    await agent.run_once()
    assert await ends.rows(columns="min(n), max(n), sum(n)") == [(1, 3, 700)]


async def test_calls_begin_where_the_copy_ends(ends: Ends) -> None:
    """Up to the end of its copy a Subscriber gets unseen rows beside calls, and calls from there on."""
    await prepare(ends, copy_snapshot="1003:1003:", copy_seqno=lsn_text(0x1000 + 4 * 0x100))
    # seen by the copy; not seen, before its end; after its end
    await ends.store(row(1, 0), add(1), aside(upd(None, 1, None, 1, mask(3, 2))))
    await ends.store(row(3, 0))
    await ends.store(row(2, 0), add(2), aside(upd(None, 2, None, 2, mask(3, 2))))
    await ends.store(add(3), aside(upd(None, 3, None, 2, mask(3, 2))))
    await ends.store(add(4), aside(upd(None, 999, None, 2, mask(3, 2))))
    await ends.agent().run_once()
    assert await ends.rows(columns="id, n") == [(2, 34)]


async def test_definitions(ends: Ends) -> None:
    """A definition between two calls applies to the second."""
    await prepare(ends)
    text = json.dumps({"definition": ADD.definition.replace("$1)", "2 * $1)")})
    define = Does(operation="", values=(), article_id=beside(9), type=DEFINITION_TYPE, text=text)
    await ends.store(row(1, 0), add(1))
    await ends.store(define)
    await ends.store(add(1))
    await ends.agent().run_once()
    assert await ends.rows(columns="n") == [(12,)]


async def test_failure(ends: Ends) -> None:
    """A failed call stops the agent with a readable command, after earlier transactions.

    An agent that skips the error skips its transaction.
    """
    await prepare(ends)
    await ends.store(row(1, 1))
    bad = await ends.store(row(2, 2), add(0, failure="23503"))
    await ends.store(row(3, 3))

    agent = ends.agent()
    with pytest.raises(DeliveryError) as caught:
        await agent.run_once()
    await agent.close()

    assert caught.value.sqlstate == "23503"
    assert f"transaction {bad.seqno}, command 2, call of public.add_to_all(integer): " in str(
        caught.value
    )
    assert caught.value.command == '{call "public"."add_to_all" (0)}'
    assert await ends.rows(columns="id") == [(1,)]
    done = await ends.agent(skip_errors=["23503"]).run_once()
    assert (done.skipped, await ends.rows(columns="id")) == (1, [(1,), (3,)])
    assert [each["command"] for each in await ends.history("skipped")] == [
        '{call "public"."add_to_all" (0)}'
    ]


async def test_no_net_effect(ends: Ends) -> None:
    """A conflicting row at a read-only Subscriber is drift, so the agent does not apply the net effect.

    It cannot be a later change of the Subscriber itself.
    """
    await prepare(ends)
    await ends.sub.execute("insert into t values (1, 1, 'drift')")
    await ends.store(row(1, 0), add(1))
    agent = ends.agent()
    with pytest.raises(DeliveryError, match="duplicate key"):
        await agent.run_once(final=False)
    assert await ends.history("net", "retry") == []
    assert await ends.rows(columns="n") == [(1,)]


async def test_killed_in_a_call(ends: Ends) -> None:
    """A call that was interrupted by the end of the agent's session is repeated, and applied once."""
    await prepare(ends)
    await ends.store(row(1, 1), row(2, 2))
    agent = ends.agent()
    await agent.run_once()
    await ends.store(add(5), row(3, 3), add(6))
    async with ends.sub.transaction():
        await ends.sub.execute("select from t where id = 2 for update")
        running = asyncio.create_task(agent.run_once())
        await ends.until_waiting(1)
        killed = await ends.sub.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where datname = current_database() and wait_event_type = 'Lock'"
        )
        assert await killed.fetchall() == [(True,)]
    await running
    rows = [(1, after(after(1, 5), 6)), (2, after(after(2, 5), 6)), (3, after(3, 6))]
    assert await ends.rows(columns="id, n") == rows


async def test_no_definition_takes_a_call(ends: Ends) -> None:
    """A call of a routine that does not exist fails with the routine's name."""
    await prepare(ends)
    await ends.sub.execute("drop procedure add_to_all")
    await ends.store(add(1))
    with pytest.raises(
        DeliveryError, match=r"call of public.add_to_all\(integer\).*does not exist"
    ):
        await ends.agent().run_once()


def test_terms_that_end() -> None:
    """Articles are selected by position: rows beside calls up to the copy's end, calls after it."""
    copy = PgSnapshot.parse("10:10:")
    planner = BatchPlanner(
        [
            ArticleTerms(article_id=1, copy=copy, copied_to=50),
            ArticleTerms(article_id=1 + BESIDE, copy=copy, copied_to=50, upto=50),
            ArticleTerms(article_id=9, after=50),
        ],
        Profile(),
        [930],
    )
    assert planner.articles_for(40, 9) == ()
    assert planner.articles_for(40, 11) == (1, 1 + BESIDE)
    assert planner.articles_for(50, 11) == (1, 1 + BESIDE)
    assert planner.articles_for(51, 11) == (1, 9)
    assert (planner.is_call(930), planner.is_call(901), planner.own.originator) == (
        True,
        False,
        None,
    )
