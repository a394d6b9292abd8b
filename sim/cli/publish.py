"""``twopc install, uninstall, publish, unpublish, article``: a Publisher and its articles."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.connection_strings import parse_nodes
from twopc.sim.cli.place import (
    CoordinatorName,
    Folder,
    NamedNodes,
    Nodes,
    TopologyPlace,
    table_of,
    texts_of,
)

if TYPE_CHECKING:
    from twopc.distributed_article import DistributedArticle
    from twopc.sim.topology import Topology

article = typer.Typer(
    help="Show published tables and the formats of their changes, or change the formats.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Table = Annotated[str, typer.Argument(metavar="TABLE", help="TABLE or SCHEMA.TABLE.")]
Ins = Annotated[
    str | None,
    typer.Option("--ins", metavar="METHOD", help="Format of INSERT: CALL [PROCEDURE], SQL, NONE."),
]
Upd = Annotated[
    str | None,
    typer.Option(
        "--upd",
        metavar="METHOD",
        help="Format of UPDATE: CALL, SCALL, MCALL, XCALL [PROCEDURE], SQL, NONE.",
    ),
]
Del = Annotated[
    str | None,
    typer.Option(
        "--del", metavar="METHOD", help="Format of DELETE: CALL, XCALL [PROCEDURE], SQL, NONE."
    ),
]
Large = Annotated[
    str | None,
    typer.Option(
        "--large",
        metavar="A,B,…",
        help="Columns whose old values XCALL omits. Default: those of unbounded types.",
    ),
]


def install(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The topology's; part of gids.")],
    nodes: NamedNodes,
) -> None:
    """Make a database a Publisher (sp_adddistributor, sp_adddistributiondb, sp_replicationdboption).

    Name two nodes, the Publisher and one called `distribution`; without it, the Publisher's database is
    the distribution database too.
    """
    from twopc.sim.operate import install as make

    publisher = asyncio.run(make(name, parse_nodes(nodes)))
    print(f"{name}: {publisher} is the Publisher; next: twopc publish TABLE")


def uninstall(
    nodes: NamedNodes,
    coordinator: CoordinatorName = None,
) -> None:
    """Remove all objects and roles of twopc from the nodes (sp_replicationdboption, sp_dropdistributor).

    Drops all subscriptions and articles. Tables and rows stay. Name all nodes, former Subscribers among them:
    the privileges of the roles there are revoked too.
    """
    named = parse_nodes(nodes)
    TopologyPlace(nodes=nodes, coordinator=coordinator).run(
        lambda t: t.leaving.dissolve(), blank=True
    )
    print(f"nothing of ours is left in {', '.join(named)}")


def publish(
    table: Table,
    nodes: Nodes = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Columns to publish, including the key.")
    ] = None,
    row_filter: Annotated[
        str | None,
        typer.Option("--filter", metavar="CONDITION", help="Only rows that satisfy the condition."),
    ] = None,
    ins: Ins = None,
    upd: Upd = None,
    delete: Del = None,
    large: Large = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Publish a table (sp_addarticle). Existing Subscribers receive it by `twopc refresh`."""
    schema, name = table_of(table)
    chosen = None if columns is None else _listed(columns)

    async def work(topology: Topology) -> list[str]:
        await topology.publish(
            name,
            schema=schema,
            columns=chosen,
            row_filter=row_filter,
            propagate=_methods(ins, upd, delete, large),
        )
        return list(await topology.registration.update_modes())

    there = TopologyPlace(nodes=nodes, coordinator=coordinator, folder=folder).run(work, blank=True)
    next_one = "refresh" if there else "subscribe SUBSCRIBER"
    print(f"{schema}.{name}: published; next: twopc {next_one}")


@command
def unpublish(table: Table, at: TopologyPlace) -> None:
    """Drop an article (sp_droparticle). The table is restored to what it was before, with its rows."""
    schema, name = table_of(table)
    at.run(lambda t: t.unpublish(name, schema=schema), blank=True)
    print(f"{schema}.{name}: not published any more")


@article.command("show")
@command
def show(
    at: TopologyPlace,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Default: all.")] = None,
) -> None:
    """Show articles, their Subscribers and the formats of their changes (sp_helparticle)."""
    only = None if table is None else table_of(table)

    async def work(topology: Topology) -> list[tuple[DistributedArticle, list[str]]]:
        return [
            (each, await topology.registration.subscribers_of([each.article_id]))
            for each in await topology.articles.published(of=only)
        ]

    result = at.run(work, blank=True)
    for each, subscribers in result:
        known = each.article
        print(f"{each.article_id}  {known.schema}.{known.table}")
        print(f"  columns: {', '.join(column.name for column in known.columns)}")
        if known.row_filter is not None:
            print(f"  rows: {known.row_filter}")
        print(f"  travels: {_text(each.propagation.as_json())}")
        print(f"  goes to: {', '.join(subscribers) or 'no Subscriber'}")
    if not result:
        print("no table is published: twopc publish TABLE")


@article.command("change")
def change(
    table: Table,
    nodes: Nodes = None,
    ins: Ins = None,
    upd: Upd = None,
    delete: Del = None,
    large: Large = None,
    scripts: Annotated[
        list[Path] | None,
        typer.Option(
            "--script",
            metavar="FILE",
            help="SQL file that creates your own procedures at Subscribers.",
        ),
    ] = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Change the formats of an article from now on (sp_changearticle).

    Earlier changes are delivered first; transactions that write the table wait.
    """
    requested, (schema, name) = _methods(ins, upd, delete, large), table_of(table)
    if not requested:
        raise typer.BadParameter("say --ins, --upd, --del or --large")
    texts = texts_of(scripts)

    async def work(topology: Topology) -> Any:
        return await topology.articles.change(name, requested, schema=schema, scripts=texts)

    now = TopologyPlace(nodes=nodes, coordinator=coordinator, folder=folder).run(work, blank=True)
    print(f"{schema}.{name}: travels {_text(now.as_json())}")


@article.command("script")
@command
def script(
    table: Table,
    procedure: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT",
            help="sp_scriptinsproc, sp_scriptupdproc, sp_scriptmappedupdproc, sp_scriptsupdproc, "
            "sp_scriptxupdproc, sp_scriptdelproc or sp_scriptxdelproc.",
        ),
    ],
    at: TopologyPlace,
) -> None:
    """Print the default procedure of a format, as a template for your own (sp_scriptinsproc and others)."""
    from twopc.subscriber.propagation import SCRIPTS

    if procedure not in SCRIPTS:
        raise typer.BadParameter(f"no script {procedure!r}; there are {', '.join(SCRIPTS)}")
    only = table_of(table)
    print(
        at.run(
            lambda t: t.articles.script_procedure(procedure, only[1], schema=only[0]), blank=True
        )
    )


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def _methods(
    ins: str | None, upd: str | None, delete: str | None, large: str | None
) -> dict[str, str | list[str]]:
    given = {"ins": ins, "upd": upd, "del": delete, "large": _listed(large) if large else None}
    return {what: text for what, text in given.items() if text is not None}


def _text(propagation: dict[str, Any]) -> str:
    return ", ".join(
        f"{what} {', '.join(text) if isinstance(text, list) else text}"
        for what, text in propagation.items()
    )
