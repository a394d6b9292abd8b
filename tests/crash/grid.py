"""The whole crash matrix, cell by cell: ``python -m tests.crash.grid``.

Prints each cell that is broken as soon as it is, with the command that plays it again, and a table of all
at the end. Without options it takes about an hour.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import quantiles

import psycopg

from tests.crash.cells import (
    KINDS,
    Cell,
    Kind,
    Place,
    Result,
    clean_recovery,
    clean_run,
    length_of,
    play,
    play_cut,
)
from tests.crash.faults import FAULTS, KILLED, SERVERS_KILLED
from tests.crash.program import COMMIT, WORKED
from tests.crash.rig import Rig

_SAY_EVERY = 100
#: Faults of single sessions are told apart by the driver, not by the variant: two are enough.
_VARIANTS_OF = {"M5": ("presumed_abort", "last_agent"), "M6": ("presumed_abort", "last_agent")}


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell that can be played."""

    name: str
    play: Callable[[], Result]


def entries(rig: Rig, kinds: tuple[Kind, ...]) -> Iterator[Entry]:
    """Every cell of these kinds, derived from clean runs of each."""
    for kind in kinds:
        places, clean = clean_run(rig, kind)
        yield Entry(clean.cell, partial(_same, clean))
        for cut in range(1, length_of(rig, kind) + 1):
            yield Entry(f"M1 cut {cut} | {kind}", partial(play_cut, rig, kind, cut))
        if kind.ending != COMMIT:  # up to here all endings are alike
            places = places[places.index(Place(point=WORKED)) :]
        cells = [Cell(kind=kind, place=place, fault=fault) for place in places for fault in FAULTS]
        for cell in itertools.chain(cells, recovery_cells(rig, kind, places)):
            if kind.commit in _VARIANTS_OF.get(cell.row, (kind.commit,)):
                yield Entry(str(cell), partial(play, rig, cell))


def _same(result: Result) -> Result:
    return result


def recovery_cells(rig: Rig, kind: Kind, places: list[Place]) -> Iterator[Cell]:
    """Faults in recovery, after the coordinator was killed: once for each state that this may leave."""
    left: set[tuple[int, str]] = set()
    for first in places:
        if not first.point.startswith("coordinator."):
            continue
        result = play(rig, Cell(kind=kind, place=first))
        state = (result.found_prepared, result.outcome)
        if not result.found_prepared or state in left:
            continue
        left.add(state)
        for place in clean_recovery(rig, kind, first):
            for fault in (KILLED, *SERVERS_KILLED):
                yield Cell(kind=kind, place=place, fault=fault, first=first)


@dataclass(slots=True)
class Tally:
    """The figures of some cells."""

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
        """The figures as cells of a table."""
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
    parser = argparse.ArgumentParser(prog="python -m tests.crash.grid", description=__doc__)
    parser.add_argument("--cell", default="", help="play only cells whose name contains this")
    parser.add_argument("--commit", default="", help="play only this variant")
    parser.add_argument("--csv", type=Path, help="write every cell to this file")
    parser.add_argument("--every", type=int, default=1, help="play only every n-th cell")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Play the grid; returns 1 if a cell is broken."""
    options = _options(arguments)
    kinds = tuple(kind for kind in KINDS if options.commit in ("", kind.commit))
    tallies: dict[tuple[str, str], Tally] = {}
    results: list[Result] = []
    began = time.monotonic()
    with Rig() as rig, suppress(KeyboardInterrupt):  # what was played is reported
        for number, entry in enumerate(entries(rig, kinds)):
            if options.cell not in entry.name or number % options.every:
                continue
            result = _played(rig, entry)
            results.append(result)
            variant = next(kind.commit for kind in kinds if f"| {kind.commit}," in f"{entry.name},")
            tallies.setdefault((result.row, variant), Tally()).add(result)
            if len(results) % _SAY_EVERY == 0:
                minutes = (time.monotonic() - began) / 60
                sys.stderr.write(f"{len(results)} cells in {minutes:.1f} min\n")
            if result.broken:
                _say(f"BROKEN {result.cell}", *(f"    {what}" for what in result.broken))
                _say(f"    again: python -m tests.crash.grid --cell '{result.cell}'")
    _report(tallies, results, time.monotonic() - began)
    if options.csv:
        _write(options.csv, results)
    return int(any(result.broken for result in results))


def _played(rig: Rig, entry: Entry) -> Result:
    """Play a cell; one that cannot be played to its end is broken, and the next one is not its victim."""
    try:
        return entry.play()
    except (AssertionError, TimeoutError, psycopg.Error) as error:
        rig.up()
        return Result(cell=entry.name, row=entry.name.split()[0], broken=(f"{error!r}",))


def _report(tallies: dict[tuple[str, str], Tally], results: list[Result], seconds: float) -> None:
    _say(_HEAD)
    total = Tally()
    for (row, variant), tally in sorted(tallies.items()):
        _say(f"{row:5} {variant:17} {tally.line()}")
    for result in results:
        total.add(result)
    _say(f"{'all':5} {'':17} {total.line()}", f"{seconds:.0f} s")


def _write(path: Path, results: list[Result]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = (
            "row",
            "cell",
            "struck",
            "answer",
            "outcome",
            "found_prepared",
            "recovery_s",
            "broken",
        )
        writer.writerow(names)
        for result in results:
            writer.writerow([getattr(result, name) for name in names])


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
