"""A global transaction as the application sees it: execute, commit, roll back.

Statements run on an ordinary psycopg connection to the Subscriber, in a transaction that its triggers extend to the
Publisher. This module must not depend on the commit protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import AsyncConnection, AsyncCursor, pq

from twopc.drivers.lean import ServerReport, report_of
from twopc.drivers.outcome import VICTIM, rejection
from twopc.drivers.plan import TransactionPlan
from twopc.drivers.sessions import LinkedSession
from twopc.drivers.statements import ending_command, surely_wrote
from twopc.errors import (
    ConfigurationError,
    DeadlockError,
    LocalProtocolError,
    RejectedError,
    conflict_facts,
)
from twopc.names import EpochIds
from twopc.protocol.effects import Outcome

if TYPE_CHECKING:
    from twopc.drivers.engine import CoordinatorEngine

_TRANSLATED = frozenset(("40001", "40P01", "55P03"))


class TransactionCursor(AsyncCursor[Any]):
    """A cursor that raises the exceptions of this project for refusals."""

    transaction: Transaction

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        """Execute a statement as psycopg's cursor does; see `Transaction.execute` for the exceptions."""
        self.transaction.check(query)
        try:
            await super().execute(query, params, **options)
        except psycopg.Error as error:
            raise self.transaction.refusal(report_of(error)) or error from error
        self.transaction.note(query, self.statusmessage or "")
        return self

    async def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        """Execute a statement repeatedly as psycopg's cursor does; see `Transaction.execute` for the exceptions."""
        self.transaction.check(query)
        try:
            await super().executemany(query, params_seq, **options)
        except psycopg.Error as error:
            raise self.transaction.refusal(report_of(error)) or error from error
        self.transaction.note(query, self.statusmessage or "")


