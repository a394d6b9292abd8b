"""Batches on their way to the Subscriber: sent, confirmed, counted.

Decides nothing about failures: it says which batch failed, and that nothing of it is at the Subscriber.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from twopc.drivers.points import Points
from twopc.proc_execution import BESIDE, CALL_TYPE
from twopc.subscriber.distribution_agent import steps as s
from twopc.subscriber.distribution_agent.arrays import numbers
from twopc.subscriber.distribution_agent.dispatch import code_of
from twopc.subscriber.distribution_agent.failures import DeliveryFailure
from twopc.subscriber.distribution_agent.loads import BatchLoad, StoredMessage
from twopc.subscriber.distribution_agent.planner import Batch, BatchPlanner, Window
from twopc.subscriber.distribution_agent.ports import (
    PendingGroup,
    RefusedError,
    Signal,
    SourcePort,
    TargetPort,
    UnfinishedError,
    answers,
    perform,
)
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.streams import BlockedError, Streams

#: How many groups are on their way at a time: one is worked on while the next one travels.
_DEPTH = 2
#: With fewer commands under way it is not worth looking which articles may come apart.
_MANY = 1000
#: So many transactions, and of each so many commands, are looked at.
_SAMPLE, _SAMPLE_COMMANDS = 200, 1000
#: An article comes apart if a batch has so many commands of it.
_BATCH_MIN = 32


@dataclass(slots=True, kw_only=True)
class DeliveryCounts:
    """What has been delivered."""

    transactions: int = 0
    """Source transactions passed, the Subscriber's own left out."""
    commands: int = 0
    batches: int = 0
    skipped: int = 0
    """Source transactions dropped because of an error to pass over."""
    posted: list[StoredMessage] = field(default_factory=list)
    """What was posted for every Subscriber and has arrived, not yet reported."""
    fallbacks: list[tuple[int, str]] = field(default_factory=list)
    """Batches that streams could not bring, and why; not yet reported."""

    def add(self, other: DeliveryCounts) -> None:
        """Count what `other` has, too."""
        self.transactions += other.transactions
        self.commands += other.commands
        self.batches += other.batches
        self.skipped += other.skipped


