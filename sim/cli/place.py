"""The topology on which a command works: named nodes, or those that ``twopc up`` runs."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twopc.sim.cli.connection_strings import parse_nodes
from twopc.sim.cli.up import Folder, folder_of

if TYPE_CHECKING:
    from twopc.sim.topology import Topology

NamedNodes = Annotated[
    list[str],
    typer.Option(
        "--node",
        "-n",
        help="Name and administrator's DSN of a node, or of the distribution database. Repeatable.",
        metavar="NAME=DSN",
    ),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        "-n",
        help="Name and administrator's DSN of a node, or of the distribution database. Repeatable. Default: the nodes of `twopc up`.",
        metavar="NAME=DSN",
    ),
]

Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="TABLE=CONDITION", help="Only rows that satisfy the condition."
    ),
]
Scripts = Annotated[
    list[str] | None,
    typer.Option(
        "--script",
        metavar="TABLE=FILE",
        help="SQL file that creates your own procedures at the Subscriber.",
    ),
]
CoordinatorName = Annotated[
    str | None,
    typer.Option("--coordinator", help="The coordinator, if the decision log holds several."),
]

SubscriberName = Annotated[str, typer.Argument(help="Name of the Subscriber.")]
Subscribers = Annotated[
    list[str] | None, typer.Argument(metavar="[SUBSCRIBER]...", help="Default: all.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

__all__ = [
    "CoordinatorName",
    "Filters",
    "Folder",
    "Json",
    "NamedNodes",
    "Nodes",
    "Scripts",
    "SubscriberName",
    "Subscribers",
    "TopologyPlace",
    "pairs",
    "print_json",
    "say_running",
    "shown",
    "table_of",
    "tell_left_out",
    "tell_unreachable",
    "texts_by_table",
    "texts_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyPlace:
    """Options that select the topology on which a command works."""

    nodes: Nodes = None
    coordinator: CoordinatorName = None
    folder: Folder = None
    """Folder of `twopc up`, used if no nodes are named; None: the default one."""

    def run(
        self,
        work: Callable[[Topology], Awaitable[Any]],
        *,
        blank: bool = False,
        partly: bool = False,
    ) -> Any:
        """Run `work` with the selected topology, and return its result.

        Args:
            blank: whether nodes may lack objects of twopc, as they do not subscribe yet.
            partly: whether nodes may be down: see `twopc.sim.operate.attach`.

        Raises:
            ServerError: a server reports an error.
        """
        from twopc.errors import ConfigurationError
        from twopc.sim.operate import attach
        from twopc.sim.up import load

        coordinator = self.coordinator
        if self.nodes:
            dsns = parse_nodes(self.nodes)
            newcomers: Collection[str] = dsns if blank else ()
        else:
            state = load(folder_of(self.folder))
            if state.merges:
                raise ConfigurationError(
                    f"the nodes of {state.folder} merge: see `twopc merge --help` for what can be done with them"
                )
            dsns, coordinator, newcomers = state.dsns, coordinator or state.name, state.subscribers

        opening = attach(dsns, coordinator=coordinator, newcomers=newcomers, partly=partly)
        return run_in(opening, work)


def run_in(opening: Awaitable[Any], work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Run `work` with the topology that `opening` returns, and close the topology.

    Raises:
        ServerError: a server reports an error.
    """
    import psycopg

    from twopc.errors import ServerError

    async def go() -> Any:
        async with await opening as topology:
            return await work(topology)

    try:
        return asyncio.run(go())
    except psycopg.Error as error:
        text = error.diag.message_primary or str(error).strip()
        hint = f" ({error.diag.message_hint})" if error.diag.message_hint else ""
        code = f" [{error.sqlstate}]" if error.sqlstate else ""
        raise ServerError(f"PostgreSQL says: {text}{hint}{code}") from error


def table_of(text: str) -> tuple[str, str]:
    """Return schema and name of ``TABLE`` or ``SCHEMA.TABLE``."""
    schema, dot, name = text.partition(".")
    if not dot:
        return "public", schema
    if not schema or not name:
        raise typer.BadParameter(f"{text!r}: write TABLE or SCHEMA.TABLE")
    return schema, name


def pairs(given: list[str] | None, option: str) -> dict[str, str]:
    """Return ``TABLE=TEXT`` options as a mapping."""
    results: dict[str, str] = {}
    for each in given or ():
        table, equals, text = each.partition("=")
        if not equals or not table.strip() or not text.strip():
            raise typer.BadParameter(f"{each!r}: write TABLE=…", param_hint=option)
        if table.strip() in results:
            raise typer.BadParameter(f"table {table.strip()} is given twice", param_hint=option)
        results[table.strip()] = text.strip()
    return results


def shown(text: str) -> str:
    """Return a text with control characters escaped, as values and names may contain terminal sequences."""
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def print_json(value: Any, *, indent: int | None = None) -> None:
    """Print dataclasses, lists and plain values as one JSON document."""
    print(json.dumps(_document(value), indent=indent))


def _document(value: Any) -> Any:
    from twopc.sim.report.history import plain

    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: _document(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_document(each) for each in value]
    return plain(value)


def say_running(who: str) -> None:
    """Report on standard error that a process runs, and from now on handles signals."""
    print(f"{who}: runs until Ctrl-C or SIGTERM", file=sys.stderr, flush=True)


def tell_unreachable(unreachable: Mapping[str, str]) -> None:
    """Print the nodes that were not reached, and the reasons."""
    for name, reason in unreachable.items():
        print(f"{name}: not reached: {reason}")


def tell_left_out(subscribers: list[str]) -> None:
    """Print the Subscribers that were left out, as their nodes are not given."""
    for name in subscribers:
        print(f"{name}: left out, since its node is not given")


def texts_of(files: Iterable[Path] | None) -> list[str]:
    """Return the contents of SQL files."""
    try:
        return [path.read_text(encoding="utf-8") for path in files or ()]
    except OSError as error:
        raise typer.BadParameter(f"{error.filename}: {error.strerror}") from None


def texts_by_table(given: list[str] | None) -> dict[str, list[str]]:
    """Return the contents of the files of ``--script TABLE=FILE`` options by table."""
    return {table: texts_of([Path(file)]) for table, file in pairs(given, "--script").items()}
