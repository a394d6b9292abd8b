"""Conversion of a node's commits into the messages that reading its log would yield.

Independent of the processing of changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from twopc.publisher.commands import Belonging
from twopc.publisher.pgoutput import (
    BeginMessage,
    CommitMessage,
    Decoded,
    RelationMessage,
    RowMessage,
    Values,
)
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.distribution.packets import encode
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.sql.types import output
from twopc.sim.model.values import CommittedTransaction, RowChange
from twopc.sim.model.values import Values as Row


class Messages:
    """The messages of one Publisher's log."""

    def __init__(self, node: ModelNode, registry: Registry) -> None:
        self._node = node
        self._registry = registry
        self._announced: dict[str, RelationMessage] = {}
        self._images: list[tuple[RelationMessage, RowChange]] = []
        """Changes of tables with filtered articles, whose `belongings` have not been requested yet."""

    def of(self, records: Iterable[CommittedTransaction]) -> list[bytes]:
        """Return the messages of these transactions, without transactions that changed nothing published."""
        made: list[Decoded] = []
        for record in records:
            changes = list(self._changes(record))
            if changes:
                made.append(BeginMessage(record.lsn, record.time_us, record.xid & 0xFFFFFFFF))
                made += changes
                made.append(CommitMessage(record.lsn, record.end_lsn, record.time_us))
        return [encode(each) for each in made]

    def _changes(self, record: CommittedTransaction) -> Iterator[Decoded]:
        for change in record.changes:
            table = self._node.tables.get(change.table)
            relation = None if table is None else self._registry.relation(table)
            if table is None or relation is None:
                continue
            if self._announced.get(table.name) is not relation:
                self._announced[table.name] = relation
                yield relation
            if self._registry.filtered(relation):
                self._images.append((relation, change))
            yield decoded(table, relation, change)

    def belongings(self, changes: Sequence[RowMessage]) -> list[Belonging]:
        """Return, for the next changes of filtered tables, which of their images belong to which article."""
        belongs, images = self._registry.belongs, self._images[: len(changes)]
        del self._images[: len(changes)]
        return [
            [
                (
                    image.old is not None and belongs(number, image.old),
                    image.new is not None and belongs(number, image.new),
                )
                for number in self._registry.filtered(relation)
            ]
            for relation, image in images
        ]


def decoded(table: HeapTable, relation: RelationMessage, change: RowChange) -> RowMessage:
    """Return one change, with the part of the old row that its replica identity logs."""
    places = [table.at[column.name] for column in relation.columns]
    new = None if change.new is None else _texts(change.new, places)
    if change.old is None:
        return RowMessage(relation, change.operation, None, new, False)
    old = _texts(change.old, places)
    if relation.replica_identity == "f":
        return RowMessage(relation, change.operation, old, new, False)
    key = [
        value if column.is_key else None
        for value, column in zip(old, relation.columns, strict=True)
    ]
    if new is not None and all(
        value == there
        for value, there, column in zip(old, new, relation.columns, strict=True)
        if column.is_key
    ):
        return RowMessage(relation, change.operation, None, new, False)
    return RowMessage(relation, change.operation, key, new, True)


def _texts(values: Row, places: Sequence[int]) -> Values:
    results: Values = []
    for place in places:
        value = values[place] if place < len(values) else None
        results.append(None if value is None else output(value).encode())
    return results
