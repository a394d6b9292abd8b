"""Bugs of the distribution agent: the product's agent with one wrong decision of its engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

from twopc.drivers.lean import ServerReport
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.wiring import Plant, Wiring
from twopc.subscriber.distribution_agent import steps as s
from twopc.subscriber.distribution_agent.arrays import numbers, texts
from twopc.subscriber.distribution_agent.batch_failure import Mending
from twopc.subscriber.distribution_agent.delivery import Delivery
from twopc.subscriber.distribution_agent.loads import BatchLoad, StreamPart, part_of
from twopc.subscriber.distribution_agent.planner import Batch, BatchPlanner, OwnCommands
from twopc.subscriber.distribution_agent.ports import PendingGroup, TargetPort, perform
from twopc.subscriber.distribution_agent.streams import Streams


def made_of(**parts: Any) -> Plant:
    """Return a plant that replaces parts of the agent: `delivery`, `streams`, `mending`, `planner`, `settle`."""

    def plant(wiring: Wiring) -> Wiring:
        return replace(wiring, agent=type("PlantedAgent", (wiring.agent,), parts))

    return plant


def _applies(parts: Sequence[StreamPart]) -> list[s.Step]:
    return [s.Apply(part) for part in parts]


class PositionFirst(Delivery):
    """A delivery that commits the position separately, before its batch."""

    def send(self, load: BatchLoad, position: int) -> PendingGroup:
        """See `Delivery`."""
        line = self.target.lines[0]
        line.send(s.BeginBatch(), s.Move(position, load.batch.upto), s.CommitBatch())
        return line.send(s.BeginBatch(), *_applies(load.parts), s.CommitBatch())


class PositionLast(Delivery):
    """A delivery that commits the position separately, after its batch."""

    def send(self, load: BatchLoad, position: int) -> PendingGroup:
        """See `Delivery`."""
        line = self.target.lines[0]
        line.send(s.BeginBatch(), *_applies(load.parts), s.CommitBatch())
        return line.send(s.BeginBatch(), s.Move(position, load.batch.upto), s.CommitBatch())


class InHalves(Delivery):
    """A delivery that splits a batch into two commits, even within a transaction."""

    def send(self, load: BatchLoad, position: int) -> PendingGroup:
        """See `Delivery`."""
        line = self.target.lines[0]
        for part in load.parts:
            commands = [*zip(numbers(part.codes, "i"), texts(part.calls), strict=True)]
            middle = len(commands) // 2
            if middle:
                line.send(s.BeginBatch(), s.Apply(part_of(commands[:middle])), s.CommitBatch())
            rest = part_of(commands[middle:])
        return line.send(
            s.BeginBatch(), s.Move(position, load.batch.upto), s.Apply(rest), s.CommitBatch()
        )


class BringsOwn(Delivery):
    """A delivery that sends a Subscriber its own changes."""

    def loads(self, batches: Sequence[Batch], streams: int) -> AsyncGenerator[BatchLoad, None]:
        """See `Delivery`."""
        return self.source.loads(batches, own=OwnCommands(), streams=streams)


class OfCoordinators(OwnCommands):
    """A rule that takes every change with an originator for the Subscriber's own."""

    def has(self, originator: int | None, article_id: int) -> bool:
        """See `OwnCommands`."""
        return bool(originator)


class TakesOthersForOwn(BatchPlanner):
    """A planner that suppresses the changes of all originators as the Subscriber's own."""

    own_commands = OfCoordinators


class SkipsBarriers(Mending):
    """A mending that does not stop a net effect at the Subscriber's own transactions."""

    async def barriers(self) -> list[int]:
        """See `Mending`."""
        return []


class OnlyMoves(Mending):
    """A mending that moves the position to the Subscriber's own transaction without applying the net effect."""

    async def apply_net(self, upto: int) -> ServerReport | None:
        """See `Mending`."""
        self.delivery.seen = upto
        await self.delivery.flush()
        return None


class SkipsCommand(Mending):
    """A mending that skips only the failed command, not its transaction."""

    async def skip(self, batch: Batch) -> None:
        """See `Mending`."""
        line = self.target.lines[0]
        async for each in self.source.commands(batch.upto - 1, batch.upto):
            part = part_of([(each.article_id * 100 + each.type, each.command.encode())])
            if (
                await line.send(s.BeginBatch(), s.Apply(part), s.CommitBatch())
            ).failure is not None:
                await line.send(s.Rollback())
        await super().skip(batch)