class Delivery:
    """Brings batches to the Subscriber.

    Args:
        streams: None if everything goes over one connection.
        planner: the class that plans.
    """

    def __init__(
        self,
        source: SourcePort,
        target: TargetPort,
        streams: Streams | None,
        profile: Profile,
        points: Points,
        planner: type[BatchPlanner] = BatchPlanner,
    ) -> None:
        self.source = source
        self.target = target
        self.counts = DeliveryCounts()
        self._partial = DeliveryCounts()
        """Of a batch whose last load has not arrived."""
        self.planner = planner((), profile)
        self.seen = target.position
        """Up to where everything is delivered or is not for this Subscriber: the position or beyond."""
        self.apart: tuple[int, ...] = ()
        """Articles whose commands are brought apart from others'."""
        self.exact = False
        """Nothing is applied as a set, and nothing comes apart."""
        self._wary = False
        """Something has failed since a whole window was brought."""
        self._streams = streams
        self._profile = profile
        self._points = points

    @property
    def may_begin(self) -> bool:
        """A transaction may be begun before all of it is stored."""
        return self._streams is None and not self._wary

    def subscribe(self) -> None:
        """Take over what is subscribed to."""
        subscription = self.source.subscription
        calls = [code_of(article_id, CALL_TYPE) for article_id in subscription.calls]
        self.planner = type(self.planner)(subscription.terms, self._profile, calls)
        self.target.subscribe(subscription)

    async def keep_apart(self, window: Window) -> None:
        """Choose the articles to bring apart, going by the first transactions of a window.

        Commands that are all of one kind can be applied as a set. Within one commit nobody sees in which order
        the rows of different tables change, except what runs at the Subscriber because of them. The order of one
        article's commands is never changed, nor any where routines are published: a call sees, and changes,
        rows of other articles, and rows beside calls are those of another article's table.
        """
        planner = self.planner
        self.apart = ()
        if planner.calls or any(each.article_id > BESIDE for each in planner.terms):
            return
        if len(planner.terms) < 2 or sum(window.commands) < _MANY:
            return
        if not await self.target.is_order_free():
            return
        sample = window.head(_SAMPLE)
        uniform = await self.source.uniform(
            self.seen,
            sample.seqnos[-1],
            [each.article_id for each in planner.terms],
            _SAMPLE_COMMANDS,
        )
        least = _BATCH_MIN * len(list(planner.plan(self.seen, sample)))
        self.apart = tuple(article_id for article_id, count in uniform.items() if count >= least)

    async def deliver(self, window: Window, stop: Signal | None) -> DeliveryFailure | None:
        """Bring the transactions of a window, in order, up to the batch that fails.

        Args:
            stop: begin no further batch once it is set.

        Returns:
            The failure of a batch of the usual size that is wholly stored; whoever goes on after another one meets
            it there.

        Raises:
            LostError: a connection is gone.
        """
        grows = self._streams is None and not self._wary
        batches = list(self.planner.plan(self.seen, window, grows=grows))
        if self._streams is not None:
            return await self._parallel(batches, self._streams, stop)
        try:
            failure = await self.serial(batches, stop)
        except UnfinishedError:
            self._wary = True
            return None
        self._wary = failure is not None
        if failure is not None and (window.is_open or not self.planner.is_usual(failure.batch)):
            return None
        return failure

    async def serial(
        self, batches: Sequence[Batch], stop: Signal | None = None, *, depth: int = _DEPTH
    ) -> DeliveryFailure | None:
        """As `deliver`, over one connection."""
        flight: deque[tuple[BatchLoad, PendingGroup]] = deque()
        try:
            failure = await self._serial(batches, flight, stop, depth)
        except UnfinishedError:
            await self._give_up(flight)
            raise
        if failure is not None:
            await self._give_up(flight)
        return failure

    async def _serial(
        self, batches: Sequence[Batch], flight: deque[tuple[BatchLoad, PendingGroup]],
        stop: Signal | None, depth: int,
    ) -> DeliveryFailure | None:  # fmt: skip
        failure = None
        sent = self.target.position
        async with aclosing(self.loads(batches, 1)) as loads:
            async for load in loads:
                if load.first and stop is not None and stop.is_set():
                    break
                if self._is_nothing(load):
                    continue
                if self._points.armed:
                    await self._points.reach("agent.before_send")
                flight.append((load, self.send(load, sent)))
                sent = load.batch.upto
                if self._points.armed:
                    await self._points.reach("agent.sent")
                if len(flight) >= depth:
                    failure = await self._confirm(*flight.popleft())
                    if failure is not None:
                        break
            while flight and failure is None:
                failure = await self._confirm(*flight.popleft())
        return failure

    async def _give_up(self, flight: Iterable[tuple[BatchLoad, PendingGroup]] = ()) -> None:
        """Nothing is left of a batch that failed, nor of what was sent after it; what comes next begins after the
        position."""
        await answers(pending for _, pending in flight)
        await self.target.lines[0].send(s.Rollback())
        self.seen, self._partial = self.target.position, DeliveryCounts()

    def loads(self, batches: Sequence[Batch], streams: int) -> AsyncGenerator[BatchLoad, None]:
        """The batches with their commands, without the Subscriber's own."""
        return self.source.loads(
            batches,
            own=self.planner.own,
            streams=streams,
            apart=() if self.exact else self.apart,
        )

    def _is_nothing(self, load: BatchLoad) -> bool:
        """Whether nothing of a batch is for this Subscriber; then the position moves with a later one."""
        if load.parts or load.posted or not (load.first and load.last):
            return False
        self.seen = load.batch.upto
        self.counts.transactions += len(load.batch.seqnos) - load.batch.own
        return True

    def send(self, load: BatchLoad, position: int) -> PendingGroup:
        """Send a load to one connection: the position moves in the commit of the data.

        Args:
            position: where it will be when the load arrives.
        """
        steps: list[s.Step] = []
        if load.first:
            steps += (s.BeginBatch(), s.Move(position, load.batch.upto))
        steps += [s.Apply(part, self.exact) for part in load.parts]
        if load.last:
            steps.append(s.CommitBatch())
        return self.target.lines[0].send(*steps)

    async def _confirm(self, load: BatchLoad, pending: PendingGroup) -> DeliveryFailure | None:
        answer = await pending
        if answer.failure is not None:
            return DeliveryFailure(
                batch=load.batch, report=answer.failure, constraint=answer.constraint
            )
        self._count(load)
        if load.last:
            self.target.position = load.batch.upto
        if load.last and self._points.armed:
            await self._points.reach("agent.committed")
        return None

    def _count(self, load: BatchLoad) -> None:
        counts, batch = self._partial, load.batch
        counts.commands += load.count
        counts.posted += load.posted
        if load.last:
            counts.transactions += len(batch.seqnos) - batch.own
            counts.batches += 1
            self.counts.add(counts)
            self.counts.posted += counts.posted
            self._partial = DeliveryCounts()
            self.seen = max(self.seen, batch.upto)

    async def _parallel(
        self, batches: Sequence[Batch], streams: Streams, stop: Signal | None
    ) -> DeliveryFailure | None:
        """Over all connections; a batch that does not go so goes over one, and ends this round."""
        async with aclosing(self.loads(batches, len(self.target.lines))) as loads:
            async for load in loads:
                if load.first and stop is not None and stop.is_set():
                    return None
                if self._is_nothing(load):
                    continue
                batch = load.batch
                if load.first and load.last and len({part.stream for part in load.parts}) <= 1:
                    failure = await self._confirm(load, self.send(load, self.target.position))
                    if failure is None:
                        continue
                    await self._give_up()
                    return failure
                try:
                    if self._has_call(load):
                        await streams.give_up()
                        raise BlockedError("a call may touch any row")
                    await streams.take(load)
                except (RefusedError, BlockedError) as error:
                    self.counts.fallbacks.append((batch.upto, str(error)))
                    self._partial = DeliveryCounts()
                    break
                self._count(load)
            else:
                return None
        if self._points.armed:
            await self._points.reach("agent.serial")
        self.seen = self.target.position
        return await self.serial([batch], depth=1)

    def _has_call(self, load: BatchLoad) -> bool:
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
        await perform(
            target.lines[0], s.BeginBatch(), s.Move(target.position, upto), s.CommitBatch()
        )
        target.position = self.seen = upto
