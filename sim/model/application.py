"""Sessions of applications at Subscribers in virtual time, and the coordinator's sessions that finish branches."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import simpy

from twopc.drivers.lean import ServerReport
from twopc.drivers.sessions import LinkedSession, Sessions
from twopc.drivers.virtual import AwaitableSteps, VirtualResult, awaited
from twopc.names import BranchId, session_name
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.sql.types import output
from twopc.sim.model.values import RequestLostError, SqlError, StatementResult, Steps
from twopc.sim.model.wire import Wire

if TYPE_CHECKING:
    from twopc.sim.model.coordinator import CoordinatorProcess

#: Results without rows, made once for each tag.
_empty_result = lru_cache(maxsize=1024)(VirtualResult)


def _result_of(result: StatementResult) -> VirtualResult:
    """Return a result as a connection delivers it: values as text."""
    if result.rows is None:
        return _empty_result(result.tag)
    rows = [
        [None if value is None else output(value).encode() for value in row] for row in result.rows
    ]
    return VirtualResult(result.tag, rows)


def _refusal_of(error: SqlError) -> VirtualResult:
    """Return an error report as a connection delivers it."""
    refusal = ServerReport(
        sqlstate=error.sqlstate, message=error.message, detail=error.detail, hint=error.hint,
        context=error.context,
    )  # fmt: skip
    return VirtualResult(refusal=refusal)


def notify_answer(kernel: SimpyKernel, actor: str, process: str) -> None:
    """Notify the search that a transaction has an answer, and continues if it has all of them."""
    if kernel.record_access is not None:
        kernel.record_access(f"answers to {actor} of {process}", True)


def notify_branch_answer(kernel: SimpyKernel, gid: str, process: str) -> None:
    """Notify the search of an answer to a session that finishes a transaction's branch; see `notify_answer`."""
    branch = BranchId.parse(gid) if kernel.record_access is not None else None
    if branch is not None:
        notify_answer(kernel, f"{process}:{branch.global_id.sequence}", process)


class ModelLean:
    """A connection that sends messages: the `twopc.drivers.lean.Lean` of virtual time.

    Args:
        session: the session at the other end.
        spawn: starts steps that run concurrently.
    """

    def __init__(
        self, session: NodeSession, wire: Wire, spawn: Callable[[Steps[Any]], simpy.Event]
    ) -> None:
        self._session = session
        self._wire = wire
        self._spawn = spawn
        self._touches = frozenset((wire.there,))
        self._pending: simpy.Event | None = None
        self.lost = ""
        self.unsynced = False

    def run(self, command: bytes) -> Awaitable[list[Any]]:
        """Send commands and return their results, up to the first error."""
        return self._run(command)

    def send(self, command: bytes) -> None:
        """Send commands; `answer` waits for the results."""
        assert self._pending is None, "one message at a time"
        self._pending = self._spawn(cast("Steps[Any]", self._run(command)))

    def answer(self) -> Awaitable[list[Any]]:
        """Wait for the results of the commands that were sent."""
        assert self._pending is not None
        event, self._pending = self._pending, None
        return awaited(event)

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        if not self.lost:
            self.lost = reason
            self._wire.close()

    def release(self) -> None:
        """Do nothing: no watcher is registered."""

    def alive(self) -> bool:
        """Whether the connection is open at both ends."""
        return not (self.lost or self._wire.lost or self._session.dead)

    async def close(self) -> None:
        """Close the connection; idempotent."""
        self.abort("it was closed")

    @types.coroutine
    def _run(self, command: bytes) -> Steps[list[VirtualResult]]:
        if self.lost:
            return []
        wire = self._wire
        text = command.decode()
        statements = [text]
        if ";" in text:
            statements = [one for each in text.split(";") if (one := each.strip())]
            text = "; ".join(statements)
        try:
            results = yield from wire.ask(lambda: self._serve(statements), text, self._touches)
        except RequestLostError as error:
            if not self.lost:  # it may have been closed meanwhile
                self.lost = str(error)
            return []
        finally:
            if wire.kernel.record_access is not None:
                notify_answer(wire.kernel, wire.actor, wire.here)
        if self._session.dead is not None:
            self.abort("the server has ended the session")  # these results are the last
        return results

    def _serve(self, statements: Sequence[str]) -> Steps[list[VirtualResult]]:
        """Execute a message of several statements like a server, which stops at the first error."""
        results: list[VirtualResult] = []
        session = self._session
        for text in statements:
            # a shortcut: each transaction begins with a RESET ALL, which would need a transaction
            if text == "reset all" and not session.settings and session.is_idle:
                results.append(_empty_result("RESET"))
                continue
            try:
                rows = yield from session.execute(text)
            except SqlError as error:
                results.append(_refusal_of(error))
                break
            results.append(_result_of(rows))
        return results


