"""``twopc merge snapshot``: write snapshots in files, and show an agent's progress with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twopc.sim.cli.merge_place import MergeNodes, print_json, with_merge
from twopc.sim.cli.place import Folder, Json, shown

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.merge.delivery import InitialisationReport
    from twopc.sim.merge.snapshot_agent import SnapshotReport, Tell

SnapshotLocation = Annotated[
    Path | None,
    typer.Option(
        "--snapshot",
        metavar="FOLDER",
        help="The folder of the snapshot to begin with. Default: the newest known, or the Publisher's tables.",
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="HOST_NAME",
        help="Partition of a filtered publication. Repeatable. Default there: the tables without rows.",
    ),
]
OnDemand = Annotated[
    bool | None,
    typer.Option(
        "--on-demand/--no-on-demand",
        help="Whether a snapshot is made for a Subscriber that has none. Default: unchanged.",
    ),
]


def snapshot(
    nodes: MergeNodes = None,
    where: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="FOLDER",
            help="Folder to write to. Default: that of the last snapshot.",
        ),
    ] = None,
    hosts: Hosts = None,
    login: Annotated[
        str | None, typer.Option("--login", help="The partition's login, if filters use the login.")
    ] = None,
    publisher: Annotated[
        str | None,
        typer.Option("--at", metavar="NODE", help="The republisher. Default: the Publisher."),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of connections that read at the same time.")
    ] = 1,
    data_format: Annotated[
        Literal["text", "binary"],
        typer.Option(
            "--format",
            help="Format of rows; binary loads faster, but only into servers of the same major version.",
        ),
    ] = "text",
    on_demand: OnDemand = None,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Write the initial tables and rows of Subscribers to files (the Snapshot Agent).

    After an interruption the same command continues with the next file.
    """
    values: list[str | None] = [*hosts] if hosts else [None]

    async def work(topology: MergeTopology) -> list[SnapshotReport]:
        reports = []
        for host_name in values:
            with files_counted("snapshot" if host_name is None else host_name) as tell:
                reports.append(
                    await topology.snapshot(
                        where,
                        publisher=publisher,
                        host_name=host_name,
                        login=login,
                        jobs=jobs,
                        data_format=data_format,
                        tell=tell,
                    )
                )
        if on_demand is not None:
            await topology.let_subscribers_start_snapshots(on_demand)
        return reports

    reports = with_merge(nodes, work, folder=folder)
    if as_json:
        print_json(reports)
        return
    for report in reports:
        kept = f", {report.kept} were there" if report.kept else ""
        what = f"{report.rows} row{'s' * (report.rows != 1)}"
        if report.generation is None:
            what = "the tables are described; --partition HOST_NAME writes rows"
        print(f"{report.location}: {report.files} files written{kept}; {what}")


def source_of(report: InitialisationReport) -> str:
    """Return a text about the files from which a Subscriber was initialised; empty if there are none."""
    if report.location is None:
        return ""
    kept = f", {report.kept} were there" if report.kept else ""
    return f"; {report.files} files of {report.location}{kept}"


@contextmanager
def files_counted(title: str) -> Iterator[Tell]:
    """Yield a function that is called after each file: it draws a bar on a terminal, else prints a line per file."""
    title = shown(title)
    if not sys.stderr.isatty():
        yield lambda done, total, name: print(
            f"{title}: {done}/{total} {name}", file=sys.stderr, flush=True
        )
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from twopc.sim.report import terminal

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[name]}", markup=False),
    )
    with Progress(*columns, console=terminal.console(sys.stderr), transient=True) as bars:
        task = bars.add_task(title, total=None, name="")
        yield lambda done, total, name: bars.update(task, completed=done, total=total, name=name)
