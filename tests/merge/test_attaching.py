"""A topology that merges already, used by another process that knows connection strings only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fix_merge import customer
from twopc.errors import ConfigurationError, SubscriptionError
from twopc.sim.merge import MergeTopology, subscriptions
from twopc.sim.merge.attachment import attach, attach_for_unsubscribe


async def test_two_processes_run_sessions_in_turn(merge_shop: MergeTopology) -> None:
    """Two processes run sessions in turn, and an attached topology leaves everything as it is."""
    dsns = {name: node.dsn for name, node in merge_shop.nodes.items()}
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    async with await attach(dsns) as other:
        assert (other.publisher, set(other.subscribers)) == ("pub", {"anna", "ben"})
        assert (await other.sync("anna")).uploaded == 1
        assert (await merge_shop.sync("ben")).downloaded == 1
        assert (await merge_shop.sync("anna")).uploaded == 0
        await merge_shop.execute("anna", "update customer set phone = '3' where id = 1")
        assert (await other.sync("anna")).uploaded == 1
        with pytest.raises(SubscriptionError, match="is the Publisher"):
            await other.sync("pub")
    assert (await merge_shop.sync("ben")).downloaded == 1
    assert await customer(merge_shop, "ben") == ("3", 10)
    await merge_shop.unsubscribe("ben")
    async with await attach({name: dsns[name] for name in ("pub", "anna")}) as other:
        assert other.subscribers == ("anna",)
        await other.settle()


async def test_nodes_that_are_no_topology(merge_shop: MergeTopology) -> None:
    """Each message names the node and the remedy."""
    dsns = {name: node.dsn for name, node in merge_shop.nodes.items()}
    server = merge_shop.node("pub").server
    for nodes, message in (
        ({}, "name the nodes"),
        ({**dsns, "cleo": server.superuser_dsn("postgres")}, "'cleo': database 'postgres' does not merge"),
        ({"shop": dsns["pub"]}, "'shop': this node was set up as 'pub'"),
        ({"anna": dsns["anna"]}, "the Publisher is missing: name pub as well"),
        ({"pub": dsns["pub"], "anna": "host"}, "'anna': the DSN is not a connection string"),
        (dsns | {"ben": f"{dsns['ben']} port=1"}, "cannot be reached:\n  node 'ben'"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=message):
            await attach(nodes)
    async with await attach(dsns | {"pub": f"{dsns['pub']} port=1"}, partly=True) as other:
        assert other.publisher == "pub"
        assert list(other.wiring.unreachable) == ["pub"]


async def test_unsubscribing_that_is_cut_off(
    merge_shop: MergeTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If unsubscribing ends after the Publisher's commit, a check reports it.

    It can be repeated.
    """

    async def cut(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(subscriptions, "leave", cut)
        with pytest.raises(KeyboardInterrupt):
            await merge_shop.unsubscribe("ben")
    [finding] = await merge_shop.check()
    assert (finding.node, finding.remedy) == ("ben", "twopc merge unsubscribe ben")
    await merge_shop.unsubscribe("ben")
    assert await merge_shop.check() == []
    assert await merge_shop.execute(
        "ben", "select count(*) from pg_trigger where not tgisinternal"
    ) == [(0,)]
    with pytest.raises(SubscriptionError, match="ben does not subscribe"):
        await merge_shop.unsubscribe("ben")


async def test_subscribing_that_was_killed(
    topology: MergeTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subscription that only the Publisher knows, after its commit, can be ended and begun again."""
    entered = subscriptions.enter

    async def cut(*arguments: Any) -> None:
        await entered(*arguments)
        raise KeyboardInterrupt

    async def nothing(_: object) -> None:
        """Do as a killed process does."""

    await topology.execute("pub", "create table item (id int primary key)")
    await topology.publish("item")
    with monkeypatch.context() as patched:
        patched.setattr(subscriptions, "enter", cut)
        patched.setattr(subscriptions, "withdraw", nothing)
        with pytest.raises(KeyboardInterrupt):
            await topology.subscribe("anna")
    with pytest.raises(SubscriptionError, match="`twopc merge unsubscribe anna`, and subscribe"):
        await topology.subscribe("anna")
    dsns = {name: node.dsn for name, node in topology.nodes.items()}
    async with await attach_for_unsubscribe(dsns, "anna") as other:
        await other.unsubscribe("anna")
        with pytest.raises(SubscriptionError, match="anna does not subscribe"):
            await other.unsubscribe("anna")
    await topology.subscribe("anna")
    await topology.sync("anna")
