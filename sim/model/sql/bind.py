"""Name resolution: which source a column belongs to, and what a closure receives when it runs.

A closure is called with one row for each source of its statement, by slot (sources of outer statements first), and
with a `Context`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twopc.sim.model.node.columns import is_dropped
from twopc.sim.model.sql.types import SqlType
from twopc.sim.model.values import SqlError, UnsupportedError

Rows = tuple[Any, ...]
Fn = Callable[[Rows, Any], Any]

_OF_SYSTEM = frozenset({"cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"})


class Context:
    """The state of one run of a statement: its transaction, parameters, variables and snapshot."""

    __slots__ = ("params", "snap", "tx", "variables")

    def __init__(self, tx: Any, params: Mapping[str, Any], variables: Any = None) -> None:
        self.tx = tx
        self.params = params
        self.variables = variables
        """Variables of a PL/pgSQL function by name; records are `NamedRow`."""
        self.snap: Any = None


class NamedRow:
    """A row whose values have names: NEW, OLD, or the row of a loop."""

    __slots__ = ("at", "values")

    def __init__(self, at: Mapping[str, int], values: Sequence[Any] | None) -> None:
        self.at = at
        self.values = values


class FromSource:
    """An item of FROM: the names and types of its columns, and the origin of its rows."""

    __slots__ = (
        "alias",
        "at",
        "kind",
        "name",
        "names",
        "produce",
        "shown",
        "slot",
        "table",
        "types",
    )

    def __init__(
        self, alias: str, names: Sequence[str], types: Sequence[SqlType | None], table: Any = None
    ) -> None:
        self.alias = alias
        self.names = list(names)
        self.types = list(types)
        self.table = table
        self.at = {name: place for place, name in reversed(list(enumerate(names)))}
        self.slot = 0
        self.shown = [name for name in self.names if not is_dropped(name)]
        """The names for which ``*`` stands."""
        self.produce: Callable[[Rows, Context], list[Any]] | None = None
        """Returns the rows of an item that is not a table."""


class Scope:
    """The sources to whose columns an expression may refer; sources of outer statements come last."""

    def __init__(self, plans: Any, parent: Scope | None = None) -> None:
        self.plans = plans
        self.parent = parent
        self.sources: list[FromSource] = []
        self.variables: frozenset[str] = parent.variables if parent else plans.variables
        """Variables of the enclosing PL/pgSQL function."""
        self.first = parent.slots if parent else 0
        self.aggregates: dict[int, int] | None = None
        """Position of each aggregate among a group's results, by the `id` of its node."""
        self.group_slot = 0
        self.extra = 0

    @property
    def slots(self) -> int:
        """Number of rows that a closure receives."""
        return self.first + len(self.sources) + self.extra

    def add(self, source: FromSource) -> FromSource:
        """Add a source to this scope and return it. Raise 42712 if its alias is taken."""
        if any(other.alias == source.alias for other in self.sources):
            raise SqlError("42712", f'table name "{source.alias}" specified more than once')
        source.slot = self.first + len(self.sources)
        self.sources.append(source)
        return source

    def source(self, alias: str) -> FromSource | None:
        """Return the source with an alias, of this scope or an outer one; None if there is none."""
        scope: Scope | None = self
        while scope is not None:
            for source in scope.sources:
                if source.alias == alias:
                    return source
            scope = scope.parent
        return None

    def find(self, name: str, qualifier: str) -> tuple[FromSource, int] | None:
        """Return the source and place of a column; None for a variable of the function. Raise 42702, 42703 or
        42P01.
        """
        if qualifier:
            source = self.source(qualifier)
            if source is None:
                if qualifier in self.variables:
                    return None
                raise SqlError("42P01", f'missing FROM-clause entry for table "{qualifier}"')
            place = source.at.get(name)
            if place is None:
                if source.table is not None and name in _OF_SYSTEM:
                    raise UnsupportedError(f"{qualifier}.{name}", f"the system column {name}")
                raise SqlError("42703", f"column {qualifier}.{name} does not exist")
            return source, place
        scope: Scope | None = self
        while scope is not None:
            results = [(source, source.at[name]) for source in scope.sources if name in source.at]
            if len(results) > 1:
                raise SqlError("42702", f'column reference "{name}" is ambiguous')
            if results:
                if name in self.variables:
                    raise SqlError("42702", f'column reference "{name}" is ambiguous')
                return results[0]
            scope = scope.parent
        if name in self.variables:
            return None
        if self.source(name) is not None:
            raise UnsupportedError(name, f"a row as a value ({name})")
        if name in _OF_SYSTEM:
            raise UnsupportedError(name, f"the system column {name}")
        raise SqlError("42703", f'column "{name}" does not exist')
