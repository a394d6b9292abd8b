"""Every order of a scenario's sessions with one thing that goes wrong, for each kind: how many there are.

python -m tests.explore.exhausted FILE [KIND …]

Minutes, by two processes; without kinds it takes those that `twopc search` takes.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys
from pathlib import Path

import structlog

from twopc.sim.model.explore.results import Budget, SearchFigures
from twopc.sim.model.explore.search import exhaust
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.check import load
from twopc.sim.scenario.search_program import script_of

KINDS = ("coordinator", "publisher", "subscriber", "log")


def explored(file: str, kind: str) -> SearchFigures:
    """One kind."""
    return exhaust(script_of(load(Path(file))), Wiring(), Budget(of=(kind,)))


def _quiet() -> None:
    """What the product warns of in so many runs nobody reads."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


def main(file: str, *kinds: str) -> int:
    """A line of Markdown for each kind; 1 if something is broken."""
    tasks = [(file, kind) for kind in kinds or KINDS]
    bad = 0
    with multiprocessing.get_context("spawn").Pool(2, _quiet) as pool:
        for (_, kind), found in zip(tasks, pool.starmap(explored, tasks, 1), strict=True):
            bad += found.broken is not None
            why = "" if found.broken is None else f" {', '.join(found.broken.invariants)}: broken |"
            sys.stdout.write(
                f"| {kind} | {found.orders:,} | {found.runs:,} | {found.crash_points:,} "
                f"| {len(found.endings)} | {found.seconds:.0f} s |{why}\n"
            )
            sys.stdout.flush()
    return min(1, bad)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
