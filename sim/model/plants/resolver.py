"""Bugs of the resolver for transactions of any client: wrong assumptions, and missed commits."""

from __future__ import annotations

from twopc.drivers.recovery import SettledBranch
from twopc.drivers.resolver import Resolver
from twopc.drivers.resolver_watch import ResolverLoop
from twopc.protocol.effects import Outcome
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.wiring import replacing


class BelievesWhatIsSeen(Resolver):
    """A resolver that takes every visible commit for a decision."""

    async def decided(self) -> list[str]:
        """Return visible commits, without waiting until they are durable."""
        return await self.committed()


class TakesSlowForDead(Resolver):
    """A resolver that takes every branch that is prepared and not committed for given up."""

    async def settle(self) -> list[SettledBranch]:
        """Roll back the branches, whatever their sessions do."""
        await self.finish_decided()
        publisher = self._recovery._participants[self._publisher.name]
        for gid in await self._publisher.voted():
            await publisher.settle(gid, Outcome.ABORTED, [])
        return []


class NeverSweeps(Resolver):
    """A resolver without sweeps, which would later find what the loop misses.

    This is no bug: decisions are found without sweeps.
    """

    async def sweep(self) -> None:
        """See `Resolver`."""


class SleepsOver(ResolverLoop):
    """A loop that looks for commits before it has the lock, and not again afterwards."""

    async def _sleep(self) -> None:
        await self._lock.hear(None)
        await self._look()


PLANTS = (
    PlantedBug(
        name="sleeps_over_commit",
        why="a client that commits between the last look and the lock sends no notification",
        source="PostgreSQL's documentation of LISTEN: look after it, for what was done before",
        plant=replacing(resolver=NeverSweeps, resolver_loop=SleepsOver),
        program="any client",
        budget=Budget(faults=0, deviations=1),
        breaks=("I1", "I5", "converged"),
    ),
    PlantedBug(
        name="believed_before_flush",
        why="a commit that can be seen may be lost in a crash; the others' commits would not be",
        source="synchronous_commit = off",
        plant=replacing(resolver=BelievesWhatIsSeen),
        program="any client that does not wait for the disk",
        budget=Budget(of=("subscriber",), deviations=0),
        breaks=("I1", "converged"),
    ),
    PlantedBug(
        name="slow_is_dead",
        why="a decision may take any time, and only its owner makes it",
        source="P. Bernstein, V. Hadzilacos, N. Goodman, 7.4: uncertainty",
        plant=replacing(resolver=TakesSlowForDead),
        program="any client",
        budget=Budget(faults=0, deviations=1),
        breaks=("I1", "I3"),
    ),
)
