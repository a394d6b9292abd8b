"""Identity ranges on servers: the values that nodes draw, after failures and restores, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.fix_link import until
from tests.fix_merge import converge, cut_off
from twopc.merge.ranges import IdentityRanges
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

RANGES = IdentityRanges(subscriber=100, publisher=1000, threshold_percent=80)


@pytest.fixture
async def orders(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """A table with a serial column, for which Anna and Ben have two ranges of 100 values each."""
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        await topology.execute(
            "pub",
            "create table orders (id serial primary key, item text);"
            " insert into orders (item) values ('first')",
        )
        await topology.publish("orders", identity=RANGES)
        await topology.subscribe("anna")
        await topology.subscribe("ben")
        yield topology


async def add(topology: MergeTopology, node: str, count: int = 1) -> list[int]:
    """Insert rows as an application in one statement, and return their identity values."""
    async with await AsyncConnection.connect(topology.node(node).app_dsn) as connection:
        cursor = await connection.execute(
            "insert into orders (item) select 'new' from generate_series(1, %s) returning id",
            (count,),
        )
        return [value for (value,) in await cursor.fetchall()]


async def test_each_node_draws_from_its_ranges(orders: MergeTopology) -> None:
    """Each node draws from its own ranges; a statement can continue in the second one.

    Applications need rights on the table only.
    """
    assert await add(orders, "pub") == [402]
    assert await add(orders, "anna", 150) == [*range(2, 152)]
    assert await add(orders, "ben", 200) == [*range(202, 402)]
    assert await add(orders, "pub") == [403]
    await converge(orders)


async def test_used_up_ranges(orders: MergeTopology) -> None:
    """When ranges are used up, the statement fails, and a session brings further ranges.

    The error names table, node, range and remedy.
    """
    await add(orders, "anna", 199)
    with pytest.raises(psycopg.errors.SequenceGeneratorLimitExceeded) as failed:
        await add(orders, "anna", 2)
    assert failed.value.diag.message_primary == (
        "table orders has used up its identity ranges at anna (548), the last of them from 2 to 201"
    )
    assert "twopc merge sync" in str(failed.value.diag.message_hint)
    await orders.sync("anna")
    assert await add(orders, "anna", 1000 // 5) == [*range(402, 602)]


async def test_a_range_follows_at_the_threshold(orders: MergeTopology) -> None:
    """A further range is allotted when 80 of 100 values are used up, not before."""
    await add(orders, "anna", 79)
    await orders.sync("anna")
    assert await add(orders, "pub") == [402]
    await add(orders, "anna")
    await orders.sync("anna")
    assert await add(orders, "pub") == [503]
    await add(orders, "anna", 120)
    assert await add(orders, "anna", 100) == [*range(403, 503)]


@pytest.mark.parametrize("point", ["ranges_allotted", "ranges_received"])
async def test_a_session_that_is_cut_off(orders: MergeTopology, point: str) -> None:
    """After an interrupted session, the next one brings the same range.

    No range is lost, and none is allotted twice.
    """
    await add(orders, "anna", 200)
    with cut_off(orders, f"merge.{point}(anna)"):
        await orders.sync("anna")
    await add(orders, "ben", 200)
    await orders.sync("ben")
    await orders.sync("anna")
    assert await add(orders, "anna", 200) == [*range(402, 602)]
    assert await add(orders, "ben", 200) == [*range(602, 802)]
    await converge(orders)


async def test_a_thousand_rows_beside_eight_writers(orders: MergeTopology) -> None:
    """With writers at every node and concurrent sessions, no value is drawn twice.

    No statement fails.
    """
    drawn: list[int] = []

    async def write(node: str) -> None:
        for _ in range(10):
            drawn.extend(await add(orders, node, 15))
            if node != "pub":
                async with turn[node]:
                    await orders.sync(node)

    turn = {name: asyncio.Lock() for name in ("anna", "ben")}
    await asyncio.gather(*[write(node) for node in ("pub", "anna", "ben", "pub") * 2])
    assert len(drawn) == len({*drawn}) == 8 * 10 * 15
    await converge(orders)


async def test_values_of_others_are_refused(orders: MergeTopology) -> None:
    """An application may name values of its own node only; a session may write all values."""
    named = "insert into orders values (%s, 'named')"
    for node, value in (("anna", 202), ("anna", 402), ("pub", 2), ("pub", 402)):
        with pytest.raises(psycopg.errors.CheckViolation, match=f"value {value} of column id"):
            await orders.execute(node, named, (value,))
    await orders.execute("anna", named, (201,))
    with pytest.raises(psycopg.errors.CheckViolation, match="value 9 of column id"):
        await orders.execute("ben", "update orders set id = 9 where id = 1")
    await orders.execute("pub", "update orders set item = 'other' where id = 1")
    await converge(orders)


async def test_a_restored_publisher_allots_nothing_twice(orders: MergeTopology) -> None:
    """A restored Publisher allots nothing before each Subscriber has reported its ranges.

    It draws no value that a Subscriber has.
    """
    await orders.back_up("pub")
    await add(orders, "anna", 200)
    await add(orders, "ben", 200)
    assert await add(orders, "pub", 3) == [402, 403, 404]
    for name in ("anna", "ben", "anna"):
        await orders.sync(name)
    await orders.restore_backup("pub")
    await orders.rewound("pub")
    drawn = await add(orders, "anna", 200) + await add(orders, "ben", 150)
    assert drawn == [*range(405, 605), *range(605, 755)]
    await orders.sync("anna")
    with pytest.raises(psycopg.errors.SequenceGeneratorLimitExceeded):
        await add(orders, "anna")
    await orders.sync("ben")
    await orders.sync("anna")
    later = (
        await add(orders, "anna", 200) + await add(orders, "ben", 100) + await add(orders, "pub")
    )
    assert len({*later}) == 301
    assert min(later) > 754
    await converge(orders)


async def use_up(topology: MergeTopology, node: str) -> None:
    """Draw 200 values, and keep none."""
    with pytest.raises(psycopg.errors.DivisionByZero):
        await topology.execute(
            node,
            "insert into orders (item) select 1 / (200 - n) from generate_series(1, 200) as n",
        )


async def test_a_publisher_that_was_restored_twice(server: EmbeddedServer) -> None:
    """A Publisher that is restored twice is recognised as restored the second time, too.

    It numbers ranges again from a lower number, since one Subscriber is forgotten.
    """
    names = ("anna", "ben", "cleo")
    async with MergeTopology(server=server, subscribers=names) as topology:
        await topology.execute("pub", "create table orders (id serial primary key, item text)")
        await topology.publish("orders", identity=RANGES)
        await topology.subscribe("anna")
        await topology.subscribe("ben")
        await topology.back_up("pub")
        await topology.subscribe("cleo")
        for name in ("cleo", "cleo", "cleo", "anna"):
            await use_up(topology, name)
            await topology.sync(name)
        await topology.restore_backup("pub")
        for name in ("anna", "ben", "anna"):
            await topology.sync(name)
        await topology.back_up("pub")
        await use_up(topology, "anna")
        await topology.sync("anna")
        await topology.restore_backup("pub")
        assert (await topology.sync("anna")).anew
        await use_up(topology, "ben")
        await topology.sync("ben")
        drawn = await add(topology, "anna", 150) + await add(topology, "ben", 150)
        assert len({*drawn}) == 300


async def test_a_restored_publisher_and_new_subscribers(server: EmbeddedServer) -> None:
    """A Publisher that waits for a Subscriber's report allots nothing to new and reinitialised Subscribers either."""
    names = ("anna", "ben", "cleo")
    async with MergeTopology(server=server, subscribers=names) as topology:
        await topology.execute("pub", "create table orders (id serial primary key, item text)")
        await topology.publish("orders", identity=RANGES)
        await topology.subscribe("anna")
        await topology.subscribe("ben")
        await topology.back_up("pub")
        await use_up(topology, "anna")
        await topology.sync("anna")
        await topology.restore_backup("pub")
        await topology.rewound("pub")
        await topology.subscribe("cleo")
        await topology.reinitialise("ben")
        drawn = await add(topology, "anna", 100)
        for name in ("ben", "cleo"):
            await topology.sync(name)
            with pytest.raises(
                psycopg.errors.SequenceGeneratorLimitExceeded, match="it has none now"
            ):
                await add(topology, name)
        for name in ("anna", "ben", "cleo"):
            await topology.sync(name)
        drawn += [value for name in topology.nodes for value in await add(topology, name, 100)]
        assert len(drawn) == len({*drawn}) == 500
        await converge(topology)


