"""The distribution agent: brings a Publisher's transactions to one Subscriber, each exactly once.

A short loop around the planner. The position is written in the commit of the data, so whatever happens to the
agent, it goes on where the Subscriber is. Two batches are on their way at a time: the second finds the
position where the first should have left it, or is refused.

Runs beside the distribution database (push) or beside the Subscriber (pull): it is the same.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace

import psycopg

from subscriber.distribution_agent.delivery import Counts, Delivery
from subscriber.distribution_agent.failures import may_pass
from subscriber.distribution_agent.grouping import keep_apart
from subscriber.distribution_agent.mending import Mending
from subscriber.distribution_agent.mending_plan import AheadError, PassingError
from subscriber.distribution_agent.patience import Patience
from subscriber.distribution_agent.pipe import LostError, Pipe
from subscriber.distribution_agent.profile import Profile
from subscriber.distribution_agent.reporting import Reporting
from subscriber.distribution_agent.source import Source
from subscriber.distribution_agent.streams import Streams
from subscriber.distribution_agent.target import RefusedError, Target
from twopc.drivers.points import Points
from twopc.errors import DeliveryError, TwopcError
from twopc.log import get_logger
from twopc.lsn import lsn_text, lsn_value

logger = get_logger(__name__)

#: How often the distribution database is told the position, at most.
_REPORT_EVERY_MS = 1000
#: How long an agent that is told to stop may take: it may wait for a row that somebody holds.
END_S = 3.0
#: How often `run_once` tries what may pass by itself, a deadlock for one.
_ATTEMPTS = 4
_PASSING = (PassingError, LostError, RefusedError, psycopg.OperationalError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What an agent has done since it was opened, or within one `run_once`."""

    transactions: int = 0
    """Source transactions that it has passed, the Subscriber's own left out."""
    commands: int = 0
    batches: int = 0
    """Commits at the Subscriber."""
    skipped: int = 0
    """Source transactions dropped because of an error to pass over."""
    position: str = "0/0"
    """Up to where everything is at the Subscriber, a pg_lsn."""


