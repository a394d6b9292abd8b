"""Tests of rewinding a topology: all rows are restored, without an effect on agents."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from tests.fix_topology import MakeTopology
from twopc.errors import ConfigurationError, ConflictError, DeliveryError
from twopc.sim import Topology
from twopc.sim.topology.checkpoint import Checkpoint, RewindError, checkpoint, rewind

ACCOUNT = "create table account (id int primary key, balance int not null, double int generated always as (balance * 2) stored)"
ROWS = "insert into account select g, 100 from generate_series(1, 5) as g"
ALL = "select account::text from account order by id"


async def bank(make: MakeTopology, *sql: str, **options: Any) -> Topology:
    """Make a topology with an account table, published and subscribed everywhere."""
    topology = await make(**options)
    for text in (ACCOUNT, ROWS, *sql):
        await topology.execute("pub", text)
    await topology.publish("account")
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber)
    return topology


@pytest.fixture
async def topology(make_topology: MakeTopology) -> Topology:
    return await bank(make_topology)


async def rows(topology: Topology, query: str = ALL) -> dict[str, list[str]]:
    """Return the accounts at every node, including row versions."""
    nodes = (topology.publisher, *topology.subscribers)
    return {node: [text for (text,) in await topology.execute(node, query)] for node in nodes}


async def trade(topology: Topology) -> None:
    """Make changes at both Subscribers and the Publisher, and deliver them."""
    async with topology.transaction("sub1") as alice:
        await alice.execute("update account set balance = balance - 10 where id = 1")
        await alice.execute("insert into account values (6, 1)")
    await topology.execute("pub", "delete from account where id = 2")
    await topology.run("sub2", "update account set balance = 0 where id = 3")
    await topology.sync()


async def test_rows_and_versions_are_what_they_were(topology: Topology) -> None:
    """Rows and row versions are restored repeatedly, and the same changes are accepted each time."""
    before, kept = await rows(topology), await checkpoint(topology)
    for _ in range(3):
        await trade(topology)
        assert await rows(topology) != before
        await rewind(topology, kept)
        assert await rows(topology) == before
        await topology.assert_converged()


async def test_nothing_is_delivered_after_rewinding(topology: Topology) -> None:
    """Restored rows are not delivered as changes, by a running log reader or by a new one."""
    kept = await checkpoint(topology)
    await trade(topology)
    await rewind(topology, kept)
    assert {name: each.transactions for name, each in (await topology.sync()).items()} == {
        "sub1": 0,
        "sub2": 0,
    }
    assert await topology.inspect.take_deliveries() == []
    await topology.start_agents()
    await topology.stop_agents()  # the next sync opens everything again
    assert sum(each.transactions for each in (await topology.sync()).values()) == 0
    await topology.assert_converged()


async def test_what_comes_after_rewinding_is_delivered(topology: Topology) -> None:
    """Changes of the Publisher and of a Subscriber directly after a rewind are delivered."""
    kept = await checkpoint(topology)
    for _ in range(3):
        await trade(topology)
        await rewind(topology, kept)
        await topology.execute("pub", "update account set balance = 7 where id = 5")
        told = await topology.sync()
        assert {name: each.transactions for name, each in told.items()} == {"sub1": 1, "sub2": 1}
        met = await topology.inspect.take_deliveries()
        assert [each.commands for each in met] == [("update account id=5",)] * 2
        await topology.run("sub1", "update account set balance = 8 where id = 5")
        await topology.sync()
        await topology.assert_converged()
        await rewind(topology, kept)


async def test_what_was_not_delivered_is_forgotten(topology: Topology) -> None:
    """Changes that were not delivered, read or not, are forgotten by a rewind."""
    before, kept = await rows(topology), await checkpoint(topology)
    await topology.run("sub1", "update account set balance = 1 where id = 1")
    await topology.sync("sub1")  # read, and stored for sub2
    await topology.execute("pub", "update account set balance = 2 where id = 2")
    await rewind(topology, kept)
    await topology.sync()
    assert await rows(topology) == before
    await topology.assert_converged()


async def test_an_agent_that_was_stuck_goes_on(topology: Topology) -> None:
    """A rewind also removes a change at which an agent had stopped."""
    kept = await checkpoint(topology)
    connection = await topology.admin("sub1")
    await connection.execute(
        "begin; set local session_replication_role = replica; "
        "delete from account where id = 4; commit"
    )
    await topology.execute("pub", "update account set balance = 0 where id = 4")
    with pytest.raises(DeliveryError, match="20598"):
        await topology.sync()
    await rewind(topology, kept)
    await topology.run("sub1", "update account set balance = 3 where id = 4")
    await topology.sync()
    await topology.assert_converged()


async def test_whatever_happened_before(topology: Topology) -> None:
    """A rewind restores rows after any changes, deliveries, running agents, clean-up and tokens."""
    before, kept = await rows(topology), await checkpoint(topology)
    chance = random.Random(11)

    async def change_there() -> None:
        await topology.execute("pub", f"update account set balance = {chance.randint(0, 9)}")

    async def change_here() -> None:
        with suppress(ConflictError):
            row = chance.randint(1, 5)
            text = f"update account set balance = balance + 1 where id = {row}"
            await topology.run(chance.choice(topology.subscribers), text)

    async def by_themselves() -> None:
        await topology.start_agents()
        await topology.sync()
        await topology.stop_agents()

    async def deliver_to_one() -> None:
        await topology.sync(chance.choice(topology.subscribers))

    happenings = [
        change_there, change_there, change_here, change_here, by_themselves, deliver_to_one,
        topology.inspect.clean_up, topology.post_tracer_token, topology.inspect.take_deliveries,
    ]  # fmt: skip
    for _ in range(12):
        for happening in chance.sample(happenings, chance.randint(1, 6)):
            await happening()
        await rewind(topology, kept)  # also ensures that nothing is delivered afterwards
        assert await rows(topology) == before
        assert await topology.inspect.take_deliveries() == []


async def test_a_session_that_ends_late_is_not_another_log_reader(
    topology: Topology,
) -> None:
    """A rewind waits for a log reader's session that ends late, and posts no tracer token meanwhile."""
    kept = await checkpoint(topology)
    await topology.execute("pub", "update account set balance = 1")
    await topology.sync(
        "sub1"
    )  # so that a change is left to be skipped, and the log reader starts anew
    sessions = "select pid from pg_stat_activity where application_name = 'msrepl logreader pub'"
    ((holder,),) = await topology.execute(
        "pub", "select active_pid from pg_replication_slots where database = current_database()"
    )
    before = {pid for (pid,) in await topology.execute("pub", sessions)}
    os.kill(holder, signal.SIGSTOP)
    try:
        rewinding = asyncio.create_task(rewind(topology, kept))
        async with await topology.node("pub").connect() as eyes:
            while not rewinding.done():
                posted = await (await eyes.execute("select from msrepl.log_message")).fetchall()
                there = {pid for (pid,) in await (await eyes.execute(sessions)).fetchall()}
                if posted or there - before:
                    break
    finally:
        os.kill(holder, signal.SIGCONT)
    await rewinding
    assert await topology.execute("pub", "select from msrepl.log_message") == []


