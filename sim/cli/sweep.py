"""``twopc sweep``: play a scenario on the model over a grid of values and seeds, distributed over Spark's cores."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.exits import INTERRUPTED, NOTHING
from twopc.sim.cli.options import File, OrderName, Progress, seeds
from twopc.sim.cli.spark_options import Json, SparkFlags, begun

if TYPE_CHECKING:
    from twopc.sim.scenario.text import Document
    from twopc.sim.spark.session import SparkOptions
    from twopc.sim.spark.sweep.grid import Point
    from twopc.sim.spark.sweep.results import Results, SweepRequest
    from twopc.sim.spark.sweep.run import Listener
    from twopc.sim.spark.sweep.summary import Summary

_ROOT = Path(".twopc/sweeps")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Options of ``twopc sweep``."""

    file: File
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=V1,V2",
            help="Values of a key, as in a matrix. Repeatable.",
        ),
    ] = None
    seeds: Annotated[str, typer.Option(metavar="A..B", help="Seeds for each point.")] = "1..20"
    order: OrderName = ""
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Maximum number of trials of a task.")
    ] = 8
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for results. Default: .twopc/sweeps/NAME-GRID."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue; trials with results are not run again.")
    ] = False
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots.")] = True
    as_json: Json = False
    progress: Progress = "auto"
    spark: SparkFlags

    @property
    def command(self) -> str:
        """Command line that plays the same trials."""
        words = ["twopc", "sweep", str(self.file)]
        for each in self.sets or ():
            words += ["--set", each]
        words += ["--seeds", self.seeds]
        words += ["--order", self.order] if self.order else []
        words += ["--out", str(self.out)] if self.out is not None else []
        return shlex.join(words)


@command
def sweep(options: SweepOptions) -> None:
    """Simulate a scenario over a grid of values and seeds.

    Each trial is a run on the model, in virtual time. The report merges the measurements of all seeds of a point.
    """
    from twopc.sim.spark.sweep import grid
    from twopc.sim.spark.sweep.results import Results, asked, folder
    from twopc.sim.spark.sweep.run import playable

    spark = options.spark.options()
    numbers = seeds(options.seeds)
    if str(options.file) == "-":
        raise typer.BadParameter(
            "a sweep needs a file: its trials can be played again", param_hint="FILE"
        )
    document = grid.read(str(options.file))
    points = grid.parse_grid(options.sets or ())
    if not points or not numbers:
        what = f"no seeds in {options.seeds}" if points else "a key without values"
        print(f"nothing to play: {what}", file=sys.stderr)
        raise typer.Exit(NOTHING)
    if not playable(document, points, options.order):
        print(f"nothing selected: no order has the name '{options.order}'", file=sys.stderr)
        raise typer.Exit(NOTHING)
    about = asked(document, points, options.order)
    where = options.out or folder(_ROOT, about, resume=options.resume)
    results = Results(where, about, resume=options.resume)
    began = time.perf_counter()
    whole = _play(spark, document, points, numbers, results, options)
    text = _SweepSummary(
        points=points, about=about, results=results, expected=len(points) * len(numbers),
        seconds=time.perf_counter() - began, options=options,
    )  # fmt: skip
    code = text.tell()
    if not whole:
        print(f"interrupted; go on by: {options.command} --resume", file=sys.stderr)
    raise typer.Exit(code if whole else INTERRUPTED)


def _play(
    options: SparkOptions, document: Document, points: Sequence[Point], seeds: range,
    results: Results, how: SweepOptions,
) -> bool:  # fmt: skip
    """Play the remaining trials. Return False if the user interrupted them."""
    from twopc.sim.spark.sweep.run import sweep as play
    from twopc.sim.spark.sweep.run import write_repro

    requested = {(each.number, seed) for each in points for seed in seeds}
    try:
        if requested - results.finished():  # otherwise Spark is not needed
            with begun(options, quiet=how.progress == "json") as spark:
                play(
                    spark, document, points, seeds, results,
                    order=how.order, batch=how.batch, listener=_listener(how.progress),
                )  # fmt: skip
    except KeyboardInterrupt:
        return False
    finally:
        write_repro(document, points, results)
    return True


def _listener(progress: str) -> Listener | None:
    """Return a function that shows the progress: in one line on a terminal, or as lines of JSON; None: no output."""
    if progress == "json":
        return lambda done, whole: print(
            json.dumps({"event": "sweep", "done": done, "trials": whole}),
            file=sys.stderr,
            flush=True,
        )
    if progress == "auto" and sys.stderr.isatty():
        return lambda done, whole: print(
            f"\r{done:,} of {whole:,} trials", end="\n" if done == whole else "", file=sys.stderr, flush=True
        )  # fmt: skip
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SweepSummary:
    """Final output of a sweep."""

    points: Sequence[Point]
    about: SweepRequest
    results: Results
    expected: int
    seconds: float
    options: SweepOptions

    def tell(self) -> int:
        """Print the summary; return the exit code."""
        from twopc.sim.spark.sweep.summary import summarised

        summary = summarised(self.points, self.results.rows(), expected=self.expected)
        if self.options.plots and summary.trials:
            from twopc.sim.spark.sweep.plots import write_page, write_plots
            from twopc.sim.workload.plots import NO_PLOTS, is_drawable

            pictures = write_plots(summary, self.results.path) if is_drawable() else []
            if not pictures:
                print(f"  {NO_PLOTS}", file=sys.stderr)
            write_page(summary, self.about, pictures, self.results.path / "sweep.html")
        if self.options.as_json:
            print(json.dumps(self._json(summary), ensure_ascii=False))
        else:
            self._lines(summary)
        return summary.exit_code

    def _json(self, summary: Summary) -> dict[str, Any]:
        return {
            "command": "sweep",
            "scenario": self.about.scenario,
            "file": self.about.file,
            "counts": {"trials": summary.trials, "failed": summary.failed, "missing": summary.missing},
            "points": [each.as_json() for each in summary.points],
            "failures": list(summary.failures),
            "left_out": summary.failed - len(summary.failures),
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(summary.cpu_s, 3),
            "directory": str(self.results.path),
            "exit_code": summary.exit_code,
            "repro": self.options.command,
        }  # fmt: skip

    def _lines(self, summary: Summary) -> None:
        from twopc.sim.spark.sweep.summary import table

        for line in table(summary):
            print(f"  {line}")
        for each in summary.failures:
            text = f"{each['kind']}: {each['failure']}".splitlines()[0]
            print(f"  ✗ {each['parameters']} seed {each['seed']}  {text}")
            print(f"    again: {each['repro']}")
        if summary.failed > len(summary.failures):
            print(f"  and {summary.failed - len(summary.failures):,} more, in the results")
        if summary.missing:
            print(f"  {summary.missing:,} of {self.expected:,} trials were not played")
        what = "table, plots and rows" if self.options.plots else "rows"
        print(
            f"  {summary.trials:,} trials in {self.seconds:.0f} s, {summary.cpu_s:.0f} s of work · {what}: "
            f"{self.results.path}"
        )
