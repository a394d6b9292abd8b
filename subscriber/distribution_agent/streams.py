"""A batch over several connections at once: each prepares its part, then all are finished.

The first stream's part moves the position and is finished first: from then on the batch is at the
Subscriber, and whoever finds the others prepared finishes them. Any failure, or one stream that waits for
another, ends the attempt with nothing left; the caller then brings the batch over one connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from twopc.drivers.points import Points
from twopc.subscriber.distribution_agent import steps as s
from twopc.subscriber.distribution_agent.loads import BatchLoad
from twopc.subscriber.distribution_agent.ports import (
    LostError,
    PendingGroup,
    RefusedError,
    StepsAnswer,
    TargetPort,
    WorldPort,
    answers,
    perform,
)

#: How often it is looked whether streams wait for each other, while any of them has not answered.
_LOOK_EVERY_S = 0.05
_CANCELED = "57014"


class BlockedError(Exception):
    """One stream waits for another."""


async def settle(target: TargetPort) -> None:
    """Finish what streams of an agent that died have prepared.

    The position is in the first stream's part, which is committed first: if it has come to a batch's
    end, the batch is at the Subscriber, else no part of it is.
    """
    for gid in await target.prepared():
        await perform(target.lines[0], s.FinishPrepared(gid, commit=gid.upto <= target.position))


class Streams:
    """Delivers batches over all sessions of a target."""

    def __init__(self, world: WorldPort, target: TargetPort, points: Points) -> None:
        self._world = world
        self.target = target
        self._points = points
        self.begun: set[int] = set()
        """Streams that hold a part of the batch."""

    async def take(self, load: BatchLoad) -> None:
        """Apply a load; with the last one of a batch, the batch is at the Subscriber.

        Raises:
            RefusedError: a stream met an error; nothing of the batch is left anywhere.
            BlockedError: one stream waited for another; nothing is left either.
            LostError: a connection is gone; opening the target again settles the rest.
        """
        upto = load.batch.upto
        steps = self.steps(load)
        sent = {}
        for stream in sorted(steps):
            if self._points.armed and load.last:
                await self._points.reach(f"agent.before_prepare({stream})")
            sent[stream] = self.target.lines[stream].send(*steps[stream])
        answered, blocked = await self._answers(sent, upto)
        failures = [answer.failure for answer in answered.values() if answer.failure is not None]
        if failures:
            prepared = {
                stream
                for stream, answer in answered.items()
                if load.last and answer.failure is None
            }
            await self._abandon(upto, prepared)
            if blocked:
                raise BlockedError("one stream waited for another")
            # what stopped the others is the reason, not that they were stopped
            raise RefusedError(min(failures, key=lambda report: report.sqlstate == _CANCELED))
        if load.last:
            if self._points.armed:
                await self._points.reach("agent.prepared")
            await self.finish(upto)

    def steps(self, load: BatchLoad) -> dict[int, list[s.Step]]:
        """What each stream does with a load."""
        target, upto = self.target, load.batch.upto
        steps: dict[int, list[s.Step]] = {}
        if load.first:
            self.begun = {0}
            steps[0] = [s.BeginBatch(), s.Move(target.position, upto)]
        for part in load.parts:
            if part.stream not in self.begun:
                self.begun.add(part.stream)
                steps[part.stream] = [s.BeginBatch()]
            steps.setdefault(part.stream, []).append(s.Apply(part))
        if load.last:
            for stream in self.begun:
                steps.setdefault(stream, []).append(s.Prepare(target.gid(upto, stream)))
        return steps

    async def give_up(self) -> None:
        """Leave nothing of a batch of which loads have been taken, but not the last one.

        Raises:
            LostError: it is not sure that nothing is left.
        """
        await self._abandon(0, set())

    async def _answers(
        self, sent: Mapping[int, PendingGroup], upto: int
    ) -> tuple[dict[int, StepsAnswer], bool]:
        """What every stream said, and whether one was stopped because it waited for another."""
        waiting, blocked, stopped = dict(sent), False, False
        while waiting:
            await self._world.first([*waiting.values()], _LOOK_EVERY_S)
            done = [each for each in waiting.values() if each.done()]
            waiting = {stream: each for stream, each in waiting.items() if not each.done()}
            if waiting and not stopped and any(each.result().failure for each in done):
                stopped = True  # the others need not come to their end, and might never
                await self.target.cancel([*waiting])
            elif not done:
                blocked |= await self.target.cancel_blocked(sorted(self.begun), upto)
        return {stream: each.result() for stream, each in sent.items()}, blocked

    async def _abandon(self, upto: int, prepared: set[int]) -> None:
        """Leave nothing of the batch; all streams have answered.

        Raises:
            LostError: it is not sure that nothing is left.
        """
        target, endings = self.target, []
        for stream in sorted(self.begun):
            step: s.Step = s.Rollback()
            if stream in prepared:
                step = s.FinishPrepared(target.gid(upto, stream), commit=False)
            endings.append(target.lines[stream].send(step))
        self.begun = set()
        for answer in await answers(endings):
            if answer.failure is not None:
                raise LostError(f"a stream cannot be rolled back: {answer.failure}")

    async def finish(self, upto: int) -> None:
        """Commit every stream's part, that with the position first.

        Raises:
            LostError: one of them may not be committed; opening the target again settles the rest.
        """
        target, points = self.target, self._points
        others = sorted(self.begun - {0})
        self.begun = set()
        for streams in ([0], others):
            sent = []
            for stream in streams:
                if points.armed:
                    await points.reach(f"agent.before_finish({stream})")
                finish = s.FinishPrepared(target.gid(upto, stream), commit=True)
                sent.append(target.lines[stream].send(finish))
            for answer in await answers(sent):
                if answer.failure is not None:
                    raise LostError(f"a stream cannot be committed: {answer.failure}")
            if streams == [0]:
                target.position = upto
            for stream in streams if points.armed else ():
                await points.reach(f"agent.after_finish({stream})")
