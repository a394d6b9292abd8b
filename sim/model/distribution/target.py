"""An agent's sessions at its Subscriber in virtual time: the effects of its steps there.

Independent of the distribution database and of which commands come next.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any

import simpy

from twopc.names import StreamId
from twopc.sim.model.distribution.apply import ROLE, Call
from twopc.sim.model.distribution.processes import Connection, Process, at_once, outcome, report_of
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import Cause, Label, RequestLostError, SqlError, Steps
from twopc.subscriber.distribution_agent import Profile, ports
from twopc.subscriber.distribution_agent import steps as s
from twopc.subscriber.distribution_agent.arrays import numbers, texts
from twopc.subscriber.distribution_agent.loads import StreamPart, SubscribedArticles
from twopc.subscriber.distribution_agent.ports import StepsAnswer

#: The model's servers have one database each.
DATABASE = 16384
#: How long an agent waits for the sessions of a killed predecessor to end.
_TAKE_OVER_S = 30.0
_LOOK_S = 0.02

_MOVE = "select msrepl.move_position(:publisher, :was, :becomes)"
_BLOCK = "select msrepl.apply_block(:calls)"
_NET = "select msrepl.apply_net(:calls)"
_POSITION = "select position from msrepl.msreplication_subscriptions where publisher = :publisher"
_FIRST = (
    "insert into msrepl.msreplication_subscriptions values (:publisher, 0) on conflict do nothing"
)

Settings = Callable[[Profile], Mapping[str, str]]


def settings_of(profile: Profile) -> Mapping[str, str]:
    """Return the settings of an agent's sessions."""
    return {
        "session_replication_role": "replica",
        "lock_timeout": "0",
        "synchronous_commit": "on" if profile.synchronous_commit else "off",
    }


class ModelPendingGroup:
    """See `twopc.subscriber.distribution_agent.ports.PendingGroup`.

    Args:
        event: the process that performs the group.
    """

    __slots__ = ("event",)

    def __init__(self, event: simpy.Process) -> None:
        self.event = event

    def __await__(self) -> Generator[simpy.Event, Any, StepsAnswer]:
        if not self.event.processed:
            yield self.event
        return self.result()

    def done(self) -> bool:
        return self.event.processed

    def result(self) -> StepsAnswer:
        ending: Any = self.event.value
        error, answer = ending
        if isinstance(error, RequestLostError):
            raise ports.LostError(str(error))
        if error is not None:
            raise error
        assert isinstance(answer, StepsAnswer)
        return answer


class ModelAgentSession:
    """See `twopc.subscriber.distribution_agent.ports.SessionPort`."""

    def __init__(
        self, process: Process, publisher: str, node: ModelNode, connection: Connection
    ) -> None:
        self._process = process
        self._publisher = publisher
        self._label = Label(
            actor=process.actor, cause=Cause.MESSAGE, what=f"apply at {node.name}",
            touches=frozenset((node.name,)),
        )  # fmt: skip
        self._node = node
        self._before: simpy.Process | None = None
        """Group that was sent last: a connection performs one group after the other."""
        self.connection = connection

    def send(self, *steps: s.Step) -> ModelPendingGroup:
        self._process.check_alive()
        what = _label_of(steps)
        work = self._perform(self._before, steps, what)
        self._before = self._process.spawn(outcome(work), what)
        return ModelPendingGroup(self._before)

    def _perform(
        self, before: simpy.Process | None, steps: Sequence[s.Step], what: str
    ) -> Steps[StepsAnswer]:
        if before is not None and not before.processed:
            yield before
        return (yield from self.connection.ask(partial(self._group, steps), what))

    def _group(self, steps: Sequence[s.Step], session: NodeSession) -> Steps[StepsAnswer]:
        """Perform a group at the server."""
        for at, step in enumerate(steps):
            try:
                yield from self._step(session, step)
            except SqlError as error:
                return StepsAnswer(
                    failure=report_of(error), failed_at=at, constraint=error.constraint
                )
        return StepsAnswer()

    def _step(self, session: NodeSession, step: s.Step) -> Steps[None]:
        match step:
            case s.BeginBatch():
                yield from session.execute("begin")
            case s.Move():
                given = {"publisher": self._publisher, "was": step.was, "becomes": step.becomes}
                yield from session.execute(_MOVE, given)
            case s.Apply():
                if self._node.timing.apply.a:
                    yield self._process.kernel.delay(self._node.timing.apply, self._label)
                yield from session.execute(_BLOCK, {"calls": _calls(step.part)})
            case s.ApplyNet():
                calls = tuple((code, text.decode()) for code, text in step.commands)
                yield from session.execute(_NET, {"calls": calls})
            case s.CheckConstraints():
                yield from session.execute("set constraints all immediate")
            case s.MakeDurable():
                yield from session.execute("set local synchronous_commit = on")
            case s.Prepare():
                result = yield from session.execute(f"prepare transaction '{step.gid}'")
                if result.tag != "PREPARE TRANSACTION":
                    raise SqlError("25P02", "the transaction had failed and was rolled back")
            case s.CommitBatch():
                yield from session.execute("commit")
            case s.Rollback():
                yield from session.execute("rollback")
            case s.FinishPrepared():
                verb = "commit" if step.commit else "rollback"
                yield from session.execute(f"{verb} prepared '{step.gid}'")


