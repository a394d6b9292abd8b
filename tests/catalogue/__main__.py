"""Play the shipped scenarios many times, and report cases whose outcome was not always the same.

``python -m tests.catalogue --times 100 [-j 2] [PATH...]`` exits with 3 if a case had several outcomes, with 1 if one
always failed. An outcome is a case's verdict and the fingerprint of its behaviour: how each step ended, which session
waited for which, and the rows at the end. The first history of each outcome is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import defaultdict
from pathlib import Path

from twopc import log
from twopc.sim.report.history import History
from twopc.sim.scenario.check import LoadedScenario, load
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.values import Selection

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".twopc" / "catalogue"

#: Scenario and case → outcome → the rounds in which it occurred.
Seen = dict[tuple[str, str], dict[str, list[int]]]


async def played(files: list[Path], times: int, jobs: int) -> Seen:
    """Play every case of the files `times` times."""
    seen: Seen = defaultdict(lambda: defaultdict(list))
    loaded = [load(path) for path in files]
    async with PostgresTheatre() as theatre:
        for number in range(1, times + 1):
            for each in loaded:
                await _once(each, theatre, number, jobs, seen)
            sys.stderr.write(f"\r{number} of {times}, {unstable(seen)} unstable ")
            sys.stderr.flush()
    sys.stderr.write("\n")
    return seen


async def _once(
    loaded: LoadedScenario, theatre: PostgresTheatre, number: int, jobs: int, seen: Seen
) -> None:
    history = History()
    verdict = await run(loaded, theatre, history, selection=Selection(jobs=jobs, seed=0))
    name = loaded.scenario.name
    is_new = False
    for each in verdict.orders:
        rounds = seen[(name, each.name)][f"{each.kind or 'passed'} {each.behaviour}"]
        is_new = is_new or not rounds
        rounds.append(number)
    if is_new:
        KEPT.mkdir(parents=True, exist_ok=True)
        lines = [record.line() + "\n" for record in history.records]
        (KEPT / f"{name}-{number}.jsonl").write_text("".join(lines), encoding="utf-8")


def unstable(seen: Seen) -> int:
    """Return how many cases had several outcomes."""
    return sum(len(outcomes) > 1 for outcomes in seen.values())


def told(seen: Seen) -> list[str]:
    """Describe each case that had several outcomes, or failed."""
    lines: list[str] = []
    for (scenario, case), outcomes in seen.items():
        if len(outcomes) == 1 and not next(iter(outcomes)).startswith("passed"):
            lines.append(f"{scenario}: {case}: always {next(iter(outcomes))}")
        elif len(outcomes) > 1:
            lines.append(f"{scenario}: {case}:")
            lines += [
                f"    {len(rounds)} times {outcome}, first in round {rounds[0]}: "
                f"{KEPT.relative_to(ROOT)}/{scenario}-{rounds[0]}.jsonl"
                for outcome, rounds in outcomes.items()
            ]
    return lines


def main() -> int:
    """Play, print the results, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.catalogue", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; all if none")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    given = parser.parse_args()
    files = sorted(
        file
        for path in given.paths or [ROOT / "scenarios"]
        for file in (path.rglob("*.twopc.yaml") if path.is_dir() else [path])
        if file == path or file.parent.name != "stress"  # loads are never played the same way twice
    )
    log.configure(level="error", layout="text")  # errors that are expected are not reported
    seen = asyncio.run(played(files, given.times, given.jobs))
    lines = told(seen)
    count = unstable(seen)
    lines.append(
        f"{len(files)} scenarios, {len(seen)} cases, {given.times} times: {count} unstable"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 3 if count else int(len(lines) > 1)


if __name__ == "__main__":
    sys.exit(main())