async def test_values_that_a_restored_publisher_has_drawn(server: EmbeddedServer) -> None:
    """A Subscriber draws no value that the restored Publisher has drawn before it had the Subscriber's report.

    A Subscriber whose values the Publisher has only passed over keeps its ranges.
    """
    names = ("anna", "ben", "cleo")
    async with MergeTopology(server=server, subscribers=names) as topology:
        await topology.execute("pub", "create table orders (id serial primary key, item text)")
        await topology.publish("orders", identity=RANGES)
        for name in names:
            await topology.subscribe(name)
        await topology.back_up("pub")
        for name in names:
            await use_up(topology, name)
            await topology.sync(name)
        await topology.restore_backup("pub")
        await topology.rewound("pub")
        drawn = await add(topology, "pub", 3)
        assert drawn == [601, 602, 603]
        await topology.sync("cleo")
        await topology.sync("ben")
        assert await add(topology, "cleo", 2) == [600, 1001]
        assert await add(topology, "ben", 2) == [400, 801]
        await topology.sync("anna")
        drawn += [value for name in topology.nodes for value in await add(topology, name, 150)]
        assert len(drawn) == len({*drawn}) == 603
        assert (await topology.ranges())[0].waits_for == ()
        await converge(topology)


async def test_a_value_that_is_named_in_an_old_snapshot(orders: MergeTopology) -> None:
    """A transaction with an old snapshot, which lacks the newest range, cannot be serialised.

    Its second attempt is refused.
    """
    named = "insert into orders values (%s, 'named')"
    await add(orders, "anna", 190)
    async with await AsyncConnection.connect(orders.node("pub").app_dsn) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("select from orders")
        await orders.sync("anna")
        with pytest.raises(psycopg.errors.SerializationFailure):
            await connection.execute(named, (450,))
        await connection.rollback()
        with pytest.raises(psycopg.errors.CheckViolation, match="value 450"):
            await connection.execute(named, (450,))


