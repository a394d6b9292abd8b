"""An agent's sessions at its Subscriber: alone there, at a position, with what streams had prepared settled.

It must not know the distribution database, nor which commands come next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from sim.model.distribution.apply import Call
from sim.model.distribution.loads import Bring, Commit, Move
from sim.model.distribution.processes import Connection, Process
from sim.model.node import ModelNode
from sim.model.node.session import NodeSession
from sim.model.words import Cause, Label, SqlError, Steps
from subscriber.distribution_agent import Profile
from twopc.errors import DeliveryError
from twopc.names import StreamId

ROLE = "msrepl_agent"
#: The model's servers have one database each.
DATABASE = 16384
#: How long an agent that was killed may keep its successor waiting.
_TAKE_OVER_S = 30.0
_LOOK_S = 0.02

_MOVE = "select msrepl.move_position(:publisher, :was, :becomes)"
_BLOCK = "select msrepl.apply_block(:calls)"
_NET = "select msrepl.apply_net(:calls)"
_POSITION = "select position from msrepl.msreplication_subscriptions where publisher = :publisher"
_FIRST = (
    "insert into msrepl.msreplication_subscriptions values (:publisher, 0) on conflict do nothing"
)


class Target:
    """Sessions at one Subscriber: the first, and further ones for streams."""

    def __init__(self, process: Process, node: ModelNode, publisher: str, subscriber: str) -> None:
        self._process = process
        self._label = Label(
            actor=process.actor, cause=Cause.MESSAGE, what=f"apply at {node.name}",
            touches=frozenset((node.name,)),
        )  # fmt: skip
        self.node = node
        self.publisher = publisher
        self.subscriber = subscriber
        self.lines: list[Connection] = []
        self.watch: Connection | None = None
        self.position = 0
        """Up to where everything was delivered, as of the last answer."""

    @property
    def name(self) -> str:
        """The `application_name` of its sessions."""
        return f"msrepl agent for {self.publisher}"

    @property
    def first(self) -> Connection:
        """The session that moves the position."""
        return self.lines[0]

    @property
    def sessions(self) -> list[NodeSession]:
        """Those that are open."""
        return [line.session for line in self.lines if not line.lost]

    def open(self, profile: Profile, settings: Callable[[Profile], Any]) -> Steps[None]:
        """Connect, wait until no other agent is left, and settle what one that died has prepared.

        DeliveryError: another one is at work. SqlError, LostError
        """
        process, said = self._process, settings(profile)
        for _ in range(profile.subscription_streams):
            line = yield from process.connect(self.node, ROLE, self.name)
            self.lines.append(line)
            yield from line.ask(lambda one: _set(one, said), "settings")
            if line is self.first:
                yield from self._alone(line)
                self.position = yield from line.ask(self._find_position, "find the position")
                yield from line.ask(self._settle, "settle streams")
        if profile.subscription_streams > 1:
            self.watch = yield from process.connect(self.node, ROLE, "msrepl streams watched")

    def _alone(self, line: Connection) -> Steps[None]:
        """Wait for sessions of an agent that was killed, which end when they notice."""
        until = self._process.kernel.now + _TAKE_OVER_S
        mine = line.session.pid
        while any(
            one.application_name == self.name and one.pid < mine
            for one in self.node.sessions.values()
        ):
            if self._process.kernel.now > until:
                raise DeliveryError(
                    f"another distribution agent from {self.publisher!r} to {self.subscriber!r} is running"
                    " (21036): stop it first",
                    node=self.subscriber, number=21036, sqlstate="55P03",
                )  # fmt: skip
            yield self._process.sleep(_LOOK_S, f"wait for another agent at {self.node.name}")

    def _find_position(self, session: NodeSession) -> Steps[int]:
        for _ in range(2):
            found = yield from session.execute(_POSITION, {"publisher": self.publisher})
            rows: Any = found.rows
            if rows:
                return int(rows[0][0])
            yield from session.execute(_FIRST, {"publisher": self.publisher})
        raise AssertionError("the position was put there")

    def _settle(self, session: NodeSession) -> Steps[None]:
        """The position is in the first stream's part, which is committed first: if it has come to a batch's
        end, the batch is here, else no part of it is."""
        for gid in [*self.node.prepared()]:
            found = StreamId.parse(gid)
            if found is not None and (found.publisher, found.database) == (
                self.publisher,
                DATABASE,
            ):
                verb = "commit" if found.upto <= self.position else "rollback"
                yield from session.execute(f"{verb} prepared '{gid}'")

    # -- batches -------------------------------------------------------------------------------------

    def deliver(self, commits: Iterable[Commit]) -> Steps[None]:
        """Bring a batch; a message for each commit."""
        for commit in commits:
            yield from self.first.ask(partial(self._commit, commit), "a batch")

    def _commit(self, commit: Commit, session: NodeSession) -> Steps[None]:
        yield from session.execute("begin")
        for step in commit:
            yield from self.do(session, step)
        yield from session.execute("commit")

    def do(self, session: NodeSession, step: Move | Bring) -> Steps[None]:
        """At the server, within a transaction."""
        if isinstance(step, Move):
            said = {"publisher": self.publisher, "was": step.was, "becomes": step.becomes}
            yield from session.execute(_MOVE, said)
        elif step.calls:
            timing, kernel = self.node.timing, self._process.kernel
            if timing.apply.a:
                yield kernel.delay(timing.apply, self._label)
            yield from session.execute(_BLOCK, {"calls": step.calls})

    def move(self, upto: int) -> Steps[None]:
        """Move the position alone."""
        yield from self.deliver([[Move(was=self.position, becomes=upto)]])
        self.position = upto

    def net(self, upto: int, calls: Sequence[Call]) -> Steps[SqlError | None]:
        """Apply a net effect that ends at a position; what it met."""
        move = Move(was=self.position, becomes=upto)

        def work(session: NodeSession) -> Steps[None]:
            yield from session.execute("begin")
            yield from self.do(session, move)
            if calls:
                yield from session.execute(_NET, {"calls": tuple(calls)})
            yield from session.execute("commit")

        try:
            yield from self.first.ask(work, "apply a net effect")
        except SqlError as error:
            yield from self.first.run("rollback")
            return error
        self.position = upto
        return None

    def make_durable(self) -> Steps[None]:
        """Wait until the position and everything that came before it is durable."""

        def work(session: NodeSession) -> Steps[None]:
            yield from session.execute("begin")
            yield from session.execute("set local synchronous_commit = on")
            yield from self.do(session, Move(was=self.position, becomes=self.position))
            yield from session.execute("commit")

        yield from self.first.ask(work, "make the position durable")

    def try_out(self, calls: Sequence[Call]) -> Steps[tuple[int | None, SqlError] | None]:
        """Commands one by one, all of them taken back: which one failed (None: the check at the end), and how."""

        def work(session: NodeSession) -> Steps[tuple[int | None, SqlError] | None]:
            yield from session.execute("begin")
            at: int | None = None
            try:
                for at, call in enumerate(calls):  # noqa: B007 - told when one fails
                    yield from session.execute(_BLOCK, {"calls": (call,)})
                at = None
                yield from session.execute("set constraints all immediate")
            except SqlError as error:
                return at, error
            finally:
                yield from session.execute("rollback")
            return None

        return (yield from self.first.ask(work, "look for what fails"))

    def gid(self, upto: int, stream: int) -> str:
        """Under which a stream prepares its part of the batch that ends there."""
        found = StreamId(publisher=self.publisher, database=DATABASE, upto=upto, stream=stream)
        return str(found)

    def close(self) -> None:
        """Harmless twice."""
        for line in (*self.lines, *([self.watch] if self.watch is not None else [])):
            line.close()


def _set(session: NodeSession, settings: Any) -> Steps[None]:
    for name, value in settings.items():
        yield from session.execute(f"set {name} = '{value}'")
