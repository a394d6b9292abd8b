"""The log reader: moves what was committed at a Publisher into the distribution database, in that order.

The loop only; what becomes of a message is decided in `planner`. It must not know who subscribes.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import errors

from twopc.drivers.points import Points
from twopc.errors import ArticleError, SlotInUseError, TwopcError
from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.publisher.filters import RowFilters
from twopc.publisher.log_reader import history
from twopc.publisher.log_reader.control import Control
from twopc.publisher.log_reader.intake import Intake, Progress
from twopc.publisher.log_reader.live import Live
from twopc.publisher.log_reader.planner import Planner
from twopc.publisher.log_reader.reading import Read, Reading
from twopc.publisher.log_reader.sources import Peek
from twopc.publisher.log_reader.store import Store

_log = get_logger(__name__)

#: How often to begin anew because articles change while they are read.
_ATTEMPTS = 20
#: How often marks of calls are removed at most.
_FORGET_EVERY_S = 60
#: After so many messages look whether peeking is the better way.
_LOOK_AFTER = 20_000


class LogReader:
    """Reads the log of one Publisher's database.

    Use it by one task: `run_once` for what is there, or `run` for ever. After an error every session is
    closed, and the next pass opens new ones: one in which decoding has failed is not to be trusted.

    Args:
        publisher: its node name, under which the distribution database knows it.
        publisher_dsn: to its database, as a role that may read the log.
        distribution_dsn: to the distribution database, as a role that may store.
        slot: the replication slot.
        points: where tests place faults.
    """

    def __init__(
        self,
        *,
        publisher: str,
        publisher_dsn: str,
        distribution_dsn: str,
        slot: str,
        reading: Reading | None = None,
        points: Points | None = None,
    ) -> None:
        self.publisher = publisher
        self.slot = slot
        self.reading = reading or Reading()
        self.points = points or Points()
        self._publisher_dsn = publisher_dsn
        self._distribution_dsn = distribution_dsn
        self._name = f"msrepl logreader {publisher}"
        self._control: Control | None = None
        self._store: Store | None = None
        self._intake: Intake | None = None
        self._live: Live | None = None
        self._progress = Progress()
        self._forgot_at = 0.0

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect to both databases; harmless if it is open.

        Raises:
            ServerError: the slot is not there or cannot be read, another log reader reads it (18752), or the
                log lacks what must be in it.
            SubscriptionError: the distribution database does not know the Publisher.
        """
        if self._store is not None:
            return
        try:
            self._control = await Control.open(
                self._publisher_dsn,
                self._name,
                self.publisher,
                self.slot,
                takeover_s=self.reading.takeover_s,
            )
            self._store = await Store.open(
                self._distribution_dsn, self._name, self.publisher, self.points
            )
            await self._control.check_end(self.publisher, self._store.read_to)
            await self._learn()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every session; harmless twice."""
        live, self._live = self._live, None
        store, self._store = self._store, None
        control, self._control = self._control, None
        for each in (live, store, control):
            if each is not None:
                await each.close()

    async def pass_over(self, upto: int) -> None:
        """Store nothing that was committed up to a position; the distribution database has it as its mark.

        For whoever has put the tables back to what they were: that is no change for a Subscriber. Between
        passes only.
        """
        intake = self._intake
        if self._store is None or intake is None or not intake.is_settled:
            await self.close()  # the next pass finds the mark
        else:
            intake.pass_over(upto)

    async def _learn(self) -> None:
        """Begin anew behind what is stored, with the articles as they are now."""
        assert self._control is not None
        assert self._store is not None
        known = await self._store.registry()
        planner = Planner(
            publisher=self._store.publisher,
            builder=known.builder,
            originators=known.originators,
            read_to=self._store.read_to,
            next_xid=self._control.next_xid,
            calls=known.calls,
            beside_until=known.beside_until,
            # of what was committed before the first store nothing is known
            horizon=known.horizon or self._control.next_xid - 1,
        )
        self._intake = Intake(
            planner,
            RowFilters(self._control.connection, known.builder),
            self._store,
            self._progress,
            publisher=self.publisher,
            reading=self.reading,
            points=self.points,
        )

    def _taking(self) -> Intake:
        """What takes messages in; there is one as soon as it is open."""
        assert self._intake is not None
        return self._intake

    # -- passes -----------------------------------------------------------------------------------

    async def run_once(self) -> Read:
        """Store everything that was committed at the Publisher before this call.

        Raises:
            ServerError: see `open`.
            ArticleError: an article does not fit what the log holds of its table (names both, and the
                remedy); nothing from that transaction on is stored until it does.
            psycopg.Error: a server failed; the next call begins anew where the store ends.
        """
        try:
            return await self._pass()
        finally:
            if self._live is not None:
                self._live.leave(settled=self._taking().is_settled)

    async def _pass(self) -> Read:
        self._progress.transactions = self._progress.commands = 0
        caught_up = False
        for attempt in range(_ATTEMPTS):
            learned_before = self._store is not None
            try:
                await self.open()
                await self._resume()
                target, behind = await self._look()
                far = self._live is None and behind > self.reading.catch_up_bytes
                while far or not await self._follow(until=target):
                    caught_up, far = True, False
                    await self._catch_up()
                break
            except errors.SerializationFailure:
                # articles have changed meanwhile: what was not stored is made of the new ones
                await self.close()
                if attempt == _ATTEMPTS - 1:
                    raise
            except BaseException as error:
                await self.close()
                if (
                    isinstance(error, ArticleError | psycopg.OperationalError)
                    and learned_before
                    and attempt < _ATTEMPTS - 1
                ):
                    # it may have been regenerated since, or the server may have ended a session that
                    # nobody attended to: begin anew with both as they are now
                    continue
                if isinstance(error, TwopcError | psycopg.Error) and not _may_pass(error):
                    await history.record(self._distribution_dsn, self.publisher, "failed", error)
                raise
        return Read(
            transactions=self._progress.transactions,
            commands=self._progress.commands,
            position=lsn_text(self._progress.position),
            caught_up=caught_up,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop`. A server that fails is tried again, at growing intervals; so is a slot that another
        log reader has taken between two sessions of this one.

        Raises:
            TwopcError, psycopg.Error: what trying again does not mend; it is recorded in the history.
        """
        stopped = asyncio.ensure_future(stop.wait())
        pause_s, said, has_read = 0.0, "", False
        await history.record(self._distribution_dsn, self.publisher, "started")
        try:
            while not stopped.done():
                try:
                    await self._pass()
                    pause_s, said, has_read = 0.0, "", True
                    await self._attend(stopped)
                except (psycopg.Error, OSError, SlotInUseError) as error:
                    await self.close()
                    if not (_may_pass(error) or (has_read and isinstance(error, SlotInUseError))):
                        raise
                    _log.warning(
                        "log reader tries again", publisher=self.publisher, reason=str(error)
                    )
                    if str(error) != said:
                        said = str(error)
                        await history.record(self._distribution_dsn, self.publisher, "retry", error)
                    pause_s = min(
                        max(2 * pause_s, self.reading.retry_s_min), self.reading.retry_s_max
                    )
                    await asyncio.wait((stopped,), timeout=pause_s)
            await history.record(self._distribution_dsn, self.publisher, "succeeded")
        finally:
            stopped.cancel()
            await self.close()

    async def _attend(self, stopped: asyncio.Future[Any]) -> None:
        """Store what comes, until `stopped`, or until a pass from the beginning is better."""
        try:
            await self._follow(stopped=stopped)
        except (errors.SerializationFailure, ArticleError):
            await self.close()  # the next pass knows the articles as they are now
        except (TwopcError, psycopg.Error) as error:
            if not _may_pass(error):
                await history.record(self._distribution_dsn, self.publisher, "failed", error)
            raise

    async def _look(self) -> tuple[int, int]:
        """A position before which lies everything committed by now, and how far we are from it."""
        assert self._control is not None
        flushed, confirmed = await self._control.look()
        return flushed, flushed - max(confirmed, self._progress.position)

    async def _catch_up(self) -> None:
        """Peek, store and advance until everything committed before this call is stored."""
        assert self._control is not None
        await self._leave_live()
        await self._control.log_snapshot()  # past it, the slot can let go of the log before
        target, _ = await self._look()
        peek = await Peek.open(self._publisher_dsn, self._name, self.slot)
        try:
            while True:
                await peek.begin(
                    target, self.reading.peek_messages, timeout_s=self.reading.release_s
                )
                while block := await peek.block():
                    await self._taking().take(block)
                await self._taking().store()
                if peek.exhausted:
                    self._progress.position = max(self._progress.position, target)
                await self._reach("log_reader.before_advance")
                await self._control.advance(self._progress.position)
                await self._reach("log_reader.after_advance")
                await self._forget_calls()
                if peek.exhausted:
                    return
        finally:
            await peek.close()

    async def _follow(
        self, *, until: int | None = None, stopped: asyncio.Future[Any] | None = None
    ) -> bool:
        """Store what the live source sends, to a position or for ever.

        Returns:
            False: it sends a lot and will go on to; peeking is the better way.
        """
        live = await self._be_live()
        if until is not None and self._progress.position >= until:
            return True
        await live.ask()
        looked = live.count
        while stopped is None or not stopped.done():
            await self._step(live)
            if until is not None and self._progress.position >= until:
                return True
            assert self._store is not None
            if live.count - looked >= _LOOK_AFTER and not self._store.streaming:
                looked = live.count
                await self._taking().store()
                _, behind = await self._look()
                if behind > self.reading.catch_up_bytes:
                    return False
            if live.drained:
                await live.wire.readable(stopped)
        return True

    async def _step(self, live: Live) -> None:
        """Take in what has arrived; store it when nothing more has, or it is enough."""
        block = await live.take()
        if block:
            await self._taking().take(block)
        intake = self._taking()
        if live.drained and not intake.planner.open:
            await self._taking().store()
            # where the server says it is, lies behind everything that it has sent before
            self._progress.position = max(self._progress.position, live.position)
        if await live.confirm(self._progress.position):
            await self._reach("log_reader.after_advance")
            await self._forget_calls()

    async def _forget_calls(self) -> None:
        """Where calls are stored: their marks have been read."""
        assert self._control is not None
        now = asyncio.get_running_loop().time()
        if self._taking().planner.has_calls and now - self._forgot_at >= _FORGET_EVERY_S:
            self._forgot_at = now
            await self._control.forget_calls()

    async def _be_live(self) -> Live:
        if self._live is None:
            self._live = await Live.open(
                self._publisher_dsn, self._name, self.slot, timeout_s=self.reading.release_s
            )
        return self._live

    async def _resume(self) -> None:
        """Read the live source again that was left to itself, if it is there still."""
        if self._live is not None:
            self._live.resume()
            if self._live.ended:
                await self._leave_live()

    async def _leave_live(self) -> None:
        """Have no live source any more. What it has sent and is not stored comes again."""
        live, self._live = self._live, None
        if live is not None:
            await live.close()
            await self._learn()

    async def _reach(self, point: str) -> None:
        if self.points.armed:
            await self.points.reach(point)


def _may_pass(error: BaseException) -> bool:
    """The server failed, or was away: trying again may help."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
