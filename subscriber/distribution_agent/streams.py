"""A batch over several connections at once: each prepares its part, then all are finished.

The first stream's part moves the position and is finished first: from then on the batch is at the
Subscriber, and whoever finds the others prepared finishes them. Any failure, or one stream that waits for
another, ends the attempt with nothing left; the caller then brings the batch over one connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from subscriber.distribution_agent.loads import Load
from subscriber.distribution_agent.pipe import Answer, LostError, Pipe, Statement, Step
from subscriber.distribution_agent.target import (
    BEGINNING,
    ROLLBACK,
    Applier,
    RefusedError,
    Target,
    finishing,
)
from twopc.drivers.points import Points
from twopc.together import together

#: How often it is looked whether streams wait for each other, while any of them has not answered.
_LOOK_EVERY_S = 0.05

#: Streams that wait for another stream, running or prepared; those are cancelled.
_WAITING = Statement(
    """
    with ours as (
        select pid::integer as pid from unnest($1::integer[]) as pid
    ), waiting as (
        select l.pid, l.transactionid
        from pg_locks l join ours using (pid)
        where not l.granted and l.locktype = 'transactionid'
    ), stuck as (
        select w.pid from waiting w
        where exists (
            select from pg_locks h join ours using (pid)
            where h.granted and h.locktype = 'transactionid' and h.transactionid = w.transactionid
        ) or exists (
            select from pg_prepared_xacts p
            where p.transaction = w.transactionid and p.gid = any ($2::text[])
        )
    )
    select pid, pg_cancel_backend(pid) from stuck
    """
)


_CANCEL = Statement("select pg_cancel_backend(pid) from unnest($1::integer[]) as pid")
_CANCELED = "57014"
_ROLLBACK: Step = (ROLLBACK, ())
_PREPARED = b"PREPARE TRANSACTION"


class BlockedError(Exception):
    """One stream waits for another."""


class Streams:
    """Delivers batches over all sessions of a target.

    Args:
        watch: a further session, which looks whether the others wait for each other.
    """

    def __init__(self, target: Target, watch: Pipe, points: Points) -> None:
        self._target = target
        self._watch = watch
        self._points = points
        self._begun: set[int] = set()
        """Streams that hold a part of the batch."""

    async def take(self, load: Load, applier: Applier) -> None:
        """Apply a load; with the last one of a batch, the batch is at the Subscriber.

        Raises:
            RefusedError: a stream met an error; nothing of the batch is left anywhere.
            BlockedError: one stream waited for another; nothing is left either.
            LostError: a connection is gone; opening the target again settles the rest.
        """
        target, batch = self._target, load.batch
        steps: dict[int, list[Step]] = {}
        if load.first:
            self._begun = {0}
            steps[0] = [*BEGINNING, target.move(target.position, batch.upto)]
        for part in load.parts:
            if part.stream not in self._begun:
                self._begun.add(part.stream)
                steps[part.stream] = [*BEGINNING]
            steps.setdefault(part.stream, []).append(applier.step(part))
        if load.last:
            for stream in self._begun:
                gid = target.gid(batch.upto, stream)
                prepare = Statement(f"prepare transaction '{gid}'", kept=False)
                steps.setdefault(stream, []).append((prepare, ()))
        sent = {}
        for stream in sorted(steps):
            if self._points.armed and load.last:
                await self._points.reach(f"agent.before_prepare({stream})")
            sent[stream] = target.lines[stream].send(*steps[stream])
        answers, blocked = await self._answers(sent, batch.upto)
        failed = [answer for answer in answers.values() if answer.failure is not None]
        if failed:
            await self._abandon(answers, batch.upto)
            if blocked:
                raise BlockedError("one stream waited for another")
            # what stopped the others is the reason, not that they were stopped
            raise RefusedError(min(failed, key=_was_stopped))
        if load.last:
            if self._points.armed:
                await self._points.reach("agent.prepared")
            await self._finish(batch.upto)

    async def give_up(self) -> None:
        """Leave nothing of a batch of which loads have been taken, but not the last one.

        Raises:
            LostError: it is not sure that nothing is left.
        """
        await self._abandon({}, 0)

    async def _answers(
        self, sent: Mapping[int, asyncio.Future[Answer]], upto: int
    ) -> tuple[dict[int, Answer], bool]:
        """What every stream said, and whether one was stopped because it waited for another."""
        waiting, blocked, stopped = set(sent.values()), False, False
        while waiting:
            done, waiting = await asyncio.wait(
                waiting, timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED
            )
            if waiting and not stopped and any(each.result().failure for each in done):
                stopped = True  # the others need not come to their end, and might never
                pids = [self._pid(stream) for stream, each in sent.items() if each in waiting]
                await self._ask((_CANCEL, (_array(pids),)))
            elif not done and (await self._ask(self._look(upto))).rows(0):
                blocked = True
        return {stream: each.result() for stream, each in sent.items()}, blocked

    def _pid(self, stream: int) -> int:
        return self._target.lines[stream].pid

    def _look(self, upto: int) -> Step:
        """What finds streams that wait for each other, and cancels them."""
        gids = [str(self._target.gid(upto, stream)) for stream in self._begun]
        return _WAITING, (_array([self._pid(stream) for stream in self._begun]), _array(gids))

    async def _ask(self, *steps: Step) -> Answer:
        answer = await self._watch.run(*steps)
        if answer.failure is not None:
            raise LostError(f"streams cannot be watched: {answer.failure}")
        return answer

    async def _abandon(self, answers: Mapping[int, Answer], upto: int) -> None:
        """Leave nothing of the batch; all streams have answered.

        Raises:
            LostError: it is not sure that nothing is left.
        """
        endings = []
        for stream in self._begun:
            answer = answers.get(stream)
            prepared = (
                answer is not None
                and answer.failure is None
                and answer.results[-1].command_status == _PREPARED
            )
            step = finishing("rollback", self._target.gid(upto, stream)) if prepared else _ROLLBACK
            endings.append(self._target.lines[stream].send(step))
        self._begun = set()
        for answer in await together(*endings):
            if answer.failure is not None:
                raise LostError(f"a stream cannot be rolled back: {answer.failure}")

    async def _finish(self, upto: int) -> None:
        """Commit every stream's part, that with the position first."""
        target, points = self._target, self._points
        others = sorted(self._begun - {0})
        self._begun = set()
        for streams in ([0], others):
            sent = []
            for stream in streams:
                if points.armed:
                    await points.reach(f"agent.before_finish({stream})")
                step = finishing("commit", target.gid(upto, stream))
                sent.append(target.lines[stream].send(step))
            for answer in await together(*sent):
                if answer.failure is not None:
                    raise LostError(f"a stream cannot be committed: {answer.failure}")
            if streams == [0]:
                target.position = upto
            for stream in streams if points.armed else ():
                await points.reach(f"agent.after_finish({stream})")

    async def close(self) -> None:
        """Close the watching session."""
        await self._watch.close()


def _was_stopped(answer: Answer) -> bool:
    return answer.failure is not None and answer.failure.sqlstate == _CANCELED


def _array(values: Iterable[object]) -> bytes:
    return ("{" + ",".join(f'"{value}"' for value in values) + "}").encode()
