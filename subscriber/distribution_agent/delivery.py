"""Batches on their way to the Subscriber: sent, confirmed, counted.

Decides nothing about failures: it says which batch failed, and that nothing of it is at the Subscriber.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from subscriber.distribution_agent.arrays import numbers
from subscriber.distribution_agent.dispatch import (
    Takers,
    call_taker,
    code_of,
    definition_taker,
    takers,
)
from subscriber.distribution_agent.failures import Failure
from subscriber.distribution_agent.loads import Load, Posted, Subscription
from subscriber.distribution_agent.pipe import Answer, Step
from subscriber.distribution_agent.planner import Batch, Planner
from subscriber.distribution_agent.profile import Profile
from subscriber.distribution_agent.source import Source
from subscriber.distribution_agent.streams import BlockedError, Streams
from subscriber.distribution_agent.target import (
    BEGINNING,
    COMMIT,
    ROLLBACK,
    Applier,
    RefusedError,
    Target,
    ask,
)
from twopc.drivers.points import Points
from twopc.proc_execution import CALL_TYPE
from twopc.together import together

#: How many groups are on their way at a time: one is worked on while the next one travels.
_DEPTH = 2


@dataclass(slots=True, kw_only=True)
class Counts:
    """What has been delivered."""

    transactions: int = 0
    """Source transactions passed, the Subscriber's own left out."""
    commands: int = 0
    batches: int = 0
    skipped: int = 0
    """Source transactions dropped because of an error to pass over."""
    posted: list[Posted] = field(default_factory=list)
    """What was posted for every Subscriber and has arrived, not yet reported."""
    fallbacks: list[tuple[int, str]] = field(default_factory=list)
    """Batches that streams could not bring, and why; not yet reported."""

    def add(self, other: Counts) -> None:
        """Count what `other` has, too."""
        self.transactions += other.transactions
        self.commands += other.commands
        self.batches += other.batches
        self.skipped += other.skipped


