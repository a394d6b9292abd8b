"""How committed changes reach a target's Subscribers, whichever process reads its log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import psycopg
import pytest

from tests.fix_topology import share
from tests.spark.replay.recorded import agents_elsewhere, distributed
from twopc.errors import DeliveryError
from twopc.sim.replay import delivery
from twopc.sim.replay.topology import TopologyAddress, address_of
from twopc.sim.topology import Topology

SEEN = "select count(*) from t"


def count(dsn: str) -> int:
    """Return the number of rows of the table at a node."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(SEEN).fetchone()
    assert row is not None
    return int(row[0])


def write(nodes: Mapping[str, str]) -> None:
    """Insert one row at the Publisher."""
    with psycopg.connect(nodes["pub"]) as connection:
        connection.execute("insert into t default values")


def write_and_wait(nodes: Mapping[str, str]) -> list[int]:
    """Return the number of rows at a Subscriber, each time that everything was delivered."""
    found, address = [], address_of(nodes)
    with delivery.delivering(address) as settle:
        for _ in range(2):
            write(nodes)
            settle()
            found.append(count(nodes["north"]))
    write(nodes)
    delivery.deliver(address)
    return [*found, count(nodes["north"])]


async def test_whoever_reads_the_log(
    make_topology: Callable[..., Awaitable[Topology]], monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = await make_topology(subscribers=("north",))
    await share(topology, "t", "create table t (id int generated always as identity primary key)")
    await topology.stop_agents()
    nodes = distributed(topology)
    # without agents, the replay reads the log; it does so twice, so that nothing is left of the
    # first time
    assert await asyncio.to_thread(write_and_wait, nodes) == [1, 2, 3]
    await agents_elsewhere(topology)  # agents of another process, for the replay
    assert await asyncio.to_thread(write_and_wait, nodes) == [4, 5, 6]
    await topology.stop_agents()

    # the log is read, and no agent delivers
    await topology.sync()
    monkeypatch.setattr(delivery, "DELIVERED_WITHIN_S", 0.1)
    await asyncio.to_thread(write, nodes)
    with pytest.raises(DeliveryError, match=r"north did not get everything within 0\.1 s"):
        await asyncio.to_thread(
            delivery.deliver, TopologyAddress(nodes=nodes, coordinator="replay")
        )
