"""Republishers on servers: Subscribers to which other nodes subscribe."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.fix_merge import CUSTOMER, customer
from tests.merge.histories import History
from tests.merge.model_nodes import PRIORITIES, TREE, ModelNodes
from tests.merge.test_histories import ServerNodes
from twopc.errors import ConfigurationError, SubscriptionError
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology
from twopc.sim.merge.attachment import attach

NODES = {"pub": ["anna", "depot"], "depot": ["van"]}


async def test_through_a_republisher(server: EmbeddedServer) -> None:
    """Changes and conflicts pass a republisher, and it is reinitialised with its Subscribers.

    Conflicts are resolved where two changes meet.
    """
    async with MergeTopology(server=server, tree=NODES) as topology:
        await topology.execute("pub", CUSTOMER)
        await topology.publish("customer", tracking="column")
        await topology.publish("purchase")
        await topology.subscribe("depot")
        with pytest.raises(SubscriptionError, match=r"client subscription itself.*21087"):
            await topology.subscribe("van")
        await topology.unsubscribe("depot")
        await topology.execute("depot", "drop table customer, purchase")
        await topology.subscribe("depot", kind="server", priority=75)
        await topology.subscribe("anna", kind="server", priority=50)
        with pytest.raises(SubscriptionError, match=r"less than the Publisher's 75.*20088"):
            await topology.subscribe("van", kind="server", priority=75)
        await topology.subscribe("van", kind="server", priority=40)
        with pytest.raises(SubscriptionError, match="depot publishes to van"):
            await topology.unsubscribe("depot")

        await topology.execute("van", "update customer set phone = 'van' where id = 1")
        await topology.execute("anna", "update customer set credit = 20 where id = 1")
        await topology.execute("depot", "insert into purchase values (5, 2, 'depot')")
        assert await topology.settle() <= 4
        await topology.assert_converged()
        assert {node for node, _ in await topology.agent_processes("van")} == {"depot", "van"}
        assert await customer(topology, "van") == ("van", 20)
        assert await topology.execute("anna", "select code from purchase where id = 5") == [
            ("depot",)
        ]

        # van's change keeps van's priority at pub; anna's is higher, and depot's is the highest
        for node in ("van", "anna"):
            await topology.execute(node, f"update customer set phone = 'by {node}' where id = 2")
        for node in ("van", "depot", "anna"):
            await topology.sync(node)
        [conflict] = await topology.conflicts("customer")
        assert (conflict.origin, conflict.winner) == ("van", "anna")
        await topology.settle()
        assert await customer(topology, "van", 2) == ("by anna", 10)

        await topology.execute("van", "update customer set phone = 'lost' where id = 1")
        outcome = await topology.reinitialise("depot")
        assert outcome.lost == {"depot": {}, "van": {"customer": 1}}
        await topology.execute("van", "update customer set phone = 'again' where id = 1")
        await topology.settle()
        await topology.assert_converged()
        assert await customer(topology, "anna") == ("again", 20)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"pub": ["anna"], "depot": ["van"]}, "pub and depot subscribe nowhere"),
        ({"pub": ["anna", "depot"], "depot": ["anna"]}, "subscribes at two"),
        ({"pub": [], "a": ["b"], "b": ["a"]}, "subscribe in a circle"),
    ],
)
def test_what_is_no_tree(tree: dict[str, list[str]], message: str) -> None:
    """Nodes that do not form a tree are refused before anything is created."""
    with pytest.raises(ConfigurationError, match=message):
        MergeTopology(tree=tree)


@pytest.mark.slow
async def test_histories_on_a_tree(server: EmbeddedServer) -> None:
    """Random histories are the same on servers and in memory, session by session."""
    shape: dict[str, list[str]] = {}
    for name, publisher in TREE.items():
        shape.setdefault(publisher, []).append(name)
    async with MergeTopology(server=server, tree=shape) as topology:
        await topology.execute(
            "pub", "create table item (rowguid uuid primary key, c0 int, c1 int, c2 int)"
        )
        await topology.publish("item", tracking="column")
        for name in TREE:
            priority = PRIORITIES.get(name, 20.0)
            kind = "client" if priority is None else "server"
            await topology.subscribe(name, kind=kind, priority=priority)
        played = []
        for nodes in (ServerNodes(topology), ModelNodes(column_tracking=True, tree=TREE)):
            nodes.names = ("pub", *TREE)
            history = History(nodes, random.Random("servers tree"), itertools.count(1).__next__)
            for _ in range(2):
                await history.play(60)
                assert await history.settle() <= 3
                await history.judge()
            losers = [(each.rowguid, each.row) for each in await nodes.losers()]
            played.append((history.reports, await nodes.rows("pub"), sorted(map(repr, losers))))
        assert played[0] == played[1]


async def test_a_tree_is_found_again(server: EmbeddedServer) -> None:
    """A tree is recognised from the connection strings of its nodes.

    Subscribers that a republisher reports do not become neighbours of its Publisher.
    """
    async with MergeTopology(server=server, tree=NODES) as topology:
        await topology.execute("pub", CUSTOMER)
        await topology.publish("customer")
        await topology.subscribe("depot", kind="server", priority=75)
        await topology.subscribe("van", kind="server", priority=40)
        await topology.settle()
        dsns = {name: node.dsn for name, node in topology.nodes.items() if name != "anna"}
        async with await attach(dsns) as found:
            assert (found.publisher, found.subscribers) == ("pub", ("depot", "van"))
            assert found.tree.publisher_of("van") == "depot"
            assert await found.subscribed() == ["van", "depot"]
        with pytest.raises(ConfigurationError, match="van subscribes at depot, which is missing"):
            await attach({name: dsns[name] for name in ("pub", "van")})
