"""Setup of merge replication on a model: empty nodes, then their tables, subscriptions and sessions."""

from __future__ import annotations

from dataclasses import replace

from twopc.drivers.points import Points
from twopc.merge.articles import options_of
from twopc.merge.partitions import PartitionOption
from twopc.merge.protections import MergeProtection
from twopc.sim.merge.shape import MergeTree
from twopc.sim.model.builder import blaming
from twopc.sim.model.merge.merge_nodes import ModelMerging
from twopc.sim.model.merge.table_filters import ModelMergedTable
from twopc.sim.model.system import System
from twopc.sim.model.values import ModelSpec, TableSpec
from twopc.sim.scenario.merge_filters import publish_order
from twopc.sim.scenario.model import Scenario

#: Column that identifies a row if the file does not name one.
ROWGUID = "rowguid"


def empty_spec(spec: ModelSpec) -> ModelSpec:
    """Return the specification of nodes without publications and without distribution."""
    subscribers = tuple(replace(each, joins_later=True) for each in spec.subscribers)
    return replace(spec, tables=(), setup=(), distributes=False, subscribers=subscribers)


def merging_of(
    model: System, spec: ModelSpec, scenario: Scenario, points: Points, off: frozenset[str]
) -> ModelMerging:
    """Return the merge replication of a scenario, on a model of `empty_spec`.

    Raises:
        twopc.sim.model.builder.BuildError: a node refuses the scenario's setup.
        UnsupportedError: the scenario uses something that the model does not support.
    """
    without = frozenset(map(MergeProtection, off))
    specs = {table.name: table for table in spec.tables}
    tables = [_merged(scenario, specs[name], without) for name in publish_order(scenario.tables)]
    tree = MergeTree(scenario.topology.tree)
    publishers = {name: tree.publisher_of(name) for name in tree.subscribers}
    priorities = {
        name: float(merge.priority or 0)
        for name in publishers
        if (merge := scenario.subscriber(name).merge).type == "server"
    }
    values = {
        name: (
            name if merge.host_name is None else merge.host_name,
            name if merge.login is None else merge.login,
        )
        for name in publishers
        for merge in (scenario.subscriber(name).merge,)
    }
    merging = ModelMerging(
        model,
        tables,
        publishers,
        priorities,
        values,
        made=[*specs],
        points=points,
        without=without,
    )
    for at, text in enumerate(spec.setup):
        with blaming("setup", at):
            model.publisher.define(text)
    if scenario.topology.snapshot == "before":
        for name in tree.publishers:
            merging.make_snapshot(name)
    return merging


def _merged(
    scenario: Scenario, table: TableSpec, without: frozenset[MergeProtection]
) -> ModelMergedTable:
    merge = scenario.tables[table.name].merge
    return ModelMergedTable(
        table=table,
        rowguid=merge.rowguid or ROWGUID,
        adds_rowguid=merge.rowguid is None,
        column_tracking=merge.tracking == "column",
        options=options_of(
            f"table {table.name}",
            resolver=None if MergeProtection.RESOLVER in without else merge.resolver,
            compensate=merge.compensate and MergeProtection.COMPENSATION not in without,
            upload=merge.upload,
            deletes=merge.deletes,
        ),
        row_filter=merge.filter,
        joins=merge.join,
        option=PartitionOption(int(merge.partition)),
        realigns=merge.realigns,
        identity=None if merge.identity is None else merge.identity.ranges,
    )
