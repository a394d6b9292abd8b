"""Checks of a scenario's meaning: whether its names exist, and its orders can be played.

The functions read a `Scenario` with correct shapes, record problems in its `Document`, and change nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from twopc import lexer
from twopc.lexer import statements
from twopc.names import VERSION_COLUMN
from twopc.sim.scenario.expect_meaning import check_expect, check_rows
from twopc.sim.scenario.expectations import EVERYWHERE
from twopc.sim.scenario.faults_meaning import check_faults
from twopc.sim.scenario.merge_meaning import check_kind
from twopc.sim.scenario.model import Order, Scenario, Session
from twopc.sim.scenario.orders import check_order
from twopc.sim.scenario.parts import EVERY_NODE
from twopc.sim.scenario.procedures_meaning import check_procedures
from twopc.sim.scenario.reach import check_reach
from twopc.sim.scenario.relations_meaning import check_relations
from twopc.sim.scenario.steps_meaning import check_scripts, check_sessions
from twopc.sim.scenario.tables import ScenarioTable
from twopc.sim.scenario.text import Document, Path
from twopc.sim.scenario.twins_meaning import check_twins
from twopc.sim.scenario.workload_meaning import check_load

#: Settings that the simulator needs to reach the servers and for replication.
_OURS = frozenset(
    {
        "port",
        "listen_addresses",
        "unix_socket_directories",
        "data_directory",
        "config_file",
        "hba_file",
        "ident_file",
        "wal_level",
    }
)
#: Names that the simulator gives to twins and cases.
_PLAYED = re.compile(r"twin of .*|.*(\]|#\d+|\(\d+\))")
_RESERVED = {"distribution": "the distribution database", EVERYWHERE: "all nodes together"}


def check_meaning(document: Document, scenario: Scenario) -> None:
    """Record every reference in `scenario` to a missing name, and every part that cannot work."""
    _topology(document, scenario)
    for name, table in scenario.tables.items():
        _table(document, ("tables", name), name, table)
    check_kind(document, scenario)
    check_reach(document, scenario)
    check_procedures(document, scenario)
    check_sessions(document, scenario)
    check_relations(document, scenario)
    check_faults(document, scenario)
    check_load(document, scenario)
    _orders(document, scenario)
    check_expect(document, scenario, ("expect",), scenario.expect)
    check_twins(document, scenario)
    if not document.errors:
        warn_of_tiny_tables(document, scenario)
    if not scenario.about.strip():
        document.warn(("name",), "no 'about': say what this shows", key=True)


def _topology(document: Document, scenario: Scenario) -> None:
    topology = scenario.topology
    if not topology.subscribers and scenario.distributes:
        document.error(
            ("topology", "subscribers"),
            "there is no Subscriber; a scenario of the Publisher alone says 'distribution: none'",
        )
    place: Path
    seen = {topology.publisher}
    for at, name in enumerate(topology.subscribers):
        if name in seen:
            document.error(("topology", "subscribers", at), f"node '{name}' is there already")
        seen.add(name)
    for name in topology.nodes:
        if name in _RESERVED:
            at = topology.nodes.index(name) - 1
            place = ("topology", "publisher") if at < 0 else ("topology", "subscribers", at)
            document.error(place, f"'{name}' is {_RESERVED[name]}; name the node otherwise")
    for name in topology.settings:
        place = ("topology", "settings", name)
        if name in _OURS:
            document.error(place, f"'{name}' is set by who starts the servers", key=True)
        elif re.fullmatch(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?", name) is None:
            document.error(place, f"'{name}' is not the name of a setting", key=True)
    _isolation(document, scenario, ("topology", "isolation"), topology.isolation)


def _isolation(document: Document, scenario: Scenario, at: Path, levels: Mapping[str, str]) -> None:
    publisher = scenario.topology.publisher
    for node, level in levels.items():
        if node not in (*scenario.topology.nodes, EVERY_NODE):
            document.unknown((*at, node), "node", node, scenario.topology.nodes, key=True)
        elif node != publisher and levels.get(publisher, level) != level:
            who = "every other node" if node == EVERY_NODE else f"'{node}'"
            document.error(
                (*at, node),
                f"{who} is {level} and '{publisher}' is {levels[publisher]}: the branch at the "
                "Publisher runs at the level of its Subscriber, so they must agree",
            )


def _table(document: Document, at: Path, name: str, table: ScenarioTable) -> None:
    if table.hole:
        return
    if "." in name:
        document.error(at, f"table '{name}': tables of a scenario live in schema public, so leave the schema out", key=True)  # fmt: skip
    if not table.columns:
        document.error((*at, "columns"), f"table '{name}' has no columns")
        return
    for column, text in table.columns.items():
        if not lexer.statements(text):
            document.error((*at, "columns", column), f"column '{column}' has no type")
    for word in ("sql", "procedures"):
        check_scripts(document, (*at, word), getattr(table, word))
    if VERSION_COLUMN in table.columns:
        document.error(
            (*at, "columns", VERSION_COLUMN),
            f"'{VERSION_COLUMN}' is added when the table is published; leave it out",
            key=True,
        )
    keyed = table.own_keys
    for place, column in enumerate(table.key):
        if column not in table.columns:
            document.unknown((*at, "key", place), "column", column, table.columns)
    if not keyed and not table.key:
        document.error(
            at,
            f"table '{name}' has no primary key, so its rows cannot be found at the Publisher; "
            "write {id: int primary key} or key: [a, b]",
            key=True,
        )
    if len(keyed) + bool(table.key) > 1:
        document.error(at, f"table '{name}' has more than one primary key; for one of several columns write key: [a, b]", key=True)  # fmt: skip
    check_rows(document, (*at, "rows"), table, table.rows)


def _orders(document: Document, scenario: Scenario) -> None:
    if not scenario.orders and "orders" in scenario.model_fields_set:
        document.error(("orders",), "there is no order to play")
    seen: dict[str, str] = {}
    played: dict[tuple[object, ...], str] = {}
    used: set[str] = set()
    complete = True
    for place, order in enumerate(scenario.orders):
        if order.hole:
            complete = False
            continue
        complete = complete and not order.holes and (order.steps or order.generate) is not None
        at: Path = ("orders", place)
        mark = document.mark((*at, "name"))
        if not order.name.strip():
            document.error(mark, "an order has a name, by which it is told and chosen")
        elif order.name in seen:
            document.error(mark, f"order '{order.name}' already defined at {seen[order.name]}")
        seen.setdefault(order.name, document.where(mark, beside=True))
        if _PLAYED.fullmatch(order.name):
            document.error(
                mark,
                f"order '{order.name}': names like 'twin of x', 'x [serializable]', 'x #3' and 'x (2)' "
                "are given to what is played",
            )
        used |= check_order(document, scenario, at, order)
        _isolation(document, scenario, (*at, "isolation"), order.isolation)
        unreadable = _unreadable(scenario, order)
        complete = complete and not unreadable
        known = None if unreadable else order
        if order.generate is None and not unreadable:
            same = (order.steps, str(order.isolation), order.faults)
            is_tried = scenario.setup or scenario.teardown  # repeating an order tests them
            if same in played and not is_tried:
                document.warn(
                    mark, f"order '{order.name}' plays what '{played[same]}' plays already"
                )
            played.setdefault(same, order.name)
        check_expect(document, scenario, (*at, "expect"), order.expect, known)
    if not complete or not scenario.orders:
        return
    for at, _, step, _ in scenario.placed_steps():
        if step not in used:
            document.warn(at, f"step '{step}' is in no order", key=True)


def _unreadable(scenario: Scenario, order: Order) -> bool:
    """Return whether the steps of an order are unknown because of errors, so that it cannot be checked further."""
    if order.holes or scenario.repeated:
        return True
    if order.generate is not None:
        return order.generate.hole or bool(order.generate.holes)
    return any(
        item.hole or item.holes or (item.step or "") not in {"", *scenario.steps}
        for item in order.steps
    )


#: Number of rows for which the Publisher's procedures use an index to find a row; 1,000 are not enough.
ROWS_MIN = 3000


def warn_of_tiny_tables(document: Document, scenario: Scenario) -> None:
    """Warn of a small table whose rows two serializable sessions write by different keys."""
    levels = [scenario.topology.isolation, *(order.isolation for order in scenario.orders)]
    if not any("serializable" in each.values() for each in levels):
        return
    for name, table in scenario.tables.items():
        if len(table.rows) >= ROWS_MIN or table.sql or len(table.key_columns) != 1:
            continue
        keys = [_keys(session, name, table) for session in scenario.sessions.values()]
        named = [each for each in keys if each]
        if any(one.isdisjoint(other) for one in named for other in named):
            document.warn(
                ("tables", name),
                f"table '{name}' has {_rows(len(table.rows))}, and PostgreSQL reads so small a table as "
                "a whole: serializable transactions on different rows of it are refused (40001), which "
                f"with {ROWS_MIN:,} rows or more (made under 'sql') they need not be",
                key=True,
            )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _keys(session: Session, name: str, table: ScenarioTable) -> frozenset[str]:
    """Return the values with which a session's statements on the table compare the key."""
    (column,) = table.key_columns
    results: set[str] = set()
    for _, step in session.named_steps:
        for text in step.statements:
            tokens = [token for each in statements(text) for token in each]
            if name not in (token.name for token in tokens):
                continue
            for at, token in enumerate(tokens[:-2]):
                value = tokens[at + 2]
                if token.name == column and tokens[at + 1].text == "=":
                    results |= {value.text} if value.kind in ("number", "string") else set()
    return frozenset(results)
