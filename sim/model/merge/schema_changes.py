"""Schema changes of merged tables at a model's nodes: columns added, dropped and widened.

Column versions are identified by the columns' places here, so dropping a column also drops its versions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar
from uuid import UUID

from twopc.merge.schema_changes import SchemaChange, SchemaChangeKind
from twopc.sim.model.merge.records import ModelConflict
from twopc.sim.model.merge.site import MergeSite, RecordedConflict, SiteKnowledge
from twopc.sim.model.node.columns import drop_column, retype_column
from twopc.sim.model.sql import types

T = TypeVar("T")
Loser = TypeVar("Loser", ModelConflict, RecordedConflict)


def make_change(site: MergeSite, change: SchemaChange) -> None:
    """Make a schema change at a node, outside virtual time: no open transaction has read the table. SqlError

    Raises:
        UnsupportedError: the model does not support the type.
    """
    table, known = site.tables[change.artid], site.knowledge
    if change.kind is SchemaChangeKind.ADD:
        _add(site, change)
    elif change.kind is SchemaChangeKind.DROP:
        drop_column(table, change.column)
        _drop(known, change)
    else:
        assert change.type is not None, "a column is widened to a type"
        retype_column(table, change.column, types.named(change.type))
    site.node.plans.forget()
    known.schema = (*known.schema, change)
    site.reshape(change.artid)


def _add(site: MergeSite, change: SchemaChange) -> None:
    default = ""
    if change.default is not None:
        text = change.default.replace("'", "''")
        default = f" default '{text}'"
    name = site.tables[change.artid].name
    site.node.define(f'alter table {name} add column "{change.column}" {change.type}{default}')
    _rename(site.knowledge, change.artid, (*_names(site.knowledge, change), change.column))


def _drop(known: SiteKnowledge, change: SchemaChange) -> None:
    """Forget the column, its versions, and its values in rows that have lost conflicts."""
    artid, names = change.artid, _names(known, change)
    place = names.index(change.column)
    _rename(known, artid, _without(place, names))
    known.metadata[artid] = {
        rowguid: row
        if row.version.columns is None
        else replace(
            row, version=replace(row.version, columns=_without(place, row.version.columns))
        )
        for rowguid, row in known.metadata[artid].items()
    }

    def shortened(each: Loser) -> Loser:
        if each.artid != artid or each.loser is None:
            return each
        return replace(each, loser=_without(place, each.loser))

    known.conflicts = [shortened(each) for each in known.conflicts]
    known.recorded = [shortened(each) for each in known.recorded]


def _names(known: SiteKnowledge, change: SchemaChange) -> tuple[str, ...]:
    return known.articles[change.artid].names


def _rename(known: SiteKnowledge, artid: UUID, names: tuple[str, ...]) -> None:
    article = replace(known.articles[artid], columns=len(names), column_names=names)
    known.articles = {**known.articles, artid: article}


def _without(place: int, values: tuple[T, ...]) -> tuple[T, ...]:
    return (*values[:place], *values[place + 1 :])
