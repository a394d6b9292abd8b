"""The log reader: moves transactions committed at a Publisher into the distribution database, in commit order.

The engine controls the sequence: take messages, store them with the mark in one commit, and only then let the
slot move. `planner` turns messages into rows, and `ports` perform I/O, on servers and in virtual time. The
engine must not know the Subscribers.
"""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import ClassVar, Self

import psycopg
from psycopg import errors

from twopc.drivers.points import Points
from twopc.errors import (
    ArticleError,
    SlotInUseError,
    StoredMeanwhileError,
    TwopcError,
)
from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.publisher.commands import Belonging
from twopc.publisher.log_reader.continuity import Continuity, other_log
from twopc.publisher.log_reader.planner import LogPlanner
from twopc.publisher.log_reader.ports import (
    HostPort,
    LivePort,
    LogReaderProfile,
    LogSourcePort,
    PassResult,
    StorePort,
    WalPort,
    may_pass,
    name_rival,
)
from twopc.publisher.pgoutput import RowMessage

_log = get_logger(__name__)

#: Maximum number of restarts of a pass because articles changed during it.
_ATTEMPTS = 20
#: Minimum interval in seconds between removals of call markers.
_FORGET_EVERY_S = 60
#: Number of messages after which to check whether peeking is better; doubled each time, up to a limit.
_LOOK_FIRST, _LOOK_AFTER = 500, 20_000
#: Number of commands that make an incomplete transaction large: peeking would decode all of it again.
_LARGE = 400


