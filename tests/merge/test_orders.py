"""Three Subscribers that change the same rows, in every order of their sessions."""

from __future__ import annotations

from itertools import permutations

from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

NAMES = ("anna", "ben", "cleo")
KINDS = {"anna": 75.0, "ben": 50.0, "cleo": None}
"""Priorities of server subscriptions; None: a client."""


async def test_all_nodes_end_alike(server: EmbeddedServer) -> None:
    """All nodes converge; tracked by row, the higher priority wins in every order.

    The client wins only if its session is the first.
    """
    async with MergeTopology(server=server, subscribers=NAMES) as topology:
        orders = list(permutations(NAMES))
        for table, level in (("by_row", "row"), ("by_column", "column")):
            await topology.execute(
                "pub", f"create table {table} (id int primary key, a text, b text, c text, d text)"
            )
            await topology.execute(
                "pub",
                f"insert into {table} select n, '', '', '', '' from generate_series(0, 5) as n",
            )
            await topology.publish(table, tracking=level)
        for name, priority in KINDS.items():
            await topology.subscribe(
                name, kind="client" if priority is None else "server", priority=priority
            )
        for number, order in enumerate(orders):
            for column, name in zip("bcd", NAMES, strict=True):
                for table in ("by_row", "by_column"):
                    # each Subscriber changes column a and one column of its own
                    change = f"update {table} set a = %s, {column} = %s where id = %s"
                    await topology.execute(name, change, (name, name, number))
            for name in order:
                await topology.sync(name)
            await topology.settle()
        await topology.assert_converged()
        winners = await topology.execute("pub", "select a from by_row order by id")
    for order, (winner,) in zip(orders, winners, strict=True):
        assert winner == ("cleo" if order[0] == "cleo" else "anna"), order
