"""Columns that are added to the tables of a model's nodes that merge."""

from __future__ import annotations

from dataclasses import replace

from twopc.merge.schema_changes import SchemaChange
from twopc.sim.model.merge.site import MergeSite


def add_column(site: MergeSite, change: SchemaChange) -> None:
    """Make a change at a node: outside of time, as no transaction is open that has looked at the table. SqlError

    Raises:
        UnsupportedError: the model does not know the type.
    """
    table, known = site.tables[change.artid], site.knowledge
    default = ""
    if change.default is not None:
        text = change.default.replace("'", "''")
        default = f" default '{text}'"
    site.node.define(
        f'alter table {table.name} add column "{change.column}" {change.type}{default}'
    )
    article = known.articles[change.artid]
    known.articles = {
        **known.articles,
        change.artid: replace(
            article,
            columns=article.columns + 1,
            column_names=(*article.names, change.column),
        ),
    }
    known.schema = (*known.schema, change)
    site.reshape(change.artid)
