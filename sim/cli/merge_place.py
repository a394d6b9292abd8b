"""The topology of merge replication on which a command works, and the report of its errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twopc.sim.cli import place
from twopc.sim.cli.connection_strings import parse_nodes
from twopc.sim.cli.up import folder_of

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology

MergeNodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        "-n",
        help="Name and administrator's DSN of a node. Repeatable. Default: the nodes of `twopc up`.",
        metavar="NAME=DSN",
    ),
]
Subscriber = Annotated[str, typer.Argument(metavar="NODE", help="Name of the Subscriber.")]


def with_merge(
    nodes: list[str] | None,
    work: Callable[[MergeTopology], Awaitable[Any]],
    *,
    folder: Path | None = None,
    partly: bool = False,
    find: Callable[[Mapping[str, str]], Awaitable[MergeTopology]] | None = None,
) -> Any:
    """Run `work` with the selected topology, and return its result.

    Args:
        find: creates the topology from the nodes; None: all nodes merge already.
        folder: folder of `twopc up`, used if no nodes are named; None: the default one.
        partly: whether nodes may be down: see `twopc.sim.merge.attachment`.

    Raises:
        ServerError: a server reports an error.
    """
    opening = attached(nodes, folder, partly=partly) if find is None else find(_dsns(nodes, folder))
    return place.run_in(opening, work)


async def attached(
    nodes: list[str] | None, folder: Path | None, *, partly: bool = False
) -> MergeTopology:
    """Return the selected topology, to be entered as a context."""
    from twopc.sim.merge.attachment import attach

    return await attach(_dsns(nodes, folder), partly=partly)


def _dsns(nodes: list[str] | None, folder: Path | None) -> Mapping[str, str]:
    """Return the nodes and their connection strings."""
    from twopc.errors import ConfigurationError
    from twopc.sim.up import load

    if nodes:
        return parse_nodes(nodes)
    state = load(folder_of(folder))
    if not state.merges:
        raise ConfigurationError(
            f"the nodes of {state.folder} do not merge: `twopc up --merge` in another --state sets up some that do"
        )
    return state.dsns


print_json = partial(place.print_json, indent=2)
