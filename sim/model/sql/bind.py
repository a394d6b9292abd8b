"""Names to places: which source a column is of, and what a closure is given when it runs.

A closure is called with the rows of its statement's sources by slot (those of outer statements first), and a
`Context`.
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
    """What one run of a statement has: its transaction, parameters, variables, and what it sees."""

    __slots__ = ("params", "snap", "tx", "variables")

    def __init__(self, tx: Any, params: Mapping[str, Any], variables: Any = None) -> None:
        self.tx = tx
        self.params = params
        self.variables = variables
        """Of a PL/pgSQL function: by name; records as `NamedRow`."""
        self.snap: Any = None


class NamedRow:
    """A row with names: NEW, OLD, a loop's row."""

    __slots__ = ("at", "values")

    def __init__(self, at: Mapping[str, int], values: Sequence[Any] | None) -> None:
        self.at = at
        self.values = values


class FromSource:
    """Something in FROM: names and types of its columns, and where its rows come from."""

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
        """The names that ``*`` stands for."""
        self.produce: Callable[[Rows, Context], list[Any]] | None = None
        """For what is no table: its rows."""


class Scope:
    """The sources that an expression may name, those of outer statements behind them."""

    def __init__(self, plans: Any, parent: Scope | None = None) -> None:
        self.plans = plans
        self.parent = parent
        self.sources: list[FromSource] = []
        self.variables: frozenset[str] = parent.variables if parent else plans.variables
        """Of the PL/pgSQL function around."""
        self.first = parent.slots if parent else 0
        self.aggregates: dict[int, int] | None = None
        """Place of each aggregate among a group's results."""
        self.group_slot = 0
        self.extra = 0

    @property
    def slots(self) -> int:
        """How many rows a closure gets."""
        return self.first + len(self.sources) + self.extra

    def add(self, source: FromSource) -> FromSource:
        """One more."""
        if any(other.alias == source.alias for other in self.sources):
            raise SqlError("42712", f'table name "{source.alias}" specified more than once')
        source.slot = self.first + len(self.sources)
        self.sources.append(source)
        return source

    def source(self, alias: str) -> FromSource | None:
        """By its name, outer ones too."""
        scope: Scope | None = self
        while scope is not None:
            for source in scope.sources:
                if source.alias == alias:
                    return source
            scope = scope.parent
        return None

    def find(self, name: str, qualifier: str) -> tuple[FromSource, int] | None:
        """A column. 42702, 42703, 42P01"""
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
