"""Tests of faults of other replication systems, none of which may occur here.

Each test names the report. One more case is from the catalogue: an agent meets a branch in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.topology.test_topology import shop
from twopc.errors import DeliveryError
from twopc.server.polling import wait_for
from twopc.sim import Topology

MakeTopology = Callable[..., Awaitable[Topology]]
COMMANDS = "select count(*) from msrepl.msrepl_commands"


async def test_what_an_agent_applies_is_not_sent_on(make_topology: MakeTopology) -> None:
    """2ndQuadrant/pglogical#210: applied changes were sent on as new ones, endlessly."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.run("a", "update account set balance = balance + 1 where id = 1")
    await topology.run("b", "update account set balance = balance + 1 where id = 2")
    await topology.execute("pub", "update account set balance = 0 where id = 3")
    await topology.sync()
    commands = await topology.execute(topology.distribution, COMMANDS)

    again = await topology.sync()

    assert {name: done.transactions for name, done in again.items()} == {"a": 0, "b": 0}
    assert await topology.execute(topology.distribution, COMMANDS) == commands == [(3,)]
    for name in topology.subscribers:
        # an agent writes no marker: there is one, of the Subscriber's own change
        markers = await topology.execute(name, "select count(*) from msrepl.branch_marker")
        assert markers == [(1,)]
    await topology.assert_converged()


async def test_every_update_of_a_burst_arrives(make_topology: MakeTopology) -> None:
    """aws/pgactive#18: the time of apply counted as the row's time, so the second update was dropped."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.start_agents()

    for _ in range(100):
        await topology.execute("pub", "update account set balance = balance + 1 where id = 1")
    await topology.settle()

    await topology.assert_converged()
    assert await topology.execute("b", "select balance from account where id = 1") == [(200,)]
    told = await topology.inspect.take_deliveries()
    assert [each.node for each in told].count("b") == 100


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("char(8)", "'ab'"),
        ("numeric", "1.50"),
        ("timestamptz", "'2026-01-01 12:00+05:30'"),
        ("float8", "0.1::float8 + 0.2::float8"),
        ("bytea", "'\\x00ff'"),
        ("interval", "'1 mon 30 days 720:00:00'"),
        ("text", "E'tab\\there, \"quoted\", back\\\\slash, é'"),
    ],
)
async def test_a_row_that_is_there_is_found(
    make_topology: MakeTopology, kind: str, key: str
) -> None:
    """aws/pgactive#327: existing rows were reported as missing, and skipped without an error."""
    topology = await make_topology(subscribers=("a",))
    await topology.execute("pub", f"create table item (k {kind} primary key, n int not null)")
    await topology.execute("pub", f"insert into item values ({key}, 0)")
    await topology.publish("item")
    await topology.subscribe("a")

    await topology.execute("pub", "update item set n = 1")
    await topology.sync()
    assert await topology.execute("a", "select n from item") == [(1,)]

    await topology.execute("pub", "delete from item")
    await topology.sync()
    assert await topology.execute("a", "select count(*) from item") == [(0,)]


async def test_a_row_that_is_missing_stops_the_agent(make_topology: MakeTopology) -> None:
    """aws/pgactive#327: a missing row must be an error, after which nothing is delivered."""
    topology = await make_topology(subscribers=("a",))
    await shop(topology)
    await topology.execute("a", "set session_replication_role = replica")
    await topology.execute("a", "delete from account where id = 2")
    for key in (1, 2, 3):
        await topology.execute("pub", f"update account set balance = 7 where id = {key}")

    with pytest.raises(DeliveryError, match="account") as caught:
        await topology.sync()

    assert caught.value.number == 20598
    balances = await topology.execute("a", "select id, balance from account where id < 4")
    assert balances == [(1, 7), (3, 100)]


async def test_writers_that_commit_at_once_lose_nothing(make_topology: MakeTopology) -> None:
    """bucardo/bucardo#216: progress was a time, so one of two changes at the same time was lost."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.start_agents()
    dsn = topology.node("pub").dsn

    async def writer(number: int) -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
            for count in range(50):
                key = 1000 * (number + 1) + count
                await connection.execute("insert into account values (%s, 0)", (key,))

    await asyncio.gather(*(writer(number) for number in range(30)))
    await topology.settle()

    await topology.assert_converged()
    for name in topology.subscribers:
        assert await topology.execute(name, "select count(*) from account") == [(1505,)]


async def test_what_one_has_got_is_kept_for_the_other(make_topology: MakeTopology) -> None:
    """bucardo/bucardo#260: a row delivered to one target was purged before another had received it."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    for balance in range(3):
        await topology.execute("pub", f"update account set balance = {balance} where id = 1")
        await topology.sync("a")
        await topology.inspect.clean_up()
    assert await topology.execute(topology.distribution, COMMANDS) == [(3,)]

    await topology.sync("b")
    await topology.assert_converged()
    await topology.inspect.clean_up()
    assert await topology.execute(topology.distribution, COMMANDS) == [(0,)]


async def test_an_agent_waits_for_what_is_in_doubt(make_topology: MakeTopology) -> None:
    """An agent waits for a row that a prepared branch has locked, reports its lag, and continues."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.start_agents()
    for text in (
        "begin",
        "set local session_replication_role = replica",
        "update account set balance = balance where id = 1",
        "prepare transaction 'in doubt'",
    ):
        await topology.execute("b", text)
    try:
        await topology.execute("pub", "update account set balance = 7 where id = 1")
        await topology.sync("a")

        query = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        with psycopg.connect(topology.node("b").dsn, autocommit=True) as eyes:
            await asyncio.to_thread(
                wait_for,
                lambda: eyes.execute(query.encode()).rowcount,
                what="the agent to wait for the branch",
                timeout_s=20,
            )
        status = {each.subscriber: each for each in (await topology.inspect.status()).agents}
        assert status["b"].waiting_commands == 2  # the update, and the message posted by `sync`
        assert await topology.execute("b", "select balance from account where id = 1") == [(100,)]
    finally:
        await topology.execute("b", "rollback prepared 'in doubt'")
    await topology.settle()
    await topology.assert_converged()


async def test_agents_can_be_stopped_while_one_waits(make_topology: MakeTopology) -> None:
    """Agents stop without waiting for a lock, and deliver the rest later."""
    topology = await make_topology(subscribers=("b",))
    await shop(topology)
    await topology.start_agents()
    async with await AsyncConnection.connect(topology.node("b").dsn) as holder:
        await holder.execute("select from account where id = 1 for update")
        await topology.execute("pub", "update account set balance = 7 where id = 1")
        query = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        with psycopg.connect(topology.node("b").dsn, autocommit=True) as eyes:
            await asyncio.to_thread(
                wait_for,
                lambda: eyes.execute(query.encode()).rowcount,
                what="the agent to wait for the row",
                timeout_s=20,
            )

        async with asyncio.timeout(20):
            await topology.stop_agents()

    await topology.sync()
    await topology.assert_converged()
