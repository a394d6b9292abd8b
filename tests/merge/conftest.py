"""Topologies that most tests of merge replication need."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.merge.snapshots import SHOP
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology


@pytest.fixture
async def topology(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """A Publisher without articles, and Anna, who has not subscribed yet."""
    async with MergeTopology(server=server, subscribers=("anna",)) as made:
        yield made


@pytest.fixture
async def shop(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """Customers and purchases, some of them changed or deleted; neither Anna nor Ben subscribes yet."""
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as made:
        await made.execute("pub", SHOP)
        await made.publish("customer", tracking="column")
        await made.publish("purchase")
        await made.execute("pub", "update customer set credit = 9 where id = 7")
        await made.execute("pub", "delete from customer where id = 299")
        yield made
