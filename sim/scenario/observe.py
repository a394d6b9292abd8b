"""Looks at a stage and writes what it sees into the history: rows, prepared branches, markers."""

from __future__ import annotations

import asyncio

from sim.report.history import ROWS_MAX, History
from sim.scenario.model import Scenario
from sim.scenario.stage import Stage
from twopc.names import VERSION_COLUMN


async def initial_states(scenario: Scenario, stage: Stage, history: History) -> None:
    """Every table at every node before the first step."""
    for node in scenario.topology.nodes:
        await _state(scenario, stage, history, node, "initial")


async def state_after(scenario: Scenario, stage: Stage, history: History, node: str) -> None:
    """Every table at the Publisher and at `node`, after a commit there."""
    for each in dict.fromkeys((scenario.topology.publisher, node)):
        await _state(scenario, stage, history, each, "committed")


async def final_states(scenario: Scenario, stage: Stage, history: History, settle_s: float) -> None:
    """Everything at every node once no branch is prepared any more, or `settle_s` later."""
    nodes = scenario.topology.nodes
    until = asyncio.get_running_loop().time() + settle_s
    while True:
        left = {node: await stage.prepared(node) for node in nodes}
        if not any(left.values()) or asyncio.get_running_loop().time() > until:
            break
    for node in nodes:
        history.write("prepared", node=node, data={"gids": list(left[node])})
        history.write("markers", node=node, data={"markers": await stage.markers(node)})
        await _state(scenario, stage, history, node, "final")


async def _state(
    scenario: Scenario, stage: Stage, history: History, node: str, moment: str
) -> None:
    for name, table in scenario.tables.items():
        rows = await stage.rows(node, name, [*table.columns, VERSION_COLUMN])
        history.write(
            "state",
            node=node,
            rows=tuple(rows[:ROWS_MAX]),
            rowcount=len(rows),
            data={"table": name, "key": list(table.key_columns), "moment": moment},
        )
