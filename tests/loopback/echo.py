"""The echo test: no change is delivered to the Subscriber that made it, and every change to all others.

``python -m tests.loopback.echo --transactions 100000 --subscribers 4 --seed 1`` runs randomised
transactions at every Subscriber and at the Publisher, with rollbacks, savepoints and changes of
keys, while agents and the log reader are stopped and started. The changes that agents deliver are
counted by triggers at the Subscribers. The test suite runs a few hundred transactions.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from tests.loopback.count import Delivered, count
from tests.loopback.workload import TABLE_NAMES, Ledger, make, play
from twopc.sim.topology import Topology


@dataclass(slots=True)
class Outcome:
    """The outcome of a run."""

    ledger: Ledger = field(default_factory=Ledger)
    delivered: list[Delivered] = field(default_factory=list)
    restarts: int = 0

    @property
    def passed(self) -> bool:
        """Whether no change was echoed, and each other change arrived exactly once."""
        return all(each.passed for each in self.delivered)


class Restarts:
    """Stops agents and the log reader during their work, and starts them again."""

    def __init__(self, topology: Topology, every: int, seed: str) -> None:
        self.topology = topology
        self.every = every
        self.done = 0
        self._random = random.Random(f"{seed} restarts")
        self._next = every
        self._lock = asyncio.Lock()

    async def between(self, number: int) -> None:
        """Restart agents or the log reader if a restart is due after this transaction."""
        if number % 5000 == 4999:
            sys.stderr.write(f"{number + 1} transactions begun, {self.done} restarts\n")
        if number < self._next or self._lock.locked():
            return
        async with self._lock:
            self._next = number + self._random.randint(1, 2 * self.every)
            await self._random.choice((self._all, self._one, self._sessions))()
            self.done += 1

    async def _all(self) -> None:
        """Stop all agents between two transactions, and start them again."""
        await self.topology.stop_agents()
        await self.topology.start_agents()

    async def _one(self) -> None:
        """Stop one agent at an arbitrary point of its work, then restart all agents."""
        await self.topology.agents.dismiss(self._random.choice(self.topology.subscribers))
        await self._all()

    async def _sessions(self) -> None:
        """Terminate the sessions of one agent or of the log reader at an arbitrary point of their work."""
        name = self._random.choice([*self.topology.subscribers, self.topology.publisher])
        node = self.topology.node(name)
        role = node.logreader_role if name == self.topology.publisher else node.agent_role
        await self.topology.execute(
            name,
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s",
            (role,),
        )


async def run(
    topology: Topology, *, transactions: int, seed: str, restart_every: int, streams: int = 1
) -> Outcome:
    """Run the workload, wait until all changes are delivered, and count them."""
    outcome = Outcome()
    await make(topology, streams=streams)
    await topology.start_agents()
    restarts = Restarts(topology, restart_every, seed)
    try:
        await play(
            topology,
            outcome.ledger,
            transactions=transactions,
            seed=seed,
            between=restarts.between,
        )
    finally:
        await topology.stop_agents()
    await topology.sync()
    await topology.assert_converged(*TABLE_NAMES)
    outcome.restarts = restarts.done
    outcome.delivered = await count(topology, outcome.ledger)
    return outcome


async def main(subscribers: int, **options: Any) -> Outcome:
    """Run the test on a separate server."""
    names = [f"sub{number}" for number in range(1, subscribers + 1)]
    async with Topology(subscribers=names) as topology:
        return await run(topology, **options)


def told(outcome: Outcome, seconds: float) -> str:
    """Return the outcome as text."""
    ledger = outcome.ledger
    lines = [
        f"{ledger.transactions} transactions committed, {ledger.rolled_back} rolled back, "
        f"{ledger.rejected} rejected {dict(sorted(ledger.refused.items()))}, "
        f"{ledger.savepoints} rolled back to a savepoint, {outcome.restarts} restarts, "
        f"{seconds:.0f} s",
        *map(str, outcome.delivered),
        "passed" if outcome.passed else "FAILED",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--subscribers", type=int, default=4)
    parser.add_argument("--restart-every", type=int, default=500)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--streams", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    ended = asyncio.run(main(**vars(given)))
    sys.stdout.write(told(ended, time.monotonic() - began) + "\n")
    sys.exit(0 if ended.passed else 1)
