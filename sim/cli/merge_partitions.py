"""``twopc merge partitions``: the Subscribers of each partition of a filtered publication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.exits import PASS, SAFETY
from twopc.sim.cli.merge_place import MergeNodes, print_json, with_merge
from twopc.sim.cli.place import Folder, Json

if TYPE_CHECKING:
    from twopc.drivers.merge.partitions import MergePartition, WrongMapping
    from twopc.sim.merge import MergeTopology

#: Number of wrong mappings that are listed.
_NAMED_MAX = 10


def partitions(
    nodes: MergeNodes = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="HOST_NAME", help="Make the partition of it. Repeatable."),
    ] = None,
    login: Annotated[
        str | None, typer.Option("--login", help="Likewise, where filters look at the login.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compare the mappings with an evaluation of all rows."),
    ] = False,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show the partitions of a filtered publication, and who subscribes to each.

    Exit code 1: --check has found a mapping that is not what the filters say.
    """

    async def work(topology: MergeTopology) -> tuple[list[MergePartition], list[WrongMapping]]:
        named = [None] if login is not None and not add else add or ()
        for value in named:
            await topology.add_partition(value, login=login)
        wrong = await topology.check_partitions() if check else []
        return await topology.partitions(), wrong

    shown, wrong = with_merge(nodes, work, folder=folder)
    if as_json:
        print_json({"partitions": shown, "wrong": wrong})
    else:
        for each in shown:
            values = [
                f"{name} {value!r}"
                for name, value in (("host name", each.host_name), ("login", each.login))
                if value is not None
            ]
            whose = ", ".join(each.subscribers) or "no Subscriber"
            print(f"{each.number}  {', '.join(values) or 'all'}: {whose}")
        if not shown:
            print("no partition: nothing is filtered, or there is no subscription")
        for mapping in wrong[:_NAMED_MAX]:
            number = "" if mapping.partition is None else f", partition {mapping.partition}"
            where = f"{mapping.table} {mapping.rowguid}{number}"
            print(f"wrong: {where}: {mapping.reason}")
        if len(wrong) > _NAMED_MAX:
            print(f"and {len(wrong) - _NAMED_MAX} more")
        if check and not wrong:
            print("the mappings are what the filters say")
    raise typer.Exit(SAFETY if wrong else PASS)
