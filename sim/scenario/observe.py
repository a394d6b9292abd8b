"""Looks at a stage and writes what it sees into the history: rows, prepared branches, markers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from sim.report.history import ROWS_MAX, History
from sim.scenario.model import Scenario
from sim.scenario.stage import Stage
from sim.scenario.tables import Table
from twopc.names import VERSION_COLUMN


async def initial_states(scenario: Scenario, stage: Stage, history: History) -> None:
    """Every table at every node before the first step."""
    for node in scenario.topology.nodes:
        await _state(scenario, stage, history, node, "initial")


async def state_after(
    scenario: Scenario, stage: Stage, history: History, nodes: Sequence[str]
) -> None:
    """Every table at the Publisher and at `nodes`, after something has changed there."""
    for each in dict.fromkeys((scenario.topology.publisher, *nodes)):
        await _state(scenario, stage, history, each, "committed")


async def write_deliveries(stage: Stage, history: History) -> None:
    """What the agents have done since this was written last."""
    for each in await stage.deliveries():
        history.write(
            "suppress" if each.suppressed else "skip" if each.skipped else "deliver",
            node=each.node,
            gid=each.gid,
            message=each.skipped,
            data={"seqno": each.seqno, "origin": each.origin, "commands": list(each.commands)},
        )


async def settled(scenario: Scenario, stage: Stage, settle_s: float) -> None:
    """Wait until no branch is prepared any more, at most for `settle_s`."""
    until = asyncio.get_running_loop().time() + settle_s
    while asyncio.get_running_loop().time() < until:
        if not any([await stage.prepared(node) for node in scenario.topology.nodes]):
            return


async def final_states(scenario: Scenario, stage: Stage, history: History) -> None:
    """Everything at every node, and what of the Publisher's each Subscriber should have."""
    for node in scenario.topology.nodes:
        history.write("prepared", node=node, data={"gids": list(await stage.prepared(node))})
        history.write("markers", node=node, data={"markers": await stage.markers(node)})
        await _state(scenario, stage, history, node, "final")
    for subscriber in scenario.topology.subscribers:
        for name, table in scenario.tables.items():
            rows = await stage.part(subscriber, name, _columns(scenario, subscriber, name))
            if rows is not None:
                _write(
                    history,
                    scenario.topology.publisher,
                    name,
                    table,
                    rows,
                    moment="part",
                    part=subscriber,
                )


async def _state(
    scenario: Scenario, stage: Stage, history: History, node: str, moment: str
) -> None:
    for name, table in scenario.tables.items():
        rows = await stage.rows(node, name, _columns(scenario, node, name))
        _write(history, node, name, table, rows, moment=moment)


def _columns(scenario: Scenario, node: str, name: str) -> list[str]:
    """The columns that a table has at a node: at a Subscriber those that are published."""
    table = scenario.tables[name]
    here = table.columns if node == scenario.topology.publisher else table.published
    return [*(here or table.columns), VERSION_COLUMN]


def _write(
    history: History, node: str, name: str, table: Table, rows: list[dict[str, Any]], **data: str
) -> None:
    history.write(
        "state",
        node=node,
        rows=tuple(rows[:ROWS_MAX]),
        rowcount=len(rows),
        data={"table": name, "key": list(table.key_columns), **data},
    )
