"""``twopc run``: play scenario files on real servers."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sim.cli.exits import ENVIRONMENT, INTERNAL, INTERRUPTED, NOTHING, UNREAD, USAGE, worst

if TYPE_CHECKING:
    from rich.console import Console

    from sim.report.history import Record
    from sim.report.run_files import RunFiles
    from sim.scenario.check import Loaded
    from sim.scenario.expect import OrderVerdict
    from sim.scenario.model import Order


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    order: str
    matches: Callable[[str], bool]
    timeout_ms: int | None
    out: Path | None
    as_json: bool
    timeline: bool
    servers: str
    dsns: dict[str, str]
    keep: bool


def run(
    paths: Annotated[list[Path], typer.Argument(help="Scenario files, or folders of them.")],
    order: Annotated[str, typer.Option(help="Play only the order of this name.")] = "",
    k: Annotated[
        str,
        typer.Option(
            "-k",
            metavar="EXPR",
            help="Play only orders whose 'scenario::order' matches, as in pytest.",
        ),
    ] = "",
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long a step may take, as 500ms or 30s.")
    ] = "",
    keep: Annotated[
        bool, typer.Option(help="Keep the databases for a look, until Ctrl-C.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where runs are written (.twopc/runs).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    timeline: Annotated[
        bool | None, typer.Option(help="Show what happened when; on for a single file.")
    ] = None,
    servers: Annotated[
        Literal["one", "each"], typer.Option(help="One embedded server, or one for each node.")
    ] = "one",
    dsn: Annotated[
        list[str] | None, typer.Option(metavar="NODE=DSN", help="A server that runs already.")
    ] = None,
) -> None:
    """Play scenarios on real PostgreSQL servers and check what they claim."""
    from sim.cli.files import scenario_files, selector
    from sim.scenario.check import load

    files = scenario_files(paths)
    options = _Options(
        order=order,
        matches=selector(k) if k else lambda _: True,
        timeout_ms=_duration_ms(timeout) if timeout else None,
        out=out,
        as_json=as_json,
        timeline=len(files) == 1 if timeline is None else timeline,
        servers=servers,
        dsns=_dsns(dsn or []),
        keep=keep,
    )
    loaded = [load(path) for path in files]
    for each in loaded:
        if each.document.problems:
            print(each.document.report(), file=sys.stderr)
    try:
        raise typer.Exit(asyncio.run(_run(loaded, options)))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


def _duration_ms(text: str) -> int:
    from sim.scenario.parts import duration_ms

    try:
        return duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--timeout") from error


def _dsns(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        node, equals, dsn = each.partition("=")
        if not equals or not node or not dsn:
            raise typer.BadParameter("write NODE=DSN", param_hint="--dsn")
        found[node] = dsn
    return found


async def _run(loaded: Sequence[Loaded], options: _Options) -> int:
    from sim.report import terminal
    from sim.scenario.postgres_stage import PostgresTheatre

    chosen = [(each, _chosen(each, options)) for each in loaded]
    if not any(orders for _, orders in chosen):
        print("nothing selected: no order has that name or matches", file=sys.stderr)
        return NOTHING
    console = terminal.console(sys.stderr if options.as_json else None)
    codes: list[int] = []
    theatre = PostgresTheatre(servers=options.servers, dsns=options.dsns, keep=options.keep)
    async with theatre:
        for each, orders in chosen:
            if orders:
                codes.append(await _run_one(each, orders, theatre, options, console))
        if theatre.kept:
            await _keep(theatre.kept)
    return worst(codes)


async def _keep(kept: Sequence[tuple[str, str, str]]) -> None:
    """Say where the databases are, and leave them alone until we are interrupted."""
    for order, node, dsn in kept:
        print(f'{order}: {node}: psql "{dsn}"', file=sys.stderr)
    print("kept until Ctrl-C", file=sys.stderr)
    enough = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, enough.set)
    await enough.wait()


def _chosen(loaded: Loaded, options: _Options) -> list[Order]:
    name = loaded.scenario.name
    return [
        order
        for order in loaded.scenario.orders
        if options.order in ("", order.name) and options.matches(f"{name}::{order.name}")
    ]


async def _run_one(
    loaded: Loaded, orders: list[Order], theatre: Any, options: _Options, console: Console
) -> int:
    from sim.report import terminal
    from sim.report.history import History
    from sim.report.run_files import RunFiles
    from sim.report.verdict import EXIT_CODES
    from sim.scenario.run import run as play

    scenario = loaded.scenario
    terminal.head(
        console,
        loaded.document.path,
        scenario.about if options.timeline else "",
        scenario.topology.nodes,
    )
    began = time.monotonic()
    with RunFiles.create(scenario.name, options.out) as files:
        show = _Show(loaded, options, console, files)
        try:
            verdict = await play(
                loaded,
                theatre,
                History(files.history),
                orders=orders,
                step_timeout_ms=options.timeout_ms,
                listener=show.order,
            )
        except (Exception, asyncio.CancelledError) as error:
            files.write_verdict(_broken(loaded, error))
            raise
        told = verdict.as_json()
        files.write_verdict(told)
    if options.as_json:
        print(json.dumps({**told, "directory": str(files.directory)}, ensure_ascii=False))
    terminal.total(
        console,
        passed=told["counts"]["passed"],
        failed=told["counts"]["failed"],
        elapsed_s=time.monotonic() - began,
        invariants=" ".join(told["invariants"]),
    )
    return EXIT_CODES[verdict.kind]


def _broken(loaded: Loaded, error: BaseException) -> dict[str, Any]:
    """The verdict of a run that could not begin, or was not let end."""
    from twopc.errors import ConfigurationError, ScenarioError

    kind, code = "internal", INTERNAL
    if isinstance(error, ConfigurationError):
        kind, code = "environment", ENVIRONMENT
    elif isinstance(error, ScenarioError):
        kind, code = "scenario", USAGE
    elif isinstance(error, asyncio.CancelledError):
        kind, code = "interrupted", INTERRUPTED
    elif isinstance(error, BrokenPipeError):
        kind, code = "unread", UNREAD
    return {
        "schema": 1,
        "scenario": loaded.scenario.name,
        "file": loaded.document.path,
        "verdict": "error",
        "kind": kind,
        "exit_code": code,
        "message": str(error) or kind,
    }


class _Show:
    """Prints each order as it is over."""

    def __init__(
        self, loaded: Loaded, options: _Options, console: Console, files: RunFiles
    ) -> None:
        self._loaded = loaded
        self._options = options
        self._console = console
        self._files = files

    def order(self, order: Order, verdict: OrderVerdict, records: Sequence[Record]) -> None:
        from sim.report import terminal
        from sim.report.timeline import draw
        from sim.report.timeline import timeline as timeline_of
        from sim.scenario.run import reproduce

        terminal.order_line(
            self._console,
            order.name,
            passed=not verdict.kind,
            unknown=verdict.kind == "unknown",
            notes="; ".join(verdict.notes),
            elapsed_us=verdict.elapsed_us,
        )
        document = self._loaded.document
        for failure in verdict.failures:
            mark = document.mark(failure.path)
            terminal.failure(
                self._console,
                f"{document.path}:{mark.line}:{mark.column}",
                document.excerpt(mark),
                failure.message,
            )
        if self._options.timeline or verdict.failures:
            terminal.remark(self._console, order.about)
            draw(timeline_of(records), self._console)
        if verdict.failures:
            directory = str(self._files.directory)
            terminal.again(self._console, reproduce(self._loaded, order.name), directory)
