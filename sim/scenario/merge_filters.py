"""Filters of merged tables: the order in which tables are published, and checks of filters.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from twopc.errors import SubscriptionError
from twopc.lexer import SqlToken, statements, tokens
from twopc.merge.partitions import check_value
from twopc.sim.merge.shape import MergeTree
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.tables import ScenarioTable
from twopc.sim.scenario.text import Document, Path

_VALUES = ("host_name", "suser_sname")


def publish_order(tables: Mapping[str, ScenarioTable]) -> list[str]:
    """Return the tables, each after the tables to which it is joined, otherwise in the order of the file."""
    order: dict[str, None] = {}

    def publish(name: str, below: tuple[str, ...]) -> None:
        if name in order or name in below or name not in tables:
            return
        for parent in tables[name].merge.join:
            publish(parent, (*below, name))
        order[name] = None

    for name in tables:
        publish(name, ())
    return list(order)


def check_filters(document: Document, scenario: Scenario) -> None:
    """Record the errors of filters, and of the Subscribers' values for them."""
    for name, table in scenario.tables.items():
        if not (table.hole or table.merge.hole):
            _table(document, scenario, name, table)
    _cycles(document, scenario)
    for name, subscriber in scenario.subscribers.items():
        merge = subscriber.merge
        if subscriber.hole or merge.hole:
            continue
        for word, value in (("host_name", merge.host_name), ("login", merge.login)):
            try:
                check_value(name, word, value or "")
            except SubscriptionError as error:
                document.error(("subscribers", name, "merge", word), str(error))
    filtered = [name for name in scenario.tables if _is_filtered(scenario, name)]
    if filtered and scenario.topology.republishers:
        document.error(
            ("topology", "republishers"),
            f"table '{filtered[0]}' is filtered, and a republisher of a filtered publication is not possible yet: leave "
            "the filters out, or have every Subscriber subscribe at the Publisher",
            key=True,
        )


def _is_filtered(scenario: Scenario, name: str) -> bool:
    return scenario.tables[name].merge.is_filtered


def _table(document: Document, scenario: Scenario, name: str, table: ScenarioTable) -> None:
    at: Path = ("tables", name, "merge")
    merge = table.merge
    _option(document, scenario, at, name)
    if merge.filter is not None:
        _condition(document, (*at, "filter"), merge.filter)
    for parent, text in merge.join.items():
        here = (*at, "join", parent)
        _condition(document, here, text)
        if parent not in scenario.tables:
            document.unknown(here, "table", parent, scenario.tables, key=True)
        elif parent == name:
            document.error(here, f"table '{name}' cannot be joined to itself", key=True)
        elif not _is_filtered(scenario, parent):
            document.error(
                here,
                f"every Subscriber gets every row of '{parent}': give that table a filter, or leave the join out",
                key=True,
            )
        if values := [word for word in _VALUES if _calls(text, word)]:
            document.error(
                here, f"a join filter cannot use msrepl.{values[0]}(): filter '{parent}' by it"
            )
    if not _is_filtered(scenario, name):
        for column, text in table.columns.items():
            for parent in scenario.tables:
                if parent != name and _is_filtered(scenario, parent) and _refers(text, parent):
                    document.error(
                        ("tables", name, "columns", column),
                        f"'{name}' refers to '{parent}', of which not every Subscriber gets every row: "
                        f'merge: {{join: {{{parent}: "{name}.{column} = {parent}.…"}}}}',
                    )


def _option(document: Document, scenario: Scenario, at: Path, name: str) -> None:
    """Record a partition option or a realignment that has no effect or is impossible."""
    merge = scenario.tables[name].merge
    if not merge.is_filtered:
        for word in sorted({"partition", "realigns"} & merge.model_fields_set):
            document.error(
                (*at, word),
                f"every Subscriber gets every row of '{name}': '{word}' goes with 'filter' or 'join'",
                key=True,
            )
    elif merge.partition in ("2", "3"):
        at = (*at, "partition")
        if (merge.filter is not None) + len(merge.join) != 1:
            document.error(
                at,
                f"with partition option {merge.partition} '{name}' has either a row filter or one join filter: else a row "
                "might belong to several partitions",
            )
        for parent in merge.join:
            above = scenario.tables.get(parent)
            if above is not None and above.merge.partition < merge.partition:
                document.error(
                    at,
                    f"with partition option {merge.partition} of '{name}' its parent '{parent}' has that option as well: "
                    "else a row might belong to several partitions",
                )


def superseded(scenario: Scenario) -> frozenset[str]:
    """Return the Subscribers that were replaced as the only Subscriber of their partition (option 3)."""
    tables = scenario.tables.values()
    if not any(table.merge.partition == "3" for table in tables):
        return frozenset()
    used = {word for word in _VALUES for table in tables if _calls(table.merge.filter or "", word)}
    last: dict[tuple[str, ...], str] = {}
    for name in MergeTree(scenario.topology.tree).subscribers:
        merge = scenario.subscriber(name).merge
        values = {"host_name": merge.host_name, "suser_sname": merge.login}
        last[tuple(values[word] or name for word in sorted(used))] = name
    return frozenset(scenario.topology.subscribers) - {*last.values()}


def _condition(document: Document, at: Path, text: str) -> None:
    if not statements(text):
        document.error(at, "the condition is empty")
    elif len(statements(text)) > 1:
        document.error(at, "a filter is one condition, without a semicolon")


def _calls(text: str, name: str) -> bool:
    """Return whether a text calls ``msrepl.name()``; a column may have the same name."""
    written = [token.word or token.text for token in _written(text)]
    return any(written[at : at + 4] == ["msrepl", ".", name, "("] for at in range(len(written)))


def _refers(text: str, parent: str) -> bool:
    return any(
        first.word == "references" and second.text.strip('"') == parent
        for first, second in pairwise(_written(text))
    )


def _written(text: str) -> list[SqlToken]:
    return [token for token in tokens(text) if token.kind != "space"]


def _cycles(document: Document, scenario: Scenario) -> None:
    """Record joins that form a cycle."""
    tables = scenario.tables
    parents = {
        name: {other for other in table.merge.join if other in tables and other != name}
        for name, table in tables.items()
    }
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][::-1]
        document.error(
            ("tables", circle[0], "merge", "join", circle[1]),
            f"a circle of joins cannot be: {' → '.join(circle)}",
            key=True,
        )
