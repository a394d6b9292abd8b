"""Tests that the model can parse and plan every statement of the shipped scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.model.node.playing import make_node
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.sql import parse
from twopc.sim.model.values import SqlError

SCENARIOS = sorted((Path(__file__).parents[3] / "scenarios").rglob("*.twopc.yaml"))


def _steps(scenario: dict[str, Any]) -> list[str]:
    """Return the texts of ``sql`` and ``check`` steps."""
    found = []
    for session in scenario.get("sessions", {}).values():
        for step in session.get("steps", ()):
            for what in step.values() if isinstance(step, dict) else ():
                if isinstance(what, dict):
                    found += [what[key] for key in ("sql", "check") if key in what]
    return found


def _setup(scenario: dict[str, Any]) -> list[str]:
    """Return the statements that define the scenario's tables and procedures at a Subscriber."""
    texts = []
    for name, table in scenario.get("tables", {}).items():
        columns = [f"{column} {type_}" for column, type_ in table["columns"].items()]
        if isinstance(table.get("key"), list):
            columns.append(f"primary key ({', '.join(table['key'])})")
        version = "msrepl_tran_version uuid not null default gen_random_uuid()"
        texts.append(f"create table {name} ({', '.join([*columns, version])})")
        texts += table.get("sql", [])
        texts += table.get("procedures", [])
    texts += [each["body"] for each in scenario.get("procedures", {}).values()]
    added = {
        (item["add column"]["table"], item["add column"]["column"], item["add column"]["type"])
        for order in scenario.get("orders", ())
        for item in order.get("steps", ())
        if isinstance(item, dict) and "add column" in item
    }
    return [
        *texts,
        *(f"alter table {table} add {column} {type_}" for table, column, type_ in sorted(added)),
    ]


def _nodes(scenario: dict[str, Any]) -> list[list[str]]:
    """Return the `sql` of each Subscriber that the scenario describes."""
    own = scenario.get("subscribers", {}).values()
    return [(one or {}).get("sql", []) for one in own if isinstance(one, dict)] or [[]]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name.partition(".")[0])
def test_statements_are_known(path: Path) -> None:
    """All statements of a scenario are parsed and planned on a node with its tables."""
    scenario = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    for own in _nodes(scenario):
        node = make_node(SimpyKernel())
        for text in [*_setup(scenario), *own]:
            node.define(text)
        for text in _steps(scenario):
            for one in parse.statements(text):
                _plan(node, one)


def _plan(node: ModelNode, text: str) -> None:
    try:
        node.plans.get(text)
    except SqlError as error:
        if error.sqlstate != "42P01":  # a table of another Subscriber
            raise


def test_there_are_scenarios() -> None:
    """There are at least 27 scenarios."""
    assert len(SCENARIOS) >= 27
