"""What a scenario refers to: do its names exist, and can its orders be played at all?

Reads a `Scenario` whose shapes are right and notes problems in its `Document`; changes neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sim.scenario import sqltext
from sim.scenario.expectations import EVERYWHERE, Expect, NodeRows, StepExpect
from sim.scenario.model import Order, Scenario, Session, Step
from sim.scenario.orders import check_order
from sim.scenario.parts import EVERY_NODE, Row
from sim.scenario.reach import NUMBERS, check_reach, refuse_without
from sim.scenario.tables import Table
from sim.scenario.text import Document, suggestion
from twopc.forbidden import Forbidden
from twopc.names import VERSION_COLUMN

Path = tuple[str | int, ...]

_RESERVED = {"distribution": "the distribution database", EVERYWHERE: "all nodes together"}


def check_meaning(document: Document, scenario: Scenario) -> None:
    """Note everything in `scenario` that refers to nothing, or that cannot work."""
    _topology(document, scenario)
    for name, table in scenario.tables.items():
        _table(document, ("tables", name), name, table)
    check_reach(document, scenario)
    _step_names(document, scenario)
    for name, session in scenario.sessions.items():
        _session(document, scenario, name, session)
    _orders(document, scenario)
    _expect(document, scenario, ("expect",), scenario.expect, None)
    if not scenario.about.strip():
        document.warn(document.mark(("name",), key=True), "no 'about': say what this shows")


def _unknown(
    document: Document, at: Path, what: str, name: str, known: Iterable[str], *, key: bool = False
) -> None:
    document.error(document.mark(at, key=key), f"no {what} '{name}'{suggestion(name, known)}")


def _topology(document: Document, scenario: Scenario) -> None:
    topology = scenario.topology
    if not topology.subscribers:
        document.error(document.mark(("topology", "subscribers")), "there is no Subscriber")
    seen = {topology.publisher}
    for at, name in enumerate(topology.subscribers):
        if name in seen:
            document.error(
                document.mark(("topology", "subscribers", at)), f"node '{name}' is there already"
            )
        seen.add(name)
    for name in topology.nodes:
        if name in _RESERVED:
            at = topology.nodes.index(name) - 1
            place: Path = ("topology", "publisher") if at < 0 else ("topology", "subscribers", at)
            document.error(
                document.mark(place), f"'{name}' is {_RESERVED[name]}; name the node otherwise"
            )
    _isolation(document, scenario, ("topology", "isolation"), topology.isolation)


def _isolation(document: Document, scenario: Scenario, at: Path, levels: Mapping[str, str]) -> None:
    publisher = scenario.topology.publisher
    for node, level in levels.items():
        if node not in (*scenario.topology.nodes, EVERY_NODE):
            _unknown(document, (*at, node), "node", node, scenario.topology.nodes, key=True)
        elif node != publisher and levels.get(publisher, level) != level:
            document.error(
                document.mark((*at, node)),
                f"'{node}' is {level} and '{publisher}' is {levels[publisher]}: the branch at the "
                "Publisher runs at the level of its Subscriber, so they must agree",
            )


def _table(document: Document, at: Path, name: str, table: Table) -> None:
    if table.hole:
        return
    if "." in name:
        document.error(document.mark(at, key=True), f"table '{name}': tables of a scenario live in schema public, so leave the schema out")  # fmt: skip
    if not table.columns:
        document.error(document.mark((*at, "columns")), f"table '{name}' has no columns")
        return
    if VERSION_COLUMN in table.columns:
        document.error(
            document.mark((*at, "columns", VERSION_COLUMN), key=True),
            f"'{VERSION_COLUMN}' is added when the table is published; leave it out",
        )
    keyed = table.own_keys
    for place, column in enumerate(table.key):
        if column not in table.columns:
            _unknown(document, (*at, "key", place), "column", column, table.columns)
    if not keyed and not table.key:
        document.error(
            document.mark(at, key=True),
            f"table '{name}' has no primary key, so its rows cannot be found at the Publisher; "
            "write {id: int primary key} or key: [a, b]",
        )
    if len(keyed) + bool(table.key) > 1:
        document.error(document.mark(at, key=True), f"table '{name}' has more than one primary key; for one of several columns write key: [a, b]")  # fmt: skip
    _rows(document, (*at, "rows"), table, table.rows)


def _rows(document: Document, at: Path, table: Table, rows: tuple[Row, ...]) -> None:
    for place, row in enumerate(rows):
        for column in () if table.hole else row:
            if column not in table.columns:
                _unknown(document, (*at, place, column), "column", column, table.columns, key=True)


def _step_names(document: Document, scenario: Scenario) -> None:
    seen: dict[str, int] = {}
    for session_name, session in scenario.sessions.items():
        for place, each in enumerate(session.steps):
            for step in each:
                mark = document.mark(("sessions", session_name, "steps", place, step), key=True)
                if step in seen:
                    document.error(mark, f"step '{step}' already defined at line {seen[step]}")
                elif step in scenario.sessions:
                    document.error(
                        mark, f"step '{step}' is called like a session; name it otherwise"
                    )
                seen.setdefault(step, mark.line)


def _session(document: Document, scenario: Scenario, name: str, session: Session) -> None:
    at: Path = ("sessions", name)
    nodes = scenario.topology.nodes
    if session.node and session.node not in nodes:
        document.error(
            document.mark((*at, "node")),
            f"session '{name}': no node '{session.node}'{suggestion(session.node, nodes)}",
        )
    if not session.steps:
        document.error(document.mark((*at, "steps")), f"session '{name}' has no steps")
    saved: dict[str, str] = {}
    for place, each in enumerate(session.steps):
        for step_name, step in each.items():
            path: Path = (*at, "steps", place, step_name)
            _step(document, scenario, path, session.node, step, saved)
            saved |= dict.fromkeys(step.save, step_name)
    prepares = (
        session.node in scenario.topology.subscribers and scenario.topology.commit != "last_agent"
    )
    if prepares:
        _lint_prepare(document, at, session)


def _step(
    document: Document, scenario: Scenario, at: Path, node: str, step: Step, saved: dict[str, str]
) -> None:
    if step.hole:
        return
    known = [*step.params, *saved]
    for text, place in _texts(at, step):
        if not list(sqltext.statements(text)):
            document.error(document.mark(place), "there is no SQL in it")
        for name in sqltext.parameters(text):
            if name not in known:
                hint = (
                    suggestion(name, known)
                    or "; give it under 'params' or 'save' it in an earlier step"
                )
                document.error(document.mark(place), f"no value for ':{name}'{hint}")
        control = sqltext.transaction_control(text)
        if control:
            document.error(
                document.mark(place),
                f"{control} does not belong in SQL: transactions are steps of their own "
                "(begin, commit, rollback)",
            )
        elif sqltext.copies(text):
            document.error(
                document.mark(place),
                "COPY through the client has no data here; write insert or select",
            )
        elif len(sqltext.statements(text)) > 1:
            document.error(
                document.mark(place), "one statement to a text; several go under 'lines'"
            )
    if step.action in ("sync", "reinitialise"):
        refuse_without(document, scenario, at)
    if step.action == "reinitialise" and node == scenario.topology.publisher:
        document.error(document.mark(at), "the Publisher is never initialised")
    if not step.statements:
        for word in ("params", "save", "rows"):
            if getattr(step, word):
                document.error(document.mark((*at, word), key=True), f"'{word}' goes with SQL")


def _texts(at: Path, step: Step) -> list[tuple[str, Path]]:
    if step.lines is not None:
        return [(text, (*at, "lines", place)) for place, text in enumerate(step.lines)]
    word = "sql" if step.sql is not None else "check"
    return [(text, (*at, word)) for text in step.statements]


def _lint_prepare(document: Document, at: Path, session: Session) -> None:
    """A transaction that commits is prepared first, which PostgreSQL refuses for some statements."""
    found: list[tuple[Path, Forbidden]] = []
    opened = False
    for place, each in enumerate(session.steps):
        for name, step in each.items():
            if step.action == "begin":
                opened, found = True, []
            for text, where in _texts((*at, "steps", place, name), step):
                reason = sqltext.forbidden_before_prepare(text)
                if reason is not None:
                    found.append((where, reason))
            if step.action == "rollback":
                opened, found = False, []
            elif step.action == "commit" or (step.statements and not opened):
                opened = opened and step.action != "commit"
                for where, unfit in found:
                    document.error(
                        document.mark(where),
                        f"{unfit.what} cannot be in a transaction that is prepared (0A000 at its "
                        f"commit); {unfit.remedy}",
                    )
                found = []


def _orders(document: Document, scenario: Scenario) -> None:
    if not scenario.orders:
        document.error(document.mark(("orders",)), "there is no order to play")
    seen: dict[str, int] = {}
    used: set[str] = set()
    complete = True
    for place, order in enumerate(scenario.orders):
        if order.hole:
            complete = False
            continue
        at: Path = ("orders", place)
        mark = document.mark((*at, "name"))
        if order.name in seen:
            document.error(mark, f"order '{order.name}' already defined at line {seen[order.name]}")
        seen.setdefault(order.name, mark.line)
        used |= check_order(document, scenario, at, order)
        _isolation(document, scenario, (*at, "isolation"), order.isolation)
        unreadable = _unreadable(scenario, order)
        complete = complete and not unreadable
        _expect(document, scenario, (*at, "expect"), order.expect, None if unreadable else order)
    if not complete:
        return
    for session_name, session in scenario.sessions.items():
        for place, each in enumerate(session.steps):
            for step in each:
                if step not in used:
                    at = ("sessions", session_name, "steps", place, step)
                    document.warn(document.mark(at, key=True), f"step '{step}' is in no order")


def _unreadable(scenario: Scenario, order: Order) -> bool:
    """Whether it is not known what the order plays, so that nothing more can be said of it."""
    return any(item.hole or (item.step or "") not in {"", *scenario.steps} for item in order.steps)


def _expect(
    document: Document, scenario: Scenario, at: Path, expect: Expect, order: Order | None
) -> None:
    for name, step in expect.steps.items():
        _step_expect(document, scenario, (*at, "steps", name), name, step, order)
    for word, wanted in (("converged", expect.converged), ("echoed", expect.echoed)):
        if wanted:
            refuse_without(document, scenario, (*at, word))
    for name in expect.sessions:
        if name not in scenario.sessions:
            _unknown(
                document, (*at, "sessions", name), "session", name, scenario.sessions, key=True
            )
    for name, nodes in expect.tables.items():
        place: Path = (*at, "tables", name)
        if name not in scenario.tables:
            _unknown(document, place, "table", name, scenario.tables, key=True)
            continue
        for node, rows in nodes.items():
            _node_rows(document, scenario, (*place, node), node, scenario.tables[name], rows)


def _node_rows(
    document: Document, scenario: Scenario, at: Path, node: str, table: Table, expected: NodeRows
) -> None:
    nodes = scenario.topology.nodes
    if node not in (*nodes, EVERYWHERE):
        _unknown(document, at, "node", node, (*nodes, EVERYWHERE), key=True)
    if expected.same_as is not None and (expected.same_as not in nodes or expected.same_as == node):
        _unknown(document, (*at, "same_as"), "other node", expected.same_as, set(nodes) - {node})
    rows = expected.rows or ()
    _rows(document, at, table, rows)
    for place, row in enumerate(rows):
        if set(row) != set(rows[0]):
            document.error(document.mark((*at, place)), "this row names other columns than the first; the columns that are named are compared")  # fmt: skip


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
        _unknown(document, at, "step", name, scenario.steps, key=True)
        return
    session_name, step = scenario.steps[name]
    items = [item.step for item in order.steps] if order is not None else []
    if order is not None and name not in items:
        document.error(
            document.mark(at, key=True), f"order '{order.name}' does not play step '{name}'"
        )
        return
    final = expected.final
    if final.outcome == "rolled back" and step.action != "commit" and not step.hole:
        document.error(document.mark(at), "only a commit can come to 'rolled back'; a step that is refused is 'rejected'")  # fmt: skip
    if (final.rows is not None or final.rowcount is not None) and not (
        step.statements or step.hole
    ):
        document.error(document.mark(at), f"step '{name}' returns no rows")
    if final.delivered is not None and step.action != "sync" and not step.hole:
        document.error(document.mark(at), f"step '{name}' delivers nothing: it is no sync")
    if final.error is not None and not _error_known(final.error):
        document.error(document.mark(at), f"'{final.error}' is neither a SQLSTATE nor an error's name as in psycopg.errors")  # fmt: skip
    if expected.blocked_by is not None:
        _blocked_by(document, scenario, at, session_name, name, expected.blocked_by, items)


def _blocked_by(
    document: Document,
    scenario: Scenario,
    at: Path,
    session: str,
    step: str,
    by: str,
    items: list[str | None],
) -> None:
    mark = document.mark((*at, "blocked_by"))
    if by not in scenario.steps and by not in scenario.sessions:
        known = [*scenario.steps, *scenario.sessions]
        document.error(mark, f"no step or session '{by}'{suggestion(by, known)}")
        return
    holder = scenario.steps[by][0] if by in scenario.steps else by
    if holder == session:
        document.error(mark, f"'{step}' cannot be blocked by its own session '{session}'")
    elif (
        items and by in scenario.steps and (by not in items or items.index(by) > items.index(step))
    ):
        document.error(mark, f"'{by}' does not run before '{step}' in this order")


def _error_known(name: str) -> bool:
    return name in NUMBERS or sqlstate_of(name) != ""


def sqlstate_of(name: str) -> str:
    """The SQLSTATE that `name` is or stands for (``unique_violation``, ``UniqueViolation``)."""
    if re.fullmatch(r"[0-9A-Z]{5}", name):
        return name
    from psycopg import errors  # only for names: it takes longer than all the rest

    wanted = name.replace("_", "").lower()
    for each, found in vars(errors).items():
        if each.lower() == wanted and isinstance(found, type):
            return str(getattr(found, "sqlstate", None) or "")
    return ""
