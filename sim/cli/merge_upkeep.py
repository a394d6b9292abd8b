"""``twopc merge reinit, cleanup, regenerate, partitions, retention, rewound``: maintenance of nodes that merge."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.exits import PASS, SAFETY
from twopc.sim.cli.merge_place import MergeNodes, Subscriber, print_json, with_merge
from twopc.sim.cli.merge_snapshot import SnapshotLocation, files_counted, source_of
from twopc.sim.cli.place import Folder, Json

if TYPE_CHECKING:
    from twopc.drivers.merge.partitions import MergePartition, WrongMapping
    from twopc.sim.merge import MergeTopology
    from twopc.sim.merge.subscription_life import Reinitialisation

#: Number of wrong mappings that are listed.
_NAMED_MAX = 10


def reinit(
    subscriber: Subscriber,
    nodes: MergeNodes = None,
    upload_first: Annotated[
        bool,
        typer.Option(
            "--upload-first",
            help="Run a session first, so that the Subscriber's own changes are not lost.",
        ),
    ] = False,
    snapshot: SnapshotLocation = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Initialise a Subscriber again with the rows of its Publisher, and all Subscribers below it.

    Prints how many rows had changes that the Publisher never received; these are lost. If it is interrupted while a
    snapshot is delivered, run it again: it continues with the next file.
    """

    async def work(topology: MergeTopology) -> Reinitialisation:
        with files_counted(subscriber) as tell:
            return await topology.reinitialise(
                subscriber, upload_first=upload_first, snapshot_location=snapshot, tell=tell
            )

    result: Reinitialisation = with_merge(nodes, work, folder=folder)
    if as_json:
        print_json(result)
        return
    for name, tables in result.lost.items():
        lost = ", ".join(
            f"{count} row{'s' * (count != 1)} of {table}" for table, count in sorted(tables.items())
        )
        lost = f"changes lost: {lost}" if lost else "no change is lost"
        print(f"{name}: begins anew{source_of(result.initialised[name])}; {lost}")


def cleanup(nodes: MergeNodes = None, folder: Folder = None, as_json: Json = False) -> None:
    """Forget at every node what is older than the retention and known to every Subscriber, as sessions do."""
    removed: dict[str, int] = with_merge(nodes, lambda topology: topology.clean_up(), folder=folder)
    if as_json:
        print_json(removed)
        return
    for name, count in removed.items():
        print(f"{name}: metadata of {count} row{'s' * (count != 1)} removed")


def regenerate(nodes: MergeNodes = None, folder: Folder = None) -> None:
    """Enable at every node the triggers by which changes are recorded and keys are checked for agents.

    Needed after a foreign key was added to a merged table, or its triggers were disabled. Changes made meanwhile may
    not be recorded: validate the Subscribers.
    """
    with_merge(nodes, lambda topology: topology.regenerate(), folder=folder)
    print("triggers are enabled; `twopc merge validate` finds changes that were missed")


def partitions(
    nodes: MergeNodes = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add", metavar="HOST_NAME", help="Add the partition of this host name. Repeatable."
        ),
    ] = None,
    login: Annotated[
        str | None, typer.Option("--login", help="The partition's login, if filters use the login.")
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


def retention(
    days: Annotated[
        int,
        typer.Argument(
            min=0, help="Days; 0: metadata is kept for ever, and no subscription expires."
        ),
    ],
    nodes: MergeNodes = None,
    folder: Folder = None,
) -> None:
    """Set for how long metadata of changed rows is kept, and Subscribers may stay away (sp_changemergepublication)."""
    advice: str | None = with_merge(
        nodes, lambda topology: topology.set_retention(days), folder=folder
    )
    print(f"retention: {days} days" if days else "retention: for ever")
    if advice:
        print(f"warning: {advice}", file=sys.stderr)


def rewound(
    node: Annotated[str, typer.Argument(help="Name of the node.")],
    nodes: MergeNodes = None,
    folder: Folder = None,
) -> None:
    """Tell a node that it was restored from a backup, before its applications write there again.

    It takes another replica number at once, so that no change gets a version that was given before. The next
    session compares everything; it would notice the restore by itself, but only then.
    """
    with_merge(nodes, lambda topology: topology.rewound(node), folder=folder, partly=True)
    print(f"{node}: has another number now; the next session compares everything that was changed")