async def test_a_value_that_is_named_while_it_is_allotted(orders: MergeTopology) -> None:
    """A statement that names a value waits for an uncommitted allotment, and is refused.

    It does not block the next allotment.
    """
    allot = "select msrepl.merge_allot_ranges('anna', artid, 100) from msrepl.sysmergearticles"
    publisher = orders.node("pub")
    async with (
        await AsyncConnection.connect(publisher.app_dsn) as application,
        await AsyncConnection.connect(publisher.dsn) as agent,
    ):
        await agent.execute(allot)
        waiting = asyncio.create_task(
            application.execute("insert into orders values (402, 'named')")
        )
        blocked = f"select where cardinality(pg_blocking_pids({application.info.backend_pid})) > 0"
        with psycopg.connect(publisher.dsn, autocommit=True) as eyes:
            await until(lambda: eyes.execute(blocked).rowcount, "the application to wait")
        await agent.commit()
        with pytest.raises(psycopg.errors.CheckViolation, match="allotted to another node"):
            await waiting
        await application.rollback()
        await application.execute("insert into orders (item) values ('drawn')")
        await agent.execute(allot)


async def test_a_publisher_that_has_forgotten_allotments_alone(orders: MergeTopology) -> None:
    """A Publisher that has forgotten allotments only is recognised by a Subscriber's range."""
    await orders.back_up("pub")
    await use_up(orders, "anna")
    await orders.sync("anna")
    await orders.restore_backup("pub")
    await orders.sync("anna")
    await orders.sync("ben")
    drawn = [
        *await add(orders, "anna", 200),
        *await add(orders, "ben", 200),
        *await add(orders, "pub"),
    ]
    assert len(drawn) == len({*drawn})
    await converge(orders)


