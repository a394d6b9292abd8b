"""Tests of tracer tokens: the progress of each token, and the latency of each step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from twopc.errors import SubscriptionError
from twopc.publisher.tracer import Passage, delete_tracer_history, post_tracer_token, tracer_history
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


async def passages(topology: Topology, tracer_id: int | None = None) -> list[Passage]:
    return await tracer_history(
        await topology.admin("pub"), await topology.admin("distribution"), "pub", tracer_id
    )


async def test_a_token_takes_the_way_of_every_transaction(make_topology: MakeTopology) -> None:
    """A token is pending until it is delivered; its latencies add up, and it changes no rows."""
    topology = await make_topology(subscribers=("sub1", "sub2"))
    admin = await topology.admin("pub")
    await topology.execute("pub", "create table item (id int primary key)")
    await topology.publish("item")
    with pytest.raises(SubscriptionError, match="21488"):
        await post_tracer_token(admin)
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber)

    token = await post_tracer_token(admin)
    assert [(each.subscriber, each.total_ms) for each in await passages(topology)] == [
        ("sub1", None),
        ("sub2", None),
    ]
    assert str((await passages(topology))[0]) == (
        f"tracer token {token.id} to sub1: Pending + Pending = Pending"
    )
    await topology.sync("sub1")
    here, there = await passages(topology, token.id)
    assert here.distributor_ms is not None
    assert here.subscriber_ms is not None
    assert here.total_ms == pytest.approx(here.distributor_ms + here.subscriber_ms)
    assert 0 <= here.distributor_ms < 60_000
    assert there.distributor_ms == here.distributor_ms
    assert there.subscriber_ms is None
    await topology.sync()
    second = await post_tracer_token(admin)
    found = await passages(topology)
    assert [(each.tracer_id, each.total_ms is None) for each in found] == [
        (second.id, True), (second.id, True), (token.id, False), (token.id, False),
    ]  # fmt: skip

    distribution = await topology.admin("distribution")
    assert (
        await delete_tracer_history(distribution, "pub", datetime.now(UTC) - timedelta(hours=1))
        == 0
    )
    assert await delete_tracer_history(distribution, "pub", datetime.now(UTC)) == 1


async def test_tokens_of_running_agents(make_topology: MakeTopology) -> None:
    """A token is delivered while the log reader and the agents run as processes of their own."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", "create table item (id int primary key)")
    await topology.publish("item")
    await topology.subscribe("sub1")
    await topology.start_agents()
    await topology.execute("pub", "insert into item values (1)")
    token = await topology.post_tracer_token()
    await topology.sync()
    await topology.stop_agents()
    (found,) = await passages(topology, token.id)
    assert found.total_ms is not None
    assert found.publisher_commit <= datetime.now(UTC)
