"""Plays runs of generated programs, and compares what their events use with the notifications of the search.

python -m tests.explore.footprints --first 0 --count 200     # conflicts, and places that no run shows to be needed
python -m tests.explore.footprints 12.0 1007.1               # these runs: seed of the program, number of the draw

`--json` prints the results as JSON; `--cover` prints the fewest runs that show what all have shown.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence

from tests.explore.footprints.benign import BENIGN
from tests.explore.footprints.install import install
from tests.explore.footprints.places import places


def _cover(shown: Mapping[str, Sequence[str]]) -> list[str]:
    """Return few runs of which each place needs one: the run of the most places first."""
    left, chosen = {place: {*runs} for place, runs in shown.items()}, list[str]()
    for place, runs in shown.items():
        if len(runs) == 1 and place in left:
            chosen.append(runs[0])
            left = {one: those for one, those in left.items() if runs[0] not in those}
    while left:
        counts: dict[str, int] = {}
        for those in left.values():
            for run in those:
                counts[run] = counts.get(run, 0) + 1
        best = max(counts, key=lambda run: (counts[run], run))
        chosen.append(best)
        left = {place: those for place, those in left.items() if best not in those}
    return chosen


def main() -> int:
    """Print the results; 1 if there is a conflict."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cover", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    install()
    from tests.explore.footprints.runs import survey  # the model: only now

    seeds = range(given.first, given.first + given.count)
    names = [*given.runs, *(f"{seed}.{draw}" for seed in seeds for draw in range(given.draws))]
    found = survey(names)
    results = found.as_json()
    if given.json:
        sys.stdout.write(json.dumps(results))
    else:
        unshown = [one for one in places().names if one not in found.shown]
        lines = [*results["conflicts"], f"{len(results['conflicts'])} conflicts"]
        lines += [
            f"{'not shown' if one in found.reached else 'not reached'}: {one}" for one in unshown
        ]
        lines += [f"no run needs: {one}" for one in BENIGN if one not in found.needed]
        sys.stdout.write("\n".join([*lines, f"{len(found.shown)} places are shown\n"]))
    if given.cover:
        sys.stdout.write(f"{' '.join(_cover(found.shown))}\n")
    return min(1, len(found.conflicts))


if __name__ == "__main__":
    sys.exit(main())
