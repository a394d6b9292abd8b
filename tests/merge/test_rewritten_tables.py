"""Tables that ALTER TABLE rewrites while their rows are about to be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.fix_merge import converge
from tests.merge.partitions import assert_mapped, publish_shop
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

_WAITS = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"


@asynccontextmanager
async def rewritten(topology: MergeTopology, name: str) -> AsyncIterator[None]:
    """Rewrite table customer of a node, and commit once the session that the block has begun waits for it."""
    node = topology.node(name)
    async with (
        await AsyncConnection.connect(node.dsn) as migration,
        await AsyncConnection.connect(node.dsn, autocommit=True) as observer,
    ):
        await migration.execute("alter table customer add mine uuid default gen_random_uuid()")
        yield
        while not (await observer.execute(_WAITS, (node.database,))).rowcount:
            continue
        await migration.commit()


async def test_rows_are_not_taken_for_deleted(merge_shop: MergeTopology) -> None:
    """A changed row of a table that is rewritten after the generation was closed is uploaded, not deleted."""
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    async with rewritten(merge_shop, "anna"):
        session = asyncio.create_task(merge_shop.sync("anna"))
    assert (await session).uploaded == 1
    assert await merge_shop.execute("pub", "select id, phone from customer order by id") == [
        (1, "2"),
        (2, "1"),
    ]
    await converge(merge_shop)


@pytest.mark.parametrize("precomputed", [True, False])
async def test_rows_stay_in_their_partitions(server: EmbeddedServer, precomputed: bool) -> None:
    """Rows of a filtered table that is rewritten while a generation is closed leave no partition."""
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        await publish_shop(topology, precomputed=precomputed)
        await topology.subscribe("anna", host_name="north")
        await topology.execute("pub", "update customer set phone = '2'")
        async with rewritten(topology, "pub"):
            session = asyncio.create_task(topology.sync("anna"))
        await session
        assert await topology.execute("anna", "select id, phone from customer") == [(1, "2")]
        await assert_mapped(topology)


async def test_a_first_copy_is_not_empty(merge_shop: MergeTopology) -> None:
    """A copy from a table that is rewritten meanwhile is refused, and can be made afterwards."""
    await merge_shop.unsubscribe("ben")
    await merge_shop.execute("ben", "drop table purchase, customer")
    async with rewritten(merge_shop, "pub"):
        copy = asyncio.create_task(merge_shop.subscribe("ben"))
    with pytest.raises(psycopg.errors.SerializationFailure, match=r"public.customer was rewritten"):
        await copy
    await merge_shop.subscribe("ben")
    await converge(merge_shop)
