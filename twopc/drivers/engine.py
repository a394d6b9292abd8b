"""The engine that begins and ends transactions, for `Transaction` and `PostgresCoordinator`.

It keeps track of active transactions. It must not depend on background work, nor on how its parts are created.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from twopc.drivers import oneshot, vote_requests
from twopc.drivers.hub import Hub
from twopc.drivers.implementation import Implementation
from twopc.drivers.log_client import LogClient
from twopc.drivers.oneshot import RunResult
from twopc.drivers.outcome import raise_unless_committed, refusal_at_commit
from twopc.drivers.plan import TransactionPlan
from twopc.drivers.ports import KeeperPort
from twopc.drivers.postgres import Driver
from twopc.drivers.sessions import LinkedSession
from twopc.drivers.transaction import Transaction
from twopc.errors import RejectedError
from twopc.names import GlobalId
from twopc.protocol.effects import Outcome
from twopc.waits import Transactions

if TYPE_CHECKING:
    from twopc.drivers.several import SeveralTransaction


class CoordinatorEngine:
    """The transactions of one coordinator process."""

    def __init__(self, hub: Hub, log: LogClient[Any], classes: Implementation) -> None:
        self._hub = hub
        self._log = log
        self._classes = classes
        self._sequence = itertools.count(1)
        self._all_ended = asyncio.Event()
        """Set when the last active transaction has ended."""
        self.publisher = hub.publisher
        self.active: dict[int, Transaction] = {}
        """Transactions that are open or being committed, by sequence."""
        self.keeper: KeeperPort
        """Keeper that receives transactions whose drivers gave up, and the ids of settled ones; set before any
        transaction begins.
        """

    async def stop(self, timeout_s: float) -> bool:
        """Roll back open transactions, and wait for those that are being committed; return False after the timeout."""
        for transaction in [*self.active.values()]:
            await transaction.rollback()
        if self.active:
            self._all_ended.clear()
            try:
                await asyncio.wait_for(self._all_ended.wait(), timeout_s)
            except TimeoutError:
                return False
        return True

    # -- deadlocks ---------------------------------------------------------------------------------

    def transactions(self) -> Transactions:
        """Return node and pid of the sessions of each open transaction."""
        return {
            GlobalId(
                coordinator=one.ids.coordinator, epoch=one.ids.epoch, sequence=one.sequence
            ): tuple((part.subscriber, part.pid) for part in one.parts)
            for one in self.active.values()
        }

    def choose(self, node: str, pid: int, cycle: tuple[str, ...]) -> None:
        """Record that the transaction of this session is the victim of a deadlock, described in words."""
        for one in self.active.values():
            for part in one.parts:
                if (part.subscriber, part.pid) == (node, pid):
                    part.cycle = cycle

    # -- transactions ------------------------------------------------------------------------------

    async def run(self, plan: TransactionPlan, statement: str, params: Sequence[Any]) -> RunResult:
        """Run a transaction of one statement; see `PostgresCoordinator.run`.

        The session keeps the statement prepared. A statement that is no longer prepared, or not with the same types
        (after DEALLOCATE ALL, or a change of a column's type), is prepared anew in another transaction: the first
        one has changed nothing.
        """
        while (done := await self._run(plan, statement, params)) is None:
            pass
        return done

    async def _run(
        self, plan: TransactionPlan, statement: str, params: Sequence[Any]
    ) -> RunResult | None:
        """Run the transaction; return None if the statement is no longer prepared as before, at most once per
        session.
        """
        transaction = Transaction(self, plan)
        await self._register(transaction)
        try:
            session = await plan.pool.take_idle()
        except BaseException:
            self.active.pop(transaction.sequence, None)
            raise
        transaction.attach(session)
        if is_new := statement not in session.statements:
            failure = await oneshot.prepare(session, statement)
            if failure is not None:
                transaction.outcome = Outcome.ABORTED
                await self._end(transaction, (session,), settled=True)
                gid, node = transaction.gid, transaction.node_of(failure)
                raise refusal_at_commit(failure, "", gid=gid, node=node)
        else:
            await session.reset_literals()
        begin = plan.begin(transaction.gid, transaction.ids.prove, session)
        try:
            sent = oneshot.message(session, begin, plan.begin_results, statement, params)
        except BaseException:  # a value that cannot be represented: nothing was sent
            transaction.outcome = Outcome.ABORTED
            await self._end(transaction, (session,), settled=True)
            raise
        driver = self._driver(transaction, session, work=sent.text, work_results=sent.results)
        try:
            await self._drive(transaction, (session,), driver)
        except RejectedError as error:
            if oneshot.is_stale(sent, driver.good, error.sqlstate):
                session.statements.pop(statement, None)
                if not is_new:
                    return None
            raise
        return oneshot.done(session, transaction.gid, driver.results, sent)

    async def begin(self, transaction: Transaction) -> LinkedSession:
        """Begin the transaction, for `Transaction`, and return its session."""
        plan = transaction.plan
        await self._register(transaction)
        try:
            if self._hub.points.armed:
                await self._hub.points.reach(f"coordinator.begin({plan.subscriber})")
            gid, prove = transaction.gid, transaction.ids.prove
            session: LinkedSession = await plan.pool.take(lambda one: plan.begin(gid, prove, one))
            return session
        except BaseException:
            self.active.pop(transaction.sequence, None)
            raise

    async def begin_several(self, transaction: SeveralTransaction) -> list[LinkedSession]:
        """Begin the transaction at every Subscriber or at none, for `SeveralTransaction`, and return its sessions."""
        await self._register(transaction)
        try:
            return await transaction.take_sessions(self._hub.points)
        except BaseException:
            self.active.pop(transaction.sequence, None)
            raise

    def commit(self, transaction: Transaction, session: LinkedSession) -> Awaitable[None]:
        """Commit the transaction, for `Transaction`."""
        if not transaction.wrote:
            return self._commit_unless_written(transaction, session)
        return self._drive(transaction, (session,), self._driver(transaction, session))

    async def commit_several(
        self, transaction: SeveralTransaction, sessions: Sequence[LinkedSession]
    ) -> None:
        """Commit the transaction, for `SeveralTransaction`."""
        await self._drive(
            transaction, sessions, transaction.driver(self._hub, sessions, self._classes.several)
        )

    async def roll_back(self, transaction: Transaction, *sessions: LinkedSession) -> None:
        """Roll back the transaction, for `Transaction` and `SeveralTransaction`."""
        points = self._hub.points
        try:
            for session in sessions:
                if points.armed:
                    await points.reach(f"coordinator.before_rollback({session.subscriber})")
                await self._hub.runtime.unbroken(session.roll_back())
                if points.armed:
                    await points.reach(f"coordinator.after_rollback({session.subscriber})")
        finally:
            await self._end(transaction, sessions, settled=True)

    async def _register(self, transaction: Transaction) -> None:
        plan = transaction.plan
        ids = self._log.current(plan.variant)
        if ids is None:
            try:
                ids = await self._log.epoch(plan.variant)
            except psycopg.Error as error:
                raise RejectedError(
                    f"the decision log cannot be reached, nothing was begun: {error}",
                    sqlstate=error.sqlstate or "08001",
                ) from error
        transaction.ids = ids
        transaction.sequence = self._number(transaction)
        transaction.gid = ids.text(transaction.sequence)
        self.active[transaction.sequence] = transaction

    def _number(self, transaction: Transaction) -> int:
        return next(self._sequence)

    def _driver(
        self,
        transaction: Transaction,
        session: LinkedSession,
        *,
        work: bytes = b"",
        work_results: int = 0,
    ) -> Driver:
        return self._classes.driver(
            self._hub,
            transaction.ids,
            transaction.sequence,
            session,
            transaction.plan.settings,
            transaction.branches,
            work=work,
            work_results=work_results,
        )

    async def _drive(
        self, transaction: Transaction, sessions: Sequence[LinkedSession], driver: Driver
    ) -> None:
        runtime = self._hub.runtime
        cancelled = runtime.cancellations()
        try:
            await driver.commit()
        except BaseException:
            for session in sessions:
                session.lean.abort("its transaction was given up")
            raise
        finally:
            transaction.outcome = driver.answer
            await self._end(transaction, sessions, settled=driver.settled)
        if runtime.cancellations() > cancelled:
            raise asyncio.CancelledError
        raise_unless_committed(transaction, driver)

    async def _end(
        self, transaction: Transaction, sessions: Sequence[LinkedSession], *, settled: bool
    ) -> None:
        self.active.pop(transaction.sequence, None)
        if not self.active:
            self._all_ended.set()
        if not settled:
            self.keeper.take_over((transaction.ids.epoch, transaction.sequence))
        elif transaction.outcome is Outcome.COMMITTED:
            self.keeper.over(transaction.gid, transaction.branches)
        for part, session in zip(transaction.parts, sessions, strict=True):
            await part.plan.pool.give_back(session)

    async def _commit_unless_written(
        self, transaction: Transaction, session: LinkedSession
    ) -> None:
        """Commit in one phase if nothing was changed, otherwise in two."""
        over, failure = await vote_requests.commit_what_read_only(session.lean)
        if not over:
            await self._drive(transaction, (session,), self._driver(transaction, session))
            return
        await session.roll_back()
        transaction.outcome = Outcome.ABORTED if failure is not None else Outcome.COMMITTED
        await self._end(transaction, (session,), settled=True)
        if failure is not None:
            node = transaction.node_of(failure)
            raise refusal_at_commit(failure, "", gid=transaction.gid, node=node)
