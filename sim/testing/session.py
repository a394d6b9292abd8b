"""Sessions as tests hold them: every call returns when it is over, a started statement at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from twopc.sim.sessions.results import Result
from twopc.sim.sessions.waits import ObservedClient
from twopc.sim.testing.live import LiveSession, LiveStatement

if TYPE_CHECKING:
    from twopc.sim.testing.blocking_bench import TestTopology

T = TypeVar("T")
#: What an application works in, as far as a test knows it.
Work = Future[Any] | asyncio.Future[Any] | Thread | None


class SessionCaller(Protocol):
    """Runs what sessions do on the event loop that serves them."""

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function, to its end."""
        ...


class Started:
    """A statement that was started."""

    def __init__(self, topology: SessionCaller, live: LiveStatement) -> None:
        self._topology = topology
        self._live = live

    def blocked_by(self, other: TestSession | Watched | str) -> bool:
        """Whether it waits for `other`; returns as soon as it is over or provably waits.

        Raises:
            AssertionError: neither within the time limit (``twopc_timeout``).
        """
        __tracebackhide__ = True
        return self._topology.call(self._live.blocked_by, name_of(other))

    @property
    def holder(self) -> str:
        """For whom it waited when it was looked at last; empty if for nobody."""
        return self._live.holder

    @property
    def done(self) -> bool:
        """It has ended, one way or the other."""
        return self._live.done.done()

    def result(self) -> Result:
        """What it returned, waited for.

        Raises:
            Conflict, RejectedError, psycopg.Error: it was refused.
            AssertionError: it has not ended within the time limit.
        """
        result: Result = self._topology.call(self._live.result)
        return result

    def __repr__(self) -> str:
        state = "ended" if self.done else f"waits for {self.holder}" if self.holder else "runs"
        return f"<{self._live.session.name}: {self._live.text} ({state})>"


class TestSession:
    """One client of one node, as the application's role.

    At a Subscriber its transactions are committed at both sites or at neither; at the Publisher they are
    ordinary ones. A statement begins a transaction where none is open.
    """

    __test__ = False  # not a test, whatever its name says

    def __init__(self, topology: SessionCaller, live: LiveSession) -> None:
        self._topology = topology
        self._live = live

    @property
    def name(self) -> str:
        """By which others' waits and the history call it."""
        return self._live.name

    @property
    def node(self) -> str:
        """Where it works."""
        return self._live.node

    @property
    def gid(self) -> str:
        """Its last global transaction; empty at the Publisher."""
        return self._live.gid

    def execute(self, sql: Any, params: Any = None) -> Result:
        """Run a statement to its end; parameters are psycopg's (``%s``, ``%(name)s``).

        Raises:
            Conflict, RejectedError: the Publisher refused it; only `rollback` is left.
            psycopg.Error: the node itself refused it.
            AssertionError: it has not ended within the time limit; the message says for whom it waits.
        """
        __tracebackhide__ = True
        return self._topology.call(self._live.execute, sql, params)

    def start(self, sql: Any, params: Any = None) -> Started:
        """Begin a statement and return at once; what the session is asked next waits for its end."""
        return Started(self._topology, self._topology.call(_started, self._live, sql, params))

    def begin(self) -> None:
        """Begin a transaction, where its moment matters: statements do so by themselves."""
        __tracebackhide__ = True
        self._topology.call(self._live.begin)

    def commit(self) -> None:
        """Commit at both sites or at neither.

        Raises:
            Conflict, RejectedError: rolled back at both sites.
            InDoubt: not known; it will be the same at both sites.
        """
        __tracebackhide__ = True
        self._topology.call(self._live.commit)

    def rollback(self) -> None:
        """Roll back at both sites; harmless if nothing is open."""
        __tracebackhide__ = True
        self._topology.call(self._live.rollback)

    def __repr__(self) -> str:
        return f"<session {self.name} at {self.node}>"


class Watched:
    """A session of the application's own, known by its `application_name`."""

    def __init__(self, topology: TestTopology, client: ObservedClient, work: Work) -> None:
        self._topology = topology
        self._client = client
        self._work = work
        self.holder = ""
        """For whom it waited when it was looked at last; empty if for nobody."""

    @property
    def name(self) -> str:
        """Its `application_name`."""
        return self._client.name

    def blocked_by(self, other: TestSession | Watched | str) -> bool:
        """Whether it waits for `other`; returns when it provably waits, or its work is over.

        Raises:
            AssertionError: neither within the time limit.
        """
        __tracebackhide__ = True
        look = self._topology.bed.watched_blocked_by
        blocked, self.holder = self._topology.call(
            look, self._client, name_of(other), over(self._work)
        )
        return blocked

    def __repr__(self) -> str:
        return f"<application {self.name!r} at {self._client.node}>"


async def _started(live: LiveSession, sql: Any, params: Any) -> LiveStatement:
    return live.start(sql, params)


def over(work: Work) -> Callable[[], bool]:
    """Tells whether the work is over, without a thread that waits for it."""
    if isinstance(work, Thread):
        return lambda: work.ident is not None and not work.is_alive()
    return work.done if work is not None else lambda: False


def name_of(other: Any) -> str:
    """How a session is called among the waits."""
    return other if isinstance(other, str) else str(other.name)