class LogReaderEngine:
    """Reads the log of one Publisher's database.

    Only one task may use it: `run_once` for a single pass, or `attend` for continuous reading. After an error every
    session is closed, and the next pass opens new ones: a session in which decoding has failed cannot be trusted.

    Args:
        host: environment of the log reader, from which both databases are reached.
        publisher: node name under which the distribution database knows the Publisher.
        points: protocol points, at which tests place faults.
    """

    planner: ClassVar[type[LogPlanner]] = LogPlanner
    """Class that turns messages into rows."""

    def __init__(
        self,
        host: HostPort,
        *,
        publisher: str,
        reading: LogReaderProfile | None = None,
        points: Points | None = None,
    ) -> None:
        self.publisher = publisher
        self.reading = reading or LogReaderProfile()
        self.points = points or Points()
        self.position = 0
        """Position before which all committed transactions are stored."""
        self._host = host
        self._wal: WalPort | None = None
        self._store: StorePort | None = None
        self._live: LivePort | None = None
        self._planned: LogPlanner | None = None
        self._continuity: Continuity | None = None
        self._confirmed = 0  # position of the slot when it was last looked at
        self._is_new = True
        """Whether no pass has ended since the sessions were opened."""
        self._transactions = self._commands = 0
        """Numbers of transactions and commands stored since the pass began."""
        self._forgot_at = 0.0
        self._snapshot_at = 0
        """Position of the last requested snapshot, from which a new session decodes."""

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
        """Connect to both databases; does nothing if they are connected.

        Raises:
            ServerError: see `HostPort.open_wal`; or the log does not continue the store.
            SubscriptionError: the distribution database does not know the Publisher.
        """
        if self._store is not None:
            return
        try:
            self._wal = await self._host.open_wal()
            self._store = store = await self._host.open_store()
            await self._look()
            if not store.slot_limit:  # unknown to a distribution database of an earlier version
                await store.raise_slot_limit(self._confirmed)
            self._continuity = Continuity(self.publisher, store, self._confirmed)
            await self._learn()
            self._is_new = True
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every session; idempotent."""
        live, self._live = self._live, None
        store, self._store = self._store, None
        wal, self._wal = self._wal, None
        for each in (live, store, wal):
            if each is not None:
                await each.close()

    async def pass_over(self, upto: int) -> None:
        """Store no transaction committed up to a position, which the distribution database has as its mark.

        For a caller that has restored the tables to their previous content, which is no change for a Subscriber.
        Call it between passes only.
        """
        if self._store is None or self._planned is None or not self._is_settled:
            await self.close()  # the next pass finds the mark
        else:
            self._store.read_to = self._planned.read_to = max(self._planned.read_to, upto)

    # -- passes -----------------------------------------------------------------------------------

    async def run_once(self) -> PassResult:
        """Store all transactions committed at the Publisher before this call.

        Raises:
            ServerError: see `open`.
            ArticleError: an article does not fit the log's description of its table (names both, and the
                remedy); no transaction from that one on is stored until it does.
            psycopg.Error: a server failed; the next call resumes at the end of the store.
        """
        try:
            return await self._pass()
        finally:
            if self._live is not None:
                self._live.leave(settled=self._is_settled)

    async def attend(self) -> None:
        """Read until the host is stopping. Retry at growing intervals if a server fails, or if another log reader
        has taken the slot between two sessions of this one.

        Raises:
            TwopcError, psycopg.Error: a failure that retries do not resolve; it is recorded in the history.
        """
        host, pause_s, recorded, has_read = self._host, 0.0, "", False
        await host.record("started")
        try:
            while not host.stopping:
                try:
                    await self._pass()
                    pause_s, recorded, has_read = 0.0, "", True
                    await self._follow_on()
                except (psycopg.Error, OSError, SlotInUseError) as error:
                    await self.close()
                    if not (may_pass(error) or (has_read and isinstance(error, SlotInUseError))):
                        raise
                    _log.warning(
                        "log reader tries again", publisher=self.publisher, reason=str(error)
                    )
                    if str(error) != recorded:
                        recorded = str(error)
                        await host.record("retry", error)
                    pause_s = min(
                        max(2 * pause_s, self.reading.retry_s_min), self.reading.retry_s_max
                    )
                    await host.delay(pause_s)
            await host.record("succeeded")
        finally:
            await self.close()

    async def _pass(self) -> PassResult:
        self._transactions = self._commands = 0
        caught_up = False
        for attempt in range(_ATTEMPTS):
            was_open = self._store is not None
            try:
                caught_up |= await self._read()
                self._is_new = False
                break
            except errors.SerializationFailure:
                # articles have changed: rows not yet stored are made with the new articles
                await self.close()
                if attempt == _ATTEMPTS - 1:
                    raise
            except BaseException as error:
                await self.close()
                # Retry if an article may have been regenerated, if the server may have ended an unattended
                # session, or if a predecessor's last commit came after its mark was read.
                passing = (
                    was_open and isinstance(error, ArticleError | psycopg.OperationalError)
                ) or (self._is_new and isinstance(error, StoredMeanwhileError))
                if passing and attempt < _ATTEMPTS - 1:
                    continue
                if isinstance(error, TwopcError | psycopg.Error) and not may_pass(error):
                    await self._host.record("failed", error)
                raise
        return PassResult(
            transactions=self._transactions,
            commands=self._commands,
            position=lsn_text(self.position),
            caught_up=caught_up,
        )

    async def _read(self) -> bool:
        """Store all transactions committed so far; return whether the log reader was far behind."""
        await self.open()
        if self._live is not None:
            self._live.resume()
            if self._live.ended:
                await self._leave_live()
        target, behind = await self._look()
        far = self._live is None and behind > self.reading.catch_up_bytes
        caught_up = False
        while far or not await self._follow(target):
            caught_up, far = True, False
            await self._catch_up()
        return caught_up

    async def _follow_on(self) -> None:
        """Store transactions until the host is stopping, or until a new pass is the better way."""
        try:
            await self._follow()
        except (errors.SerializationFailure, ArticleError):
            await self.close()  # the next pass reads the current articles
        except (TwopcError, psycopg.Error) as error:
            if not may_pass(error):
                await self._host.record("failed", error)
            raise

    async def _catch_up(self) -> None:
        """Peek, store and advance until all transactions committed before this call are stored."""
        assert self._wal is not None
        await self._leave_live()
        await self._wal.log_snapshot()
        target, _ = await self._look()
        self._snapshot_at = target
        source = await self._wal.peek(target)
        try:
            while self.position < target:
                await self._step(source)
        finally:
            await source.close()

    async def _follow(self, until: int | None = None) -> bool:
        """Store the transactions that the live source sends, up to a position or without end.

        Returns:
            False if the source has much more to send, so that peeking is the better way.
        """
        assert self._wal is not None
        assert self._store is not None
        live = self._live = self._live or await self._wal.live()
        if until is not None and self.position >= until:
            return True
        await live.ask()
        looked, after = live.count, _LOOK_FIRST
        while not self._host.stopping:
            await self._step(live)
            if self.position - self._snapshot_at >= self.reading.snapshot_bytes:
                self._snapshot_at = self.position
                await self._wal.log_snapshot()
            if until is not None and self.position >= until:
                return True
            is_large = self._store.streaming or self._plan.coming >= _LARGE
            if live.count - looked >= after and not is_large:
                looked, after = live.count, min(2 * after, _LOOK_AFTER)
                _, behind = await self._look()
                if behind > self.reading.catch_up_bytes:
                    await self._keep()
                    return False
            if live.drained:
                await live.wait()
        return True

    async def _look(self) -> tuple[int, int]:
        """Return a position before which all transactions committed so far lie, and the distance to it in bytes.

        Raises:
            ServerError: the log ends before the end of the store.
        """
        assert self._wal is not None
        assert self._store is not None
        end, confirmed = await self._wal.look()
        self._confirmed = confirmed
        if end < self._store.read_to:
            raise other_log(self.publisher, self._store.read_to, f"ends at {lsn_text(end)}")
        planned = 0 if self._planned is None else self._planned.end_lsn
        return end, end - max(confirmed, self.position, planned)

    async def _leave_live(self) -> None:
        """Close the live source. Transactions that it has sent and that are not stored are sent again."""
        live, self._live = self._live, None
        if live is not None:
            await live.close()
            await self._learn()

    async def _learn(self) -> None:
        """Start again at the end of the store, with the current articles."""
        assert self._wal is not None
        assert self._store is not None
        known, next_xid = await self._store.registry(), self._wal.next_xid
        if not known.horizon:  # writers before the first store are unknown
            known = replace(known, horizon=next_xid - 1)
        self._planned = self.planner(
            known,
            publisher=self._store.publisher,
            read_to=self._store.read_to,
            next_xid=next_xid,
        )

    # -- from a source to the store ---------------------------------------------------------------

    async def _step(self, source: LogSourcePort) -> None:
        """Take messages; store them if no more have arrived, or there are enough; then move the slot."""
        block = await source.take()
        assert self._continuity is not None
        self._continuity.check(block, source.position if source.drained else 0)
        if block:
            await self._take(block)
        if source.drained and not self._plan.open:
            await self._keep()
            # the source's position is behind all transactions that it has sent
            self.position = max(self.position, source.position)
        if (self.position > source.confirmed or source.pressed) and source.movable:
            await self._move(source)

    async def _move(self, source: LogSourcePort) -> None:
        """Let the slot move towards the position up to which transactions are stored.

        Its limit moves with every store. Without one, the limit is moved rarely, since that is a commit.
        """
        assert self._store is not None
        beyond = self.position - self._store.slot_limit
        if beyond >= self.reading.snapshot_bytes or (beyond > 0 and source.pressed):
            await self._store.raise_slot_limit(self.position)
        await self._reach("log_reader.before_advance")
        await source.confirm(self.position, min(self.position, self._store.slot_limit))
        await self._reach("log_reader.after_advance")
        now = self._host.time()
        if self._plan.has_calls and now - self._forgot_at >= _FORGET_EVERY_S:
            assert self._wal is not None
            self._forgot_at = now
            await self._wal.forget_calls()  # the log has been read past these markers

    async def _take(self, block: list[bytes]) -> None:
        """Make rows of a block of messages, and store them if they are too large to keep.

        Raises:
            ArticleError: an article does not fit the log; transactions committed before are stored.
        """
        planner, reading, store = self._plan, self.reading, self._store
        assert store is not None
        await self._reach("log_reader.received")
        try:
            has_filters = planner.builder.has_filters
            planner.feed(block, await self._compared(planner, block) if has_filters else {})
        except ArticleError:
            if planner.transactions:
                # transactions committed before are stored nevertheless
                await self._keep()
            raise
        full = planner.size >= reading.store_bytes
        if planner.transactions and (
            full or store.streaming or planner.transactions >= reading.read_batch_size
        ):
            await self._keep()
            full = planner.size >= reading.store_bytes
        if full:
            with name_rival():
                await store.write(planner.take_part())

    async def _compared(
        self, planner: LogPlanner, block: list[bytes]
    ) -> dict[int, tuple[RowMessage, Belonging]]:
        """Return the changes of filtered tables by place, and which of their images belong to which article."""
        assert self._wal is not None
        changes = planner.filtered(block)
        belongings = await self._wal.belongings(planner.builder, [*changes.values()])
        return dict(zip(changes, zip(changes.values(), belongings, strict=True), strict=True))

    async def _keep(self) -> None:
        """Store every complete transaction."""
        planner, store = self._plan, self._store
        assert store is not None
        if planner.transactions:
            batch = planner.take()
            if batch.unknown:
                _log.warning(
                    "transactions are marked by roles that are not registered",
                    publisher=self.publisher,
                    roles=sorted(batch.unknown),
                )
            with name_rival():
                await store.commit(batch)
            self._transactions += batch.transactions
            self._commands += batch.commands
            await self._reach("log_reader.after_commit")
        elif planner.passed_over:
            await store.check(planner.horizon if planner.has_calls else 0)
            planner.passed_over = False
        self.position = max(self.position, planner.end_lsn)

    @property
    def _plan(self) -> LogPlanner:
        """Planner, which exists while the engine is open."""
        assert self._planned is not None
        return self._planned

    @property
    def _is_settled(self) -> bool:
        """Whether all messages taken are stored."""
        planner, store = self._planned, self._store
        if planner is None or store is None:
            return False
        kept = planner.open or planner.transactions or planner.passed_over
        return not (kept or store.streaming)

    async def _reach(self, point: str) -> None:
        if self.points.armed:
            await self.points.reach(point)