async def test_a_restored_subscriber_draws_from_new_ranges(orders: MergeTopology) -> None:
    """A restored Subscriber draws from new ranges; the old ones would repeat values."""
    await orders.back_up("anna")
    await add(orders, "anna", 10)
    await orders.sync("anna")
    await orders.restore_backup("anna")
    await orders.rewound("anna")
    with pytest.raises(psycopg.errors.SequenceGeneratorLimitExceeded):
        await add(orders, "anna")
    await orders.sync("anna")
    assert await add(orders, "anna") == [402]
    await converge(orders)


async def test_a_republisher_that_has_drawn_nothing(server: EmbeddedServer) -> None:
    """A republisher allots from the beginning of its own range, and draws what is left."""
    tree = {"pub": ["mid"], "mid": ["anna"]}
    async with MergeTopology(server=server, tree=tree) as topology:
        await topology.execute("pub", "create table orders (id serial primary key, item text)")
        await topology.publish("orders", identity=RANGES)
        await topology.subscribe("mid", kind="server", priority=50)
        await topology.subscribe("anna")
        assert await add(topology, "anna") == [1]
        assert await add(topology, "mid") == [201]


async def test_republishers_keep_values_for_themselves(server: EmbeddedServer) -> None:
    """Republishers allot to others, republishers too, no more than leaves them two ranges of a client subscription.

    Of two sessions at the same time, neither gets the values that are kept.
    """
    tree = {"pub": ["mid"], "mid": ["depot", "ben"], "depot": ["van", "anna"]}
    async with MergeTopology(server=server, tree=tree) as topology:
        await topology.execute("pub", "create table orders (id serial primary key, item text)")
        await topology.publish("orders", identity=RANGES)
        for priority, name in ((75, "mid"), (50, "depot"), (25, "van")):
            await topology.subscribe(name, kind="server", priority=priority)
        for name in ("anna", "ben"):
            await topology.subscribe(name)
        left = {each.node: each.left for each in await topology.ranges() if each.is_own}
        assert left == {"mid": 200, "depot": 200, "van": 1600, "anna": 0, "ben": 0}
        for name in ("mid", "depot"):
            assert len(await add(topology, name, 200)) == 200
        for name in ("mid", "ben", "depot"):
            await topology.sync(name)
        await asyncio.gather(*[topology.sync(name) for name in ("van", "anna")])
        drawn = [value for name in topology.nodes for value in await add(topology, name, 200)]
        assert len(drawn) == len({*drawn}) == 6 * 200
        await converge(topology)


async def test_a_republisher_that_has_forgotten_allotments_alone(server: EmbeddedServer) -> None:
    """A republisher that has forgotten allotments only is recognised, too.

    It no longer draws from its ranges, and allots from further ranges that it gets.
    """
    tree = {"pub": ["mid"], "mid": ["anna", "ben"]}
    async with MergeTopology(server=server, tree=tree) as topology:
        await topology.execute("pub", "create table orders (id serial primary key, item text)")
        await topology.publish("orders", identity=RANGES)
        await topology.subscribe("mid", kind="server", priority=50)
        await topology.subscribe("anna")
        await topology.subscribe("ben")
        await topology.back_up("mid")
        await use_up(topology, "anna")
        await topology.sync("anna")
        await topology.restore_backup("mid")
        assert (await topology.sync("anna")).anew
        await use_up(topology, "ben")
        for name in ("ben", "mid", "ben", "anna"):
            await topology.sync(name)
        drawn = [value for name in topology.nodes for value in await add(topology, name, 50)]
        assert len(drawn) == len({*drawn}) == 200
        await converge(topology)
