"""Delivery of batches to the Subscriber: sending, confirming, counting.

The module does not handle failures: it returns the batch that failed, of which nothing is left at the Subscriber.
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

#: Number of groups in flight: the Subscriber works on one while the next is sent.
_DEPTH = 2
#: Minimum number of commands in a window for articles to be delivered apart.
_MANY = 1000
#: Number of transactions, and of commands of each, that are examined.
_SAMPLE, _SAMPLE_COMMANDS = 200, 1000
#: Minimum number of an article's commands per batch for the article to be delivered apart.
_BATCH_MIN = 32


@dataclass(slots=True, kw_only=True)
class DeliveryCounts:
    """Counts of delivered transactions and commands."""

    transactions: int = 0
    """Number of source transactions passed, without the Subscriber's own."""
    commands: int = 0
    batches: int = 0
    skipped: int = 0
    """Number of source transactions dropped because of an error to skip."""
    posted: list[StoredMessage] = field(default_factory=list)
    """Messages for every Subscriber that have arrived and are not yet reported."""
    fallbacks: list[tuple[int, str]] = field(default_factory=list)
    """Batches that streams could not deliver, and the reasons; not yet reported."""

    def add(self, other: DeliveryCounts) -> None:
        """Add the counts of `other`."""
        self.transactions += other.transactions
        self.commands += other.commands
        self.batches += other.batches
        self.skipped += other.skipped


class Delivery:
    """Delivers batches to the Subscriber.

    Args:
        streams: None if all commands go over one connection.
        planner: class of the planner.
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
        """Counts of a batch whose last load is not confirmed."""
        self.planner = planner((), profile)
        self.seen = target.position
        """Position up to which transactions are delivered or are not for this Subscriber."""
        self.apart: tuple[int, ...] = ()
        """Articles whose commands are delivered apart from those of other articles."""
        self.exact = False
        """Whether commands are applied one by one, in their order, and not apart."""
        self._wary = False
        """Whether a batch has failed since the last complete window."""
        self._streams = streams
        self._profile = profile
        self._points = points

    @property
    def may_begin(self) -> bool:
        """Whether delivery of a transaction may begin before all of it is stored."""
        return self._streams is None and not self._wary

    def subscribe(self) -> None:
        """Take over the source's current subscription."""
        subscription = self.source.subscription
        calls = [code_of(article_id, CALL_TYPE) for article_id in subscription.calls]
        self.planner = type(self.planner)(subscription.terms, self._profile, calls)
        self.target.subscribe(subscription)

    async def keep_apart(self, window: Window) -> None:
        """Choose the articles to deliver apart, based on the first transactions of a window.

        Commands that are all of one type can be applied as a set. Within one commit the order in which rows of
        different tables change is visible only to code that these changes run at the Subscriber. The order of
        one article's commands is never changed, nor any order if routines are published: a call reads and
        changes rows of other articles, and rows beside calls are those of another article's table.
        """
        planner = self.planner
        self.apart = ()
        if planner.calls or any(each.article_id > BESIDE for each in planner.terms):
            return
        if len(planner.terms) < 2 or sum(window.commands) < _MANY:
            return
        if not await self.target.is_order_free():
            return
        sample = window.part(slice(_SAMPLE))
        uniform = await self.source.uniform(
            self.seen,
            sample.seqnos[-1],
            [each.article_id for each in planner.terms],
            _SAMPLE_COMMANDS,
        )
        least = _BATCH_MIN * len(list(planner.plan(self.seen, sample)))
        self.apart = tuple(article_id for article_id, count in uniform.items() if count >= least)

    async def deliver(self, window: Window, stop: Signal | None) -> DeliveryFailure | None:
        """Deliver the transactions of a window, in order, up to the batch that fails.

        Args:
            stop: begin no further batch once this is set.

        Returns:
            The failure of a batch of the usual size that is wholly stored; after another failure None, and the
            next call meets the failure in such a batch.

        Raises:
            LostError: a connection is lost.
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
        """Deliver batches over one connection; see `deliver`."""
        flight: deque[tuple[BatchLoad, PendingGroup]] = deque()
        failure = None
        sent = self.target.position
        try:
            async with aclosing(self.loads(batches, 1)) as loads:
                async for load in loads:
                    if load.first and stop is not None and stop.is_set():
                        break
                    if self._has_no_commands(load):
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
        except UnfinishedError:
            await self._give_up(flight)
            raise
        if failure is not None:
            await self._give_up(flight)
        return failure

    async def _give_up(self, flight: Iterable[tuple[BatchLoad, PendingGroup]] = ()) -> None:
        """Roll back a failed batch and all later ones in flight; the next delivery begins after the position."""
        await answers(pending for _, pending in flight)
        await self.target.lines[0].send(s.Rollback())
        self.seen, self._partial = self.target.position, DeliveryCounts()

    def loads(self, batches: Sequence[Batch], streams: int) -> AsyncGenerator[BatchLoad, None]:
        """Yield the batches with their commands, without the Subscriber's own."""
        return self.source.loads(
            batches,
            own=self.planner.own,
            streams=streams,
            apart=() if self.exact else self.apart,
        )

    def _has_no_commands(self, load: BatchLoad) -> bool:
        """Return whether a batch has no command for this Subscriber; the position then moves with a later batch."""
        if load.parts or load.posted or not (load.first and load.last):
            return False
        self.seen = load.batch.upto
        self.counts.transactions += len(load.batch.seqnos) - load.batch.own
        return True

    def send(self, load: BatchLoad, position: int) -> PendingGroup:
        """Send a load over one connection: the position moves in the commit of the data.

        Args:
            position: position of the Subscriber at the time the load arrives.
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
            return DeliveryFailure(batch=load.batch, report=answer.failure)
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
        """Deliver batches over all connections; deliver the first one that fails over one connection, and return."""
        async with aclosing(self.loads(batches, len(self.target.lines))) as loads:
            async for load in loads:
                if load.first and stop is not None and stop.is_set():
                    return None
                if self._has_no_commands(load):
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
        """Return whether a load contains a call of a routine."""
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
        """Move the position to `seen` if it is behind."""
        if self.seen > self.target.position:
            await self._move(self.seen)

    async def _move(self, upto: int) -> None:
        target = self.target
        await perform(
            target.lines[0], s.BeginBatch(), s.Move(target.position, upto), s.CommitBatch()
        )
        target.position = self.seen = upto
