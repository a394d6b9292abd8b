"""Checks of columns that an order adds, drops and widens: columns of tables at each point, and impossible changes.

Part of `twopc.sim.scenario.meaning`. Only the file's text is checked here; the Publisher checks the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from twopc.lexer import tokens
from twopc.merge.schema_changes import type_name, widens
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.merge_parts import AddedColumn, ColumnChange, DroppedColumn, WidenedColumn
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.tables import ScenarioTable
from twopc.sim.scenario.text import suggestion

#: Words that begin a column's constraints after its type.
_CONSTRAINTS = frozenset(
    {"not", "null", "primary", "unique", "references", "check", "default", "generated", "constraint", "collate"}
)  # fmt: skip
_AGAIN = "declare the table as it is to be"


class ColumnWalk:
    """Columns of the tables at the present point of an order."""

    def __init__(self, scenario: Scenario) -> None:
        self._tables = scenario.tables
        self._columns = {name: dict(table.columns) for name, table in scenario.tables.items()}
        """Type and constraints, by table and column."""
        self.changed = ""
        """The word of the last change; empty if there was none."""

    def change(self, change: ColumnChange) -> None:
        """Apply a change to the columns."""
        self.changed = change.word
        columns = self._columns.get(change.table, {})
        if isinstance(change, DroppedColumn):
            columns.pop(change.column, None)
        else:
            columns[change.column] = change.type

    def problems(self, change: ColumnChange) -> Iterator[tuple[str, str]]:
        """Yield the reasons why a change is impossible, each with the key at which it is reported."""
        columns = self._columns.get(change.table)
        if columns is None:
            yield "table", f"no table '{change.table}'{suggestion(change.table, self._tables)}"
        elif isinstance(change, AddedColumn):
            if change.column in columns:
                yield "column", f"table '{change.table}' has a column '{change.column}' already"
        elif change.column not in columns:
            near = suggestion(change.column, columns)
            yield "column", f"table '{change.table}' has no column '{change.column}'{near}"
        elif not self._tables[change.table].hole:
            yield from self._refused(change, columns)

    def _refused(
        self, change: DroppedColumn | WidenedColumn, columns: dict[str, str]
    ) -> Iterator[tuple[str, str]]:
        table, name = self._tables[change.table], change.column
        why = ""
        if name == table.merge.rowguid:
            why = f"rows are known by column '{name}' at every node"
        elif sqltext.has(columns[name], "generated", "always", "as"):
            why = f"no node sends column '{name}': each makes its values itself"
        elif any(_names(text, name) for text in self._filters(change.table)):
            why = f"filters look at column '{name}'"
        elif isinstance(change, DroppedColumn):
            why = _needed(table, columns, name)
        if why:
            yield "column", why
        elif isinstance(change, WidenedColumn):
            before, after = _type_of(columns[name]), type_name(change.type)
            if not widens(before, after):
                yield (
                    "type",
                    f"column '{name}' is {before}, and {after} does not take all of its values: name a wider type of the "
                    "same sort",
                )

    def _filters(self, name: str) -> Iterator[str]:
        """Yield the conditions that may name a table's columns."""
        yield self._tables[name].merge.filter or ""
        yield from self._tables[name].merge.join.values()
        for other in self._tables.values():
            yield other.merge.join.get(name, "")


def _needed(table: ScenarioTable, columns: dict[str, str], name: str) -> str:
    if name in table.key_columns:
        return f"column '{name}' belongs to the primary key"
    words = {token.word for token in tokens(columns[name])}
    if key := sorted(words & {"unique", "references", "check"}):
        return f"column '{name}' has a constraint ({key[0]}): {_AGAIN}"
    if _names(table.merge.resolver or "", name):
        return f"the resolver looks at column '{name}'"
    others = [text for other, text in columns.items() if other != name]
    if any(_names(text, name) for text in (*others, *table.sql)):
        return f"other SQL of the table names column '{name}': {_AGAIN}"
    if columns.keys() <= {*table.key_columns, name, table.merge.rowguid}:
        return f"no column besides '{name}' and the key would be left"
    return ""


def _names(text: str, column: str) -> bool:
    return any(token.name == column for token in tokens(text))


def _type_of(text: str) -> str:
    """Return the type in a column's definition."""
    written = []
    for token in tokens(text):
        if token.word in _CONSTRAINTS:
            break
        written.append(token.text)
    return type_name("".join(written))
