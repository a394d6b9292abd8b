"""``twopc merge ranges``: identity ranges of each node, the values left, and the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.merge_place import MergeNodes, print_json, shown, with_merge
from twopc.sim.cli.place import Folder, Json

if TYPE_CHECKING:
    from twopc.drivers.merge.range_status import RangeStatus
    from twopc.sim.merge import MergeTopology


def ranges(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes. Default: all.")
    ] = None,
    nodes: MergeNodes = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show which identity values each node holds: from which ranges it draws, how many are left, and the next one.

    Of a Publisher also what it has allotted, to whom; values that are allotted stay so when a subscription ends.
    """

    async def work(topology: MergeTopology) -> list[RangeStatus]:
        for name in names or ():
            topology.node(name)  # raises if there is no such node
        return [each for each in await topology.ranges() if not names or each.node in names]

    result: list[RangeStatus] = with_merge(nodes, work, folder=folder)
    if as_json:
        print_json(result)
        return
    for each in result:
        for line in _lines(each):
            print(shown(line))
    if not result:
        print("no table has identity ranges: twopc merge publish TABLE --identity-range N")


def _lines(each: RangeStatus) -> Iterator[str]:
    following = "none" if each.next is None else f"{each.next}"
    due = f"; a session brings {each.due}" if each.due else ""
    yield f"{each.node}: {each.table}.{each.column}: next {following}, {each.left} left{due}"
    for own in each.drawn_from:
        yield f"  draws from {own.first} to {own.last}"
    for name, allotted in each.allotted:
        yield f"  allotted to {name}: {allotted.first} to {allotted.last}"
    if each.waits_for:
        yield f"  was restored: allots none before sessions with {', '.join(each.waits_for)}"
