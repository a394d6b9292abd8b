"""Agents with calls of routines among the rows that they deliver, stored by hand."""

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
    """A table and a routine, for a Subscriber that reads unless other terms say something else."""
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
    """A call."""
    text = ProcCall(values=(str(value),), **parts).as_text()
    return Does(operation="", values=(), article_id=ADD.article_id, type=CALL_TYPE, text=text)


def aside(command: Does) -> Does:
    """A command that belongs to a call."""
    return Does(
        operation=command.operation,
        values=command.values,
        article_id=command.article_id + BESIDE,
        hashkey=command.hashkey,
    )


def row(key: int, n: int) -> Does:
    """An INSERT, for the stream of its key."""
    return ins(key, n, "v", hashkey=key)


def mixed(count: int) -> tuple[list[list[Does]], list[tuple[int, int]]]:
    """Transactions with a call between two rows each, and the rows that they come to."""
    transactions, rows = [], {}
    for n in range(1, count + 1):
        transactions.append([row(n, n), add(n), row(n + 1000, n)])
        rows[n] = n
        rows = {key: after(value, n) for key, value in rows.items()}
        rows[n + 1000] = n
    return transactions, sorted(rows.items())


def after(value: int, added: int) -> int:
    """What the routine makes of a value: the order of calls shows."""
    return (value * 10 + added) % 9973


@pytest.mark.parametrize("size", [1, 100])
async def test_calls_keep_their_places(ends: Ends, size: int) -> None:
    """Within a transaction, and among those of one commit: each row has gone through the calls after it."""
    await prepare(ends)
    transactions, rows = mixed(40)
    await ends.store_all(transactions)

    done = await ends.agent(commit_batch_size=size).run_once()

    assert await ends.rows(columns="id, n") == rows
    assert (done.batches, done.commands) == (-(-40 // size), 120)


async def test_one_connection_for_calls(ends: Ends) -> None:
    """With several streams a batch that has a call goes over one; others go over all."""
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
    """It travels in blocks: what streams have taken of it before the call is taken back."""
    await prepare(ends)
    before = [row(n, 0) for n in range(1, 61)]
    await ends.store(*before, add(7), *[row(n, 0) for n in range(61, 91)])
    agent = ends.agent(subscription_streams=3, block_commands=20)
    await agent.run_once()
    assert await ends.rows(columns="id, n") == [(n, 7 if n <= 60 else 0) for n in range(1, 91)]
    assert await ends.prepared() == []


async def test_nothing_moves_across_a_call(ends: Ends) -> None:
    """Commands of two tables that could be brought apart are not, where a routine sees both."""
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
    """Who changes rows itself gets the rows and no call."""
    await prepare(ends, originator_id=1, loopback_detection=True, update_mode="sync tran")
    await ends.store(row(1, 5), add(7), aside(upd(None, 57, None, 1, mask(3, 2))), row(2, 0))
    done = await ends.agent().run_once()
    assert await ends.rows(columns="id, n") == [(1, 57), (2, 0)]
    assert done.commands == 3


async def test_rows_beside_calls_keep_their_places(ends: Ends) -> None:
    """Many of a kind, which could be brought apart from others: they are of one table with some of those."""
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
    """Up to there it is the rows beside a call that the copy has not seen, from there on calls."""
    await prepare(ends, copy_snapshot="1003:1003:", copy_seqno=lsn_text(0x1000 + 4 * 0x100))
    # seen by the copy; not seen, and before its end; after it
    await ends.store(row(1, 0), add(1), aside(upd(None, 1, None, 1, mask(3, 2))))
    await ends.store(row(3, 0))
    await ends.store(row(2, 0), add(2), aside(upd(None, 2, None, 2, mask(3, 2))))
    await ends.store(add(3), aside(upd(None, 3, None, 2, mask(3, 2))))
    await ends.store(add(4), aside(upd(None, 999, None, 2, mask(3, 2))))
    await ends.agent().run_once()
    assert await ends.rows(columns="id, n") == [(2, 34)]


async def test_definitions(ends: Ends) -> None:
    """One that comes between two calls holds for the second."""
    await prepare(ends)
    text = json.dumps({"definition": ADD.definition.replace("$1)", "2 * $1)")})
    define = Does(operation="", values=(), article_id=beside(9), type=DEFINITION_TYPE, text=text)
    await ends.store(row(1, 0), add(1))
    await ends.store(define)
    await ends.store(add(1))
    await ends.agent().run_once()
    assert await ends.rows(columns="n") == [(12,)]


async def test_failure(ends: Ends) -> None:
    """The agent stops with the call, readable; what came before is there. To be skipped, it is."""
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
    """What is in the way at a Subscriber that reads is drift, never a change of its own that is ahead."""
    await prepare(ends)
    await ends.sub.execute("insert into t values (1, 1, 'drift')")
    await ends.store(row(1, 0), add(1))
    agent = ends.agent()
    with pytest.raises(DeliveryError, match="duplicate key"):
        await agent.run_once(final=False)
    assert await ends.history("net", "retry") == []
    assert await ends.rows(columns="n") == [(1,)]


async def test_killed_in_a_call(ends: Ends) -> None:
    """The agent's session ends while the routine waits: the call is made again, and once."""
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
    """A routine that is not here any more: said so, and nothing else."""
    await prepare(ends)
    await ends.sub.execute("drop procedure add_to_all")
    await ends.store(add(1))
    with pytest.raises(
        DeliveryError, match=r"call of public.add_to_all\(integer\).*does not exist"
    ):
        await ends.agent().run_once()


def test_terms_that_end() -> None:
    """An article that is wanted up to a position, beside one that is wanted from there on."""
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
