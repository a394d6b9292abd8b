"""The distribution agent: delivers a Publisher's transactions to one Subscriber, each exactly once.

A short loop around the planner. The position is written in the commit of the data, so after any failure the agent
resumes where the Subscriber is. Two batches are in flight at a time: the second one is refused unless the first has
moved the position as expected.

The same code runs beside the distribution database (push) or beside the Subscriber (pull), on servers or in virtual
time. The module must not know how a database is queried.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import psycopg

from twopc.drivers.points import Points
from twopc.errors import DeliveryError, TwopcError
from twopc.log import get_logger
from twopc.lsn import lsn_text, lsn_value
from twopc.subscriber.distribution_agent import steps as s
from twopc.subscriber.distribution_agent.batch_failure import Mending
from twopc.subscriber.distribution_agent.delivery import Delivery, DeliveryCounts
from twopc.subscriber.distribution_agent.failures import may_pass
from twopc.subscriber.distribution_agent.patience import RetryPatience
from twopc.subscriber.distribution_agent.planner import BatchPlanner
from twopc.subscriber.distribution_agent.ports import (
    AgentEvent,
    AheadError,
    LostError,
    PassingError,
    RefusedError,
    Signal,
    SourcePort,
    TargetPort,
    WorldPort,
    perform,
)
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.streams import Streams, settle

logger = get_logger(__name__)

#: Minimum interval between reports of the position to the distribution database.
_REPORT_EVERY_MS = 1000
#: Attempts of `run_once` at temporary failures, such as a deadlock.
_ATTEMPTS = 4
_PASSING = (PassingError, LostError, RefusedError, psycopg.OperationalError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgress:
    """What an agent has delivered since it was created, or within one `run_once`."""

    transactions: int = 0
    """Number of source transactions passed, without the Subscriber's own."""
    commands: int = 0
    batches: int = 0
    """Number of commits at the Subscriber."""
    skipped: int = 0
    """Number of source transactions dropped because of an error to skip."""
    position: str = "0/0"
    """Position up to which transactions are delivered, a pg_lsn."""


