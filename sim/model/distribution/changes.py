"""From what a node has committed to what the decoder of its log would say, so that the log reader's planner
reads it.

It must not know what becomes of a change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from twopc.publisher.pgoutput import Begin, Change, Commit, Decoded, Relation
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.node import ModelNode
from twopc.sim.model.node.heap import Table
from twopc.sim.model.sql.types import output
from twopc.sim.model.words import Committed, RowChange, Values

#: A row of ``msrepl.branch_marker`` as the log reader is shown it; None: it does not see it.
ReadMarker = Callable[[RowChange], RowChange | None]
Logged = list[bytes | None]


def see_marker(change: RowChange) -> RowChange | None:
    """As it is."""
    return change


class Messages:
    """Reads one Publisher's log.

    Args:
        read_marker: see `ReadMarker`.
    """

    def __init__(
        self, node: ModelNode, registry: Registry, read_marker: ReadMarker = see_marker
    ) -> None:
        self._node = node
        self._registry = registry
        self._read_marker = read_marker
        self._announced: dict[str, Relation] = {}
        self._images: dict[int, RowChange] = {}

    def of(self, records: Iterable[Committed]) -> list[Decoded]:
        """The messages of these transactions; those that changed nothing published are left out."""
        self._images.clear()
        found: list[Decoded] = []
        for record in records:
            changes = list(self._changes(record, found))
            if changes:
                found.append(Begin(record.lsn, record.time_us, record.xid & 0xFFFFFFFF))
                found += changes
                found.append(Commit(record.lsn, record.end_lsn, record.time_us))
        return found

    def _changes(self, record: Committed, before: list[Decoded]) -> Iterable[Change]:
        for change in record.changes:
            table = self._node.tables.get(change.table)
            relation = None if table is None else self._registry.relation(table)
            if table is None or relation is None:
                continue
            shown = change
            if table.name == "msrepl.branch_marker":
                seen = self._read_marker(change)
                if seen is None:
                    continue
                shown = seen
            if self._announced.get(table.name) is not relation:
                self._announced[table.name] = relation
                before.append(relation)
            made = decoded(table, relation, shown)
            self._images[id(made)] = shown
            yield made

    def belonging(self, changes: Sequence[Change]) -> dict[int, list[tuple[bool, bool]]]:
        """Which images of the changes belong to the articles with a row filter, as the planner asks it."""
        found: dict[int, list[tuple[bool, bool]]] = {}
        registry = self._registry
        for change in changes:
            relation, image = change.relation, self._images[id(change)]
            found[id(change)] = [
                (
                    image.old is not None and registry.belongs(number, image.old),
                    image.new is not None and registry.belongs(number, image.new),
                )
                for number, each in registry.articles.items()
                if each.article.row_filter is not None
                and (each.article.schema, each.article.table) == (relation.schema, relation.name)
            ]
        return found


def decoded(table: Table, relation: Relation, change: RowChange) -> Change:
    """One change, with as much of the old row as its replica identity has."""
    places = [table.at[column.name] for column in relation.columns]
    new = None if change.new is None else _texts(change.new, places)
    if change.old is None:
        return Change(relation, change.operation, None, new, False)
    old = _texts(change.old, places)
    if relation.replica_identity == "f":
        return Change(relation, change.operation, old, new, False)
    key = [
        value if column.is_key else None
        for value, column in zip(old, relation.columns, strict=True)
    ]
    if new is not None and all(
        value == there
        for value, there, column in zip(old, new, relation.columns, strict=True)
        if column.is_key
    ):
        return Change(relation, change.operation, None, new, False)
    return Change(relation, change.operation, key, new, True)


def _texts(values: Values, places: Sequence[int]) -> Logged:
    found: Logged = []
    for place in places:
        value = values[place] if place < len(values) else None
        found.append(None if value is None else output(value).encode())
    return found
