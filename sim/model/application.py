"""Sessions of applications at Subscribers in virtual time, and the coordinator's own that finish branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import simpy

from twopc.drivers.lean import Report
from twopc.drivers.sessions import Session, Sessions
from twopc.drivers.virtual import Awaited, Refusal, VirtualLean, VirtualResult
from twopc.names import BranchId, session_name
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.ports import Kernel
from twopc.sim.model.sql.types import output
from twopc.sim.model.wire import Wire
from twopc.sim.model.words import LostError, SqlError, StatementResult, Steps

if TYPE_CHECKING:
    from twopc.sim.model.coordinator import CoordinatorProcess

#: Those without rows are made once.
_tagged = lru_cache(maxsize=1024)(VirtualResult)


def result_of(found: StatementResult) -> VirtualResult:
    """As it comes over the connection: values as text."""
    if found.rows is None:
        return _tagged(found.tag)
    rows = [
        [None if value is None else output(value).encode() for value in row] for row in found.rows
    ]
    return VirtualResult(found.tag, rows)


def refusal_of(error: SqlError) -> VirtualResult:
    """An error report as it comes over the connection."""
    refusal = Refusal(
        sqlstate=error.sqlstate, message=error.message, detail=error.detail, hint=error.hint,
        context=error.context,
    )  # fmt: skip
    return VirtualResult(refusal=refusal)


def answered(kernel: Kernel, actor: str, process: str) -> None:
    """A transaction has an answer, and goes on if it has them all: whoever explores is told."""
    if kernel.watch is not None:
        kernel.watch(f"answers to {actor} of {process}", True)


def answered_about(kernel: Kernel, gid: str, process: str) -> None:
    """The same of an answer to whoever finishes a branch in the transaction's stead."""
    branch = BranchId.parse(gid)
    if branch is not None:
        answered(kernel, f"{process}:{branch.global_id.sequence}", process)


