"""A session of an application at a Subscriber, as the driver of its transaction sees it: the `SessionPort` of
virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import simpy

from twopc.drivers.virtual import Awaited, Refusal, VirtualLean, VirtualResult
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.sql.types import output
from twopc.sim.model.wire import Wire
from twopc.sim.model.words import LostError, SqlError, StatementResult, Steps

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


def run_all(session: NodeSession, statements: Sequence[str]) -> Steps[list[VirtualResult]]:
    """What a server does with a message of several statements: it stops at the first error."""
    results: list[VirtualResult] = []
    for text in statements:
        try:
            results.append(result_of((yield from session.execute(text))))
        except SqlError as error:
            results.append(refusal_of(error))
            break
    return results


class ModelConnection:
    """A connection of one role to one node."""

    def __init__(self, network: Network, wire: Wire, spawn: Any) -> None:
        session = wire.served
        assert isinstance(session, NodeSession)
        self.session = session
        self.wire = wire
        self.subscriber = wire.there
        self.pid = session.pid
        self.started = str(session.born)
        self._touches = frozenset((wire.there,))
        self.lean = VirtualLean(self._perform, spawn, wire.close)

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
            return network.kernel.spawn(steps, actor)

        return cls(network, wire, spawn)

    @property
    def lost(self) -> str:
        """Why it is gone; empty while it is not."""
        return self.lean.lost or self.wire.lost

    def execute(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """One statement of the application's. SqlError, LostError"""
        return self.wire.ask(lambda: self.session.execute(text, params), text, self._touches)

    def say(self, texts: Sequence[str]) -> Steps[None]:
        """Several statements in one message. SqlError of the first that is refused, LostError"""

        def run() -> Steps[None]:
            for text in texts:
                yield from self.session.execute(text)

        return self.wire.ask(run, "; ".join(texts), self._touches)

    @property
    def clean(self) -> bool:
        """Nothing of what was done shows in it: it may be used for another transaction."""
        session = self.session
        return not (
            self.lost or session.dead or session.told_to_end or session.tx is not None
            or session.settings or session.session_locks
        )  # fmt: skip

    async def roll_back(self) -> None:
        """Roll back what is open, here and over the link."""
        await self.lean.run(b"rollback")

    def _perform(self, statements: Sequence[str]) -> Steps[list[VirtualResult]]:
        what = statements[0] if len(statements) == 1 else "; ".join(statements)
        results = yield from self.wire.ask(
            lambda: run_all(self.session, statements), what, self._touches
        )
        if self.session.dead is not None:
            self.lean.abort("the server has ended the session")  # with these as its last words
        return results

    def close(self) -> None:
        """Harmless twice."""
        self.wire.close()


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
        while self._idle and self._idle[-1].lost:
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
        self._told()
        if not connection.lost:
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
