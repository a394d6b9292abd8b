"""A session of a scenario that plays its steps one after the other.

A lane plays the steps that the runner starts, and reports their outcomes. Each lane is a single task for its whole
life, because a transaction must be left by the task that entered it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from twopc.errors import (
    ConflictError,
    DeadlockError,
    InDoubtError,
    RejectedError,
    TransactionError,
)
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.model import Step
from twopc.sim.scenario.steps import OF_AGENTS, OF_SUBSCRIPTIONS
from twopc.sim.sessions.interface import NOT_SUBSCRIBED, ClientSession, SyncError
from twopc.sim.sessions.results import Result, returned
from twopc.sim.sessions.waits import Wait

#: Steps for an order's `{rollback: session}` and `{sync: node}`.
ROLLBACK = Step.model_construct(action="rollback")
SYNC = Step.model_construct(action="sync")
#: Outcome of a plain session's transaction, by command tag of the last statement; otherwise committed.
_OUTCOMES = {
    "ROLLBACK": "rolled back",
    "ROLLBACK PREPARED": "rolled back",
    "PREPARE TRANSACTION": "in doubt",
}


class _NotSavedError(Exception):
    """A result lacks the value that a step has to save. The step's transaction continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlay:
    """A step to be played; `name` is empty for a rollback by the order itself."""

    name: str
    step: Step
    subscribers: tuple[str, ...] = ()
    """Subscribers of a sync; empty: the session's own node."""
    instead: str = ""
    """Reason why the step has nothing to do; empty if it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Outcome of a step: the kind and the fields of its record."""

    lane: Lane
    play: StepPlay
    kind: str
    fields: dict[str, Any] = field(default_factory=dict)
    failure: BaseException | None = None
    """Error of the program itself, not of the step: the run stops."""


