"""A connection to a node: transaction blocks, the effect of errors, cancel and terminate.

Of SQL, this module knows only the verbs that control transactions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import simpy

from twopc.sim.model.node import prepared_transactions
from twopc.sim.model.node.lock_waits import LockQueueWait
from twopc.sim.model.node.locks import terminated
from twopc.sim.model.node.transactions import ABORTED, TopXact
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.sql.control import Control
from twopc.sim.model.values import (
    Cause,
    Label,
    RequestLostError,
    SqlError,
    StatementResult,
    Steps,
    UnsupportedError,
)  # fmt: skip

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode

_BEGUN, _STARTED = StatementResult(tag="BEGIN"), StatementResult(tag="START TRANSACTION")
_TAGS = {
    tag: StatementResult(tag=tag)
    for tag in (
        "PREPARE TRANSACTION", "COMMIT", "ROLLBACK", "COMMIT PREPARED", "ROLLBACK PREPARED", "SAVEPOINT", "RELEASE",
    )
}  # fmt: skip
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1e-3}
_DURATION = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|ms|s|min|h|d)?\s*\Z")


def seconds(setting: str | None, default: float = 0.0) -> float:
    """Parse a duration as settings give it: ``50ms``, ``2s``, or a number of milliseconds."""
    if setting is None:
        return default
    match = _DURATION.match(setting)
    if match is None:
        raise SqlError("22023", f'invalid value for parameter: "{setting}"')
    return float(match["number"]) * _SECONDS[match["unit"] or ""]


def _failed_error() -> SqlError:
    return SqlError(
        "25P02",
        "current transaction is aborted, commands ignored until end of transaction block",
    )


class NodeSession:
    """The connection of one role."""

    def __init__(self, node: ModelNode, pid: int, role: str, application_name: str) -> None:
        self.node = node
        self.pid = pid
        self.role = role
        self.application_name = application_name
        self.settings: dict[str, str] = {}
        self.born = node.clock()
        self.search_name = f"session {application_name} {node.kernel.stretch}"
        """Name of the session for the search: equal in equivalent runs, unlike pids."""
        self.tx: OpenTx | None = None
        self.wait: LockQueueWait | None = None
        self.failed_tx = False
        """Whether the transaction has failed, so that only ROLLBACK is accepted."""
        self.dead: RequestLostError | SqlError | None = None
        self.committing = False
        """Whether the commit can no longer be cancelled."""
        self.busy = False
        self.idle_since = 0.0
        """Virtual time at which the last statement ended."""
        self.on_link = False
        """Whether the session waits for an answer of its link; set by the owner of the link."""
        self.victim: float | None = None
        """Time at which the transaction began that was chosen to end a deadlock across servers."""
        self.link: Any = None
        """Link to another node, if there is one: `interrupt()` while the session waits for it, `close()` at the
        end.
        """
        self.end_requested = False
        self._timer: simpy.Event | None = None
        """Timer of idle_in_transaction_session_timeout or of statement_timeout."""
        self.session_locks: set[int] = set()

    # -- ports.Session -------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, even if it has failed."""
        return self.tx is not None

    @property
    def is_idle(self) -> bool:
        """Whether the session is alive and no transaction is open."""
        return self.tx is None and self.dead is None

    @property
    def lock_timeout_s(self) -> float:
        """lock_timeout in seconds; 0 for no limit."""
        tx = self.tx
        setting = tx.setting("lock_timeout") if tx else self.settings.get("lock_timeout")
        return seconds(setting, self.node.lock_timeout_s)

    def execute(
        self, text: str | Callable[..., Steps[StatementResult]],
        params: Mapping[str, Any] | None = None,
    ) -> Steps[StatementResult]:  # fmt: skip
        """Execute one statement. Raise SqlError for errors of the server, RequestLostError if there is no answer.

        Args:
            text: SQL, or a plan: a function called with the open transaction and parameters.
        """
        if self.dead is not None:
            why, self.dead = (
                self.dead,
                RequestLostError(f"the connection to {self.node.name} is closed"),
            )
            raise why
        assert not self.busy, "one statement at a time"
        node = self.node
        explored = node.kernel.record_access is not None
        if explored:
            node.notify_access(self.search_name, changed=False)
        self.busy = True
        if self._timer is not None:
            self._stop_timer()
        if "statement_timeout" in self.settings:
            self._start_timer("statement_timeout", self._statement_overdue)
        try:
            plan = node.plans.get(text) if isinstance(text, str) else text
            if isinstance(plan, Control):
                if plan.verb == "begin":
                    return self._begin(plan)
                return _TAGS[(yield from self._control(plan))]
            if self.failed_tx:
                raise _failed_error()
            if self.tx is not None:
                result: StatementResult = yield from plan(self.tx, params or {})
                return result
            result = yield from plan(self.begin(), params or {})
            yield from self.commit()
            return result

        except (SqlError, UnsupportedError) as error:
            self._after_error()
            self._end_if_requested(terminated())
            raise error
        except RequestLostError:
            raise
        except BaseException:
            self._abandon()
            raise
        finally:
            if explored:
                node.notify_access(self.search_name, changed=False)
            self.busy = False
            if self._timer is not None:
                self._stop_timer()
            if self.tx is not None:
                self.idle_since = node.kernel.now
                if "idle_in_transaction_session_timeout" in self.settings:
                    self._start_timer("idle_in_transaction_session_timeout", self._idle_too_long)

            if self.end_requested:
                self._end_if_requested(RequestLostError("terminated"))

    # -- time ----------------------------------------------------------------------------------------

    def _start_timer(self, setting: str, act: Callable[[simpy.Event], None]) -> None:
        after = seconds(self.settings.get(setting))
        if after <= 0:
            return
        label = Label(
            actor=f"session:{self.application_name or self.pid}",
            cause=Cause.TIMER,
            what=f"{setting} at {self.node.name}",
            touches=frozenset({self.node.name}),
        )
        self._timer = self.node.kernel.delay(self.node.lasts(after), label)
        assert self._timer.callbacks is not None
        self._timer.callbacks.append(act)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and not timer.processed:
            self.node.kernel.cancel(timer)

    def _idle_too_long(self, _: simpy.Event) -> None:
        self._timer = None
        if self.dead is None and not self.busy:
            why = "terminating connection due to idle-in-transaction timeout"
            self._end(SqlError("25P03", why))

    def _statement_overdue(self, _: simpy.Event) -> None:
        self._timer = None
        self.cancel()

    def _notify_interference(self) -> None:
        """Notify the search of an action on this session from outside, which depends on all its steps."""
        self.node.notify_access(self.search_name, changed=True)

    def cancel(self) -> None:
        """Cancel the wait of the running statement (57014)."""
        self._notify_interference()
        if self.wait is not None and not self.committing:
            self.wait.end("cancel")
        elif self.on_link:
            self.link.interrupt()

    def terminate(self) -> None:
        """End the session, with 57P01 in a running statement; the open transaction is rolled back."""
        self._request_end(terminated())

    def close(self) -> None:
        """Disconnect; idempotent."""
        self._request_end(RequestLostError("closed"))

    def _request_end(self, why: RequestLostError | SqlError) -> None:
        """End the session, after the running statement if there is one."""
        self._notify_interference()
        if self.dead is not None:
            return
        if self.wait is not None:
            self.wait.end("terminate")
            self.end_requested = True
        elif self.committing or self.busy:
            self.end_requested = True
            if self.on_link:
                self.link.interrupt()
        else:
            self._end(why)

    def _abandon(self) -> None:
        """End the session as with a lost connection, because its caller has stopped."""
        if self.dead is None and not self.committing:
            self._end(RequestLostError("abandoned"))

    def _end_if_requested(self, why: RequestLostError | SqlError) -> None:
        if self.end_requested and self.dead is None:
            self._end(why)

    def _end(self, why: RequestLostError | SqlError) -> None:
        self.dead = why
        if self.tx is not None:
            self.abort()
        if self.link is not None:
            self.link.close()
        self.node.gone(self)

    # -- statements ----------------------------------------------------------------------------------

    def _after_error(self) -> None:
        tx = self.tx
        if tx is None or self.dead is not None:
            return
        if self.failed_tx:
            return
        if not tx.top.began_block:
            self.abort()
            return
        self.failed_tx = True
        if tx.sub is tx.top:
            self.node.give_up(tx.top)
            tx.settings.clear()
        else:
            tx.take_back(tx.sub)

    def begin(self, level: str = "", *, block: bool = False) -> OpenTx:
        """Begin a transaction."""
        if not level:
            level = self.settings.get("default_transaction_isolation", "read committed")
        top = TopXact(self, level, self.node.clock())
        top.began_block = block
        top.horizon = self.node.commit_no
        self.tx = OpenTx(self, top)
        self.node.open[top] = None
        return self.tx

    def before_commit(self) -> Steps[None]:
        """Run deferred checks and the check of serializability; after an error the transaction is still open."""
        tx = self.tx
        assert tx is not None
        while tx.sub.parent is not None:
            tx.release(tx.sub.name)
        deferred, tx.ending = tx.top.deferred, True
        while deferred:
            yield from deferred.pop(0).fire(tx)
        if tx.top.ssi is not None:
            self.node.ssi.check_commit(tx.top.ssi)

    def commit(self) -> Steps[None]:
        """Commit the open transaction; even after an error none is open."""
        tx = self.tx
        assert tx is not None
        try:
            yield from self.before_commit()
        except BaseException:
            if self.tx is tx:
                self.abort()
            raise
        top = tx.top
        if not top.xid:
            self.forget()
            self.node.finish(top, None)
            return
        node = self.node
        record = node.record("commit", top)
        self.committing = True
        try:
            if tx.setting("synchronous_commit") == "off":
                record.undo = node.locks.kept(top)
                node.wal.soon()
            else:
                yield from node.wal.force(record.end_lsn)
        finally:
            self.committing = False
        self.forget()
        node.finish(top, record)

    def abort(self) -> None:
        """Roll back the open transaction."""
        tx = self.tx
        if tx is not None:
            if tx.xid:
                self.node.notify_access("given up", changed=True)
            tx.unwind()
            self.forget()
            if tx.top.state != ABORTED:
                self.node.give_up(tx.top)

    def forget(self) -> None:
        """Clear the session's transaction and its failed state."""
        self.tx = None
        self.failed_tx = False

    # -- verbs that control transactions -------------------------------------------------------------

    def _begin(self, what: Control) -> StatementResult:
        if self.tx is None:
            self.begin(what.level, block=True)
        elif not self.tx.top.began_block:
            self.tx.top.began_block = True
        return _STARTED if what.name == "start" else _BEGUN

    def _control(self, what: Control) -> Steps[str]:
        """Execute a statement that controls transactions and return its tag."""
        verb, name = what.verb, what.name
        if verb == "prepare":
            return prepared_transactions.prepare(self, name)
        if verb in ("commit prepared", "rollback prepared"):
            if self.failed_tx:
                raise _failed_error()
            return prepared_transactions.finish(self, name, commit=verb == "commit prepared")
        if verb in ("commit", "rollback"):
            return self._finish(verb == "commit")
        return self._savepoint(verb, name)

    def _savepoint(self, verb: str, name: str) -> Steps[str]:
        tx = self.tx
        if tx is None:
            lines = {"savepoint": "SAVEPOINT", "release": "RELEASE SAVEPOINT"}
            shown = lines.get(verb, "ROLLBACK TO SAVEPOINT")
            raise SqlError("25P01", f"{shown} can only be used in transaction blocks")
        if verb == "rollback to":
            tx.rollback_to(name)
            self.failed_tx = False
            return "ROLLBACK"
        if self.failed_tx:
            raise _failed_error()
        if verb == "savepoint":
            tx.savepoint(name)
            return "SAVEPOINT"
        tx.release(name)
        return "RELEASE"
        yield  # makes this a generator

    def _finish(self, commit: bool) -> Steps[str]:
        if self.tx is None:
            return "COMMIT" if commit else "ROLLBACK"
        if commit and not self.failed_tx:
            yield from self.commit()
            return "COMMIT"
        self.abort()
        return "ROLLBACK"