class ModelConnection:
    """A connection of one role to one node."""

    def __init__(self, network: Network, wire: Wire, spawn: Any) -> None:
        session = wire.served
        assert isinstance(session, NodeSession)
        self.session = session
        self.wire = wire
        self._touches = frozenset((wire.there,))
        self.lean = VirtualLean(self._perform, spawn, wire.close, lambda: not self.is_lost)

    @classmethod
    def open(
        cls, network: Network, node: ModelNode, *, here: str, actor: str, role: str, name: str
    ) -> Steps[ModelConnection]:
        """Connect. LostError, SqlError

        Args:
            name: its `application_name`.
        """
        wire = yield from network.connect(here, node.name, actor, lambda: node.connect(role, name))

        def spawn(steps: Steps[Any]) -> simpy.Event:
            return network.kernel.spawn(steps, wire.actor)

        return cls(network, wire, spawn)

    @property
    def is_lost(self) -> bool:
        """It is closed at one end or the other."""
        return bool(self.lean.lost or self.wire.lost or self.session.dead)

    def execute(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """One statement of the application's. SqlError, LostError"""
        return self.wire.ask(lambda: self.session.execute(text, params), text, self._touches)

    def _perform(self, statements: Sequence[str]) -> Steps[list[VirtualResult]]:
        what = statements[0] if len(statements) == 1 else "; ".join(statements)
        wire = self.wire
        results = yield from wire.ask(lambda: self._run_all(statements), what, self._touches)
        answered(wire.kernel, wire.actor, wire.here)
        if self.session.dead is not None:
            self.lean.abort("the server has ended the session")  # with these as its last words
        return results

    def _run_all(self, statements: Sequence[str]) -> Steps[list[VirtualResult]]:
        """What a server does with a message of several statements: it stops at the first error."""
        results: list[VirtualResult] = []
        session = self.session
        for text in statements:
            if text == "reset all" and not session.settings and session.is_idle:
                results.append(
                    _tagged("RESET")
                )  # every transaction begins so, and it costs one of its own
                continue
            try:
                results.append(result_of((yield from session.execute(text))))
            except SqlError as error:
                results.append(refusal_of(error))
                break
        return results

    def close(self) -> None:
        """Harmless twice."""
        self.wire.close()


class ModelSession(Session):
    """A session at a Subscriber."""

    __slots__ = ()

    connection: ModelConnection

    def __init__(self, epoch: int, connection: ModelConnection) -> None:
        session = connection.session
        super().__init__(session.node.name, epoch, connection, connection.lean, session.pid)
        self.started = str(session.born)
        self.isolation = "read committed"

    @property
    def in_transaction(self) -> bool:
        """See `Session`."""
        session = self.connection.session
        open_ = (
            session.tx is not None or session.dead is not None
        )  # of which this side has not heard
        return open_ and not self.lean.lost

    @property
    def is_lost(self) -> bool:
        """See `Session`."""
        return self.connection.is_lost

    async def clean_up(self) -> bool:
        """The model's nodes know no such statements: the session is given up."""
        return False


class ModelSessions(Sessions):
    """Of one role at one Subscriber, for transactions of one variant: they are called by its epoch."""

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

    def is_current(self, session: ModelSession) -> bool:
        """See `Sessions`."""
        return session.epoch == self._epoch

    async def connect(self) -> ModelSession:
        """See `Sessions`."""
        process, epoch = self._process, self._epoch
        place = process.place
        try:
            connection = await Awaited(
                ModelConnection.open(
                    place.network, place.nodes[self.subscriber], here=process.actor,
                    actor=process.beginner, role=self._role, name=session_name(process.name, epoch),
                )
            )  # fmt: skip
        except (LostError, SqlError) as error:
            failure = Report(message=str(error), sqlstate=getattr(error, "sqlstate", ""))
            raise self.refused(failure) from error
        return place.wiring.session(epoch, connection)

    async def take_idle(self) -> ModelSession:
        """See `Sessions`."""
        self._process.remembers(self.subscriber, True)
        session: ModelSession = await super().take_idle()
        session.connection.wire.belongs_to(self._process.beginner)
        return session

    async def give_back(self, session: Session) -> None:
        """See `Sessions`."""
        self._process.remembers(self.subscriber, True)
        if self._process.alive:
            await super().give_back(session)
        else:
            session.connection.close()


class ModelFinishers:
    """The coordinator's connections to the Publisher, for COMMIT PREPARED: as many as are needed at once.

    A real coordinator keeps some for each role; the model's is a superuser.
    """

    def __init__(self, network: Network, publisher: ModelNode, *, here: str, actor: str) -> None:
        self._network = network
        self._publisher = publisher
        self._here = here
        self._actor = f"{actor}:finisher"
        self._idle: list[ModelConnection] = []

    async def finish(self, command: bytes, tag: bytes, owner: str, meanwhile: Any) -> bool:
        """Run COMMIT PREPARED; True if the answer was exactly `tag`.

        `meanwhile` is called once the command is sent.
        """
        self._told()
        while self._idle and not self._idle[-1].lean.alive():
            self._idle.pop()
        if self._idle:
            connection = self._idle.pop()
        else:
            try:
                connection = await Awaited(
                    ModelConnection.open(
                        self._network, self._publisher, here=self._here, actor=self._actor,
                        role="postgres", name="twopc finisher",
                    )
                )  # fmt: skip
            except (LostError, SqlError):
                return False
        meanwhile()
        results = await connection.lean.run(command)
        answered_about(self._network.kernel, command.split(b"'")[1].decode(), self._here)
        self._told()
        if connection.lean.alive():
            self._idle.append(connection)
        return len(results) == 1 and results[0].command_status == tag

    def _told(self) -> None:
        watch = self._network.kernel.watch
        if watch is not None:
            watch(f"connections of {self._actor}", True)

    def close(self) -> None:
        """Close those that nobody uses."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
