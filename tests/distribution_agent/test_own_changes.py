"""Tests of updatable subscriptions: the Subscriber's own rows may be newer than its agent's position.

Changes of the Publisher and of the Subscriber are stored in the order of the Publisher's log; the
Subscriber has its own changes already.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.distribution_agent.ends import Does, Ends, dele, ins, upd
from tests.propagation.here import mask
from twopc.errors import DeliveryError
from twopc.lsn import lsn_text
from twopc.propagation import CommandType
from twopc.subscriber.distribution_agent import AheadError

TABLE = "create table t (id integer primary key, u text unique, n integer)"


async def test_a_key_inserted_deleted_and_inserted_again(ends: Ends) -> None:
    """The Publisher inserts and deletes a key, then the Subscriber inserts it.

    The key exists at the Subscriber when the first INSERT arrives.
    """
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (5, 'own', 1)")
    await ends.store(ins(4, "before", 0))
    await ends.store(ins(5, "theirs", 0))
    await ends.store(dele(5))
    own = await ends.store(ins(5, "own", 1), own=True)
    await ends.store(upd(None, None, 9, 5, mask(3, 3)))
    agent = ends.agent()
    assert (await agent.run_once()).transactions == 4
    assert await ends.rows() == [(4, "before", 0), (5, "own", 9)]
    assert await ends.position() == ends.at
    net = (await ends.history("net"))[0]
    assert (net["xact_seqno"], net["transactions"], net["commands"]) == (own.seqno, 2, 0)


async def test_a_unique_value_inserted_deleted_and_inserted_again(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (2, 'wanted', 1)")
    await ends.store(ins(9, "wanted", 0))
    await ends.store(ins(10, "stays", 0))
    await ends.store(dele(9))
    await ends.store(ins(2, "wanted", 1), own=True)
    agent = ends.agent()
    await agent.run_once()
    assert await ends.rows() == [(2, "wanted", 1), (10, "stays", 0)]


async def test_a_unique_value_that_passes_through_an_update(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (1, 'a', 0), (2, 'wanted', 1)")
    await ends.store(upd(None, "wanted", None, 1, mask(3, 2)))
    await ends.store(upd(None, "b", 7, 1, mask(3, 2, 3)))
    await ends.store(ins(2, "wanted", 1), own=True)
    agent = ends.agent()
    await agent.run_once()
    assert await ends.rows() == [(1, "b", 7), (2, "wanted", 1)]


async def test_a_key_that_others_move_through(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (1, 'moves', 0), (5, 'own', 1)")
    await ends.store(upd(5, None, None, 1, mask(3, 1)))
    await ends.store(upd(6, None, 3, 5, mask(3, 1, 3)))
    await ends.store(ins(5, "own", 1), own=True)
    agent = ends.agent()
    await agent.run_once()
    assert await ends.rows() == [(5, "own", 1), (6, "moves", 3)]


async def test_the_own_transaction_that_explains_it_may_be_a_later_one(ends: Ends) -> None:
    """Own transactions and changes of others may come before the own transaction that explains a duplicate."""
    await ends.subscribe(TABLE)
    await ends.sub.execute(
        b"insert into t values (20, 'x', 0), (21, 'y', 0), (22, 'z', 0), (5, 'own', 1)"
    )
    await ends.store(ins(5, "theirs", 0))
    await ends.store(ins(20, "x", 0), own=True)
    await ends.store(upd(None, None, 4, 20, mask(3, 3)))
    await ends.store(ins(21, "y", 0), own=True)
    await ends.store(ins(30, "new", 0))
    await ends.store(dele(5))
    await ends.store(ins(22, "z", 0), own=True)
    await ends.store(ins(5, "own", 1), own=True)
    await ends.store(ins(31, "after", 0))
    agent = ends.agent()
    await agent.run_once()
    assert await ends.rows("t", "id, n") == [(5, 1), (20, 4), (21, 0), (22, 0), (30, 0), (31, 0)]


async def test_several_tables_at_once(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.subscribe("create table o (id integer primary key)", table="o", article_id=8)
    await ends.sub.execute(b"insert into t values (5, 'own', 1); insert into o values (3)")
    await ends.store(ins(5, "theirs", 0), ins(4, article_id=8))
    await ends.store(dele(5), ins(3, article_id=8))
    await ends.store(dele(3, article_id=8))
    await ends.store(ins(5, "own", 1), ins(3, article_id=8), own=True)
    agent = ends.agent()
    await agent.run_once()
    assert (await ends.rows(), await ends.rows("o")) == ([(5, "own", 1)], [(3,), (4,)])


async def test_with_streams(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (5, 'own', 1)")
    await ends.store(ins(5, "theirs", 0, hashkey=1), ins(6, "", 0, hashkey=2))
    await ends.store(dele(5, hashkey=1))
    await ends.store(ins(5, "own", 1, hashkey=1), own=True)
    agent = ends.agent(subscription_streams=2)
    await agent.run_once()
    assert await ends.rows("t", "id") == [(5,), (6,)]
    assert [row["event"] for row in await ends.history("serial", "net")] == ["net", "serial"]


async def test_a_real_duplicate_is_an_error_all_the_same(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (5, 'stray', 1), (6, 'own', 0)")
    bad = await ends.store(ins(5, "theirs", 0))
    await ends.store(ins(6, "own", 0), own=True)
    agent = ends.agent()
    with pytest.raises(DeliveryError, match="id = 5") as caught:
        await agent.run_once()
    assert (caught.value.number, caught.value.seqno) == (2627, bad.seqno)
    assert await ends.rows("t", "id, u") == [(5, "stray"), (6, "own")]


async def test_an_own_change_that_the_log_has_not_brought_yet_is_waited_for(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (5, 'own', 1)")
    await ends.store(ins(5, "theirs", 0))
    agent = ends.agent()
    with pytest.raises(AheadError, match="may be the Subscriber's own"):
        await agent.run_once(final=False)
    await agent.close()

    stop = asyncio.Event()
    running = asyncio.create_task(ends.agent(barrier_timeout_ms=60_000).run(stop))
    await ends.until_event("retry", 2)
    await ends.store(dele(5))
    await ends.store(ins(5, "own", 1), own=True)
    await ends.until_at(ends.at, running)
    stop.set()
    assert (await running).position == lsn_text(ends.at)
    assert await ends.rows() == [(5, "own", 1)]


async def test_but_not_for_ever(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"insert into t values (5, 'stray', 1)")
    await ends.store(ins(5, "theirs", 0))
    with pytest.raises(DeliveryError, match="id = 5"):
        await ends.agent(barrier_timeout_ms=20).run(asyncio.Event())
    assert [row["event"] for row in await ends.history()] == ["started", "retry", "failed"]


async def test_statements_cannot_be_folded(ends: Ends) -> None:
    await ends.subscribe(TABLE, methods={"dele": "SQL"})
    await ends.sub.execute(b"insert into t values (5, 'own', 1)")
    await ends.store(ins(5, "theirs", 0))
    statement = "delete from public.t where id = 5"
    kind = CommandType.SQL_DELETE
    await ends.store(Does(operation="del", values=(), type=kind, text=statement))
    await ends.store(ins(5, "own", 1), own=True)
    with pytest.raises(DeliveryError, match="id = 5"):
        await ends.agent().run_once()
