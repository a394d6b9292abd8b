"""``twopc procedure``: routines whose calls are published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.place import CoordinatorName, Folder, Nodes, TopologyPlace, table_of

if TYPE_CHECKING:
    from twopc.proc_execution import ProcArticle
    from twopc.sim.topology import Topology

procedure = typer.Typer(
    help="Publish the execution of procedures and functions; change and show what is published.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Routine = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="NAME or SCHEMA.NAME; with (TYPES) where the name is overloaded."
    ),
]
Ddl = Annotated[
    bool,
    typer.Option(
        "--replicate-ddl/--no-replicate-ddl",
        help="Carry CREATE OR REPLACE and ALTER to Subscribers, or keep them at the Publisher.",
    ),
]


def _name(text: str) -> tuple[str, str, str | None]:
    """Return schema, name and argument types."""
    head, bracket, types = text.partition("(")
    schema, name = table_of(head.strip())
    if not bracket:
        return schema, name, None
    if not types.endswith(")"):
        raise typer.BadParameter(f"{text!r}: write NAME(TYPES)")
    return schema, name, types[:-1]


@procedure.command("publish")
def publish(
    routine: Routine,
    nodes: Nodes = None,
    kind: Annotated[
        str,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="'serializable proc exec', 'proc exec' or 'proc schema only'.",
        ),
    ] = "serializable proc exec",
    reads: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="An article that the routine reads. Repeatable. Default: found by examination.",
        ),
    ] = None,
    writes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="An article that the routine writes. Repeatable. Default: found by examination.",
        ),
    ] = None,
    xact_abort: Annotated[
        bool,
        typer.Option(
            "--xact-abort/--no-xact-abort",
            help="Pass an error on to the caller, or report it as a warning. After a warning the whole call is "
            "rolled back (in SQL Server only its last statement), and it is sent to the Subscribers nevertheless.",
        ),
    ] = True,
    replicate_ddl: Ddl = True,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Publish a routine (sp_addarticle with @type). Existing Subscribers receive it by `twopc refresh`."""
    from twopc.proc_execution import ProcType

    types = [str(each) for each in ProcType]
    if kind not in types:
        raise typer.BadParameter(
            f"{kind!r}: use {', '.join(map(repr, types))}", param_hint="--type"
        )
    schema, name, signature = _name(routine)

    async def work(topology: Topology) -> ProcArticle:
        return await topology.publish_procedure(
            name,
            schema=schema,
            signature=signature,
            type=kind,
            reads=reads,
            writes=writes,
            xact_abort=xact_abort,
            replicate_ddl=replicate_ddl,
        )

    published = TopologyPlace(nodes=nodes, coordinator=coordinator, folder=folder).run(
        work, blank=True
    )
    print(f"{published.identity}: published as {published.type}; next: twopc refresh")


@procedure.command("unpublish")
@command
def unpublish(routine: Routine, at: TopologyPlace) -> None:
    """Stop publishing a routine (sp_droparticle)."""
    schema, name, signature = _name(routine)

    async def work(topology: Topology) -> None:
        await topology.unpublish_procedure(name, schema=schema, signature=signature)

    at.run(work, blank=True)
    print(f"{routine}: not published any more")


@procedure.command("alter")
@command
def alter(
    routine: Routine,
    replicate_ddl: Annotated[
        bool,
        typer.Option(
            "--replicate-ddl/--no-replicate-ddl",
            help="Replicate new definitions, or keep them at the Publisher.",
        ),
    ],
    at: TopologyPlace,
) -> None:
    """Set whether new definitions of a routine are replicated (sp_changearticle, replicate_ddl)."""
    schema, name, signature = _name(routine)

    async def work(topology: Topology) -> ProcArticle:
        return await topology.procedures.alter(
            name, schema=schema, signature=signature, replicate_ddl=replicate_ddl
        )

    _show(at.run(work, blank=True))


@procedure.command("show")
@command
def show(at: TopologyPlace) -> None:
    """Show published routines and the types of their articles (sp_helparticle)."""

    async def work(topology: Topology) -> list[ProcArticle]:
        return list(await topology.procedures.published())

    result = at.run(work, blank=True)
    for each in result:
        _show(each)
    if not result:
        print("no routine is published: twopc procedure publish NAME")


def _show(routine: ProcArticle) -> None:
    print(f"{routine.article_id}  {routine.identity}  {routine.type}")
    for what, tables in (("reads", routine.reads), ("writes", routine.writes)):
        print(f"  {what}: {'any table' if tables is None else ', '.join(tables) or 'none'}")
    if not routine.xact_abort:
        print(
            "  an error undoes the whole call, its caller goes on, and the call travels all the same"
        )
    if routine.commits:
        print("  ends transactions: travels as rows")
    if routine.obstacle:
        print(f"  travels as rows: {routine.obstacle}")
    print(f"  new definitions {'travel' if routine.replicate_ddl else 'stay at the Publisher'}")
    for warning in routine.warnings:
        print(f"  warning ({warning.kind}): {warning.text}")
