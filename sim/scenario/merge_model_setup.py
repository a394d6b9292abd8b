"""What of a scenario is merged on a model: empty nodes, and their tables, subscriptions and sessions."""

from __future__ import annotations

from dataclasses import replace

from twopc.drivers.points import Points
from twopc.merge.articles import MergeOptions, options_of
from twopc.merge.protections import MergeProtection
from twopc.sim.model.builder import blaming
from twopc.sim.model.merge.merging import ModelMergedTable, ModelMerging
from twopc.sim.model.system import System
from twopc.sim.model.values import ModelSpec
from twopc.sim.scenario.model import Scenario

#: By which a row is known, where the file names no column.
ROWGUID = "rowguid"


def empty_spec(spec: ModelSpec) -> ModelSpec:
    """The specification of nodes that publish nothing, and to which nothing is distributed."""
    subscribers = tuple(replace(each, joins_later=True) for each in spec.subscribers)
    return replace(spec, tables=(), setup=(), distributes=False, subscribers=subscribers)


def merging_of(
    model: System, spec: ModelSpec, scenario: Scenario, points: Points, off: frozenset[str]
) -> ModelMerging:
    """What a scenario merges, on a model of `empty_spec`.

    Raises:
        twopc.sim.model.builder.BuildError: a node does not take what the scenario says.
        UnsupportedError: the model does not know something that it says.
    """
    without = frozenset(map(MergeProtection, off))
    tables = [
        ModelMergedTable(
            table=table,
            rowguid=scenario.tables[table.name].merge.rowguid or ROWGUID,
            adds_rowguid=scenario.tables[table.name].merge.rowguid is None,
            column_tracking=scenario.tables[table.name].merge.tracking == "column",
            options=_options(scenario, table.name, without),
        )
        for table in spec.tables
    ]
    tree = scenario.topology.tree
    publishers: dict[str, str] = {}
    order = [scenario.topology.publisher]
    for name in order:
        publishers |= dict.fromkeys(tree.get(name, ()), name)
        order += tree.get(name, ())
    priorities = {
        name: float(merge.priority or 0)
        for name in publishers
        if (merge := scenario.subscriber(name).merge).type == "server"
    }
    merging = ModelMerging(model, tables, publishers, priorities, points=points, without=without)
    for at, text in enumerate(spec.setup):
        with blaming("setup", at):
            model.publisher.define(text)
    return merging


def _options(scenario: Scenario, name: str, without: frozenset[MergeProtection]) -> MergeOptions:
    merge = scenario.tables[name].merge
    return options_of(
        f"table {name}",
        resolver=None if MergeProtection.RESOLVER in without else merge.resolver,
        compensate=merge.compensate and MergeProtection.COMPENSATION not in without,
        upload=merge.upload,
        deletes=merge.deletes,
    )
