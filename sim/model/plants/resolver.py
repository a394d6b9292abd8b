"""Bugs of any client's resolver: what it takes for decided, and what for given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from twopc.drivers.recovery import SettledBranch
from twopc.drivers.resolver import Resolver
from twopc.protocol.effects import Outcome
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.wiring import Wiring


def resolved_by(resolver: type[Resolver]) -> Callable[[Wiring], Wiring]:
    """A plant that puts another resolver in."""
    return lambda wiring: replace(wiring, resolver=resolver)


class BelievesWhatIsSeen(Resolver):
    """A commit that can be seen is a decision."""

    async def decided(self) -> list[str]:
        """Nobody waits for the disk."""
        return await self.committed()


class TakesSlowForDead(Resolver):
    """What was prepared at the last sweep, and is not committed by now, will never be."""

    async def settle(self) -> list[SettledBranch]:
        """Roll it back, whatever its session does."""
        await self.finish_decided()
        publisher = self._recovery._participants[self._publisher.name]
        for gid in await self._publisher.voted():
            await publisher.settle(gid, Outcome.ABORTED, [])
        return []


PLANTS = (
    PlantedBug(
        name="believed_before_flush",
        why="a commit that can be seen may be lost in a crash; the others' commits would not be",
        source="synchronous_commit = off",
        plant=resolved_by(BelievesWhatIsSeen),
        program="any client that does not wait for the disk",
        budget=Budget(of=("subscriber",), deviations=0),
        breaks=("I1", "converged"),
    ),
    PlantedBug(
        name="slow_is_dead",
        why="whoever decides may take any time, and nobody else may decide for him",
        source="P. Bernstein, V. Hadzilacos, N. Goodman, 7.4: uncertainty",
        plant=resolved_by(TakesSlowForDead),
        program="any client",
        budget=Budget(faults=0, deviations=1),
        breaks=("I1", "I3"),
    ),
)