async def test_a_stale_copy_is_refused_as_before(topology: Topology) -> None:
    """A copy from before the last rewind is stale, and its changes are refused."""
    kept = await checkpoint(topology)
    for _ in range(2):
        await topology.run("sub1", "update account set balance = 1 where id = 1")
        with pytest.raises(ConflictError):
            await topology.run("sub2", "update account set balance = 2 where id = 1")
        await rewind(topology, kept)


async def test_sequences_generated_columns_and_references(make_topology: MakeTopology) -> None:
    """Sequences, generated columns, references and unpublished tables in any schema are restored."""
    topology = await bank(
        make_topology,
        "create schema apart",
        "create table apart.entry (id int generated always as identity primary key, "
        "account int references account, note text)",
        "insert into apart.entry (account, note) values (1, E'tab\\there'), (2, null)",
        "create sequence counter",
        "create table nothing ()",
    )
    kept = await checkpoint(topology)
    look = "select entry::text from apart.entry order by id"
    before = await topology.execute("pub", look)
    await topology.execute("pub", "insert into apart.entry (account) values (1)")
    await topology.execute("pub", "delete from apart.entry where id = 1")
    await topology.execute("pub", "select nextval('counter')")
    await trade_without_references(topology)
    await rewind(topology, kept)
    assert await topology.execute("pub", look) == before
    assert await topology.execute("pub", "select nextval('counter')") == [(1,)]
    added = "insert into apart.entry (account) values (1) returning id"
    assert await topology.execute("pub", added) == [(3,)]


async def trade_without_references(topology: Topology) -> None:
    """Change an account, and deliver the change."""
    await topology.run("sub1", "update account set balance = 5 where id = 5")
    await topology.sync()


async def test_filters_and_partitions(make_topology: MakeTopology) -> None:
    """A filtered copy and a partitioned table are restored."""
    topology = await make_topology()
    await topology.execute(
        "pub",
        "create table item (id int, region text not null, primary key (id, region)) partition by list (region)",
    )
    for region in ("north", "south"):
        await topology.execute(
            "pub", f"create table item_{region} partition of item for values in ('{region}')"
        )
    await topology.execute("pub", "insert into item values (1, 'north'), (2, 'south')")
    await topology.publish("item")
    await topology.subscribe("sub1", filters={"item": "region = 'north'"})
    await topology.subscribe("sub2")
    look = "select item::text from item order by id"
    before, kept = await rows(topology, look), await checkpoint(topology)
    for _ in range(2):
        await topology.execute("pub", "insert into item values (3, 'north'), (4, 'south')")
        await topology.execute("pub", "delete from item where id = 1")
        await topology.sync()
        await rewind(topology, kept)
        assert await rows(topology, look) == before
        assert sum(each.transactions for each in (await topology.sync()).values()) == 0


