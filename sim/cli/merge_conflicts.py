"""``twopc merge conflicts, resolve``: the conflict viewer."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from twopc.sim.cli.exits import PASS, UNKNOWN
from twopc.sim.cli.merge_place import MergeNodes, print_json, with_merge
from twopc.sim.cli.place import Folder, Json, shown

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.merge.by_hand import Keep
    from twopc.sim.merge.conflicts import MergeConflict

#: Number of characters of a conflict's number that are usually unique.
_SHORTEST = 4


def conflicts(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="TABLE or SCHEMA.TABLE. Default: all.")
    ] = None,
    nodes: MergeNodes = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """List conflicts and failed changes, oldest first. Conflicts are recorded at the Publisher; a change that
    could not be written, at the node that it could not be written at.

    Exit code 3: a Subscriber cannot be reached, which may have recorded more.
    """
    unreachable: dict[str, str] = {}

    async def work(topology: MergeTopology) -> list[tuple[str, MergeConflict]]:
        unreachable.update(topology.wiring.unreachable)
        return await _recorded(topology, table)

    recorded = with_merge(nodes, work, folder=folder, partly=True)
    if as_json:
        print_json([{"node": node, **asdict(each)} for node, each in recorded])
    else:
        for node, each in recorded:
            for line in conflict_lines(node, each):
                print(shown(line))
        print(f"{len(recorded)} recorded" if recorded else "no conflict is recorded")
    for name, reason in unreachable.items():
        print(f"{name}: not reached: {reason}", file=sys.stderr)
    raise typer.Exit(UNKNOWN if unreachable else PASS)


def conflict_lines(node: str, conflict: MergeConflict) -> list[str]:
    """Return a conflict as lines of text."""
    from twopc.sim.merge.conflict_texts import kind_words
    from twopc.sim.report.history import plain

    kind = kind_words(conflict.type)
    loser = conflict.loser or {}
    values = [
        f"{name}={plain(value)}" for name, value in loser.items() if value != conflict.rowguid
    ]
    row = ", ".join(values) if conflict.loser is not None else "the row's deletion"
    lines = [
        f"{conflict.id}  {conflict.table}",
        f"  {conflict.at:%Y-%m-%d %H:%M:%S} at {node}: {kind} ({conflict.type.value})",
    ]
    if conflict.type.name == "RESOLVED_BY_HAND":
        return [*lines, f"  {conflict.reason}"]
    if conflict.winner is None:
        return [*lines, f"  failed: {conflict.origin}: {row}", f"  because: {conflict.reason}"]
    return [*lines, f"  lost: {conflict.origin}: {row}", f"  won:  {conflict.winner}"]


async def _recorded(topology: MergeTopology, table: str | None) -> list[tuple[str, MergeConflict]]:
    """Return node and conflict, oldest first, of all recorded conflicts; the Publisher must be reachable."""
    from twopc.errors import MergeError

    recorded = [
        (name, each)
        for name in topology.nodes
        if name not in topology.wiring.unreachable
        for each in await topology.conflicts(table, node=name)
    ]
    if topology.publisher in topology.wiring.unreachable:
        reason = topology.wiring.unreachable[topology.publisher]
        raise MergeError(
            f"node {topology.publisher!r}, which records conflicts, cannot be reached: {reason}",
            node=topology.publisher,
            sqlstate="08001",
        )
    return sorted(recorded, key=lambda each: each[1].at)


def resolve(
    conflict: Annotated[
        str, typer.Argument(metavar="ID", help="Number of the conflict, or its beginning.")
    ],
    keep: Annotated[
        str,
        typer.Option(
            metavar="winner|loser|FILE",
            help="Whose row stays; or a JSON file with values by column, - for standard input.",
        ),
    ],
    nodes: MergeNodes = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove the conflict from the records as well.")
    ] = False,
    folder: Folder = None,
) -> None:
    """Resolve a conflict by a new change, which the next sessions carry to all nodes.

    Exit code 1: it was resolved before, its row is not there any more, or the change breaks a constraint.
    Nothing is changed then.
    """
    if len(conflict) < _SHORTEST:
        raise typer.BadParameter(
            f"{conflict!r}: write at least {_SHORTEST} characters of its number"
        )
    row = None if keep in ("winner", "loser") else _values(keep)

    stays: Keep | None = "loser" if keep == "loser" else "winner" if row is None else None

    async def work(topology: MergeTopology) -> MergeConflict:
        node, chosen = _named(conflict, await _recorded(topology, None), topology.publisher)
        await topology.resolve(chosen, keep=stays, row=row, forget=forget, node=node)
        return chosen

    done: MergeConflict = with_merge(nodes, work, folder=folder, partly=True)
    if stays == "winner":
        print(f"{done.id}: the winner's row stays")
        return
    what = "the values given are" if stays is None else "the loser's row is"
    print(f"{done.id}: {what} there now; `twopc merge sync` carries it to all nodes")


def _named(
    number: str, recorded: list[tuple[str, MergeConflict]], publisher: str
) -> tuple[str, MergeConflict]:
    """Return the conflict whose number begins with `number`.

    Raises:
        ConfigurationError: there is none, or several.
    """
    from twopc.errors import ConfigurationError

    fitting: dict[UUID, tuple[str, MergeConflict]] = {}
    for node, each in recorded:
        # a conflict recorded at several nodes is resolved at the Publisher, from which all nodes get the resolution
        if str(each.id).startswith(number.lower()) and (
            node == publisher or each.id not in fitting
        ):
            fitting[each.id] = (node, each)
    if not fitting:
        raise ConfigurationError(f"no conflict {number!r}: `twopc merge conflicts` lists them")
    if len(fitting) > 1:
        raise ConfigurationError(
            f"{len(fitting)} conflicts begin with {number!r}: {', '.join(map(str, fitting))}"
        )
    [only] = fitting.values()
    return only


def _values(file: str) -> dict[str, Any]:
    """Return the values of a JSON file by column; nested values become JSON text."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        values = json.loads(text)
    except OSError as error:
        raise typer.BadParameter(
            f"{file}: {error.strerror}; or write winner or loser", param_hint="--keep"
        ) from None
    except ValueError as error:
        raise typer.BadParameter(f"{file}: no JSON: {error}", param_hint="--keep") from None
    if not isinstance(values, dict) or not values:
        raise typer.BadParameter(
            f'{file}: write an object with columns, as {{"phone": "3"}}', param_hint="--keep"
        )
    return {
        column: json.dumps(value) if isinstance(value, dict | list) else value
        for column, value in values.items()
    }