def _label_of(steps: Sequence[s.Step]) -> str:
    """Return a label for a group."""
    last = steps[-1]
    match last:
        case s.BeginBatch():
            return "begin"
        case s.CommitBatch():
            return "a batch"
        case s.Prepare():
            return f"part of stream {last.gid.stream}"
        case s.FinishPrepared():
            return f"{'commit' if last.commit else 'rollback'} prepared '{last.gid}'"
        case _:
            return type(last).__name__.lower()


def _calls(part: StreamPart) -> tuple[Call, ...]:
    codes, calls = numbers(part.codes, "i"), texts(part.calls)
    return tuple((code, call.decode()) for code, call in zip(codes, calls, strict=True))


class ModelTarget:
    """See `twopc.subscriber.distribution_agent.ports.TargetPort`.

    Args:
        settings: the settings of its sessions.
    """

    def __init__(
        self,
        process: Process,
        node: ModelNode,
        profile: Profile,
        settings: Settings,
        publisher: str,
    ) -> None:
        self._process = process
        self._node = node
        self._settings = settings(profile)
        self._publisher = publisher
        self._name = f"msrepl agent for {publisher}"
        """The `application_name` of its sessions."""
        self._lines: list[ModelAgentSession] = []
        self._watch: Connection | None = None
        self.position = 0

    async def open(self) -> None:
        """Connect the first session."""
        await self._connect()

    async def _connect(self) -> Connection:
        process = self._process
        connection = await process.perform(process.connect(self._node, ROLE, self._name))
        self._lines.append(ModelAgentSession(process, self._publisher, self._node, connection))
        await process.perform(connection.ask(self._set, "settings"))
        return connection

    def _set(self, session: NodeSession) -> Steps[None]:
        for name, value in self._settings.items():
            yield from session.execute(f"set {name} = '{value}'")

    async def rival(self) -> str:
        return await self._process.perform(self._rival(self._lines[0].connection.session.pid))

    def _rival(self, own: int) -> Steps[str]:
        until = self._process.kernel.now + _TAKE_OVER_S
        while others := [one.pid for one in self._node.names.find(self._name) if one.pid < own]:
            if self._process.kernel.now > until:
                return f"pid {others[0]}"
            yield self._process.sleep(_LOOK_S, f"wait for another agent at {self._node.name}")
        return ""

    async def find_position(self) -> None:
        self.position = await self._process.perform(
            self._lines[0].connection.ask(self._find_position, "find the position")
        )

    def _find_position(self, session: NodeSession) -> Steps[int]:
        for _ in range(2):
            result = yield from session.execute(_POSITION, {"publisher": self._publisher})
            rows: Any = result.rows
            if rows:
                return int(rows[0][0])
            yield from session.execute(_FIRST, {"publisher": self._publisher})
        raise AssertionError("the position was put there")

    @property
    def lines(self) -> Sequence[ModelAgentSession]:
        return self._lines

    @property
    def sessions(self) -> list[NodeSession]:
        """Open sessions."""
        return [line.connection.session for line in self._lines if not line.connection.lost]

    async def prepared(self) -> list[StreamId]:
        gids = await self._process.perform(
            self._lines[0].connection.ask(
                lambda _: at_once([*self._node.prepared()]), "settle streams"
            )
        )
        parsed = [StreamId.parse(gid) for gid in gids]
        own = (self._publisher, DATABASE)
        return [one for one in parsed if one and (one.publisher, one.database) == own]

    async def open_streams(self, count: int) -> None:
        if count <= 1:
            return
        while len(self._lines) < count:
            await self._connect()
        self._watch = await self._process.perform(
            self._process.connect(self._node, ROLE, "msrepl streams watched")
        )

    def subscribe(self, subscription: SubscribedArticles) -> None:
        """See `TargetPort`; `twopc.sim.model.distribution.apply.Receiver` knows the articles."""

    def gid(self, upto: int, stream: int) -> StreamId:
        return StreamId(publisher=self._publisher, database=DATABASE, upto=upto, stream=stream)

    async def cancel(self, streams: Sequence[int]) -> None:
        await self._ask_watch(lambda: streams)

    async def cancel_blocked(self, streams: Sequence[int], upto: int) -> bool:
        pids = {self._lines[stream].connection.session.pid: stream for stream in streams}
        gids = {str(self.gid(upto, stream)) for stream in streams}
        return await self._ask_watch(
            lambda: [
                pids[wait.pid]
                for wait in self._node.waits()
                if wait.pid in pids and (wait.holder_pid in pids or wait.holder_gid in gids)
            ]
        )

    async def _ask_watch(self, choose: Callable[[], Sequence[int]]) -> bool:
        """Cancel the chosen streams, and return whether there are any."""

        def work(_: NodeSession) -> Steps[bool]:
            streams = sorted({*choose()})
            for stream in streams:
                self._lines[stream].connection.session.cancel()
            return (yield from at_once(bool(streams)))

        assert self._watch is not None
        return await self._process.perform(self._watch.ask(work, "cancel streams"))

    async def is_order_free(self) -> bool:
        """See `TargetPort`; False, as commands are applied one by one here, so that a free order gains nothing."""
        return False

    async def is_constraint(self, name: str) -> bool:
        indexes = {
            index.name: index.constraint
            for table in self._node.tables.values()
            for index in table.indexes
        }
        return indexes.get(name, True)

    def disconnect(self) -> None:
        """Close the connections. Idempotent."""
        for line in self._lines:
            line.connection.close()
        if self._watch is not None:
            self._watch.close()

    async def close(self) -> None:
        self.disconnect()