class Transaction:
    """One global transaction; an async context manager that commits, or rolls back on an exception.

    Created by `PostgresCoordinator.transaction`.
    """

    def __init__(self, engine: CoordinatorEngine, plan: TransactionPlan) -> None:
        self._engine = engine
        self.plan = plan
        self.ids: EpochIds
        self._session: LinkedSession | None = None
        self._ending = False
        self.sequence = 0
        self.gid = ""
        """The global transaction's id, without a branch; empty before it has begun."""
        self.subscriber = plan.subscriber
        self.outcome: Outcome | None = None
        """The transaction's outcome: COMMITTED, ABORTED or IN_DOUBT; None while it is open."""
        self.cycle: tuple[str, ...] = ()
        """The deadlock of which the transaction was chosen as victim."""
        self.wrote = False
        """Whether a statement has certainly changed rows."""

    @property
    def branches(self) -> tuple[str, ...]:
        """Names of the branches, the Publisher's first."""
        return (self._engine.publisher, self.subscriber)

    @property
    def parts(self) -> tuple[Transaction, ...]:
        """The parts, one for each Subscriber; the transaction itself if there is one Subscriber."""
        return (self,)

    def at(self, subscriber: str) -> Transaction:
        """Return the part at a Subscriber, on which statements are executed there.

        Raises:
            ConfigurationError: the transaction has no part at this Subscriber.
        """
        for part in self.parts:
            if part.subscriber == subscriber:
                return part
        raise ConfigurationError(
            f"transaction {self.gid} is not at {subscriber!r}, but at"
            f" {', '.join(part.subscriber for part in self.parts)}"
        )

    @property
    def pid(self) -> int:
        """Process id of its backend at the Subscriber; 0 if the transaction is not open."""
        return self._session.pid if self._session is not None else 0

    @property
    def session(self) -> LinkedSession:
        """The transaction's session.

        Raises:
            LocalProtocolError: the transaction is not open.
        """
        if self._session is None or self._ending:
            state = "ending" if self._session is not None else f"ended: {self.outcome}"
            state = state if self.gid else "not begun"
            raise LocalProtocolError(f"transaction {self.gid} is {state}".replace("  ", " "))
        return self._session

    async def begin(self) -> Self:
        """Begin; ``async with`` calls this method.

        Raises:
            RejectedError: the Subscriber cannot be reached.
        """
        if self.gid:
            raise LocalProtocolError(f"transaction {self.gid} has begun already")
        self._session = await self._engine.begin(self)
        self._session.lean.release()
        return self

    __aenter__ = begin

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._session is None:
            return  # ended within the block
        if error is None:
            await self.commit()
        else:
            await self.rollback()

    def cursor(self, *, name: str = "", **options: Any) -> AsyncCursor[Any]:
        """Return a cursor on the Subscriber's connection; with a name, a server-side cursor."""
        connection: AsyncConnection[Any] = self.session.connection
        if name:
            return connection.cursor(name, **options)
        cursor = TransactionCursor(
            connection, row_factory=options.pop("row_factory", connection.row_factory)
        )
        cursor.transaction = self
        if options.pop("binary", False):
            cursor.format = pq.Format.BINARY
        if options:
            raise TypeError(f"cursor() has no option {next(iter(options))!r}")
        return cursor

    async def execute(
        self, query: Any, params: Any = None, *, prepare: bool | None = None, binary: bool = False
    ) -> AsyncCursor[Any]:
        """Run a statement at the Subscriber, which is applied at the Publisher at once unless shipping is lazy.

        Raises:
            RejectedError: the Publisher refused the change, or a lock could not be obtained; the transaction can
                only be rolled back, at least to a savepoint.
            psycopg.Error: the Subscriber refused the statement.
        """
        cursor = self.cursor(binary=binary)
        await cursor.execute(query, params, prepare=prepare)
        return cursor

    async def commit(self) -> None:
        """Commit at both nodes or at neither.

        Not interrupted once begun: a cancellation takes effect when `outcome` is known.

        Raises:
            RejectedError: the transaction was rolled back at both nodes.
            InDoubtError: the outcome is not known; it will be the same at both nodes.
        """
        session = self.session
        if not session.lean.lost and not session.in_transaction:
            await self.rollback()
            raise self._ended_outside("a statement that was not its own")
        self._ending = True
        try:
            await self._engine.commit(self, session)
        finally:
            self._session = None

    async def rollback(self) -> None:
        """Roll back at both nodes; no effect after the transaction's end."""
        if self._session is not None and not self._ending:
            self._ending = True
            self.outcome = Outcome.ABORTED
            if not self._session.in_transaction:
                # The link's transaction at the Publisher ends with the session.
                self._session.lean.abort("a statement ended the transaction")
            try:
                await self._engine.roll_back(self, self._session)
            finally:
                self._session = None

    # -- for the cursor ----------------------------------------------------------------------------

    def attach(self, session: LinkedSession) -> None:
        """Use a session in which the coordinator has begun the transaction, and will end it."""
        self._session = session
        self._ending = True

    def check(self, query: Any) -> None:
        """Raise LocalProtocolError for a statement that would end the transaction without its coordinator."""
        command = ending_command(
            query, standard_conforming_strings=self.session.standard_conforming_strings
        )
        if command:
            raise LocalProtocolError(
                f"{command} is not for execute(): the global transaction {self.gid} is ended"
                " by commit() or rollback()"
            )

    def note(self, query: Any, tag: str) -> None:
        """Record the effect of a statement, given its command tag.

        Raises:
            LocalProtocolError: the statement has ended the transaction by itself.
        """
        session = self.session
        if not self.wrote and surely_wrote(tag):
            self.wrote = True
        session.soil(query)
        if not session.in_transaction:
            session.lean.abort("a statement ended the transaction")
            raise self._ended_outside(repr(tag))

    def _ended_outside(self, what: str) -> LocalProtocolError:
        return LocalProtocolError(
            f"a statement ended the global transaction {self.gid} past its coordinator, with {what}: "
            "what it had changed at the Publisher is rolled back"
        )

    def refusal(self, failure: ServerReport) -> RejectedError | None:
        """Return the exception for the application after a failed statement; None for the Subscriber's own error."""
        if self.cycle and failure.sqlstate in VICTIM:
            return self.deadlock(failure)
        if self.session.is_lost:
            return RejectedError(
                f"the connection to {self.subscriber} is lost, and with it what was not prepared: {failure.message}",
                gid=self.gid, node=self.subscriber, sqlstate=failure.sqlstate or "08006",
            )  # fmt: skip
        if failure.remote or conflict_facts(failure.detail) or failure.sqlstate in _TRANSLATED:
            return rejection(failure, gid=self.gid, node=self.node_of(failure))
        return None

    def deadlock(self, result: ServerReport) -> DeadlockError:
        """Return the exception for the victim of a deadlock."""
        return DeadlockError(
            f"deadlock across servers; this transaction was chosen: {'; '.join(self.cycle)}",
            cycle=self.cycle, gid=self.gid, node=self.subscriber, sqlstate=result.sqlstate,
        )  # fmt: skip

    def node_of(self, result: ServerReport) -> str:
        """Return the node that raised an error."""
        over = result.remote or conflict_facts(result.detail) is not None
        return self._engine.publisher if over else self.subscriber
