"""Filters of merged tables on a model: partitions at the Publisher, and restrictions on changes at Subscribers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from twopc.merge.articles import MergeOptions
from twopc.merge.partitions import PartitionOption
from twopc.merge.ranges import IdentityRanges
from twopc.sim.model.builder import blaming
from twopc.sim.model.merge.filters import RowCondition, join_condition, row_condition
from twopc.sim.model.merge.partitions import ModelJoinFilter, ModelMergeFilter, ModelPartition
from twopc.sim.model.merge.records import Values as MergeValues
from twopc.sim.model.merge.site import AGENT, MergeSite
from twopc.sim.model.node.constraints import bare
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.rows import visible
from twopc.sim.model.values import RowChange, SqlError, Steps, TableSpec, Values

#: Roles of agents and of initial copies, whose changes are not checked.
_PASS = frozenset({AGENT, "postgres"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMergedTable:
    """A table, and how its changes are merged."""

    table: TableSpec
    rowguid: str
    adds_rowguid: bool
    column_tracking: bool
    options: MergeOptions
    row_filter: str | None
    """Row filter that assigns rows to Subscribers; see `twopc.publisher.merge.filters`."""
    joins: Mapping[str, str]
    """Join filters by parent."""
    option: PartitionOption = PartitionOption.FREE
    realigns: bool = True
    identity: IdentityRanges | None = None
    """Identity ranges from which nodes draw; None if Subscribers must specify the values of the column."""


def filters_of(
    site: MergeSite, tables: Mapping[UUID, ModelMergedTable]
) -> dict[UUID, ModelMergeFilter]:
    """Return the filters of a Publisher, by article; articles without filters are left out.

    Raises:
        twopc.sim.model.builder.BuildError: the node refuses a filter.
        UnsupportedError: the model does not support part of a filter.
    """
    names = {each.table.name: artid for artid, each in tables.items()}
    plans, filters = site.node.plans, dict[UUID, ModelMergeFilter]()
    for artid, each in tables.items():
        path = ("tables", each.table.name, "merge")
        table, joins = site.tables[artid], []
        condition: RowCondition | None = None
        if each.row_filter is not None:
            with blaming(*path, "filter"):
                condition = row_condition(each.row_filter, table, plans)
        for parent, text in each.joins.items():
            with blaming(*path, "join", parent):
                meets, is_key = join_condition(text, table, site.tables[names[parent]], plans)
                if each.option >= PartitionOption.APART and not is_key:
                    raise SqlError(
                        "42P10",
                        f"with partition option {each.option} the join filter must be a foreign key: else a row might "
                        "belong to several partitions",
                    )
            joined = _of_both(site, artid, names[parent], meets)
            joins.append(ModelJoinFilter(parent=names[parent], condition=joined, is_key=is_key))
        if condition is not None or joins:
            filters[artid] = ModelMergeFilter(
                condition=None if condition is None else _of_row(site, artid, condition),
                uses=frozenset() if condition is None else condition.uses,
                joins=tuple(joins),
                is_timed=condition is not None and condition.is_timed,
                realigns=each.realigns,
            )
    return filters


def _of_row(
    site: MergeSite, artid: UUID, condition: RowCondition
) -> Callable[[UUID, MergeValues, ModelPartition], bool]:
    def belongs(rowguid: UUID, row: MergeValues, partition: ModelPartition) -> bool:
        values = partition.host_name, partition.login
        return condition.holds(site.row(artid, rowguid, row), *values, site.node.clock())

    return belongs


def _of_both(
    site: MergeSite, child: UUID, parent: UUID, meets: Callable[[Values, Values], bool]
) -> Callable[[UUID, MergeValues, UUID, MergeValues], bool]:
    def belongs(rowguid: UUID, row: MergeValues, above: UUID, values: MergeValues) -> bool:
        return meets(site.row(child, rowguid, row), site.row(parent, above, values))

    return belongs


def guard_partition(
    site: MergeSite, tables: Mapping[UUID, ModelMergedTable], values: tuple[str, str]
) -> None:
    """Refuse changes at a Subscriber that move a row outside its partition, if the partition option says so.

    Args:
        values: its host name, and its login.
    """
    names = {each.table.name: site.tables[artid] for artid, each in tables.items()}
    for each in tables.values():
        if each.option > PartitionOption.FREE:
            site.node.add_trigger(each.table.name, _PartitionGuard(site, each, names, values))


class _PartitionGuard:
    """``msmerge_guard_<artid>``: a trigger for INSERT and UPDATE."""

    when = "after statement"
    operations = frozenset({"ins", "upd"})
    fires = "always"

    def __init__(
        self,
        site: MergeSite,
        merged: ModelMergedTable,
        tables: Mapping[str, HeapTable],
        values: tuple[str, str],
    ) -> None:
        own, plans = tables[merged.table.name], site.node.plans
        self.name = f"msmerge_guard_{merged.table.name}"
        self._node = site.node
        self._values = values
        self._condition = (
            None if merged.row_filter is None else row_condition(merged.row_filter, own, plans)
        )
        self._joins = [
            (tables[parent], join_condition(text, own, tables[parent], plans)[0])
            for parent, text in merged.joins.items()
        ]

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Steps[None]:
        """Refuse rows that do not belong here; a parent that does not exist here is in another partition. 44000"""
        yield from ()
        if tx.session.role in _PASS:
            return
        for change in changes:
            if change.new is not None and not self._belongs(tx, change.new):
                number = 20703 if change.operation == "ins" else 20733
                raise SqlError(
                    "44000",
                    f"a row of {bare(self._node.table(table))} would be outside the partition of this Subscriber ({number})",
                    hint="Make the change at the Publisher, from where the row goes to whom it belongs.",
                )

    def _belongs(self, tx: Any, row: Values) -> bool:
        now_s = self._node.clock()
        if self._condition is not None and self._condition.holds(row, *self._values, now_s):
            return True
        seen = tx.statement()
        return any(
            meets(row, version.values)
            for parent, meets in self._joins
            for _, version in visible(tx, parent, seen)
        )
