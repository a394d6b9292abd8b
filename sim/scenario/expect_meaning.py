"""Checks of expectations: whether they refer to existing names, and can be fulfilled.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from twopc import lexer
from twopc.errors import KINDS
from twopc.sim.scenario import matrix, sqltext
from twopc.sim.scenario.expectations import EVERYWHERE, Expect, NodeRows, StepExpect, no_kind
from twopc.sim.scenario.model import Order, Scenario
from twopc.sim.scenario.parts import Row
from twopc.sim.scenario.procedures_meaning import check_commands
from twopc.sim.scenario.reach import NUMBERS, refuse_without
from twopc.sim.scenario.tables import ScenarioTable
from twopc.sim.scenario.text import Document, Path, listed, suggestion
from twopc.sim.scenario.values import Cell

#: Name of the row version in `ignore`.
VERSION = "version"


def check_expect(
    document: Document, scenario: Scenario, at: Path, expect: Expect, order: Order | None = None
) -> None:
    """Record the errors of the expectations at `at`.

    Args:
        order: their order, if its steps are known.
    """
    if order is not None:
        scenario = scenario.without_dropped(order.steps)
    for name, step in expect.steps.items() if not scenario.repeated else ():
        _step_expect(document, scenario, (*at, "steps", name), name, step, order)
    _invariants(document, scenario, at, expect)
    check_commands(document, scenario, at, expect)
    for name in expect.sessions:
        if name not in scenario.sessions:
            document.unknown((*at, "sessions", name), "session", name, scenario.sessions, key=True)
    for name in expect.rejected:
        if name not in KINDS:
            document.error((*at, "rejected", name), no_kind(name), key=True)
    for name, nodes in expect.tables.items():
        place: Path = (*at, "tables", name)
        if name not in scenario.tables:
            document.unknown(place, "table", name, scenario.tables, key=True)
            continue
        for node, rows in nodes.items():
            _node_rows(document, scenario, (*place, node), node, scenario.tables[name], rows)
    for label, inner in expect.cells.items():
        inside: Path = (*at, "cells", label)
        if inner.cells:
            document.error((*inside, "cells"), "cells do not stand in each other", key=True)
        check_expect(document, scenario, inside, inner, order)


def check_cells(document: Document, scenario: Scenario, cells: Sequence[Cell]) -> None:
    """Record expectations for cells that do not exist."""
    for at, expect in scenario.expectations():
        for label in expect.cells:
            if any(matrix.fits(label, cell) for cell in cells):
                continue
            values = dict.fromkeys(value for cell in cells for _, value in cell.values)
            if not values:
                text = f"there is no cell '{label}': the file has no matrix"
            else:
                hint = suggestion(label, values) or f"; its values are {listed(values)}"
                text = f"no cell of the matrix is '{label}'{hint}"
            document.error((*at, "cells", label), text, key=True)


def _invariants(document: Document, scenario: Scenario, at: Path, expect: Expect) -> None:
    delivered = {
        "converged": expect.converged,
        "echoed": expect.echoed,
        "each_change_applied_once": expect.each_change_applied_once,
    }
    for word, requested in delivered.items():
        if requested:
            refuse_without(document, scenario, (*at, word))
    for place, total in enumerate(expect.sum):
        here: Path = (*at, "sum", place)
        table = scenario.tables.get(total.table)
        if total.hole:
            continue
        if table is None:
            document.unknown((*here, "table"), "table", total.table, scenario.tables)
        elif not table.hole and total.column not in table.columns:
            document.unknown((*here, "column"), "column", total.column, table.columns)
        _check_node(document, scenario, (*here, "node"), total.node)
    for place, query in enumerate(expect.sql):
        here = (*at, "sql", place)
        if query.hole:
            continue
        _check_node(document, scenario, (*here, "at"), query.at)
        _query(document, (*here, "text"), query.text)


def _check_node(document: Document, scenario: Scenario, at: Path, node: str | None) -> None:
    known = (*scenario.topology.nodes, EVERYWHERE)
    if node is not None and node not in known:
        document.unknown(at, "node", node, known)


def _query(document: Document, at: Path, text: str) -> None:
    """Record an error unless a text is a single read-only query without parameters."""
    message = ""
    if len(lexer.statements(text)) != 1:
        message = "an invariant is one query"
    elif not sqltext.verbs(text) <= {"select", "values", "table"}:
        message = "an invariant only reads: it is a select that must return no rows"
    elif sqltext.parameters(text):
        message = f"no value for ':{sqltext.parameters(text)[0]}': an invariant has no parameters"
    if message:
        document.error(at, message)


def check_rows(document: Document, at: Path, table: ScenarioTable, rows: tuple[Row, ...]) -> None:
    """Record columns that the table does not have."""
    for place, row in enumerate(rows):
        for column in () if table.hole else row:
            if column not in table.columns:
                document.unknown((*at, place, column), "column", column, table.columns, key=True)


def _node_rows(
    document: Document,
    scenario: Scenario,
    at: Path,
    node: str,
    table: ScenarioTable,
    expected: NodeRows,
) -> None:
    nodes = scenario.topology.nodes
    if node not in (*nodes, EVERYWHERE):
        document.unknown(at, "node", node, (*nodes, EVERYWHERE), key=True)
    if expected.same_as is not None and (expected.same_as not in nodes or expected.same_as == node):
        document.unknown((*at, "same_as"), "other node", expected.same_as, set(nodes) - {node})
    is_whole = not (expected.hole or expected.holes)
    if expected.rows is None and expected.same_as is None and is_whole:
        document.error(at, "say which rows, or {same_as: node}")
    elif expected.ignore and expected.same_as is None:
        document.error(
            (*at, "ignore"),
            "'ignore' goes with 'same_as': of rows only the columns that they name are compared",
            key=True,
        )
    for place, column in enumerate(expected.ignore):
        if column != VERSION and column not in table.columns and not table.hole:
            document.unknown((*at, "ignore", place), "column", column, (*table.columns, VERSION))
    rows = expected.rows or ()
    check_rows(document, at, table, rows)
    for place, row in enumerate(rows):
        if set(row) != set(rows[0]):
            document.error((*at, place), "this row names other columns than the first; the columns that are named are compared")  # fmt: skip


def _step_expect(
    document: Document,
    scenario: Scenario,
    at: Path,
    name: str,
    expected: StepExpect,
    order: Order | None,
) -> None:
    if expected.hole:
        return
    if name not in scenario.steps:
        document.unknown(at, "step", name, scenario.steps, key=True)
        return
    session_name, step = scenario.steps[name]
    items = _steps_of(scenario, order)
    if order is not None and name not in items:
        document.error(at, f"order '{order.name}' does not play step '{name}'", key=True)
        return
    final = expected.final
    if final.outcome == "rolled back" and step.action != "commit" and not step.hole:
        document.error(at, "only a commit can come to 'rolled back'; a step that is refused is 'rejected'")  # fmt: skip
    if (final.rows is not None or final.rowcount is not None) and not (
        step.statements or step.script or step.hole or step.holes
    ):
        document.error(at, f"step '{name}' returns no rows")
    if step.action != "sync" and not step.hole:
        if final.delivered is not None:
            document.error(at, f"step '{name}' delivers nothing: it is no sync")
        if final.calls is not None:
            document.error(at, f"step '{name}' brings no calls: it is no sync")
        for field in final.of_merge:
            message = f"step '{name}' is no merge session: it is no sync"
            document.error((*at, field), message, key=True)
    if final.error is not None and final.error not in NUMBERS and not sqlstate_of(final.error):
        document.error(at, f"'{final.error}' is neither a SQLSTATE nor an error's name as in psycopg.errors")  # fmt: skip
    if expected.blocked_by is not None:
        listed_items = items if order is not None and order.generate is None else []
        place = (*at, "blocked_by")
        _blocked_by(
            document, scenario, place, session_name, name, expected.blocked_by, listed_items
        )


def _blocked_by(
    document: Document,
    scenario: Scenario,
    at: Path,
    session: str,
    step: str,
    by: str,
    items: list[str | None],
) -> None:
    known = [*scenario.steps, *scenario.sessions]
    if by not in known:
        document.unknown(at, "step or session", by, known)
        return
    holder = scenario.steps[by][0] if by in scenario.steps else by
    if holder == session:
        document.error(at, f"'{step}' cannot be blocked by its own session '{session}'")
    elif (
        items and by in scenario.steps and (by not in items or items.index(by) > items.index(step))
    ):
        document.error(at, f"'{by}' does not run before '{step}' in this order")


def _steps_of(scenario: Scenario, order: Order | None) -> list[str | None]:
    """Return the steps that an order plays, in order; those of a generated order in the order of the file."""
    if order is None:
        return []
    if order.generate is None:
        return [item.step for item in order.steps]
    chosen = order.generate.sessions or tuple(scenario.sessions)
    return [name for name, (session, _) in scenario.steps.items() if session in chosen]


def sqlstate_of(name: str) -> str:
    """Return the SQLSTATE that `name` is or denotes (``unique_violation``, ``UniqueViolation``); empty if unknown."""
    if re.fullmatch(r"[0-9A-Z]{5}", name):
        return name
    from psycopg import errors  # imported only for names, because the import is slow

    requested = name.replace("_", "").lower()
    for each, result in vars(errors).items():
        if each.lower() == requested and isinstance(result, type):
            return str(getattr(result, "sqlstate", None) or "")
    return ""
