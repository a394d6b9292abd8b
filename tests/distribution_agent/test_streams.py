"""Tests of several streams: each batch is applied as a whole, and over one connection after a conflict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.distribution_agent.ends import Does, Ends, dele, ins, upd
from tests.distribution_agent.test_delivery import AUDIT
from tests.fix_server import Database
from tests.propagation.here import mask
from twopc.drivers import Points
from twopc.errors import DeliveryError, ServerError
from twopc.server import EmbeddedServer
from twopc.subscriber.distribution_agent import session

TABLE = "create table t (id integer primary key, v text, n integer)"


@pytest.fixture(autouse=True)
def _one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_SET_MIN", 10**9)


def spread(*commands: Does) -> list[Does]:
    """Return the commands with consecutive hash keys."""
    return [
        Does(
            operation=each.operation,
            values=each.values,
            article_id=each.article_id,
            hashkey=at % 63 + 1,
        )
        for at, each in enumerate(commands)
    ]


@pytest.mark.parametrize("streams", [2, 7, 64])
async def test_commands_are_spread_over_connections(ends: Ends, streams: int) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.encode())
    for n in range(10):
        await ends.store(*spread(*(ins(63 * n + at, "", 0) for at in range(63))))
    agent = ends.agent(subscription_streams=streams)
    delivered = await agent.run_once()
    assert (delivered.transactions, delivered.commands, delivered.batches) == (10, 630, 1)
    assert len(await ends.rows()) == 630
    backends = {backend for (_, backend) in await ends.rows("audit", "n, backend")}
    assert len(backends) == min(streams, 63)
    assert await ends.prepared() == []
    assert await ends.history("serial", "failed", "retry") == []
    assert await ends.position() == ends.at


async def test_key_0_goes_over_the_first(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.encode())
    await ends.store(ins(1, "", 0), *spread(ins(2, "", 0), ins(3, "", 0)), ins(4, "", 0))
    agent = ends.agent(subscription_streams=2)
    await agent.run_once()
    made = dict(await ends.rows("audit", "id, backend"))
    assert made[1] == made[4] == made[3] != made[2]


async def test_a_batch_for_one_stream_needs_no_prepare(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.encode())
    await ends.store(*(ins(n, "", 0, hashkey=5) for n in range(10)))
    agent = ends.agent(subscription_streams=8)
    assert (await agent.run_once()).batches == 1
    assert len({xid for _, xid in await ends.rows("audit", "n, xid::text")}) == 1


async def test_a_large_transaction_in_blocks(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(*spread(*(ins(n, "", n) for n in range(1000))))
    agent = ends.agent(subscription_streams=3, block_commands=90, commit_batch_threshold=50)
    assert (await agent.run_once()).commands == 1000
    assert len(await ends.rows()) == 1000
    assert await ends.history("serial") == []


async def test_a_key_that_moves_on(ends: Ends) -> None:
    """Updates of one key over two streams, 1 → 2 and 2 → 3, are applied over one connection."""
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "moves", 0))
    agent = ends.agent(subscription_streams=2)
    await agent.run_once()
    await ends.store(upd(2, None, None, 1, mask(3, 1), hashkey=1), ins(50, "", 0, hashkey=1))
    await ends.store(upd(3, None, None, 2, mask(3, 1), hashkey=2))
    await ends.store(*spread(ins(60, "", 0), ins(61, "", 0)))
    assert (await agent.run_once()).transactions == 3
    assert await ends.rows("t", "id, v") == [(3, "moves"), (50, ""), (60, ""), (61, "")]
    fallback = (await ends.history("serial"))[0]
    assert "one connection" in fallback["message"] and "not found" in fallback["message"]
    assert await ends.prepared() == []

    await ends.store(*spread(ins(70, "", 0), ins(71, "", 0)))
    assert (await agent.run_once()).batches == 1
    assert len(await ends.history("serial")) == 1, "then streams work again"


async def test_a_foreign_key_that_is_for_replication_too(ends: Ends) -> None:
    """A foreign key that is enforced for agents makes the agent fall back to one connection.

    Child rows are sent over another stream than their parents, so the Publisher's order is
    not kept.
    """
    await ends.subscribe("create table p (id integer primary key)", table="p", article_id=6)
    await ends.subscribe("create table t (id integer primary key, p integer references p)")
    await ends.sub.execute(
        b"do $$ declare g record; begin for g in select tgrelid::regclass as t, tgname from pg_trigger"
        b" where tgname like 'RI_Constraint%' loop"
        b" execute format('alter table %s enable always trigger %I', g.t, g.tgname); end loop; end $$"
    )
    await ends.store(ins(1, article_id=6, hashkey=1), ins(10, 1, hashkey=2))
    agent = ends.agent(subscription_streams=2)
    assert (await agent.run_once()).commands == 2
    assert await ends.rows() == [(10, 1)]
    assert len(await ends.history("serial")) == 1


async def test_streams_that_wait_for_each_other(ends: Ends) -> None:
    """Streams that change the same row wait for each other, and the agent falls back to one connection.

    The second waits for the first, which is prepared and waits for the second. PostgreSQL does not
    detect this.
    """
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "", 0), ins(2, "", 0))
    agent = ends.agent(subscription_streams=2)
    await agent.run_once()
    await ends.store(
        upd(None, "first", None, 1, mask(3, 2), hashkey=1),
        upd(None, "last", None, 1, mask(3, 2), hashkey=2),
        *spread(ins(3, "a", 0), ins(4, "b", 0)),
    )
    assert (await agent.run_once()).commands == 4
    assert await ends.rows("t", "id, v") == [(1, "last"), (2, ""), (3, "a"), (4, "b")]
    assert "waited for another" in (await ends.history("serial"))[0]["message"]
    assert await ends.prepared() == []


async def test_a_unique_value_that_passes_from_row_to_row(ends: Ends) -> None:
    """A unique value that moves between rows of two streams is delivered over one connection.

    The value is still taken, or the stream waits for it.
    """
    await ends.subscribe(f"{TABLE}; create unique index on t (v)")
    await ends.store(ins(1, "taken", 0))
    agent = ends.agent(subscription_streams=2)
    await agent.run_once()
    await ends.store(dele(1, hashkey=2), ins(2, "taken", 0, hashkey=1))
    assert (await agent.run_once()).commands == 2
    assert await ends.rows("t", "id, v") == [(2, "taken")]
    assert len(await ends.history("serial")) == 1
    assert await ends.prepared() == []


async def test_a_wait_for_somebody_else_is_only_waited_for(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(*spread(*(ins(n, "", 0) for n in range(4))))
    agent = ends.agent(subscription_streams=2)
    await agent.run_once()
    await ends.store(*spread(*(upd(None, "z", None, n, mask(3, 2)) for n in range(4))))
    async with ends.sub.transaction():
        await ends.sub.execute(b"update t set n = 5 where id = 2")
        running = asyncio.create_task(agent.run_once())
        await ends.until_waiting(1)
        await ends.until_looked_at(3)
    assert (await running).commands == 4
    assert {v for _, v in await ends.rows("t", "id, v")} == {"z"}
    assert await ends.history("serial") == []


async def test_an_error_that_stays(ends: Ends) -> None:
    await ends.subscribe(TABLE, originator_id=None)
    await ends.store(*spread(*(ins(n, "", 0) for n in range(10))))
    bad = await ends.store(*spread(ins(20, "", 0), dele(99)))
    agent = ends.agent(subscription_streams=4)
    with pytest.raises(DeliveryError, match="id = 99") as caught:
        await agent.run_once()
    assert caught.value.seqno == bad.seqno
    assert len(await ends.rows()) == 10
    assert await ends.prepared() == []


async def test_skipping_with_streams(ends: Ends) -> None:
    await ends.subscribe(TABLE, originator_id=None)
    await ends.store(*spread(ins(1, "", 0), ins(2, "", 0)))
    await ends.store(*spread(ins(20, "", 0), dele(99)))
    await ends.store(*spread(ins(3, "", 0), ins(4, "", 0)))
    agent = ends.agent(subscription_streams=4, skip_errors=("20598",))
    assert (await agent.run_once()).skipped == 1
    assert await ends.rows("t", "id") == [(1,), (2,), (3,), (4,)]


async def test_prepared_transactions_of_others_are_left_alone(ends: Ends) -> None:
    """An agent leaves prepared transactions of others, even one with a gid of its own streams."""
    await ends.subscribe(TABLE)
    rows = await (
        await ends.sub.execute("select oid from pg_database where datname = current_database()")
    ).fetchall()
    stranger = f"stranger_{rows[0][0]}"
    await ends.sub.execute(
        f"create role {stranger}; grant create on schema public to {stranger}".encode()
    )
    for gid in (
        "twopc:c:1:1:sub1",
        "msrepl_agent:other:5:77:0",
        "msrepl_agent:pub:1:77:0",
        f"msrepl_agent:pub:{rows[0][0]}:9:0",
    ):
        async with ends.sub.cursor() as cursor:
            await cursor.execute(f"begin; set local role {stranger}".encode())
            await cursor.execute(b"create table if not exists strange_%d ()" % len(gid))
            await cursor.execute(f"prepare transaction '{gid}'".encode())
    agent = ends.agent(subscription_streams=2)
    try:
        await agent.open()
        assert len(await ends.prepared()) == 4
    finally:
        for gid in await ends.prepared():
            await ends.sub.execute(f"rollback prepared '{gid}'".encode())
        await ends.sub.execute(f"drop owned by {stranger}; drop role {stranger}".encode())


async def test_readers_never_see_a_part_with_one_stream(ends: Ends) -> None:
    """A reader never sees a part of a source transaction that one stream applies.

    Every transaction moves an amount between two rows, so that their sum does not change.
    """
    await ends.subscribe(TABLE)
    await ends.store(*(ins(n, "", 100) for n in range(10)))
    agent = ends.agent(commit_batch_size=3)
    await agent.run_once()
    amounts = [100] * 10
    transactions = []
    for step in range(600):
        one, other = step % 10, (step * 7 + 3) % 10
        if one == other:
            continue
        amounts[one] -= 1
        amounts[other] += 1
        transactions.append([upd(None, None, amounts[n], n, mask(3, 3)) for n in (one, other)])
    await ends.store_all(transactions)
    sums: set[Any] = set()
    states = 0
    running = asyncio.create_task(agent.run_once())
    while not running.done():
        cursor = await ends.sub.execute(b"select sum(n), sum(n * n * id) from t")
        row = await cursor.fetchone()
        assert row is not None
        sums.add(row[0])
        states += 1
    assert (await running).transactions == len(transactions)
    assert sums == {1000}
    assert states > 5
    assert [n for _, n in await ends.rows("t", "id, n")] == amounts


async def test_there_must_be_room_for_what_streams_prepare(ends: Ends) -> None:
    home = ends.subscriber
    with EmbeddedServer.start(settings={"max_prepared_transactions": "2"}) as server:
        server.create_database("narrow")
        ends.subscriber = Database(server=server, name="narrow")
        await ends.move()
        await ends.subscribe(TABLE)
        await ends.store(*spread(ins(1, "", 0), ins(2, "", 0)))
        with pytest.raises(ServerError, match="max_prepared_transactions is 2"):
            await ends.agent(subscription_streams=3).run_once()
        agent = ends.agent(subscription_streams=2)
        assert (await agent.run_once()).commands == 2
        await agent.close()
    ends.subscriber = home


async def test_what_a_cancelled_call_has_left_is_settled_by_the_next(ends: Ends) -> None:
    """An agent settles the transactions that its own cancelled call left prepared."""
    await ends.subscribe(TABLE)
    await ends.store(*spread(*(ins(n, "", 0) for n in range(10))))
    points, reached = Points(), asyncio.Event()

    async def halt(_: str) -> None:
        reached.set()
        await asyncio.Event().wait()

    points.arm("agent.prepared", halt)
    agent = ends.agent(points=points, subscription_streams=2)
    cancelled = asyncio.create_task(agent.run_once())
    await reached.wait()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    async with asyncio.timeout(20):
        await agent.run_once()
    assert len(await ends.rows()) == 10
    assert await ends.prepared() == []
