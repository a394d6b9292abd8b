"""Delivery of a batch over several connections at once: each prepares its part, then all parts are committed.

The first stream's part moves the position and is committed first: from then on the batch is at the Subscriber, and
an agent that finds the other parts prepared commits them. Any failure, or one stream that waits for another, rolls
back the whole attempt; the caller then delivers the batch over one connection.
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

#: Interval in seconds at which waits between streams are detected, while any stream has not answered.
_LOOK_EVERY_S = 0.05
_CANCELED = "57014"


class BlockedError(Exception):
    """One stream waits for another."""


async def settle(target: TargetPort) -> None:
    """Finish the transactions that the streams of a dead agent have prepared.

    The position is in the first stream's part, which is committed first: if the position has reached the end of
    a batch, the batch is at the Subscriber; otherwise no part of it is.
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
        """Apply a load; with the last load of a batch, the batch is at the Subscriber.

        Raises:
            RefusedError: a stream met an error; all parts of the batch are rolled back.
            BlockedError: one stream waited for another; all parts are rolled back as well.
            LostError: a connection is lost; opening the target again finishes the prepared parts.
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
            # report the error itself, not the cancellations that it caused
            raise RefusedError(min(failures, key=lambda report: report.sqlstate == _CANCELED))
        if load.last:
            if self._points.armed:
                await self._points.reach("agent.prepared")
            await self.finish(upto)

    def steps(self, load: BatchLoad) -> dict[int, list[s.Step]]:
        """Return the steps that each stream performs for a load."""
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
        """Roll back a batch of which some loads have been applied, but not the last one.

        Raises:
            LostError: it is not certain that all parts are rolled back.
        """
        await self._abandon(0, set())

    async def _answers(
        self, sent: Mapping[int, PendingGroup], upto: int
    ) -> tuple[dict[int, StepsAnswer], bool]:
        """Return the answer of every stream, and whether one was cancelled because it waited for another."""
        waiting, blocked, stopped = dict(sent), False, False
        while waiting:
            await self._world.first([*waiting.values()], _LOOK_EVERY_S)
            done = [each for each in waiting.values() if each.done()]
            waiting = {stream: each for stream, each in waiting.items() if not each.done()}
            if waiting and not stopped and any(each.result().failure for each in done):
                stopped = True  # the other streams need not finish, and might never do so
                await self.target.cancel([*waiting])
            elif not done:
                blocked |= await self.target.cancel_blocked(sorted(self.begun), upto)
        return {stream: each.result() for stream, each in sent.items()}, blocked

    async def _abandon(self, upto: int, prepared: set[int]) -> None:
        """Roll back all parts of the batch after all streams have answered.

        Raises:
            LostError: it is not certain that all parts are rolled back.
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
        """Commit every stream's part, starting with the part that moves the position.

        Raises:
            LostError: a part may not be committed; opening the target again finishes the prepared parts.
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
