"""Identity ranges on servers: who draws which values, and what goes wrong with them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import AsyncConnection

from twopc.merge.ranges import IdentityRanges
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

RANGES = IdentityRanges(subscriber=100, publisher=1000, threshold_percent=80)


@pytest.fixture
async def orders(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """A table with a serial column, of which Anna and Ben have two ranges of 100 values each."""
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
    """The values that an application's rows get, in one statement."""
    async with await AsyncConnection.connect(topology.node(node).app_dsn) as connection:
        cursor = await connection.execute(
            "insert into orders (item) select 'new' from generate_series(1, %s) returning id",
            (count,),
        )
        return [value for (value,) in await cursor.fetchall()]


async def test_each_node_draws_from_its_ranges(orders: MergeTopology) -> None:
    """Applications need no right but those to the table; a statement goes over to the second range in its middle."""
    assert await add(orders, "pub") == [402]
    assert await add(orders, "anna", 150) == [*range(2, 152)]
    assert await add(orders, "ben", 200) == [*range(202, 402)]
    assert await add(orders, "pub") == [403]
    await orders.settle()
    await orders.assert_converged()


async def test_used_up_ranges(orders: MergeTopology) -> None:
    """The statement fails, and names table, node, range and remedy; a session brings further ranges."""
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
    """Not before 80 of 100 values are used up."""
    await add(orders, "anna", 79)
    await orders.sync("anna")
    assert await add(orders, "pub") == [402]
    await add(orders, "anna")
    await orders.sync("anna")
    assert await add(orders, "pub") == [503]
    await add(orders, "anna", 120)
    assert await add(orders, "anna", 100) == [*range(403, 503)]
