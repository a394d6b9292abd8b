"""Expectations of an exported scenario: the results of its order that depend on neither clock nor chance.

Pure functions of two plays of the same order, at different times and with different seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.explore.plays import OrderPlay
from twopc.sim.report.event_records import event_of, select
from twopc.sim.report.events import DoubtfulStep, TableLook
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.accept import step_expectation
from twopc.sim.scenario.expectations import EVERYWHERE
from twopc.sim.scenario.judging.compare import as_rows
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.text import listed

#: Maximum number of a table's rows that are written as an expectation.
_ROWS_MAX = 20

#: Final rows of a table, by node.
NodeRows = Mapping[str, list[dict[str, Any]]]


def expectation(done: OrderPlay, second: OrderPlay) -> tuple[dict[str, Any], list[str]]:
    """Return the results that two plays share, as in a file: notable endings of steps, sessions, rows.

    The second value has sentences about results that are not expected.
    """
    names: list[str] = []
    values: dict[str, Any] = {}
    for key, one, other in (
        ("steps", _steps(done), _steps(second)),
        ("sessions", _sessions(done), _sessions(second)),
    ):
        same = {name: each for name, each in one.items() if other.get(name) == each}
        names += [name for name in one if name not in same]
        if same:
            values[key] = same
    tables: dict[str, Any] = {}
    (last, long), (last_second, _) = _final(done.own), _final(second.own)
    for table, nodes in last.items():
        described = done.chosen.case.scenario.tables.get(table)
        drawn = _drawn(nodes, last_second.get(table, {}))
        if drawn is None or (described is not None and drawn & {*described.key_columns}):
            names.append(table)
            continue
        names += [f"{table}.{column}" for column in sorted(drawn)]
        kept = {node: [_without(row, drawn) for row in rows] for node, rows in nodes.items()}
        every = list(kept.values())
        is_everywhere = all(each == every[0] for each in every)
        tables[table] = {EVERYWHERE: every[0]} if is_everywhere else kept
    if tables:
        values["tables"] = tables
    why = f"Not expected, because the clock or chance decides it: {listed(names)}." if names else ""
    many = f"Not expected, because there are over {_ROWS_MAX} rows: {listed(long)}." if long else ""
    return values, [each for each in (why, many) if each]


def _steps(done: OrderPlay) -> dict[str, Any]:
    """Return the endings of steps other than plain success."""
    case, runs = done.chosen.case, Runs(done.own)
    results: dict[str, Any] = {}
    for item in case.items:
        ended = runs.of(item.step or "").ended
        if item.step is None or ended is None:
            continue
        actual = step_expectation(case, runs.of(item.step), ended)
        if isinstance(event_of(ended), DoubtfulStep):
            actual = "in_doubt"
        if actual is not None and actual != "ok" and (ended.rows is None or "blocked_by" in actual):
            results[item.step] = actual
    return results


def _sessions(done: OrderPlay) -> dict[str, str]:
    outcomes = Fold(done.own).outcomes
    return {name: text for name, text in outcomes.items() if text != "none"}


def _final(
    records: Sequence[HistoryRecord],
) -> tuple[dict[str, dict[str, list[dict[str, Any]]]], Sequence[str]]:
    """Return the final rows by table and node, and the tables that have too many at some node."""
    final: dict[str, dict[str, list[dict[str, Any]]]] = {}
    long: dict[str, None] = {}
    for look in select(records, TableLook):
        if look.moment != "final":
            continue
        table, rows = look.table, look.rows
        if look.rowcount > _ROWS_MAX:
            long[table] = None
        columns = [name for name in rows[0] if name != VERSION_COLUMN] if rows else None
        final.setdefault(table, {})[look.node] = as_rows(rows, columns)
    return {table: nodes for table, nodes in final.items() if table not in long}, [*long]


def _drawn(one: NodeRows, other: NodeRows) -> set[str] | None:
    """Return the columns in which a table's rows differ; None if the numbers of rows differ."""
    if {node: len(rows) for node, rows in one.items()} != {
        node: len(rows) for node, rows in other.items()
    }:
        return None
    pairs = [pair for node in one for pair in zip(one[node], other[node], strict=True)]
    return {
        name for row, other_row in pairs for name in row.keys() | other_row.keys()
        if row.get(name) != other_row.get(name)
    }  # fmt: skip


def _without(row: Mapping[str, Any], columns: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in columns}
