"""Access to the rows of one source: by a unique key if WHERE gives its values, else by a scan of all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from twopc.sim.model.node.heap import HeapRow, HeapTable, Index, Version
from twopc.sim.model.node.rows import visible
from twopc.sim.model.sql.bind import Context, FromSource, Rows, Scope
from twopc.sim.model.sql.expressions import compiled
from twopc.sim.model.sql.parse import kind
from twopc.sim.model.values import Values

Handle = tuple[HeapRow, Version] | None


class Scan:
    """The rows of a source."""

    def __init__(self, source: FromSource) -> None:
        self.source = source
        self.nothing: Values = (None,) * len(source.names)
        """Nulls in place of a row, for a LEFT JOIN without a match."""
        self.exact = False
        """Whether the key covers all conditions of WHERE."""
        self.key: tuple[Index, list[Callable[[Rows, Context], Any]]] | None = None

    def use(self, where: Any, place: int, scope: Scope) -> None:
        """Find a unique key of a table whose columns are given by conditions joined with AND."""
        table: HeapTable | None = self.source.table
        if table is None or where is None or not table.indexes:
            return
        results: dict[int, Any] = {}
        parts = list(conjuncts(where))
        for part in parts:
            if kind(part) != "EQ":
                continue
            for column, value in ((part.this, part.expression), (part.expression, part.this)):
                at = self._own_place(column, scope)
                if at is not None and self._known_before(value, place, scope):
                    results.setdefault(at, value)
        for index in table.indexes:
            if index.where is None and all(at in results for at in index.places):
                self.key = index, [compiled(results[at], scope) for at in index.places]
                self.exact = len(parts) == len(index.places)
                return

    def _own_place(self, node: Any, scope: Scope) -> int | None:
        if kind(node) != "Column" or kind(node.this) == "Star":
            return None
        if node.table:
            return self.source.at.get(node.name) if node.table == self.source.alias else None
        if node.name in scope.variables or any(
            node.name in other.at for other in scope.sources if other is not self.source
        ):
            return None
        return self.source.at.get(node.name)

    def _known_before(self, value: Any, place: int, scope: Scope) -> bool:
        if kind(value) in ("Any", "All", "Tuple"):
            return False
        for one in value.walk():
            if kind(one) in ("Select", "Subquery"):
                return False
            if kind(one) == "Column":
                try:
                    where = scope.find(one.name, one.table)
                except Exception:
                    return False
                if where is not None and where[0].slot >= scope.first + place:
                    return False
        return True

    def searched_key(self, r: Rows, c: Context) -> Values | None:
        """Return the key whose rows are searched for; None for all rows."""
        if self.key is None:
            return None
        index, values = self.key
        key = []
        for at, value in zip(index.places, values, strict=True):
            result = value(r, c)
            if result.__class__ is str:
                type_ = self.source.types[at]
                if type_ is not None and type_.name not in ("text", "varchar"):
                    result = type_.input(result)
            key.append(result)
        return tuple(key)

    def handles(self, r: Rows, c: Context) -> list[tuple[HeapRow, Version]]:
        """Return the table's rows, each with its visible version."""
        table: HeapTable = self.source.table
        tx, snap = c.tx, c.snap
        if self.key is None:
            if tx is not None and tx.top.ssi is not None:
                tx.read(table, None, exists=bool(table.all_rows))
            return visible(tx, table, snap)
        key = self.searched_key(r, c)
        index = self.key[0]
        results = []
        for row in index.entries.get(key, ()):  # type: ignore[arg-type] # there is a key
            version = snap.version(row)
            if version is not None and index.key(version.values) == key:
                results.append((row, version))
        if tx is not None and tx.top.ssi is not None:
            primary = table.primary
            if index.primary:
                keys = [key] if key is not None else None
            elif primary is not None:
                keys = [primary.key(version.values) for _, version in results]
            else:
                keys = None
            tx.read(table, keys, exists=bool(results))
        return results

    def rows(self, r: Rows, c: Context) -> Iterator[tuple[Values, Handle]]:
        """Yield each row's values and, for a table, the row and its version."""
        if self.source.table is not None:
            for row, version in self.handles(r, c):
                yield version.values, (row, version)
        else:
            assert self.source.produce is not None
            for values in self.source.produce(r, c):
                yield values, None


def conjuncts(node: Any) -> Iterator[Any]:
    """Yield the conditions that AND joins."""
    if kind(node) in ("And",):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    elif kind(node) == "Paren":
        yield from conjuncts(node.this)
    else:
        yield node