class DistributionAgent:
    """Distribution agent of one subscription.

    Args:
        profile: None for the profile stored with the subscription, read at every connection.
        points: protocol points; None for those that the environment arms.
    """

    planner: ClassVar[type[BatchPlanner]] = BatchPlanner
    delivery: ClassVar[type[Delivery]] = Delivery
    streams: ClassVar[type[Streams]] = Streams
    mending: ClassVar[type[Mending]] = Mending
    settle = staticmethod(settle)

    def __init__(
        self, world: WorldPort, *, profile: Profile | None = None, points: Points | None = None
    ) -> None:
        self.subscriber = world.subscriber
        self.publisher = world.publisher
        self._world = world
        self._given = profile
        self.profile = profile or Profile()
        self._points = points if points is not None else Points(os.environ)
        self._source: SourcePort | None = None
        self._target: TargetPort | None = None
        self._delivery: Delivery | None = None
        self._total = DeliveryCounts()
        """Counts since this object was created."""
        self._recent = DeliveryCounts()
        """Counts since the last row of history that contains counts."""
        self._recent_since = 0.0
        self._reported = 0
        """Position last reported to the distribution database."""
        self._reported_at = 0.0
        self._ended = False
        """Whether the last row of history records how the agent ended."""
        self._busy = False
        """Whether a batch is in flight, or was when the agent was interrupted."""

    # -- connections ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect to both databases and find the position to resume at; idempotent.

        Raises:
            DeliveryError: another agent of this subscription is running, or a database refuses the agent.
            SubscriptionError: the subscription does not exist.
        """
        try:
            await self._open()
        except BaseException:
            await self._disconnect()
            raise

    async def _open(self) -> None:
        """Connect as `open` does, but after a failure keep open connections, so that the failure can be recorded in
        the distribution database.
        """
        # after a cancelled call the state of its sessions is unknown: new sessions resolve it
        if self._delivery is not None and not self._busy:
            return
        self._recent_since = self._world.time()
        try:
            source, target = await self._connect()
        except RefusedError as error:
            report = error.report
            if may_pass(report):
                raise
            raise DeliveryError(
                f"{self.subscriber}: the agent cannot begin: {report.message}",
                node=self.subscriber,
                sqlstate=report.sqlstate,
            ) from error
        self._recent, self._recent_since = DeliveryCounts(), self._world.time()
        self._reported, self._ended, self._busy = 0, False, False
        await source.history.event(AgentEvent(event="started", seqno=target.position))
        if self._points.armed:
            await self._points.reach("agent.opened")

    async def _connect(self) -> tuple[SourcePort, TargetPort]:
        await self._disconnect()
        source = self._source = await self._world.source(self._given)
        profile = self.profile = source.profile
        target = await self._world.target(source.publisher_db, profile)
        try:
            if rival := await target.rival():
                raise DeliveryError(
                    f"another distribution agent from {self.publisher!r} to {self.subscriber!r} is running"
                    f" (21036; {rival}): stop it first",
                    node=self.subscriber,
                    number=21036,
                    sqlstate="55P03",
                )
            await target.find_position()
            await self.settle(target)
            await target.open_streams(profile.subscription_streams)
        except BaseException:
            await target.close()
            raise
        self._target = target
        streams = None
        if profile.subscription_streams > 1:
            streams = self.streams(self._world, target, self._points)
        self._delivery = self.delivery(source, target, streams, profile, self._points, self.planner)
        return source, target

    async def close(self) -> None:
        """Report the position, and disconnect; idempotent."""
        # An agent interrupted in a batch has nothing to report, and might wait for itself.
        if self._delivery is not None and not self._busy:
            with suppress(*_PASSING):
                await self._report()
            if not self._ended:
                await self._record("succeeded")
        await self._disconnect()

    async def _disconnect(self) -> None:
        parts = (self._target, self._source)
        self._source = self._target = self._delivery = None
        for part in parts:
            if part is not None:
                await part.close()

    @property
    def position(self) -> str:
        """Position up to which transactions are delivered, a pg_lsn; ``0/0`` before `open`."""
        return lsn_text(self._target.position if self._target is not None else 0)

    @property
    def seen(self) -> int:
        """Position up to which transactions are delivered or not for this Subscriber; 0 before `open`."""
        return self._delivery.seen if self._delivery is not None else 0

    # -- work -------------------------------------------------------------------------------------

    async def run_once(self, *, final: bool = True) -> AgentProgress:
        """Deliver all transactions stored so far; open the agent if necessary.

        Args:
            final: False if the Subscriber may have made changes that the log reader has not read yet: a command
                that conflicts with what may be one of them then raises `AheadError`.

        Raises:
            DeliveryError: a command cannot be applied, or a database does not answer; earlier transactions are
                delivered.
        """
        before = replace(self._total)
        try:
            for attempt in range(_ATTEMPTS):
                was_open = self._delivery is not None
                try:
                    await self._open()
                    while await self._window(None, final=final):
                        pass
                    await self._report()
                    break
                except _PASSING as error:
                    await self._record("retry", error)
                    await self._disconnect()
                    # sessions of an earlier call may have ended since, for example with their server
                    may_pass = isinstance(error, PassingError) or was_open
                    if attempt == _ATTEMPTS - 1 or not may_pass:
                        raise DeliveryError(
                            f"{self.subscriber}: {error}; try again", node=self.subscriber
                        ) from error
        except TwopcError as error:
            await self._record("retry" if isinstance(error, AheadError) else "failed", error)
            raise
        if self._recent.transactions or self._recent.skipped:
            await self._record("succeeded")
        return self._progress(before, self._target.position if self._target is not None else 0)

    async def run(self, stop: Signal) -> AgentProgress:
        """Deliver transactions until `stop` is set; open the agent first, and close it in the end.

        Raises:
            DeliveryError: a command cannot be applied and is not to be skipped, or a temporary failure
                persisted through the profile's attempts.
        """
        try:
            await self._run(stop)
        except TwopcError as error:
            await self._record("failed", error)
            await self._disconnect()
            raise
        except GeneratorExit:
            raise  # the coroutine is not resumed, so it cannot await anything
        except BaseException:
            await self.close()
            raise
        await self.close()
        return self.delivered

    async def _run(self, stop: Signal) -> None:
        world, patience = self._world, RetryPatience(self.profile, self._world.time)
        while not stop.is_set():
            world.news.clear()
            try:
                await self._open()
                patience.profile = self.profile
                more = await self._window(stop, final=patience.is_over)
                patience.renew()
                await self._look_at_clock(stop, idle=not more)
            except AheadError as error:
                if patience.clash(error):
                    await self._record("retry", error)
                await world.wait((world.news, stop), patience.clash_wait_ms / 1000)
            except _PASSING as error:
                wait_ms = patience.failed(error, self.subscriber)
                await self._record("retry", error)
                await self._disconnect()
                logger.warning("agent tries again", error=str(error), wait_ms=wait_ms)
                await world.wait((stop,), wait_ms / 1000)

    @property
    def delivered(self) -> AgentProgress:
        """Progress since this object was created, with the last reported position."""
        return self._progress(DeliveryCounts(), self._reported)

    def _progress(self, before: DeliveryCounts, position: int) -> AgentProgress:
        total = self._total
        return AgentProgress(
            transactions=total.transactions - before.transactions,
            commands=total.commands - before.commands,
            batches=total.batches - before.batches,
            skipped=total.skipped - before.skipped,
            position=lsn_text(position),
        )

    async def _window(self, stop: Signal | None, *, final: bool) -> bool:
        """Deliver the next transactions; return whether there were any."""
        source, delivery = self._source, self._delivery
        assert source is not None and delivery is not None
        may_begin = stop is not None and delivery.may_begin
        changed, window = await source.window(delivery.seen, may_be_open=may_begin)
        if changed:
            delivery.subscribe()
        planner = delivery.planner
        start = planner.start(delivery.seen)
        if start > delivery.seen:
            delivery.seen = start
            return True
        if not planner.terms:
            return False
        if not len(window) or (window.is_open and not planner.may_begin(window)):
            await delivery.flush()
            return False
        if self._points.armed:
            await self._points.reach("agent.planned")
        await delivery.keep_apart(window)
        self._busy = True
        try:
            failure = await delivery.deliver(window, stop)
            if failure is not None:
                mending = self.mending(delivery, self.subscriber, self.profile, final=final)
                await mending.mend(failure)
        except DeliveryError:
            self._busy = False
            raise
        finally:
            await self._count(source, delivery)
        self._busy = False
        return True

    async def _count(self, source: SourcePort, delivery: Delivery) -> None:
        """Add the delivery's counts to the totals, and record arrived messages and fallbacks."""
        counts, delivery.counts = delivery.counts, DeliveryCounts()
        self._total.add(counts)
        self._recent.add(counts)
        for posted in counts.posted:
            await source.history.posted(posted)
        for upto, why in counts.fallbacks:
            message = f"the batch went over one connection: {why}"
            await source.history.event(AgentEvent(event="serial", seqno=upto, message=message))

    # -- history and reports ------------------------------------------------------------------------

    async def _look_at_clock(self, stop: Signal, *, idle: bool) -> None:
        """Write reports that are due; if idle, wait for news."""
        profile, world, now = self.profile, self._world, self._world.time()
        due_ms = _REPORT_EVERY_MS - (now - self._reported_at) * 1000
        behind = self._target is not None and self._reported < self._target.position
        if behind and due_ms <= 0:
            await self._report()
        elif idle:
            wait_ms = (
                min(due_ms, profile.polling_interval_ms) if behind else profile.polling_interval_ms
            )
            await world.wait((world.news, stop), wait_ms / 1000)
        since_ms = (now - self._recent_since) * 1000
        if since_ms >= profile.message_interval_ms and self._recent.batches:
            await self._record("progress")

    async def _report(self) -> None:
        """Report the position, up to which the distribution database may remove this Subscriber's transactions."""
        source, target = self._source, self._target
        if target is None or source is None or self._reported == target.position:
            return
        if self._points.armed:
            await self._points.reach("agent.before_report")
        position = target.position
        await perform(
            target.lines[0],
            s.BeginBatch(),
            s.MakeDurable(),
            s.Move(position, position),
            s.CommitBatch(),
        )
        await source.history.delivered(position)
        self._reported, self._reported_at = position, self._world.time()

    async def _record(self, event: str, error: Exception | None = None) -> None:
        """Write a row of history with the counts since the last one."""
        if self._source is None:
            return
        self._ended = event in ("succeeded", "failed")
        counts, since, now = self._recent, self._recent_since, self._world.time()
        self._recent, self._recent_since = DeliveryCounts(), now
        number, command, seqno = "", "", None
        if isinstance(error, DeliveryError):
            number, command = str(error.number or error.sqlstate), error.command
            seqno = lsn_value(error.seqno) if error.seqno else None
        elif self._target is not None:
            seqno = self._target.position
        row = AgentEvent(
            event=event,
            duration_ms=(now - since) * 1000,
            transactions=counts.transactions,
            commands=counts.commands,
            seqno=seqno,
            error=number,
            message=str(error) if error is not None else "",
            command=command,
        )
        await self._source.history.event(row)