class DistributionAgent:
    """One subscription's agent.

    Args:
        subscriber, publisher: node names; the Subscriber's name is also that of its changes' originator.
        distribution_dsn, subscriber_dsn: of the agent's role at either database.
        profile: None: the one that is kept with the subscription, read whenever it connects.
        points: protocol points; None: those that the environment arms.
    """

    def __init__(
        self,
        *,
        subscriber: str,
        publisher: str,
        distribution_dsn: str,
        subscriber_dsn: str,
        profile: Profile | None = None,
        points: Points | None = None,
    ) -> None:
        self.subscriber = subscriber
        self.publisher = publisher
        self._given = profile
        self.profile = profile or Profile()
        self._distribution_dsn = distribution_dsn
        self._subscriber_dsn = subscriber_dsn
        self._points = points if points is not None else Points(os.environ)
        self._news = asyncio.Event()
        """There may be something to do."""
        self._source: Source | None = None
        self._target: Target | None = None
        self._streams: Streams | None = None
        self._delivery: Delivery | None = None
        self._reporting: Reporting | None = None
        self._stop = asyncio.Event()
        self._total = Counts()
        """Since this object was made."""
        self._recent = Counts()
        """Since the last row of history that counts."""
        self._recent_since = time.monotonic()
        self._reported = 0
        """The position that the distribution database was told."""
        self._reported_at = 0.0
        self._ended = False
        """The last row of history says how it ended."""

    # -- connections ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect to both databases and find where to go on; harmless twice.

        Raises:
            DeliveryError: another agent of this subscription is running, or a database refuses us.
            SubscriptionError: there is no such subscription.
        """
        try:
            await self._open()
        except BaseException:
            await self._disconnect()
            raise

    async def _open(self) -> None:
        """As `open`; what is open stays so if it fails, to say why in the distribution database."""
        if self._delivery is not None:
            return
        try:
            await self._connect()
        except RefusedError as error:
            report = error.answer.failure
            if report is None or may_pass(report):
                raise
            raise DeliveryError(
                f"{self.subscriber}: the agent cannot begin: {report.message}",
                node=self.subscriber,
                sqlstate=report.sqlstate,
            ) from error
        self._recent, self._recent_since = Counts(), time.monotonic()
        self._reported, self._ended, self._busy = 0, False, False
        assert self._reporting is not None and self._target is not None
        await self._reporting.event("started", seqno=self._target.position)
        if self._points.armed:
            await self._points.reach("agent.opened")

    async def _connect(self) -> None:
        await self._disconnect()
        source = self._source = await Source.open(
            self._distribution_dsn,
            publisher=self.publisher,
            subscriber=self.subscriber,
            profile=self._given,
            news=self._news,
        )
        profile = self.profile = source.profile
        self._reporting = Reporting(source.pipe, source.publisher_database_id, self.subscriber)
        target = self._target = await Target.open(
            self._subscriber_dsn,
            publisher=self.publisher,
            publisher_db=source.publisher_db,
            subscriber=self.subscriber,
            profile=profile,
        )
        if profile.subscription_streams > 1:
            watch = await Pipe.connect(
                self._subscriber_dsn, application_name="msrepl\\ streams\\ watched"
            )
            self._streams = Streams(target, watch, self._points)
        self._delivery = Delivery(source, target, self._streams, profile, self._points)

    async def close(self) -> None:
        """Say how far it came, and disconnect; harmless twice."""
        # Interrupted in the middle of something, it has nothing to say, and might wait for itself.
        if self._delivery is not None and not self._busy:
            with suppress(*_PASSING):
                await self._report()
            if not self._ended:
                await self._say("succeeded")
        await self._disconnect()

    async def _disconnect(self) -> None:
        parts = (self._streams, self._target, self._source)
        self._streams = self._target = self._source = None
        self._delivery = self._reporting = None
        for part in parts:
            if part is not None:
                await part.close()

    @property
    def position(self) -> str:
        """Up to where everything is at the Subscriber, a pg_lsn; ``0/0`` before `open`."""
        return lsn_text(self._target.position if self._target is not None else 0)

    # -- work -------------------------------------------------------------------------------------

    async def run_once(self, *, final: bool = True) -> Delivered:
        """Deliver everything that is in the distribution database now; opens if need be.

        Args:
            final: False: the Subscriber may have made changes that the log reader has not read yet; if a
                command clashes with what may be one of them, the error is an `AheadError`.

        Raises:
            DeliveryError: a command cannot be applied, or a database does not answer; what came before is
                delivered.
        """
        self._stop = asyncio.Event()
        before = replace(self._total)
        try:
            for attempt in range(_ATTEMPTS):
                was_open = self._delivery is not None
                try:
                    await self._open()
                    while await self._window(final=final):
                        pass
                    await self._report()
                    break
                except _PASSING as error:
                    await self._say("retry", error)
                    await self._disconnect()
                    # sessions of an earlier call may have ended since, with their server for one
                    may_pass = isinstance(error, PassingError) or was_open
                    if attempt == _ATTEMPTS - 1 or not may_pass:
                        raise DeliveryError(
                            f"{self.subscriber}: {error}; try again", node=self.subscriber
                        ) from error
        except TwopcError as error:
            await self._say("retry" if isinstance(error, AheadError) else "failed", error)
            raise
        if self._recent.transactions or self._recent.skipped:
            await self._say("succeeded")
        total = self._total
        return Delivered(
            transactions=total.transactions - before.transactions,
            commands=total.commands - before.commands,
            batches=total.batches - before.batches,
            skipped=total.skipped - before.skipped,
            position=self.position,
        )

    async def run(self, stop: asyncio.Event) -> Delivered:
        """Deliver whatever comes until `stop` is set; opens, and closes in the end.

        Raises:
            DeliveryError: a command cannot be applied and is not to be skipped, or what seemed to pass by
                itself did not within the profile's attempts.
        """
        self._stop = stop
        waker = asyncio.ensure_future(stop.wait())
        waker.add_done_callback(lambda _: self._news.set())
        patience = Patience(self.profile)
        try:
            while not stop.is_set():
                self._news.clear()
                try:
                    await self._open()
                    patience.profile = self.profile
                    more = await self._window(final=patience.is_over)
                    patience.renew()
                    await self._look_at_clock(idle=not more)
                except AheadError as error:
                    if patience.clash(error):
                        await self._say("retry", error)
                    await self._wait(patience.clash_wait_ms)
                except _PASSING as error:
                    wait_ms = patience.failed(error, self.subscriber)
                    await self._say("retry", error)
                    await self._disconnect()
                    logger.warning("agent tries again", error=str(error), wait_ms=wait_ms)
                    await self._wait(wait_ms, until=stop)
        except TwopcError as error:
            await self._say("failed", error)
            await self._disconnect()
            raise
        finally:
            waker.cancel()
            await self.close()
        return self.delivered

    @property
    def delivered(self) -> Delivered:
        """Since this object was made, up to the position that was reported."""
        total = self._total
        return Delivered(
            transactions=total.transactions,
            commands=total.commands,
            batches=total.batches,
            skipped=total.skipped,
            position=lsn_text(self._reported),
        )

    async def _window(self, *, final: bool) -> bool:
        """Deliver the next transactions; whether there were any."""
        source, delivery, reporting = self._source, self._delivery, self._reporting
        assert source is not None and delivery is not None and reporting is not None
        changed, window = await source.window(delivery.seen)
        if changed:
            delivery.subscribe(source.subscription)
        planner = delivery.planner
        start = planner.start(delivery.seen)
        if start > delivery.seen:
            delivery.seen = start
            return True
        if not planner.terms:
            return False
        if not len(window):
            await delivery.flush()
            return False
        if self._points.armed:
            await self._points.reach("agent.planned")
        delivery.apart = await keep_apart(delivery, window)
        self._busy = True
        try:
            failure = await delivery.deliver(list(planner.plan(delivery.seen, window)), self._stop)
            if failure is not None:
                mending = Mending(delivery, reporting, self.profile, final=final)
                await mending.mend(failure)
        except DeliveryError:
            self._busy = False
            raise
        finally:
            await self._count()
        self._busy = False
        return True

    async def _count(self) -> None:
        """Take over what was delivered since the last time."""
        assert self._delivery is not None and self._reporting is not None
        counts, self._delivery.counts = self._delivery.counts, Counts()
        self._total.add(counts)
        self._recent.add(counts)
        for posted in counts.posted:
            await self._reporting.posted(posted)
        for upto, why in counts.fallbacks:
            await self._reporting.event(
                "serial", seqno=upto, message=f"the batch went over one connection: {why}"
            )

    # -- what it says of itself ---------------------------------------------------------------------

    async def _look_at_clock(self, *, idle: bool) -> None:
        """Report what is due; an idle agent then waits for news."""
        profile, now = self.profile, time.monotonic()
        due_ms = _REPORT_EVERY_MS - (now - self._reported_at) * 1000
        behind = self._target is not None and self._reported < self._target.position
        if behind and due_ms <= 0:
            await self._report()
        elif idle:
            wait_ms = (
                min(due_ms, profile.polling_interval_ms) if behind else profile.polling_interval_ms
            )
            await self._wait(wait_ms)
        since_ms = (now - self._recent_since) * 1000
        if since_ms >= profile.message_interval_ms and self._recent.batches:
            await self._say("progress")

    async def _wait(self, timeout_ms: float, until: asyncio.Event | None = None) -> None:
        """Until there is news, or `until` is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await (until or self._news).wait()

    async def _report(self) -> None:
        """Tell the distribution database what it need not keep for this Subscriber any more."""
        target, reporting = self._target, self._reporting
        if target is None or reporting is None or self._reported == target.position:
            return
        if self._points.armed:
            await self._points.reach("agent.before_report")
        await target.make_durable()
        await reporting.delivered(target.position)
        self._reported, self._reported_at = target.position, time.monotonic()

    async def _say(self, event: str, error: Exception | None = None) -> None:
        """A row of history with what was delivered since the last one."""
        if self._reporting is None:
            return
        self._ended = event in ("succeeded", "failed")
        counts, since, now = self._recent, self._recent_since, time.monotonic()
        self._recent, self._recent_since = Counts(), now
        number, command, seqno = "", "", None
        if isinstance(error, DeliveryError):
            number, command = str(error.number or error.sqlstate), error.command
            seqno = lsn_value(error.seqno) if error.seqno else None
        elif self._target is not None:
            seqno = self._target.position
        await self._reporting.event(
            event,
            duration_ms=(now - since) * 1000,
            transactions=counts.transactions,
            commands=counts.commands,
            seqno=seqno,
            error=number,
            message=str(error) if error is not None else "",
            command=command,
        )
