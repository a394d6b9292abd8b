"""``twopc merge sync, agent, generations``: sessions of the Merge Agent, and generations of nodes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twopc.sim.cli.exits import PASS, SAFETY
from twopc.sim.cli.merge_place import MergeNodes, Subscriber, attached, print_json, with_merge
from twopc.sim.cli.merge_status import print_validation
from twopc.sim.cli.place import Folder, Json, say_running

if TYPE_CHECKING:
    from twopc.drivers.merge.engine import MergeReport
    from twopc.errors import MergeError
    from twopc.sim.merge import MergeTopology
    from twopc.sim.merge.generations import ShownGeneration
    from twopc.sim.merge.validation import TableValidation


class FailCondition(StrEnum):
    """Event of a session for which a command fails if ``--fail-on`` names it."""

    CONFLICT = "conflict"
    RETRY = "retry"


FailOn = Annotated[
    list[FailCondition] | None,
    typer.Option(
        "--fail-on",
        help="Exit with 1 if a session has found a conflict, or left a row that could not be written. Repeatable.",
    ),
]
Subscribers = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NODE]...", help="Subscribers. Default: all, one after another."),
]


def sync(
    subscribers: Subscribers = None,
    nodes: MergeNodes = None,
    fail_on: FailOn = None,
    only: Annotated[
        Literal["upload"] | None,
        typer.Option(help="upload: download nothing; a later session without --only does."),
    ] = None,
    level: Annotated[
        int | None,
        typer.Option(
            "--validate",
            min=1,
            max=3,
            metavar="LEVEL",
            help="Compare rows afterwards, as `twopc merge validate --level` does.",
        ),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Ask about each conflict.")
    ] = False,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Run one session with each Subscriber: its changes go up, then the Publisher's come down.

    Exit code 1: --fail-on names what happened, or --validate has found rows that differ.
    """
    from twopc.errors import MergeError
    from twopc.sim.cli.exits import exit_code, worst
    from twopc.sim.cli.merge_interactive import ask

    reports: dict[str, MergeReport] = {}
    tables: dict[str, list[TableValidation]] = {}
    errors: dict[str, MergeError] = {}

    async def work(topology: MergeTopology) -> None:
        for name in subscribers or topology.tree.upwards:
            try:
                _refuse_unreachable(topology, name)
                reports[name] = await topology.sync(
                    name, ask=ask if interactive else None, only_upload=only == "upload"
                )
                if level is not None:
                    tables[name] = await topology.validate(name, level=level)
            except MergeError as error:  # sessions with other Subscribers continue
                errors[name] = error
                continue
            if not as_json:
                print(f"{name}: {_wording(reports[name])}", flush=True)
                print_validation(name, tables.get(name, ()))

    with_merge(nodes, work, folder=folder, partly=True)
    codes = [exit_code(error) for error in errors.values()]
    if as_json:
        print_json({name: _document(each, tables.get(name)) for name, each in reports.items()})
    is_failed = _is_failed(reports.values(), fail_on or ())
    is_wrong = any(not each.passed for several in tables.values() for each in several)
    codes.append(SAFETY if is_failed or is_wrong else PASS)
    raise typer.Exit(worst(codes))


def _document(report: MergeReport, tables: Sequence[TableValidation] | None) -> dict[str, Any]:
    """Return a session's report as JSON, with the result of its validation if there was one."""
    compared = {} if tables is None else {"validation": [asdict(each) for each in tables]}
    return asdict(report) | compared


def _refuse_unreachable(topology: MergeTopology, subscriber: str) -> None:
    """Raise `MergeError` if an end of a session is known to be unreachable."""
    from twopc.errors import MergeError

    for end in (topology.tree.publisher_of(subscriber), subscriber):
        if end in topology.wiring.unreachable:
            reason = topology.wiring.unreachable[end]
            raise MergeError(
                f"no session with {subscriber}: node {end!r} cannot be reached: {reason}",
                node=end,
                sqlstate="08001",
            )


def _wording(report: MergeReport) -> str:
    """Return a session's report in one line."""
    parts = [f"uploaded {report.uploaded}, downloaded {report.downloaded}"]
    for count, one, many in (
        (report.conflicts, "conflict", "conflicts"),
        (report.deferred, "row deferred", "rows deferred"),
        (report.rejected, "row rejected", "rows rejected"),
        (report.retried, "row failed, to be tried again", "rows failed, to be tried again"),
    ):
        if count:
            parts.append(f"{count} {one if count == 1 else many}")
    if report.anew:
        parts.append("everything compared: a node was restored from a backup")
    elif report.resumed:
        parts.append("continued a session that was cut off")
    return "; ".join(parts)


def _is_failed(reports: Iterable[MergeReport], conditions: Collection[FailCondition]) -> bool:
    return any(
        (FailCondition.CONFLICT in conditions and report.conflicts)
        or (FailCondition.RETRY in conditions and report.retried)
        for report in reports
    )


def agent(
    subscriber: Subscriber,
    nodes: MergeNodes = None,
    every_s: Annotated[
        float,
        typer.Option("--every", min=0.1, help="Seconds from the end of a session to the next."),
    ] = 60,
    folder: Folder = None,
) -> None:
    """Run sessions with one Subscriber until Ctrl-C or SIGTERM; sessions that bring nothing are not printed."""
    from twopc.sim.agent_processes import stopped_by_signals
    from twopc.sim.merge.agent import keep_merging

    def tell(outcome: MergeReport | MergeError) -> None:
        from twopc.drivers.merge.engine import MergeReport

        if not isinstance(outcome, MergeReport):
            print(f"{subscriber}: {outcome}", file=sys.stderr, flush=True)
        elif outcome != MergeReport():
            print(f"{subscriber}: {_wording(outcome)}", flush=True)

    async def go() -> None:
        async with await attached(nodes, folder, partly=True) as topology:
            stop = stopped_by_signals(lambda: say_running(f"merge agent of {subscriber}"))
            await keep_merging(lambda: topology.sync(subscriber), stop, every_s=every_s, tell=tell)

    asyncio.run(go())


def generations(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Nodes. Default: all.")
    ] = None,
    nodes: MergeNodes = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Number of closed generations of each node.")
    ] = 10,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Show the newest generations of nodes: when each was closed, its changed rows, and who has it."""
    from twopc.sim.merge.generations import read_generations

    async def work(topology: MergeTopology) -> tuple[str, dict[str, list[ShownGeneration]]]:
        return topology.publisher, {
            name: await read_generations(await topology.admin(name), limit=limit)
            for name in names or (topology.publisher, *topology.subscribers)
        }

    publisher, result = with_merge(nodes, work, folder=folder)
    if as_json:
        print_json(result)
        return
    for name, each in result.items():
        print(f"{name}, the Publisher" if name == publisher else name)
        for one in each:
            when = f"closed {one.closed:%Y-%m-%d %H:%M:%S}" if one.closed else "open"
            rows = f"{one.changed_rows} row{'s' * (one.changed_rows != 1)}"
            received = f" ({one.received_rows} received)" if one.received_rows else ""
            sent = f"; {', '.join(one.sent_to)} has it" if len(one.sent_to) == 1 else ""
            sent = f"; {', '.join(one.sent_to)} have it" if len(one.sent_to) > 1 else sent
            print(f"  {one.number or '':>6}  {when:26}  {rows}{received}{sent}")
