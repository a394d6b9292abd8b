"""A bug of the code that drives log reader and agents, planted in the product's engine."""

from __future__ import annotations

from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.wiring import replacing
from twopc.subscriber.distribution_agent import AgentProgress
from twopc.subscriber.distribution_agent.synchronisation import Synchronisation


class ReadsLast(Synchronisation):
    """A synchronisation that reads the log only after agents have delivered."""

    async def read(self) -> None:
        """Do nothing yet: `drive` reads after the delivery."""

    async def drive(self, subscriber: str) -> AgentProgress | None:
        """See `Synchronisation`."""
        done = await super().drive(subscriber)
        await super().read()
        return done


PLANTS = (
    PlantedBug(
        name="read_after_delivery",
        why="a request for what is committed by now is answered as of an earlier request",
        source="Microsoft, log reader agent and distribution agent: the order of the two jobs",
        plant=replacing(synchronisation=ReadsLast),
        program="a Subscriber's change, and the Publisher's",
        budget=Budget(faults=0, deviations=0),
        breaks=("converged",),
    ),
)
