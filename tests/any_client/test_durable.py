"""What the Publisher commits survives a crash of the Subscriber, even after an asynchronous commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection

from tests.any_client.conftest import TABLES
from tests.any_client.test_ends import FAILS_LAST, UPDATE, Crashes
from tests.drivers.bank import Bank
from twopc.drivers.points import Points
from twopc.sim.topology import Topology

ROW = "select balance, msrepl_tran_version from account where id = 1"
#: The WAL is flushed only by transactions that wait for it.
LAZY_WRITER = ("wal_writer_delay = '10s'", "wal_writer_flush_after = '1GB'")


@asynccontextmanager
async def crashable(*, any_client: bool) -> AsyncIterator[Crashes]:
    """Start a Publisher and a Subscriber that can crash; the Subscriber's WAL writer hardly flushes."""
    async with Topology(subscribers=("sub1",), servers="each") as topology:
        await topology.execute("pub", TABLES)
        await topology.publish("account")
        await topology.subscribe("sub1")
        if any_client:
            await topology.allow_any_client("sub1")
        for setting in LAZY_WRITER:
            await topology.execute("sub1", f"alter system set {setting}")
        await topology.execute("sub1", "select pg_reload_conf()")
        yield Crashes(topology)


async def name_standby(topology: Topology, node: str, standby: str) -> None:
    """Make commits wait for a standby of this name, which does not exist, or for none if it is empty."""
    await topology.execute(node, f"alter system set synchronous_standby_names = '{standby}'")
    await topology.execute(node, "select pg_reload_conf()")
    end = asyncio.get_running_loop().time() + 30
    # The postmaster has signalled all processes once a new session has the setting; the
    # checkpointer publishes it to the others.
    while True:
        async with await AsyncConnection.connect(topology.node(node).dsn) as session:
            cursor = await session.execute("show synchronous_standby_names")
            if await cursor.fetchone() == (standby,):
                break
        assert asyncio.get_running_loop().time() < end, "the standby is not named"
    await topology.execute(node, "checkpoint")


async def waiting(topology: Topology, node: str) -> str:
    """Return the application name of a session that waits for the standby."""
    query = "select application_name from pg_stat_activity where wait_event = 'SyncRep'"
    end = asyncio.get_running_loop().time() + 30
    while not (found := await topology.execute(node, query)):
        assert asyncio.get_running_loop().time() < end, "nobody waits for the standby"
    return str(found[0][0])


async def weaken(topology: Topology, where: str, level: str = "off") -> None:
    """Make commits at the Subscriber asynchronous by default, at the given level."""
    database, role = topology.node("sub1").database, topology.node("sub1").app_role
    texts = {
        "server": f"alter system set synchronous_commit = {level}",
        "database": f'alter database "{database}" set synchronous_commit = {level}',
        "after the vote": FAILS_LAST.format(
            turns=3, last=f"perform set_config('synchronous_commit', '{level}', true); return null;"
        ),
        "role": f'alter role "{role}" set synchronous_commit = {level}',
    }
    if where in texts:
        await topology.execute("sub1", texts[where])
        await topology.execute("sub1", "select pg_reload_conf()")


