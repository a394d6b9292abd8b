"""A stored call, read with the types of the target table.

Reading has no side effects, except on sequences of identity columns. Independent of where the call was stored and
of how the row is applied.
"""

from __future__ import annotations

from typing import Any

from twopc.distributed_article import DistributedArticle
from twopc.propagation import changed_columns, parameters, record_values
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.sql.types import SqlType
from twopc.sim.model.values import SqlError, Values


class Shape:
    """The columns and types in calls of one operation: made once, used for many calls.

    Args:
        table: the table at the Subscriber.
    """

    __slots__ = ("_width", "article", "columns", "key", "name", "of", "table")

    def __init__(self, distributed: DistributedArticle, operation: str, table: HeapTable) -> None:
        """Raise 42703 if the table lacks a column of the call."""
        article = distributed.article
        self.of = distributed
        self.table = table
        self._width = len(table.columns)
        self.name = article.name
        self.article = article
        self.key = article.key
        form = distributed.propagation.method(operation).format
        self.columns: list[tuple[str, str, SqlType | None]] = []
        """For each value: its image, its column, and the column's type; no type for the bitmask."""
        for parameter in parameters(article, operation, form):
            column = parameter.column
            if column is None:
                self.columns.append((parameter.image, "", None))
                continue
            place = table.at.get(column.name)
            if place is None:
                raise SqlError(
                    "42703", f'column "{column.name}" of relation "{table.name}" does not exist'
                )
            self.columns.append((parameter.image, column.name, table.columns[place].type))

    def fits(self, distributed: DistributedArticle, table: HeapTable) -> bool:
        """Return whether the shape is still that of this article and table."""
        return self.of is distributed and self.table is table and self._width == len(table.columns)


class ReadCall:
    """The values of one call."""

    __slots__ = ("_changed", "_name", "_new", "_table", "key", "shown_key", "values")

    def __init__(self, shape: Shape, text: str) -> None:
        """Raise 55000 if the call does not have the article's shape."""
        self._name = shape.name
        self._table = shape.table
        raw = record_values(text.encode())
        if len(raw) != len(shape.columns):
            raise SqlError(
                "55000",
                f"a call for {shape.name} has {len(raw)} values and not {len(shape.columns)}",
                hint=f"twopc regenerate {shape.name}",
            )
        self.values: list[Any] = []
        """Values as arguments of a custom procedure."""
        self._new: dict[str, Any] = {}
        self._changed: frozenset[str] | None = None
        old: dict[str, Any] = {}
        keys: list[Any] = []
        for (image, name, kind), value in zip(shape.columns, raw, strict=True):
            if kind is None:
                mask = bytes.fromhex((value or b"\\x")[2:].decode())
                names = [each.name for each in shape.article.value_columns]
                self._changed = frozenset(names[place] for place in changed_columns(mask))
                self.values.append(mask)
                continue
            typed = None if value is None else kind.store(kind.input(value.decode()))
            self.values.append(typed)
            if image == "new":
                self._new[name] = typed
            elif image == "old":
                old[name] = typed
            else:
                keys.append(typed)
        if not keys:
            result = old or self._new
            keys = [result[name] for name in shape.key]
        self.key: Values = tuple(keys)
        """Key that identifies the row."""
        self.shown_key = dict(zip(shape.key, keys, strict=True))

    def inserted(self, node: ModelNode, tx: OpenTx) -> Values:
        """Return the new row; columns that are not in the call get their defaults."""
        new, table = self._new, self._table
        return tuple(
            new[column.name]
            if column.name in new
            else None
            if column.generated is not None
            else node.default(tx, table, column)
            for column in table.columns
        )

    def updated(self, old: Values) -> Values:
        """Return the row with the changed values. 428C9"""
        table, row = self._table, list(old)
        for name, value in self._new.items():
            if self._changed is not None and name not in self._changed:
                continue
            place = table.at[name]
            if table.columns[place].always and value != row[place]:
                raise SqlError(
                    "428C9",
                    f"identity column {name} of {self._name} is GENERATED ALWAYS at the Subscriber and cannot"
                    " be updated (20510)",
                )
            row[place] = value
        return tuple(row)