class FinishesFirstOnly(Streams):
    """Streams that leave the parts prepared except the first."""

    async def finish(self, upto: int) -> None:
        """See `Streams`."""
        self.begun = {0}
        await super().finish(upto)


class FinishesFirstLast(Streams):
    """Streams that finish the part with the position last."""

    async def finish(self, upto: int) -> None:
        """See `Streams`."""
        for stream in sorted(self.begun - {0}):
            await self.target.lines[stream].send(
                s.FinishPrepared(self.target.gid(upto, stream), commit=True)
            )
        self.begun = {0}
        await super().finish(upto)


class PositionElsewhere(Streams):
    """Streams that move the position in the last stream's part instead of the part that is finished first."""

    def steps(self, load: BatchLoad) -> dict[int, list[s.Step]]:
        """See `Streams`."""
        steps = super().steps(load)
        move = steps[0].pop(1)
        steps[max(steps)].insert(1, move)
        return steps


async def rolls_back_all(target: TargetPort) -> None:
    """Roll back every prepared part of a stream, whatever the position is."""
    for gid in await target.prepared():
        await perform(target.lines[0], s.FinishPrepared(gid, commit=False))


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
    PlantedBug(
        name="own_comes_back",
        why="a change that comes back to where it was made undoes a later one there for a while",
        source="Microsoft, loopback detection",
        plant=made_of(delivery=BringsOwn),
        program="write twice and deliver",
        budget=_NONE,
        breaks=("never_goes_back",),
    ),
    PlantedBug(
        name="skips_by_session_not_marker",
        why="a session that finishes branches does so for every Subscriber",
        source="PostgreSQL's replication origins: that of COMMIT PREPARED's session is the one that counts",
        plant=made_of(planner=TakesOthersForOwn),
        program="write and deliver",
        budget=_NONE,
        breaks=("converged",),
    ),
    PlantedBug(
        name="barriers_skipped",
        why="a row of the Subscriber's own is in the way until its own transaction is counted in",
        source="loopback detection with immediate updating: the Subscriber is ahead of its log",
        plant=made_of(mending=SkipsBarriers),
        program="insert what came and went",
        budget=_NONE,
        breaks=("delivers",),
    ),
    PlantedBug(
        name="net_left_out",
        why="what others have changed before the Subscriber's own transaction is brought, too",
        source="loopback detection with immediate updating: the Subscriber is ahead of its log",
        plant=made_of(mending=OnlyMoves),
        program="insert what came and went",
        budget=_NONE,
        breaks=("converged",),
    ),
    PlantedBug(
        name="skips_command",
        why="what was committed at once must not be left out in part",
        source="Microsoft, skipping errors in transactional replication",
        plant=made_of(mending=SkipsCommand),
        program="deliver what is passed over",
        budget=_NONE,
        breaks=("left_out",),
    ),
    PlantedBug(
        name="stream_left_prepared",
        why="a batch is there once every stream's part is committed",
        source="Microsoft, SubscriptionStreams",
        plant=made_of(streams=FinishesFirstOnly),
        program="deliver over two streams",
        budget=_NONE,
        breaks=("I5", "converged"),
    ),
    PlantedBug(
        name="position_finished_last",
        why="a restart that finds parts prepared relies on the position, which must therefore be prepared first",
        source="presumed abort: the decision is durable before any participant learns it",
        plant=made_of(streams=FinishesFirstLast),
        program="deliver over two streams",
        budget=_AGENT,
        breaks=("converged", "delivers"),
    ),
    PlantedBug(
        name="position_elsewhere",
        why="a position that another stream moves does not say that the batch is there",
        source="presumed abort: the decision is durable before any participant learns it",
        plant=made_of(streams=PositionElsewhere),
        program="deliver over two streams",
        budget=_AGENT,
        breaks=("converged", "delivers"),
    ),
    PlantedBug(
        name="streams_rolled_back",
        why="a batch whose position is there is there: its other parts are committed",
        source="presumed abort: no record means abort, and here there is one",
        plant=made_of(settle=staticmethod(rolls_back_all)),
        program="deliver over two streams",
        budget=_AGENT,
        breaks=("converged",),
    ),
)