#: The last one weakens the commit in a trigger that fires after the Publisher was prepared: only
#: the resolver can detect it.
WAYS = {
    "session": ("set synchronous_commit = off", UPDATE),
    "transaction": ("begin", "set local synchronous_commit = off", UPDATE, "commit"),
    "role": (UPDATE,),
    "database": (UPDATE,),
    "server": (UPDATE,),
    "after the vote": ("begin", UPDATE, "insert into late values (0)", "commit"),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
async def test_the_subscriber_crashes_after_the_publisher_has_committed(way: str) -> None:
    """The Publisher commits only a durable decision, whatever the client's `synchronous_commit`."""
    async with crashable(any_client=True) as crashes:
        topology = crashes.topology
        await weaken(topology, way)
        async with await crashes.connect() as client:
            for statement in WAYS[way]:
                await client.execute(statement.encode())
            await crashes.finished()
            there = await topology.execute("pub", ROW)
            assert int(there[0][0]) == 101
            await crashes.crash("sub1")
        assert await topology.execute("sub1", ROW) == there


@pytest.mark.parametrize("way", ["session", "after the vote"])
async def test_the_subscriber_crashes_before_the_resolver_comes(way: str) -> None:
    """After the crash both sites have the transaction, or neither.

    Only a commit that is weakened after the vote may be lost, although the client got its answer.
    """
    async with crashable(any_client=True) as crashes:
        topology = crashes.topology
        await weaken(topology, way)
        await topology.any_client.stop()
        async with await crashes.connect() as client:
            for statement in WAYS[way]:
                await client.execute(statement.encode())
            await crashes.crash("sub1")
        await topology.any_client.start()
        await crashes.gone()
        here = await topology.execute("sub1", ROW)
        assert int(here[0][0]) == (101 if way == "session" else 100)


@pytest.mark.parametrize("where", ["role", "database", "server"])
async def test_the_last_agent_crashes_after_its_decision(where: str) -> None:
    async with crashable(any_client=False) as crashes:
        topology = crashes.topology
        await weaken(topology, where)
        async with topology.transaction("sub1", commit="last_agent") as transaction:
            await transaction.execute("set local synchronous_commit = off")
            await transaction.execute(UPDATE)
        await crashes.crash("sub1")
        there = await topology.execute("pub", ROW)
        assert int(there[0][0]) == 101
        assert await topology.execute("sub1", ROW) == there


@pytest.mark.parametrize("statements", ["several messages", "one message"])
async def test_the_last_agents_decision_is_weakened_after_the_vote(statements: str) -> None:
    """The Publisher commits only a durable decision, even if a trigger at COMMIT weakens the commit."""
    async with crashable(any_client=False) as crashes:
        topology = crashes.topology
        await weaken(topology, "after the vote")
        if statements == "one message":
            await topology.execute(
                "sub1",
                "create function late() returns trigger language plpgsql as"
                " $$ begin insert into late values (3); return null; end $$;"
                "create trigger late after update on account execute function late()",
            )
            await topology.activate("sub1")
            await topology.run("sub1", UPDATE, commit="last_agent")
        else:
            async with topology.transaction("sub1", commit="last_agent") as transaction:
                await transaction.execute(UPDATE)
                await transaction.execute("insert into late values (3)")
        await crashes.crash("sub1")
        there = await topology.execute("pub", ROW)
        assert int(there[0][0]) == 101
        assert await topology.execute("sub1", ROW) == there


@pytest.mark.parametrize(
    ("way", "commit"),
    [("session", "presumed_abort"), ("role", "presumed_abort"), ("session", "last_agent")],
)
async def test_the_standby_has_what_a_coordinator_told(way: str, commit: str) -> None:
    """The coordinator's finish at the Subscriber waits for the synchronous standby.

    The coordinator forgets a decision after every branch is finished, so the standby must have it.
    """
    async with crashable(any_client=False) as crashes:
        topology = crashes.topology
        await weaken(topology, way, "local")
        points = Points()
        async with Bank(topology).coordinator(points=points) as coordinator:
            transaction = await coordinator.transaction("sub1", commit=commit).begin()
            if way == "session":
                await transaction.execute("set synchronous_commit = local")
            await transaction.execute(UPDATE)

            async def name(_: str) -> None:
                await name_standby(topology, "sub1", "nobody")

            points.arm("coordinator.before_commit(sub1)", name)
            committing = asyncio.create_task(transaction.commit())
            try:
                assert (await waiting(topology, "sub1")).startswith("twopc")
                assert not committing.done()
            finally:
                await name_standby(topology, "sub1", "")
                await committing


@pytest.mark.parametrize(
    ("way", "node", "who"),
    [
        ("session", "sub1", "client"),
        ("after the vote", "sub1", "twopc resolver"),
        ("link", "pub", "msrepl sub1"),
    ],
)
async def test_the_synchronous_standby_has_it_before_it_counts(
    way: str, node: str, who: str
) -> None:
    """The Publisher commits only after the synchronous standbys have the vote and the decision.

    The Publisher's standby has the vote before the Subscriber commits; the Subscriber's standby has
    the decision before the Publisher commits.
    """
    async with crashable(any_client=True) as crashes:
        topology = crashes.topology
        await weaken(topology, way, "local")
        if way == "link":
            database = topology.node("pub").database
            await topology.execute(
                "pub", f'alter database "{database}" set synchronous_commit = local'
            )

        async with await crashes.connect() as client:
            await client.execute("set application_name = 'client'")

            async def commit() -> None:
                for statement in WAYS.get(way, (UPDATE,)):
                    await client.execute(statement.replace("= off", "= local").encode())

            await name_standby(topology, node, "nobody")
            try:
                committing = asyncio.create_task(commit())
                assert (await waiting(topology, node)).startswith(who)
                assert int((await topology.execute("pub", ROW))[0][0]) == 100
            finally:
                await name_standby(topology, node, "")
                await committing
            await crashes.gone()
