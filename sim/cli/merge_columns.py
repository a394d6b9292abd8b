"""``twopc merge column add, drop, widen``: schema changes of merged tables that have Subscribers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.merge_place import MergeNodes, with_merge
from twopc.sim.cli.place import Folder, table_of
from twopc.sim.cli.publish import Table

if TYPE_CHECKING:
    from twopc.merge.schema_changes import SchemaChange

column = typer.Typer(
    help="Columns of merged tables: add, drop or widen one at the Publisher; sessions bring it to Subscribers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
ColumnName = Annotated[str, typer.Argument(metavar="COLUMN", help="The column's name.")]
ColumnType = Annotated[
    str, typer.Argument(metavar="TYPE", help="A type of PostgreSQL's own: 'numeric(10,2)'.")
]


@column.command("add", short_help="Add a column.")
def add(
    table: Table,
    name: ColumnName,
    type_: ColumnType,
    nodes: MergeNodes = None,
    default: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="A constant, which all rows get. Default: NULL."),
    ] = None,
    folder: Folder = None,
) -> None:
    """Add a column to a merged table (sp_repladdcolumn).

    Subscribers add it in their next session, before any row travels. Applications and sessions wait for a moment.
    """
    article = _article(table)
    made = with_merge(
        nodes,
        lambda topology: topology.add_column(article, name, type_, default=default),
        folder=folder,
    )
    _print(article, made, f"added, {made.type}")


@column.command("drop", short_help="Drop a column.")
def drop(table: Table, name: ColumnName, nodes: MergeNodes = None, folder: Folder = None) -> None:
    """Drop a column of a merged table (sp_repldropcolumn), with its values at every node."""
    article = _article(table)
    made = with_merge(nodes, lambda topology: topology.drop_column(article, name), folder=folder)
    _print(article, made, "dropped")


@column.command("widen", short_help="Give a column a wider type.")
def widen(
    table: Table,
    name: ColumnName,
    type_: ColumnType,
    nodes: MergeNodes = None,
    folder: Folder = None,
) -> None:
    """Give a column of a merged table a type that takes all values of its present one, and more."""
    article = _article(table)
    made = with_merge(
        nodes, lambda topology: topology.widen_column(article, name, type_), folder=folder
    )
    _print(article, made, f"widened to {made.type}")


def _article(table: str) -> str:
    from twopc import names

    return names.article_name(*table_of(table))


def _print(article: str, made: SchemaChange, what: str) -> None:
    print(f"{article}.{made.column}: {what}; schema change {made.version}; next: twopc merge sync")