class Delivery:
    """Brings batches to the Subscriber.

    Args:
        streams: None if everything goes over one connection.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        streams: Streams | None,
        profile: Profile,
        points: Points,
    ) -> None:
        self.source = source
        self.target = target
        self.counts = Counts()
        self.planner = Planner((), profile)
        self.applier = Applier({})
        self.seen = target.position
        """Up to where everything is delivered or is not for this Subscriber: the position or beyond."""
        self.apart: tuple[int, ...] = ()
        """Articles whose commands are brought apart from others'."""
        self.exact = False
        """Nothing is applied as a set, and nothing comes apart."""
        self._streams = streams
        self._profile = profile
        self._points = points

    def subscribe(self, subscription: Subscription) -> None:
        """Take over what is subscribed to."""
        by_code: dict[int, Takers] = {}
        for article_id, propagation in subscription.propagation:
            by_code |= takers(article_id, propagation)
        for article_id in subscription.definitions:
            by_code |= definition_taker(article_id)
        calls = [code_of(article_id, CALL_TYPE) for article_id in subscription.calls]
        for article_id in subscription.calls:
            by_code |= call_taker(article_id)
        self.planner = Planner(subscription.terms, self._profile, calls)
        self.applier = Applier(by_code)

    async def deliver(self, batches: Sequence[Batch], stop: asyncio.Event) -> Failure | None:
        """Bring batches, in order, up to the first that fails; what comes after it is not brought.

        Args:
            stop: begin no further batch once it is set.

        Raises:
            LostError: a connection is gone.
        """
        if self._streams is not None:
            return await self._parallel(batches, self._streams, stop)
        return await self.serial(batches, stop)

    async def serial(
        self, batches: Sequence[Batch], stop: asyncio.Event | None = None, *, depth: int = _DEPTH
    ) -> Failure | None:
        """As `deliver`, over one connection."""
        flight: deque[tuple[Load, list[Step], asyncio.Future[Answer]]] = deque()
        failure = None
        sent = self.target.position
        async with aclosing(self._loads(batches, 1)) as loads:
            async for load in loads:
                if load.first and stop is not None and stop.is_set():
                    break
                if self._is_nothing(load):
                    continue
                if self._points.armed:
                    await self._points.reach("agent.before_send")
                steps = self._steps(load, sent)
                flight.append((load, steps, self.target.first.send(*steps)))
                sent = load.batch.upto
                if self._points.armed:
                    await self._points.reach("agent.sent")
                if len(flight) >= depth:
                    failure = await self._confirm(*flight.popleft())
                    if failure is not None:
                        break
            while flight and failure is None:
                failure = await self._confirm(*flight.popleft())
        if failure is not None:
            await together(*(future for _, _, future in flight))
            await self.target.first.run((ROLLBACK, ()))
            self.seen = self.target.position
        return failure

    def _loads(self, batches: Sequence[Batch], streams: int) -> AsyncGenerator[Load, None]:
        return self.source.loads(
            batches,
            own=self.planner.own,
            echoed=self.planner.echoed,
            streams=streams,
            apart=() if self.exact else self.apart,
        )

    def _is_nothing(self, load: Load) -> bool:
        """Whether nothing of a batch is for this Subscriber; then the position moves with a later one."""
        if load.parts or load.posted or not (load.first and load.last):
            return False
        self.seen = load.batch.upto
        self.counts.transactions += len(load.batch.seqnos) - load.batch.own
        return True

    def _steps(self, load: Load, sent: int) -> list[Step]:
        steps: list[Step] = []
        if load.first:
            steps += [*BEGINNING, self.target.move(sent, load.batch.upto)]
        steps += [self.applier.step(part, exact=self.exact) for part in load.parts]
        if load.last:
            steps.append((COMMIT, ()))
        return steps

    async def _confirm(
        self, load: Load, steps: Sequence[Step], future: asyncio.Future[Answer]
    ) -> Failure | None:
        answer = await future
        if answer.failure is not None:
            return Failure(batch=load.batch, report=answer.failure, constraint=answer.constraint)
        applied = len(BEGINNING) + 1 if load.first else 0
        for at, part in enumerate(load.parts, applied):
            self.applier.learn(part, steps[at], answer, at)
        self._count(load)
        if load.last:
            self.target.position = load.batch.upto
        if load.last and self._points.armed:
            await self._points.reach("agent.committed")
        return None

    def _count(self, load: Load) -> None:
        counts, batch = self.counts, load.batch
        counts.commands += load.count
        counts.posted += load.posted
        if load.last:
            counts.transactions += len(batch.seqnos) - batch.own
            counts.batches += 1
            self.seen = max(self.seen, batch.upto)

    async def _parallel(
        self, batches: Sequence[Batch], streams: Streams, stop: asyncio.Event
    ) -> Failure | None:
        """Over all connections; a batch that does not go so goes over one, and ends this round."""
        async with aclosing(self._loads(batches, len(self.target.lines))) as loads:
            async for load in loads:
                if load.first and stop.is_set():
                    return None
                if self._is_nothing(load):
                    continue
                batch = load.batch
                if load.first and load.last and len({part.stream for part in load.parts}) <= 1:
                    steps = self._steps(load, self.target.position)
                    future = self.target.first.send(*steps)
                    failure = await self._confirm(load, steps, future)
                    if failure is None:
                        continue
                    await self.target.first.run((ROLLBACK, ()))
                    self.seen = self.target.position
                    return failure
                try:
                    if self._has_call(load):
                        await streams.give_up()
                        raise BlockedError("a call may touch any row")
                    await streams.take(load, self.applier)
                except (RefusedError, BlockedError) as error:
                    self.counts.fallbacks.append((batch.upto, str(error)))
                    break
                self._count(load)
            else:
                return None
        if self._points.armed:
            await self._points.reach("agent.serial")
        self.seen = self.target.position
        return await self.serial([batch], depth=1)

    def _has_call(self, load: Load) -> bool:
        """Whether a routine is called in it."""
        planner = self.planner
        return bool(planner.calls) and any(
            planner.is_call(code) for part in load.parts for code in numbers(part.codes, "i")
        )

    async def skip(self, batch: Batch) -> None:
        """Move the position past a transaction that is dropped."""
        if self._points.armed:
            await self._points.reach("agent.before_skip")
        await self._move(batch.upto)
        self.counts.skipped += 1

    async def flush(self) -> None:
        """Write how far everything is seen, if the position is behind it."""
        if self.seen > self.target.position:
            await self._move(self.seen)

    async def _move(self, upto: int) -> None:
        target = self.target
        await ask(target.first, *BEGINNING, target.move(target.position, upto), (COMMIT, ()))
        target.position = self.seen = upto
