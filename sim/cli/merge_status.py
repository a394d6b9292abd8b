"""``twopc merge status, ranges, sessions, row, validate, doctor``: state of nodes that merge, and problems at them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from twopc.sim.cli.exits import ENVIRONMENT, LIVENESS, PASS, SAFETY
from twopc.sim.cli.merge_place import MergeNodes, print_json, with_merge
from twopc.sim.cli.place import Folder, Json, shown
from twopc.sim.cli.up import idle_processes, tell_idle

if TYPE_CHECKING:
    from twopc.drivers.merge.checks import MergeFinding
    from twopc.drivers.merge.range_status import RangeStatus
    from twopc.drivers.merge.rows import RowReplica
    from twopc.drivers.merge.status import NeighbourStatus, NodeStatus, RecordedSession
    from twopc.sim.merge import MergeTopology
    from twopc.sim.merge.validation import TableValidation

#: Number of differing rows per table that are listed.
_NAMED_MAX = 10
Subscribers = Annotated[
    list[str] | None, typer.Argument(metavar="[NODE]...", help="Subscribers. Default: all.")
]


def status(nodes: MergeNodes = None, folder: Folder = None, as_json: Json = False) -> None:
    """Show generations, subscriptions with their expiry, what waits for the next sessions, and what holds rows back.

    Exit code 6: a node cannot be reached, a subscription has expired, or a merge agent of `twopc up` does not run
    or is stopped.
    """
    unreachable: dict[str, str] = {}

    async def work(topology: MergeTopology) -> dict[str, NodeStatus]:
        unreachable.update(topology.wiring.unreachable)
        return await topology.status()

    result = with_merge(nodes, work, folder=folder, partly=True)
    from twopc.sim.up.watch import IdleProcesses

    idle = IdleProcesses() if nodes else idle_processes(folder)
    if as_json:
        print_json(
            {
                "nodes": result,
                "unreachable": unreachable,
                "not_running": idle.missing,
                "stopped": idle.stopped,
            }
        )
    else:
        for name, reason in unreachable.items():
            print(f"{name}: not reached: {reason}")
        tell_idle(idle)
        for node in result.values():
            for line in _node_lines(node):
                print(shown(line))
    expired = any(each.state != "active" for node in result.values() for each in node.neighbours)
    raise typer.Exit(LIVENESS if idle or unreachable or expired else PASS)


def _node_lines(node: NodeStatus) -> Iterator[str]:
    place = f"subscribes at {node.publisher}" if node.publisher else "the Publisher"
    kept = f"for {node.retention_days} days" if node.retention_days else "for ever"
    yield f"{node.node}, {place}"
    yield (
        f"  generation {node.generation}; known of {_count(node.contents, 'row')} and "
        f"{_count(node.tombstones, 'deletion')}, kept {kept}"
    )
    for each in node.neighbours:
        yield from _neighbour_lines(each)
    for held in node.open_transactions:
        what = "prepared transaction" if held.is_prepared else "transaction of"
        since = f" since {held.since:%Y-%m-%d %H:%M:%S}" if held.since else ""
        yield f"  {what} {held.name}{since} holds back its rows of {', '.join(held.tables)}"


def _neighbour_lines(each: NeighbourStatus) -> Iterator[str]:
    waiting = f"{_count(each.waiting, 'row')} {'waits' if each.waiting == 1 else 'wait'}"
    kind = f"server, priority {each.priority:g}" if each.is_server else "client"
    name = each.neighbour if each.is_publisher else f"{each.neighbour} ({kind})"
    cut = "; a session was cut off, or is under way" if each.is_cut else ""
    yield f"  to {name}: {waiting}{cut}"
    if each.is_publisher:
        return
    if each.state != "active":
        until = f"{each.state}: `twopc merge reinit {each.neighbour}`"
    else:
        until = f"expires {each.expires:%Y-%m-%d}" if each.expires else "never expires"
    yield f"    last session {each.last_session:%Y-%m-%d %H:%M:%S}; {until}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


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
        for line in _range_lines(each):
            print(shown(line))
    if not result:
        print("no table has identity ranges: twopc merge publish TABLE --identity-range N")


def _range_lines(each: RangeStatus) -> Iterator[str]:
    following = "none" if each.next is None else f"{each.next}"
    due = f"; a session brings {each.due}" if each.due else ""
    yield f"{each.node}: {each.table}.{each.column}: next {following}, {each.left} left{due}"
    for own in each.drawn_from:
        yield f"  draws from {own.first} to {own.last}"
    for name, allotted in each.allotted:
        yield f"  allotted to {name}: {allotted.first} to {allotted.last}"
    if each.waits_for:
        yield f"  was restored: allots none before sessions with {', '.join(each.waits_for)}"


def sessions(
    subscriber: Annotated[
        str | None, typer.Argument(metavar="[NODE]", help="A Subscriber. Default: all.")
    ] = None,
    nodes: MergeNodes = None,
    limit: Annotated[int, typer.Option(min=1, help="Number of sessions.")] = 10,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """List the newest sessions that Publishers have recorded, newest first, and what each did to which table."""

    async def work(topology: MergeTopology) -> list[RecordedSession]:
        if subscriber is not None:
            topology.tree.publisher_of(subscriber)  # raises if there is no such Subscriber
        return await topology.sessions(subscriber, limit=limit)

    result: list[RecordedSession] = with_merge(nodes, work, folder=folder)
    if as_json:
        print_json(result)
        return
    for each in result:
        print(
            f"{each.ended:%Y-%m-%d %H:%M:%S}  {each.subscriber}: uploaded {each.uploaded}, downloaded "
            f"{each.downloaded}, {_count(each.conflicts, 'conflict')}, {each.duration_s:.2f} s"
        )
        if each.error:
            print(f"  failed: {shown(each.error)}")
        for table in each.articles:
            way = "up  " if table.is_upload else "down"
            print(
                f"  {way}  {shown(table.table)}: {table.rows} rows, {table.deletes} of them deleted"
            )
    if not result:
        print("no session is recorded")


def row(
    table: Annotated[str, typer.Argument(help="TABLE or SCHEMA.TABLE.")],
    key: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="COLUMN=VALUE, repeatable; or the row's rowguid, if it is deleted.",
        ),
    ],
    nodes: MergeNodes = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show which node has which version of a row, who wrote it, and where it came from (sp_showrowreplicainfo)."""
    values = _key(key)
    result: list[RowReplica] = with_merge(
        nodes, lambda topology: topology.show_row(table, values), folder=folder
    )
    if as_json:
        print_json(result)
        return
    print(f"{table} {result[0].rowguid}")
    for each in result:
        for line in _row_lines(each):
            print(shown(line))


