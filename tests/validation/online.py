"""Validations during a workload: none may raise a false alarm, and every row must be decided.

``python -m tests.validation.online --validations 1000 --seed 1`` counts them; the tests run a few.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from tests.loopback.workload import TABLE_NAMES, Ledger, make, play
from tests.validation.ends import ends
from twopc.sim.topology import Topology
from twopc.sim.validation import validate
from twopc.validation import ArticleVerdict


@dataclass(slots=True)
class Outcome:
    """The results of a run."""

    validations: int = 0
    """Validations of one subscription each, with all its tables."""
    alarms: list[ArticleVerdict] = field(default_factory=list)
    undecided: int = 0
    """Rows that were changed at every look."""
    looks: int = 0
    rows: int = 0
    ledger: Ledger = field(default_factory=Ledger)

    def take(self, found: list[ArticleVerdict]) -> None:
        """Add the results of one validation."""
        self.validations += 1
        self.looks += found[0].looks
        for verdict in found:
            self.rows += verdict.actual.rows
            self.undecided += len(verdict.undecided)
            if not verdict.passed:
                self.alarms.append(verdict)


class _EnoughError(Exception):
    """Raised in the writers when the validations are done, to stop them."""


async def run(topology: Topology, *, validations: int, seed: str, streams: int = 1) -> Outcome:
    """Validate each Subscriber in turn while clients of every node write.

    Raises:
        AssertionError: a validation found rows that differ.
    """
    outcome = Outcome()
    await make(topology, streams=streams)
    await topology.start_agents()
    done = asyncio.Event()

    async def between(_: int) -> None:
        if done.is_set():
            raise _EnoughError

    async def judge() -> None:
        try:
            for subscriber in itertools.islice(itertools.cycle(topology.subscribers), validations):
                outcome.take(await validate(ends(topology, subscriber)))
                assert not outcome.alarms, [each.named() for each in outcome.alarms]
                if outcome.validations % 100 == 0:
                    sys.stderr.write(f"{outcome.validations} validations\n")
        finally:
            done.set()

    judging = asyncio.create_task(judge())
    try:
        await play(topology, outcome.ledger, transactions=10**9, seed=seed, between=between)
    except* _EnoughError:
        pass
    finally:
        await judging
        await topology.stop_agents()
    return outcome


async def main(subscribers: int, **options: Any) -> Outcome:
    """Run on temporary servers."""
    names = [f"sub{number}" for number in range(1, subscribers + 1)]
    async with Topology(subscribers=names) as topology:
        return await run(topology, **options)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--validations", type=int, default=1000)
    parser.add_argument("--subscribers", type=int, default=2)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--streams", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    ended = asyncio.run(main(**vars(given)))
    sys.stdout.write(
        f"{ended.validations} validations of {len(TABLE_NAMES)} tables in {time.monotonic() - began:.0f} s, "
        f"{ended.rows} rows, {ended.looks} looks: {len(ended.alarms)} false alarms, "
        f"{ended.undecided} rows undecided; meanwhile {ended.ledger.transactions} transactions, "
        f"{ended.ledger.rejected} rejected\n"
    )