async def test_transactions_since_are_forgotten(topology: Topology) -> None:
    """A rewind removes markers and decisions, while the coordinator's numbers continue."""
    kept = await checkpoint(topology)
    async with topology.transaction("sub1") as first:
        await first.execute("update account set balance = 1 where id = 1")
    await rewind(topology, kept)
    for node in ("pub", "sub1"):
        assert await topology.execute(node, "select count(*) from msrepl.branch_marker") == [(0,)]
    assert await topology.execute("distribution", "select count(*) from msrepl.decision") == [(0,)]
    async with topology.transaction("sub1") as second:
        await second.execute("update account set balance = 1 where id = 1")
    assert int(str(second.gid).rsplit(":", 1)[1]) > int(str(first.gid).rsplit(":", 1)[1])
    assert await topology.recover() == []
    assert await topology.in_doubt() == []


async def test_without_distribution(make_topology: MakeTopology) -> None:
    topology = await bank(make_topology, distribute=False)
    before, kept = await rows(topology), await checkpoint(topology)
    await topology.run("sub1", "update account set balance = 1 where id = 1")
    await rewind(topology, kept)
    assert await rows(topology) == before


async def refused(topology: Topology, kept: Checkpoint) -> str:
    """Return the message of a refused rewind."""
    with pytest.raises(RewindError) as caught:
        await rewind(topology, kept)
    return str(caught.value)


async def test_what_is_under_way_is_named(topology: Topology) -> None:
    """A rewind is refused because of a prepared or open transaction, which it names."""
    kept = await checkpoint(topology)
    changed = "update account set balance = 1 where id = 1"
    async with await psycopg.AsyncConnection.connect(
        topology.node("pub").dsn, application_name="till"
    ) as somebody:
        await somebody.execute(changed)
        assert "(till) is in a transaction at pub" in await refused(topology, kept)
        await somebody.execute("prepare transaction 'mine'")
    assert "transaction mine is prepared at pub: commit or roll it back" in await refused(
        topology, kept
    )
    await topology.execute("pub", "commit prepared 'mine'")
    assert (await topology.execute("pub", "select balance from account where id = 1")) == [(1,)]
    await rewind(topology, kept)


@pytest.mark.parametrize(
    ("node", "change"),
    [
        ("pub", "create table further (id int)"),
        ("sub1", "create index on account (balance)"),
        ("sub2", "alter table account alter column balance set default 1"),
        ("sub1", "grant select on account to public"),
        ("sub1", "create function f() returns int language sql return 1"),
        ("distribution", "update msrepl.mssubscriptions set loopback_detection = false"),
        ("sub1", "create schema elsewhere"),
        ("sub1", "create domain small as int check (value < 10)"),
        ("pub", "create type mood as enum ('sad')"),
        ("sub2", "alter table account enable row level security"),
        ("sub2", "alter table account set (fillfactor = 50)"),
        ("sub1", "alter server msrepl_publisher options (set port '1')"),
        (
            "sub1",
            "do $$ begin execute 'alter database ' || current_database() || ' set work_mem = 65'; end $$",
        ),
    ],
)
async def test_what_was_changed_is_named(topology: Topology, node: str, change: str) -> None:
    """A rewind is refused after changes of definitions or subscriptions, because it restores rows only."""
    kept = await checkpoint(topology)
    await topology.execute(node, change)
    assert f"definitions or subscriptions at {node} are not what they were" in await refused(
        topology, kept
    )


@pytest.mark.parametrize("change", ["alter role {} noinherit", "grant pg_monitor to {}"])
async def test_a_role_that_was_changed_is_noticed(topology: Topology, change: str) -> None:
    """A rewind is refused after a change of a role, which belongs to the whole server."""
    kept = await checkpoint(topology)
    await topology.execute("pub", change.format(topology.node("pub").app_role))
    assert "definitions or subscriptions at pub" in await refused(topology, kept)


async def test_a_trigger_that_would_see_it_is_named(topology: Topology) -> None:
    """A checkpoint is refused because of a trigger with ENABLE ALWAYS, which fires for replicas."""
    await topology.execute(
        "sub1",
        "create function look() returns trigger language plpgsql as 'begin return null; end'; "
        "create trigger look after insert on account execute function look(); "
        "alter table account enable always trigger look",
    )
    with pytest.raises(RewindError, match="trigger look of table account at sub1 fires for rep"):
        await checkpoint(topology)


async def test_only_what_the_topology_has_made(
    make_topology: MakeTopology, topology: Topology
) -> None:
    """A rewind needs a checkpoint of the same topology, own databases, and stopped agents."""
    kept = await checkpoint(topology)
    other = await make_topology(subscribers=("sub1",))
    with pytest.raises(ConfigurationError, match="the checkpoint is of topology"):
        await rewind(other, kept)
    await topology.start_agents()
    with pytest.raises(ConfigurationError, match="stop_agents"):
        await rewind(topology, kept)
    await topology.stop_agents()
    # nothing is installed there: it is refused before any query
    external = Topology(dsns={"pub": topology.node("pub").dsn}, name="other", keep=True)
    external.wiring._nodes.nodes["pub"] = replace(topology.node("pub"), embedded=False)
    with pytest.raises(ConfigurationError, match="was not made by this topology"):
        await checkpoint(external)
