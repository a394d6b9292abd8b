"""Tables of a scenario on a topology of merge replication: created, filled, published and subscribed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.drivers.merge import partitions
from twopc.publisher.merge.filters import Join
from twopc.sim.merge import MergeTopology
from twopc.sim.scenario.merge_filters import publish_order
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.postgres_setup import blaming, fill_tables, make_tables, own_words


async def set_up_merge(topology: MergeTopology, scenario: Scenario) -> Sequence[Mapping[str, Any]]:
    """Create, fill, publish and subscribe the tables, then run the scenario's own SQL.

    Returns:
        The last result of each text of `setup`.

    Raises:
        SetUpError: the server refuses a part of the setup.
    """
    await make_tables(topology, scenario)
    await fill_tables(topology, scenario)
    for name in publish_order(scenario.tables):
        with blaming("tables", name, "merge"):
            merge = scenario.tables[name].merge
            await topology.publish(
                name,
                tracking=merge.tracking,
                rowguid=merge.rowguid,
                resolver=merge.resolver,
                compensate=merge.compensate,
                upload=merge.upload,
                deletes=merge.deletes,
                row_filter=merge.filter,
                join=[Join(parent, condition) for parent, condition in merge.join.items()],
                partition=int(merge.partition),
                realigns=merge.realigns,
                identity=None if merge.identity is None else merge.identity.ranges,
            )
    for name in topology.subscribers:  # in the order of the tree, each after its Publisher
        stated = scenario.subscriber(name)
        with blaming("subscribers", name) if name in scenario.subscribers else blaming("tables"):
            priority = None if stated.merge.priority is None else float(stated.merge.priority)
            await topology.subscribe(
                name,
                kind=stated.merge.type,
                priority=priority,
                host_name=stated.merge.host_name,
                login=stated.merge.login,
            )
        for at, text in enumerate(stated.sql):
            with blaming("subscribers", name, "sql", at):
                await topology.execute(name, text)
    return await own_words(topology, "setup", scenario.setup)


async def make_snapshots(topology: MergeTopology, folder: str) -> None:
    """Make at each Publisher a snapshot for each partition, or one of all rows."""
    for publisher in topology.tree.publishers:
        held = await partitions.partitions(await topology.admin(publisher))
        named = [(each.host_name, each.login) for each in held] or [(None, None)]
        for host_name, login in named:
            await topology.snapshot(folder, publisher=publisher, host_name=host_name, login=login)