class Lane:
    """A session and its state."""

    def __init__(
        self,
        name: str,
        node: str,
        level: str,
        session: ClientSession,
        ends: asyncio.Queue[StepOutcome],
        *,
        plain: bool = False,
        also: tuple[str, ...] = (),
        subscribes: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self.plain = plain
        """Whether statements are sent unchanged, without a coordinator."""
        self.node = node
        self.nodes = (node, *also)
        """Nodes at which its transactions work."""
        self.session = session
        self.running: StepPlay | None = None
        self.launched = 0
        """Number of the launch of its running step within the order: the highest is the youngest."""
        self.deadline = 0.0
        """Time limit of the running step, by the loop's clock."""
        self.queue: deque[StepPlay] = deque()
        """Steps to be started once the session is no longer blocked."""
        self.wait: Wait | None = None
        """Wait of the running step; None unless the step is known to be blocked."""
        self.cycle: tuple[str, ...] = ()
        """The cycle of waits for which its running step was cancelled."""
        self.open = False
        self.refused = ""
        """Name of the step at which the open transaction was refused; empty if it was not."""
        self.outcome = ""
        """Outcome of its last transaction: committed, rolled back or in doubt."""
        self.locking = ""
        """The last step of its open transaction that can hold locks."""
        self.noticed = 0
        """Number of messages received before its running step, or its last one, began."""
        self.recorded = 0
        """Number of its messages recorded in the history."""
        self.subscribes = subscribes
        """Returns whether the Subscribers at which its transactions work have subscriptions now."""
        self.level = level
        """The isolation level of its transactions."""
        self.role = ""
        """Present role of its open transaction; empty: that of the application."""
        self._saved: dict[str, Any] = {}
        self._ends = ends
        self._inbox: asyncio.Queue[StepPlay | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._work(), name=f"session {name}")

    @property
    def holding(self) -> str:
        """Name of the step that holds locks for which others may wait."""
        return self.running.name if self.running is not None else self.locking

    def start(self, play: StepPlay) -> None:
        """Start a step; the session must be idle."""
        assert self.running is None, self.running
        self.running = play
        self.session.collect()
        self.noticed = len(self.session.messages)
        if len(self.nodes) > 1:
            self.session.at = play.step.at or self.node
        texts = play.step.statements if play.step.script is None else (play.step.script,)
        if any(sqltext.takes_locks(text) for text in texts):
            self.locking = play.name
        self._inbox.put_nowait(play)

    async def close(self) -> None:
        """Close the session, which rolls back an open transaction. A step that is still running is abandoned."""
        self._inbox.put_nowait(None)
        if self.running is not None:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        with contextlib.suppress(TransactionError):  # the server is down
            await self.session.close()

    async def _work(self) -> None:
        while (play := await self._inbox.get()) is not None:
            try:
                kind, fields = await self._play(play)
                results = self.session.printable if play.step.script is not None else ()
                if any("tag" not in each for each in results):
                    fields["data"] = {**fields.get("data", {}), "results": list(results)}
                ended = StepOutcome(lane=self, play=play, kind=kind, fields=fields)
            except Exception as failure:
                ended = StepOutcome(lane=self, play=play, kind="info", failure=failure)
            self._ends.put_nowait(ended)

    async def _play(self, play: StepPlay) -> tuple[str, dict[str, Any]]:
        step = play.step
        if step.explain is not None:
            return "explain", {"message": step.explain.strip()}
        if play.instead or step.pause or step.resume:
            return "ok", {"message": play.instead, "tag": (step.action or "agent").upper()}
        try:
            if self.plain and step.action not in OF_AGENTS:
                return await self._play_plainly(step)
            if step.action == "begin":
                return await self._begin(step.role or "")
            if step.action == "commit":
                return await self._commit()
            if step.action == "rollback":
                return await self._rollback()
            if step.action == "sync":
                reports = await self.session.sync(play.subscribers)
                return "ok", {
                    "tag": "SYNC",
                    **({"data": {"merge": list(reports)}} if reports else {}),
                }
            if step.action in OF_SUBSCRIPTIONS:
                await getattr(self.session, step.action)()
                return "ok", {"tag": step.action.upper()}
            return await self._execute(step)
        except _NotSavedError as error:
            return "error", {"gid": self.session.gid, "message": str(error)}
        except SyncError as error:
            report = {"sqlstate": error.sqlstate, "number": error.number, "message": str(error)}
            return "error", {"data": {"at": error.node}, **report}
        except InDoubtError as error:
            self._finished("in doubt")
            return "in_doubt", self._fields(error)
        except TransactionError as error:
            return self._refuse("" if step.swallow else play.name, error)

    async def _play_plainly(self, step: Step) -> tuple[str, dict[str, Any]]:
        """Send a step's SQL unchanged, and determine the state of the session's transaction afterwards."""
        before, result = self.open, Result()
        try:
            if step.action == "begin":
                await self.session.begin(self.level, step.role or "")
                result = Result(tag="BEGIN")
            elif step.action is not None or step.script is not None:
                result = await self.session.script(step.script or step.action or "")
            if step.statements:
                await self._set_role(step.role or "")
            for text in step.statements:
                result = await self.session.execute(text, {**self._saved, **step.values})
        except TransactionError:
            self.open = self.session.is_open
            if not self.open:
                self._finished("rolled back")
            raise
        self.open = self.session.is_open
        fields = returned(result)
        if not self.open:
            self._finished(_OUTCOMES.get(result.tag, "committed"))
            if self.outcome == "committed":
                fields["data"] = {"committed": True}
        refused = step.action == "commit" and before and result.tag == "ROLLBACK"
        self._save(step, result)
        return ("rolled_back" if refused else "ok"), fields

    async def _begin(self, role: str = "") -> tuple[str, dict[str, Any]]:
        if not self.subscribes():
            raise RejectedError(
                f"{' or '.join(self.nodes)} does not subscribe now: nothing can be changed there together with "
                "the Publisher",
                node=self.node, sqlstate=NOT_SUBSCRIBED,
            )  # fmt: skip
        await self.session.begin(self.level, role)
        self.open, self.refused, self.role = True, "", role
        return "ok", {"gid": self.session.gid, "tag": "BEGIN"}

    async def _commit(self) -> tuple[str, dict[str, Any]]:
        if self.refused:
            at = self.refused
            await self._rollback()
            return "rolled_back", {"gid": self.session.gid, "message": f"refused at {at}"}
        if not self.open:  # its BEGIN has failed
            self._finished("rolled back")
            return "rolled_back", {"message": "nothing is open"}
        gid = self.session.gid
        try:
            await self.session.commit()
        except InDoubtError:
            raise
        except TransactionError:
            self._finished("rolled back")
            raise
        self._finished("committed")
        gid = self.session.gid or gid  # the gid of any client's transaction is known at its COMMIT
        return "ok", {"gid": gid, "tag": "COMMIT", "data": {"committed": True}}

    async def _rollback(self) -> tuple[str, dict[str, Any]]:
        gid = self.session.gid
        await self.session.rollback()
        self._finished("rolled back")
        return "ok", {"gid": gid, "tag": "ROLLBACK"}

    def _finished(self, outcome: str) -> None:
        self.open, self.refused, self.locking, self.outcome = False, "", "", outcome
        self.role = self.role if self.plain else ""

    async def _execute(self, step: Step) -> tuple[str, dict[str, Any]]:
        if self.refused and not sqltext.returns_to_savepoint(step.statements[0]):
            return "skipped", {"message": f"its transaction was refused at {self.refused}"}
        alone = not self.open
        if alone:
            await self._begin(step.role or "")
        result = Result()
        try:
            await self._set_role(step.role or "")
            for text in step.statements:
                result = await self.session.execute(text, {**self._saved, **step.values})
        except TransactionError:
            if alone:
                await self._rollback()
            raise
        self.refused = ""
        fields: dict[str, Any] = {"gid": self.session.gid, **returned(result)}
        xid = await self.session.xid()
        data: dict[str, Any] = {"xid": xid} if xid else {}
        if alone:
            _, ended = await self._commit()
            fields["gid"] = ended["gid"]
            data["committed"] = True
        if data:
            fields["data"] = data
        self._save(step, result)
        return "ok", fields

    async def _set_role(self, role: str) -> None:
        """Set the role of a step; a plain session keeps it after the transaction."""
        if role != self.role or (self.plain and role):  # a rollback may have reset it
            quoted = '"' + role.replace('"', '""') + '"' if role else "none"
            await self.session.execute(f"set {'' if self.plain else 'local '}role {quoted}", {})
            self.role = role

    def _save(self, step: Step, result: Result) -> None:
        for name, column in step.save.items():
            if not result.rows:
                raise _NotSavedError(f"nothing to save as '{name}': no row came back")
            if column not in result.rows[0]:
                raise _NotSavedError(
                    f"nothing to save as '{name}': the columns are {', '.join(result.columns)}"
                )
            self._saved[name] = result.rows[0][column]

    def _refuse(self, name: str, error: TransactionError) -> tuple[str, dict[str, Any]]:
        """Record that the transaction was refused. If it is still open, it stays open until a step ends it.

        Args:
            name: name of the step; empty if the application ignores the error.
        """
        self.refused = name if self.open else ""
        self.locking = ""
        text = self._fields(error)
        if self.cycle:  # a separate record describes the cycle
            text |= {"conflict": {"kind": "deadlock"}, "message": "cancelled to break the deadlock"}
        return ("rejected" if text.get("conflict") else "error"), text

    def _fields(self, error: TransactionError) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "gid": error.gid or self.session.gid,
            "sqlstate": error.sqlstate,
            "number": error.number,
            "message": str(error).strip(),
        }
        kind = getattr(error, "kind", "error")
        if kind != "error":
            facts = error.facts if isinstance(error, ConflictError) else {}
            fields["conflict"] = {**facts, "kind": kind}
        data: dict[str, Any] = {"at": error.node} if error.node not in ("", self.node) else {}
        if isinstance(error, DeadlockError) and error.cycle:
            data["cycle"] = list(error.cycle)
        return fields | ({"data": data} if data else {})
