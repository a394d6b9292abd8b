"""The whole crash matrix, cell by cell: ``python -m tests.grid``.

Prints each broken cell immediately, with the command that plays it again, and a table of all cells
at the end; writes every cell as CSV and as a page. Each process has its own servers.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from tests.grid.cells import KINDS, Result
from tests.grid.jobs import Spec, serve, together
from tests.grid.rows import ELSEWHERE
from twopc.sim.faults.matrix_page import Square, write_csv, write_page
from twopc.sim.faults.matrix_pool import ProcessPool

_SAY_EVERY = 100


@dataclass(slots=True)
class Tally:
    """Totals of some cells."""

    played: int = 0
    nothing_to_strike: int = 0
    broken: int = 0
    committed: int = 0
    in_doubt: int = 0
    found_prepared: int = 0
    recovery_s: list[float] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Count one cell."""
        self.played += 1
        self.nothing_to_strike += not result.struck
        self.broken += bool(result.broken)
        self.committed += result.outcome == "committed"
        self.in_doubt += result.answer == "in_doubt"
        self.found_prepared += bool(result.found_prepared)
        if result.found_prepared:
            self.recovery_s.append(result.recovery_s)

    def line(self) -> str:
        """Return the totals as cells of a table."""
        times = sorted(self.recovery_s)
        p50, p99, most = (
            (quantiles(times, n=100)[49], quantiles(times, n=100)[98], times[-1])
            if len(times) > 1
            else (times * 3 or [0.0] * 3)
        )
        return (
            f"{self.played:6} {self.broken:6} {self.nothing_to_strike:6} {self.committed:9}"
            f" {self.played - self.committed:7} {self.in_doubt:8} {self.found_prepared:8}"
            f" {p50:6.2f} {p99:6.2f} {most:6.2f}"
        )


_HEAD = (
    f"{'row':5} {'variant':17} {'cells':>6} {'broken':>6} {'n/a':>6} {'committed':>9} {'aborted':>7}"
    f" {'in doubt':>8} {'prepared':>8} {'p50 s':>6} {'p99 s':>6} {'max s':>6}"
)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.grid", description=__doc__)
    parser.add_argument("--cell", default="", help="play only cells whose name contains this")
    parser.add_argument("--commit", default="", help="play only this variant")
    parser.add_argument("--csv", type=Path, help="write every cell to this file")
    parser.add_argument("--html", type=Path, help="write a page with all of them to this file")
    parser.add_argument("--every", type=int, default=1, help="play only every n-th cell")
    parser.add_argument(
        "-j", "--jobs", type=int, default=os.cpu_count() or 1, help="so many processes"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Play the grid; return 1 if a cell is broken."""
    options = _options(arguments)
    kinds = [
        kind
        for kind in KINDS
        if options.commit in ("", kind.commit)
        and (" | " not in options.cell or str(kind) in options.cell)
    ]
    results: list[tuple[Spec, Result]] = []
    began = time.monotonic()
    with ProcessPool(serve, options.cell, options.jobs) as pool:
        found = dict(pool.results(kinds))
        every = [spec for kind in kinds for spec in found[kind]]
        wanted = [spec for spec in every if options.cell in str(spec)][:: options.every]
        _say(f"{len(wanted)} of {len(every)} cells, {options.jobs} processes")
        try:
            for specs, answers in pool.results(together(wanted)):
                before = len(results)
                results += zip(specs, answers, strict=True)
                for _, result in results[before:]:
                    if result.broken:
                        _say(f"BROKEN {result.cell}", *(f"    {what}" for what in result.broken))
                        _say(f"    again: {_again(result.cell)}")
                if len(results) // _SAY_EVERY > before // _SAY_EVERY:
                    minutes = (time.monotonic() - began) / 60
                    sys.stderr.write(f"{len(results)} cells in {minutes:.1f} min\n")
        except KeyboardInterrupt:
            sys.stderr.write("interrupted: what was played is reported\n")
    seconds = time.monotonic() - began
    order = {spec: place for place, spec in enumerate(wanted)}
    results.sort(key=lambda pair: order[pair[0]])
    _report(results, seconds)
    squares = [square_of(spec, result) for spec, result in results]
    if options.csv:
        write_csv(options.csv, squares)
    if options.html:
        title = "Two-phase commit: the crash matrix"
        write_page(
            options.html,
            title=title,
            squares=squares,
            seconds=seconds,
            missing=[*ELSEWHERE.items()],
        )
    return int(any(result.broken for _, result in results))


def square_of(spec: Spec, result: Result) -> Square:
    """Return a cell as the page shows it."""
    column = "between any two steps" if spec.cut else "nowhere"
    return Square(
        row="no fault" if spec.row == "-" else f"{spec.row} {spec.fault or 'the coordinator'}",
        column=str(spec.place) if spec.place is not None else column,
        name=result.cell,
        state="broken" if result.broken else "ok" if result.struck else "empty",
        outcome=f"{result.outcome}, answered {result.answer or 'nothing'}",
        seconds=result.recovery_s,
        broken=result.broken,
        command=_again(result.cell),
    )


def _again(name: str) -> str:
    return f"python -m tests.grid --cell {shlex.quote(name)}"


def _report(results: list[tuple[Spec, Result]], seconds: float) -> None:
    tallies: dict[tuple[str, str], Tally] = {}
    total = Tally()
    for spec, result in results:
        tallies.setdefault((result.row, spec.kind.commit), Tally()).add(result)
        total.add(result)
    _say(_HEAD)
    for (row, variant), tally in sorted(tallies.items()):
        _say(f"{row:5} {variant:17} {tally.line()}")
    _say(f"{'all':5} {'':17} {total.line()}", f"{seconds:.0f} s")


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
