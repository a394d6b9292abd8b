"""Play scenarios on servers and on the model, and draw schedules for both; the tests play some of them.

``python -m tests.agreement [PATH...] [--draw N] [--seed S]`` plays every order and twin of the files (the shipped ones
by default), then N random schedules. It exits with 1 if any result differs; a schedule with different results is
written to ``.twopc/agreement`` as a scenario file.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from tests.agreement.bench import Both, races
from tests.agreement.vocabulary import ENDS, SCENARIO, SESSIONS, STEERING, SYNCS, as_file, changes
from twopc import log
from twopc.sim.report.history import History
from twopc.sim.scenario.agree import compare
from twopc.sim.scenario.check import LoadedScenario, load
from twopc.sim.scenario.model import OrderItem
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.stage import Theatre
from twopc.sim.scenario.theatres import played

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".twopc" / "agreement"
_WHERE = ("PostgreSQL", "the model")


def files(paths: list[Path]) -> int:
    """Play the files on both, and return the number of differences."""
    loaded = [
        each
        for path in paths
        for file in (sorted(path.rglob("*.twopc.yaml")) if path.is_dir() else [path])
        if (each := load(file)).scenario.workload is None
    ]
    began = time.perf_counter()
    theirs = played("postgres", _all(loaded, PostgresTheatre()))
    middle = time.perf_counter()
    mine = played("model", _all(loaded, ModelTheatre()))
    end = time.perf_counter()
    wrong = 0
    for each, one, other in zip(loaded, theirs, mine, strict=True):
        for difference in compare(one.records, other.records):
            wrong += 1
            path = each.document.path
            sys.stdout.write(f"{path}: {difference.order}: {difference.text(*_WHERE)}\n")
    sys.stdout.write(
        f"{len(loaded)} files, {wrong} differences; PostgreSQL {middle - began:.1f} s, the model "
        f"{end - middle:.1f} s\n"
    )
    return wrong


async def _all(loaded: list[LoadedScenario], theatre: Theatre) -> list[History]:
    found = []
    async with theatre as stages:
        for each in loaded:
            found.append(History())
            await run(each, stages, found[-1])
    return found


def draw(count: int, seed: int) -> int:
    """Play random schedules on both, and return how many had different results."""
    both, wrong = Both(), 0
    everybody = tuple(OrderItem(step=f"{name}_begin") for name in SESSIONS)
    try:
        for number in range(count):
            items, told = _one(both, random.Random(f"{seed}/{number}"), everybody)
            if told:
                wrong += 1
                KEPT.mkdir(parents=True, exist_ok=True)
                file = KEPT / f"drawn-{seed}-{number}.twopc.yaml"
                file.write_text(as_file(items), encoding="utf-8")
                sys.stdout.write("\n".join([f"{file}:", *(f"    {each}" for each in told)]) + "\n")
                sys.stdout.flush()
    finally:
        both.close()
    sys.stdout.write(f"{count} schedules of seed {seed}, {wrong} came out differently\n")
    return wrong


def _one(
    both: Both, chance: random.Random, everybody: tuple[OrderItem, ...]
) -> tuple[list[OrderItem], list[str]]:
    """Play one schedule, and return its items and the differences."""
    items: list[OrderItem] = []
    both.begin(SCENARIO, everybody)
    standing = dict.fromkeys(SESSIONS, "idle")
    for _ in range(chance.randint(6, 30)):
        free = [name for name, doing in standing.items() if doing in ("idle", "in a transaction")]
        if not free or chance.random() < 0.06:
            item = OrderItem(sync=chance.choice([("sub1",), ("sub2",), SYNCS]))
        else:
            name = chance.choice(free)
            item = OrderItem(step=f"{name}_{_word(chance, standing[name])}")
        items.append(item)
        theirs, mine = both.item(item)
        if theirs != mine:
            both.leave()
            return items, [f"PostgreSQL: {theirs}", f"the model: {mine}"]
        if races(theirs):
            both.leave()
            return items, []
        standing = theirs
    return items, [each.text(*_WHERE) for each in both.end()]


def _word(chance: random.Random, doing: str) -> str:
    words = [word for word, _ in changes()]
    drawn = chance.random()
    if doing == "idle":
        return "begin" if drawn < 0.6 else chance.choice(words)
    if drawn < 0.15:
        return chance.choice([*STEERING])
    return chance.choice([*ENDS, "commit", "commit"]) if drawn < 0.3 else chance.choice(words)


def main() -> int:
    """Play, print the differences, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.agreement", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders; all if none")
    parser.add_argument("--draw", type=int, default=0, help="random schedules, so many")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    log.configure(level="error", layout="text")  # errors that are expected are not reported
    wrong = 0
    if given.paths or not given.draw:
        wrong += files(given.paths or [ROOT / "scenarios"])
    if given.draw:
        wrong += draw(given.draw, given.seed)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