class ModelConnection:
    """A connection of one role to one node."""

    def __init__(self, network: Network, wire: Wire) -> None:
        session = wire.served
        assert isinstance(session, NodeSession)
        self.session = session
        self.wire = wire
        self._touches = frozenset((wire.there,))
        spawn = network.kernel.spawn
        self.lean = ModelLean(session, wire, lambda steps: spawn(steps, wire.actor))

    @classmethod
    def open(
        cls, network: Network, node: ModelNode, *, here: str, actor: str, role: str, name: str
    ) -> Steps[ModelConnection]:
        """Connect. Raise RequestLostError or SqlError.

        Args:
            name: the connection's `application_name`.
        """
        wire = yield from network.connect(here, node.name, actor, lambda: node.connect(role, name))
        return cls(network, wire)

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed at either end."""
        return not self.lean.alive()

    def execute(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """Execute one statement of the application. Raise SqlError or RequestLostError."""
        return self.wire.ask(lambda: self.session.execute(text, params), text, self._touches)

    def close(self) -> None:
        """Close the connection; idempotent."""
        self.wire.close()


class ModelLinkedSession(LinkedSession):
    """A session at a Subscriber, with its link to the Publisher."""

    __slots__ = ()

    connection: ModelConnection

    def __init__(self, epoch: int, connection: ModelConnection) -> None:
        session = connection.session
        super().__init__(session.node.name, epoch, connection, connection.lean, session.pid)
        self.started = str(session.born)
        self.isolation = "read committed"

    @property
    def in_transaction(self) -> bool:
        """See `LinkedSession`."""
        session = self.connection.session
        if session.node.kernel.record_access is not None:  # the answer may be another node's
            session.node.kernel.record_access(f"node {session.node.name}", False)
            session.node.notify_access(session.search_name, changed=False)
        open_ = session.tx is not None or session.dead is not None  # not yet known at this end
        return open_ and not self.lean.lost

    @property
    def is_lost(self) -> bool:
        """See `LinkedSession`."""
        return self.connection.is_lost

    async def clean_up(self) -> bool:
        """Return False, so that the session is closed: the model's nodes lack the statements that clean up."""
        return False


class ModelSessions(Sessions):
    """Sessions of one role at one Subscriber, for transactions of one variant and named by its epoch."""

    def __init__(
        self, process: CoordinatorProcess, subscriber: str, role: str, variant: str
    ) -> None:
        super().__init__(subscriber)
        self._process = process
        self._role = role
        self._variant = variant

    @property
    def _epoch(self) -> int:
        return self._process.log.epochs[self._variant].epoch

    def is_current(self, session: ModelLinkedSession) -> bool:
        return session.epoch == self._epoch

    async def connect(self) -> ModelLinkedSession:
        process, epoch = self._process, self._epoch
        place = process.place
        try:
            connection = await AwaitableSteps(
                ModelConnection.open(
                    place.network, place.nodes[self.subscriber], here=process.actor,
                    actor=process.beginner, role=self._role, name=session_name(process.name, epoch),
                )
            )  # fmt: skip
        except (RequestLostError, SqlError) as error:
            failure = ServerReport(message=str(error), sqlstate=getattr(error, "sqlstate", ""))
            raise self.refused(failure) from error
        return place.wiring.session(epoch, connection)

    async def take_idle(self) -> ModelLinkedSession:
        self._process.notify_access(self.subscriber, True)
        session: ModelLinkedSession = await super().take_idle()
        session.connection.wire.belongs_to(self._process.beginner)
        return session

    async def give_back(self, session: LinkedSession) -> None:
        self._process.notify_access(self.subscriber, True)
        if self._process.alive:
            await super().give_back(session)
        else:
            session.connection.close()


class ModelFinishers:
    """The coordinator's connections to the Publisher for COMMIT PREPARED, opened as needed.

    A real coordinator keeps some for each role; the model's role is a superuser.
    """

    def __init__(self, network: Network, publisher: ModelNode, *, here: str, actor: str) -> None:
        self._network = network
        self._publisher = publisher
        self._here = here
        self._actor = f"{actor}:finisher"
        self._idle: list[ModelConnection] = []

    async def finish(self, command: bytes, tag: bytes, owner: str, meanwhile: Any) -> bool:
        """Execute COMMIT PREPARED; whether the answer was exactly `tag`.

        `meanwhile` is called once the command is sent.
        """
        self._notify_change()
        while self._idle and not self._idle[-1].lean.alive():
            self._idle.pop()
        if self._idle:
            connection = self._idle.pop()
        else:
            try:
                connection = await AwaitableSteps(
                    ModelConnection.open(
                        self._network, self._publisher, here=self._here, actor=self._actor,
                        role="postgres", name="twopc finisher",
                    )
                )  # fmt: skip
            except (RequestLostError, SqlError):
                return False
        meanwhile()
        results = await connection.lean.run(command)
        notify_branch_answer(self._network.kernel, command.split(b"'")[1].decode(), self._here)
        self._notify_change()
        if connection.lean.alive():
            self._idle.append(connection)
        return len(results) == 1 and results[0].command_status == tag

    def _notify_change(self) -> None:
        record_access = self._network.kernel.record_access
        if record_access is not None:
            record_access(f"connections of {self._actor}", True)

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
