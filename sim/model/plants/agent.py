"""Bugs of the distribution agent: the product's own, with one decision of its engine that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twopc.sim.model.explore.words import Budget, PlantedBug
from twopc.sim.model.wiring import Plant, Wiring
from twopc.subscriber.distribution_agent.arrays import numbers, texts
from twopc.subscriber.distribution_agent.delivery import Delivery
from twopc.subscriber.distribution_agent.loads import Load, Part, part_of
from twopc.subscriber.distribution_agent.ports import Apply, Begin, Commit, Move, Pending, Step


def made_of(**parts: type) -> Plant:
    """A plant that replaces classes of the agent's: `delivery`, `streams`, `mending`, `planner`."""

    def plant(wiring: Wiring) -> Wiring:
        return replace(wiring, agent=type("PlantedAgent", (wiring.agent,), parts))

    return plant


def _applies(parts: Sequence[Part]) -> list[Step]:
    return [Apply(part) for part in parts]


class PositionFirst(Delivery):
    """The position in a commit of its own, before its batch."""

    def send(self, load: Load, position: int) -> Pending:
        """See `Delivery`."""
        line = self.target.lines[0]
        line.send(Begin(), Move(position, load.batch.upto), Commit())
        return line.send(Begin(), *_applies(load.parts), Commit())


class PositionLast(Delivery):
    """The position once the data are there."""

    def send(self, load: Load, position: int) -> Pending:
        """See `Delivery`."""
        line = self.target.lines[0]
        line.send(Begin(), *_applies(load.parts), Commit())
        return line.send(Begin(), Move(position, load.batch.upto), Commit())


class InHalves(Delivery):
    """As many commands in one commit as a batch has room for, wherever a transaction ends."""

    def send(self, load: Load, position: int) -> Pending:
        """See `Delivery`."""
        line = self.target.lines[0]
        for part in load.parts:
            commands = [*zip(numbers(part.codes, "i"), texts(part.calls), strict=True)]
            middle = len(commands) // 2
            if middle:
                line.send(Begin(), Apply(part_of(commands[:middle])), Commit())
            rest = part_of(commands[middle:])
        return line.send(Begin(), Move(position, load.batch.upto), Apply(rest), Commit())


_NONE = Budget(faults=0, deviations=0)
_AGENT = Budget(of=("agent",), deviations=0)

PLANTS = (
    PlantedBug(
        name="stale_position",
        why="an agent that dies between two commits leaves out what it was about to bring",
        source="PostgreSQL's documentation of replication progress",
        plant=made_of(delivery=PositionFirst),
        program="insert and deliver",
        budget=_AGENT,
        breaks=("converged",),
    ),
    PlantedBug(
        name="position_afterwards",
        why="an agent that dies between two commits brings again what is there",
        source="PostgreSQL's documentation of replication progress",
        plant=made_of(delivery=PositionLast),
        program="insert and deliver",
        budget=_AGENT,
        breaks=("converged", "delivers"),
    ),
    PlantedBug(
        name="splits_transaction",
        why="what was committed at once must not be seen in part",
        source="Microsoft, CommitBatchSize: a transaction is never split",
        plant=made_of(delivery=InHalves),
        program="deliver two rows of one transaction",
        budget=_NONE,
        breaks=("no_half",),
    ),
)