def _row_lines(each: RowReplica) -> Iterator[str]:
    versions = ", ".join(f"{node} {version}" for node, version in each.lineage.items())
    yield f"{each.node}: {each.state}{f', stands on {versions}' if versions else ''}"
    if each.row is not None:
        values = (f"{name}={value}" for name, value in each.row.items() if value != each.rowguid)
        yield f"  {', '.join(values)}"
    if each.writer is not None:
        source = f", came from {each.source}" if each.source else ", made here"
        generation = f", generation {each.generation}" if each.generation is not None else ""
        yield f"  written by {each.writer}{source}{generation}"
    if each.columns:
        changed = (f"{name} {node} {number}" for name, (node, number) in each.columns.items())
        yield f"  columns: {', '.join(changed)}"


def _key(words: Sequence[str]) -> Mapping[str, Any] | UUID:
    """Return a row's key: columns with values, or its rowguid."""
    if len(words) == 1 and "=" not in words[0]:
        try:
            return UUID(words[0])
        except ValueError:
            raise typer.BadParameter(
                f"{words[0]!r}: write COLUMN=VALUE, as id=1, or a rowguid", param_hint="KEY"
            ) from None
    values: dict[str, str] = {}
    for word in words:
        column, equals, value = word.partition("=")
        if not equals or not column:
            raise typer.BadParameter(f"{word!r}: write COLUMN=VALUE, as id=1", param_hint="KEY")
        values[column] = value
    return values


def validate(
    subscribers: Subscribers = None,
    nodes: MergeNodes = None,
    level: Annotated[
        int, typer.Option(min=1, max=3, help="1: number of rows; 2, 3: checksums.")
    ] = 2,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Make the next session send rows that differ again from the Publisher.",
        ),
    ] = False,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Compare Subscribers' rows with their Publisher's, between sessions, while applications go on.

    Rows that wait for a session are left out. Exit code 1: rows differ, and are not repaired.
    """

    async def work(topology: MergeTopology) -> dict[str, list[TableValidation]]:
        return {
            name: await topology.validate(name, level=level, repair=repair)
            for name in subscribers or topology.tree.subscribers
        }

    result: dict[str, list[TableValidation]] = with_merge(nodes, work, folder=folder)
    if as_json:
        print_json(result)
    else:
        for name, tables in result.items():
            print_validation(name, tables)
    failed = any(not each.passed and not each.repaired for t in result.values() for each in t)
    raise typer.Exit(SAFETY if failed else PASS)


def print_validation(subscriber: str, tables: Iterable[TableValidation]) -> None:
    """Print the result of a validation as text."""
    for each in tables:
        for line in _validation_lines(subscriber, each):
            print(shown(line))


def _validation_lines(subscriber: str, each: TableValidation) -> Iterator[str]:
    left_out = f", {each.left_out} left out" if each.left_out else ""
    if each.passed:
        same = "row is" if each.rows == 1 else "rows are"
        yield f"{subscriber}: {each.table}: {each.rows} {same} the same{left_out}"
        return
    yield (
        f"{subscriber}: {each.table}: {_count(each.subscriber_rows, 'row')}, {each.rows} at the Publisher"
        f"{f'; {len(each.differences)} differing' if each.differences else ''}{left_out}"
    )
    for one in each.differences[:_NAMED_MAX]:
        yield f"  {one.rowguid}  {one.kind}"
    if len(each.differences) > _NAMED_MAX:
        yield f"  … and {len(each.differences) - _NAMED_MAX} more"
    if each.repaired:
        verb = "travels" if each.repaired == 1 else "travel"
        yield f"  {each.repaired} {verb} again: `twopc merge sync {subscriber}`"


def doctor(nodes: MergeNodes = None, folder: Folder = None, as_json: Json = False) -> None:
    """Find what is wrong at nodes that sessions would not notice, with the remedy of each.

    Triggers and keys that are disabled, rows changed without a record, tables dropped or renamed, databases that are
    copies of others. Exit code 4: something is wrong.
    """
    findings: list[MergeFinding] = with_merge(
        nodes, lambda topology: topology.check(), folder=folder
    )
    if as_json:
        print_json(findings)
    for each in findings if not as_json else ():
        print(shown(f"{each.node}: {each.what}"))
        print(shown(f"  remedy: {each.remedy}"))
    if not findings:
        print("nothing is wrong", file=sys.stderr if as_json else sys.stdout)
    raise typer.Exit(ENVIRONMENT if findings else PASS)
