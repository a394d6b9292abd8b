"""Sessions of a test on the event loop that serves them, each running one statement after the other.

A statement may be started and observed while it runs. Independent of tests and threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import sql

from twopc.errors import (
    ConfigurationError,
    InDoubtError,
    LocalProtocolError,
    LockTimeoutError,
    conflict_facts,
)
from twopc.sim.report.phrases import shorten
from twopc.sim.scenario import sqltext
from twopc.sim.sessions.local import LEVELS, OneNodeSession, refused
from twopc.sim.sessions.results import Result, returned
from twopc.sim.sessions.waits import ObservedClient, Wait
from twopc.sim.testing.recording import failed
from twopc.sim.testing.surroundings import NotEndedError, Surroundings

Work = Callable[[], Awaitable[Any]]

#: SQLSTATEs that are reported as the same refusal at the Publisher as at a Subscriber.
_TRANSLATED = frozenset(("40001", "40P01", "55P03"))
#: When a running statement is first observed for waits, and the maximum interval afterwards.
_FIRST_LOOK_S = 0.02
_LOOK_EVERY_S_MAX = 1.0
#: Maximum number of characters of a holder's statement that are shown.
_SHOWN = 80


class LiveStatement:
    """A statement that was started; it may have ended."""

    def __init__(self, session: LiveSession, text: str) -> None:
        self.session = session
        self.text = text
        self.step = ""
        """Name of the step in the history; empty until the statement begins."""
        self.done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_mark_retrieved)
        self.holder = ""
        """Session for which the statement waited when a test last observed it."""
        self.wait: Wait | None = None
        """Wait that was observed without the test asking: after a lock timeout the server no longer shows the
        holder.
        """

    async def blocked_by(self, other: str) -> bool:
        """Return whether the statement waits for `other`, once the statement has ended or is provably blocked."""
        surroundings = self.session.surroundings
        waiting = await surroundings.until_blocked(
            lambda: self.session.client, self.done.done, f"{self.session.name}: {self.text}"
        )
        if waiting is None:
            self.holder = ""
            return False
        if waiting.holder != self.holder:
            self.session.note_wait(self, waiting)
        self.holder = waiting.holder
        return other in waiting.holders

    async def result(self) -> Any:
        """Wait for the statement's end and return its result.

        Raises:
            TransactionError, psycopg.Error: the statement was refused.
            NotEndedError: the statement has not ended within the time limit; the message names the holder of its
                lock.
        """
        surroundings = self.session.surroundings
        await asyncio.wait({self.done}, timeout=surroundings.timeout_s)
        if not self.done.done():
            waiting = await surroundings.wait_of(self.session.name)
            if waiting is not None:
                self.session.note_wait(self, waiting)
            why = (
                f": it {surroundings.words(waiting)}. End that transaction before asking for the result"
                if waiting is not None
                else ""
            )
            raise NotEndedError(
                f"{self.session.name}: {self.text} has not ended after {surroundings.timeout_s:g} s{why}"
            )
        return self.done.result()


class LiveSession:
    """One client of one node, added to its surroundings. A statement begins a transaction if none is open.

    Args:
        session: the session that runs the statements.
        isolation: isolation level of its transactions.
        is_coordinated: a coordinator commits its transactions, which faults may strike.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        name: str,
        session: OneNodeSession,
        isolation: str | None,
        *,
        is_coordinated: bool,
    ) -> None:
        if isolation is not None and isolation not in LEVELS:
            raise ConfigurationError(f"isolation {isolation!r}: use one of {', '.join(LEVELS)}")
        self.surroundings = surroundings
        self.node = session.node
        self.name = name
        self.isolation = isolation or LEVELS[0]
        self._is_coordinated = is_coordinated
        self._session = session
        self._open = False
        self._steps = 0
        self._outcome = ""
        """Outcome of the last transaction: committed, rolled back or in doubt."""
        self._running: LiveStatement | None = None
        self.lock_step = ""
        """Step that took locks last in the open transaction; `lock_text` is its statement."""
        self.lock_text = ""
        self._closing = False
        self._inbox: asyncio.Queue[tuple[LiveStatement, Work] | None] = asyncio.Queue()
        self._worker = asyncio.create_task(self._work(), name=f"session {name}")
        surroundings.recorder.session(name, self.node)
        surroundings.sessions[name] = self

    async def disconnect(self) -> None:
        """Close the connection; the next statement opens another.

        Raises:
            ConfigurationError: a transaction is open, or a statement runs.
        """
        if self._open or self._running is not None:
            raise ConfigurationError(
                f"session {self.name} has a transaction open at {self.node}: end it first"
            )
        await self._session.close()

    @property
    def client(self) -> ObservedClient:
        """Identification of the session among the servers' backends."""
        over = not self._open and self._outcome != "in doubt"
        return ObservedClient(
            name=self.name, node=self.node, pid=self._session.pid, gid=self.gid, is_over=over
        )

    @property
    def gid(self) -> str:
        """Last global transaction of the session; empty at the Publisher."""
        return self._session.gid

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    # -- operations for tests ----------------------------------------------------------------------

    def start(self, query: Any, params: Any = None) -> LiveStatement:
        """Start a statement once all earlier requests are done."""
        return self._start(_text(query), lambda: self._execute(query, params))

    async def execute(self, query: Any, params: Any = None) -> Result:
        """Run a statement and return its result."""
        result: Result = await self.start(query, params).result()
        return result

    async def begin(self) -> None:
        """Begin a transaction explicitly; statements begin one implicitly."""
        await self._start("begin", self._begin).result()

    async def commit(self) -> None:
        """Commit at both sites or at neither."""
        await self._start("commit", self._commit).result()

    async def rollback(self) -> None:
        """Roll back at both sites; no effect without an open transaction."""
        await self._start("rollback", self._rollback).result()

    async def stop(self) -> None:
        """Cancel the running statement and discard those not begun; an open transaction stays open."""
        if self._closing:
            return
        self._closing = True
        self._inbox.put_nowait(None)
        if self._running is not None:
            await self._session.cancel()
        await asyncio.wait({self._worker}, timeout=self.surroundings.timeout_s)
        if not self._worker.done():
            self._worker.cancel()
            await asyncio.wait({self._worker})

    async def close(self) -> None:
        """Stop, roll back an open transaction, and disconnect."""
        await self.stop()
        await self._session.close()

    # -- one after the other -----------------------------------------------------------------------

    def _start(self, text: str, work: Work) -> LiveStatement:
        statement = LiveStatement(self, text)
        if self._worker.done():
            statement.done.set_exception(self._closed())
        else:
            self._inbox.put_nowait((statement, work))
        return statement

    def _closed(self) -> LocalProtocolError:
        return LocalProtocolError(f"session {self.name} is closed")

    async def _work(self) -> None:
        asked: tuple[LiveStatement, Work] | None = None
        try:
            while (asked := await self._inbox.get()) is not None and not self._closing:
                await self._do(*asked)
        finally:
            while asked is not None or not self._inbox.empty():
                if asked is not None and not asked[0].done.done():
                    asked[0].done.set_exception(self._closed())
                asked = None if self._inbox.empty() else self._inbox.get_nowait()

    async def _do(self, statement: LiveStatement, work: Work) -> None:
        self._running = statement
        self._steps += 1
        statement.step = f"{self.name}.{self._steps}"
        self._write("invoke", statement, sql=statement.text)
        try:
            result = await self._observed(statement, work)
        except Exception as error:
            self._note_faults()
            if isinstance(error, LockTimeoutError) and statement.wait is not None:
                error = self._with_holder(error, statement, statement.wait)
            kind, fields = failed(error, self.gid)
            self._write(kind, statement, **fields)
            self._running = None
            statement.done.set_exception(error)
        else:
            self._note_faults()
            self._write("ok", statement, gid=self.gid, **_fields(statement.text, result))
            self._running = None
            statement.done.set_result(result)
        self._note_outcome(statement.text)

    async def _observed(self, statement: LiveStatement, work: Work) -> Any:
        """Run a statement, and periodically observe for which session it waits."""
        running = asyncio.ensure_future(work())
        pause_s = _FIRST_LOOK_S
        try:
            while not (await asyncio.wait({running}, timeout=pause_s))[0]:
                try:
                    wait = await self.surroundings.wait_of(self.name)
                except psycopg.Error:  # a node that cannot be observed does not stop the statement
                    wait = None
                if wait is not None and not running.done():
                    statement.wait = wait
                pause_s = min(2 * pause_s, _LOOK_EVERY_S_MAX)
        except BaseException:
            running.cancel()
            await asyncio.wait({running})
            raise
        return running.result()

    def _with_holder(
        self, error: LockTimeoutError, statement: LiveStatement, wait: Wait
    ) -> LockTimeoutError:
        """Return the same error, with the holder of the lock."""
        if wait.holder != statement.holder:
            self.note_wait(statement, wait)
        named = LockTimeoutError(
            f"{error}: {self.name} {self.surroundings.words(wait)}",
            holder=wait.holder,
            gid=error.gid,
            node=error.node,
            sqlstate=error.sqlstate,
            number=error.number,
            detail=error.detail,
            hint=error.hint,
        )
        named.__cause__ = error.__cause__
        return named

    def _note_faults(self) -> None:
        if self.surroundings.faults is not None:
            self.surroundings.faults.note(self.surroundings.recorder.write)

    def _write(self, kind: str, statement: LiveStatement, **fields: Any) -> None:
        self.surroundings.recorder.write(
            kind, session=self.name, node=self.node, step=statement.step, **fields
        )

    def note_wait(self, statement: LiveStatement, waiting: Wait) -> None:
        """Write a statement's wait into the history."""
        other = self.surroundings.sessions.get(waiting.on)
        step = other.lock_step or f"{other.name}.{other._steps}" if other is not None else ""
        wait = waiting.record(step=step)
        if other is None:  # an application's session, known by its name only
            wait |= {"session": "", "application": waiting.on or waiting.application}
        self._write("blocked", statement, wait=wait)

    def _note_outcome(self, text: str) -> None:
        if text in ("commit", "rollback") and not self._open:
            self.surroundings.recorder.write(
                "outcome", session=self.name, node=self.node, gid=self.gid, message=self._outcome
            )

    # -- transactions ------------------------------------------------------------------------------

    async def _begin(self) -> Result:
        if self._open:
            raise LocalProtocolError(f"session {self.name} has a transaction open already")
        self._session = await self._chosen()
        await self._session.begin(self.isolation)
        self._open, self._outcome, self.lock_step = True, "", ""
        return Result(tag="BEGIN")

    async def _chosen(self) -> OneNodeSession:
        """Return the session for the next transaction: faults strike only transactions begun after they were
        injected.
        """
        faults = self.surroundings.faults
        if self._is_coordinated and faults is not None:
            return await faults.session(self.name, self.node, refused_as_psycopg)
        return self._session

    async def _execute(self, query: Any, params: Any) -> Result:
        if not self._open:
            await self._begin()
        text = _text(query)
        if sqltext.takes_locks(text):
            self.lock_step = f"{self.name}.{self._steps}"
            self.lock_text = shorten(text, _SHOWN)
        return await self._session.send(query, params)

    async def _commit(self) -> Result:
        if self._open:
            self._open, self._outcome = False, "rolled back"
            try:
                await self._session.commit()
            except InDoubtError:
                self._outcome = "in doubt"
                raise
            self._outcome = "committed"
        return Result(tag="COMMIT")

    async def _rollback(self) -> Result:
        if self._open:
            self._open, self._outcome = False, "rolled back"
            await self._session.rollback()
        return Result(tag="ROLLBACK")


def refused_as_psycopg(error: psycopg.Error, *, node: str, gid: str) -> Exception:
    """Return the error as a Subscriber's transaction reports it: refusals as ours, all others as psycopg's."""
    if error.sqlstate not in _TRANSLATED and conflict_facts(error.diag.message_detail) is None:
        return error
    return refused(error, node=node, gid=gid)


def _fields(text: str, result: Any) -> dict[str, Any]:
    if not isinstance(result, Result):
        return {}
    fields = returned(result)
    if result.tag == "COMMIT":
        fields["data"] = {"committed": True}
    return fields


def _text(query: Any) -> str:
    if isinstance(query, bytes):
        return query.decode()
    if isinstance(query, sql.Composable):
        return query.as_string(None)
    return str(query)


def _mark_retrieved(done: asyncio.Future[Any]) -> None:
    """Mark the error as retrieved: a test need not ask how every statement ended."""
    if not done.cancelled():
        done.exception()
