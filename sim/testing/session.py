"""Sessions as tests use them: every call blocks until its end, except that a started statement returns at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Any

from twopc.sim.sessions.results import Result
from twopc.sim.sessions.waits import ObservedClient
from twopc.sim.testing.live import LiveSession, LiveStatement

if TYPE_CHECKING:
    from twopc.sim.testing.bench import BlockingCaller
    from twopc.sim.testing.blocking_bench import TestTopology

#: The future or thread in which an application works, if a test knows it.
Work = Future[Any] | asyncio.Future[Any] | Thread | None


class StartedBase:
    """What is known of a started statement without a call."""

    def __init__(self, topology: Any, live: LiveStatement) -> None:
        self._topology = topology
        self._live = live

    @property
    def holder(self) -> str:
        """Session for which the statement waited when last observed; empty if none."""
        return self._live.holder

    @property
    def done(self) -> bool:
        """Whether the statement has ended, with or without an error."""
        return self._live.done.done()

    def __repr__(self) -> str:
        state = "ended" if self.done else f"waits for {self.holder}" if self.holder else "runs"
        return f"<{self._live.session.name}: {self._live.text} ({state})>"


class Started(StartedBase):
    """A statement that was started."""

    _topology: BlockingCaller

    def blocked_by(self, other: TestSession | Watched | str) -> bool:
        """Return whether the statement waits for `other`, as soon as the statement has ended or provably waits.

        Raises:
            AssertionError: neither within the time limit (``twopc_timeout``).
        """
        __tracebackhide__ = True
        return self._topology.call(self._live.blocked_by, name_of(other))

    def result(self) -> Result:
        """Wait for the statement's end and return its result.

        Raises:
            Conflict, RejectedError, psycopg.Error: the statement was refused.
            AssertionError: the statement has not ended within the time limit.
        """
        result: Result = self._topology.call(self._live.result)
        return result


class SessionBase:
    """What is known of a session without a call."""

    __test__ = False  # not a test, despite the names of its subclasses

    def __init__(self, topology: Any, live: LiveSession) -> None:
        self._topology = topology
        self._live = live

    @property
    def name(self) -> str:
        """Name of the session in waits and in the history."""
        return self._live.name

    @property
    def node(self) -> str:
        """Node of the session."""
        return self._live.node

    @property
    def gid(self) -> str:
        """Last global transaction of the session; empty at the Publisher."""
        return self._live.gid

    def __repr__(self) -> str:
        return f"<session {self.name} at {self.node}>"


class TestSession(SessionBase):
    """One client of one node, with the application's role.

    At a Subscriber, its transactions are committed at both sites or at neither; at the Publisher, they are ordinary
    transactions. A statement begins a transaction if none is open.
    """

    _topology: BlockingCaller

    def execute(self, sql: Any, params: Any = None) -> Result:
        """Run a statement and return its result; parameters are psycopg's (``%s``, ``%(name)s``).

        Raises:
            Conflict, RejectedError: the Publisher refused the statement; the transaction must be rolled back.
            psycopg.Error: the node itself refused the statement.
            AssertionError: the statement has not ended within the time limit; the message names the holder of its
                lock.
        """
        __tracebackhide__ = True
        return self._topology.call(self._live.execute, sql, params)

    def start(self, sql: Any, params: Any = None) -> Started:
        """Start a statement and return at once; the session's next request waits for the statement's end."""
        return Started(self._topology, self._topology.call(started, self._live, sql, params))

    def begin(self) -> None:
        """Begin a transaction explicitly, for tests in which its beginning matters: statements begin one
        implicitly.
        """
        __tracebackhide__ = True
        self._topology.call(self._live.begin)

    def commit(self) -> None:
        """Commit at both sites or at neither.

        Raises:
            Conflict, RejectedError: the transaction was rolled back at both sites.
            InDoubt: the outcome is not known; it will be the same at both sites.
        """
        __tracebackhide__ = True
        self._topology.call(self._live.commit)

    def rollback(self) -> None:
        """Roll back at both sites; no effect without an open transaction."""
        __tracebackhide__ = True
        self._topology.call(self._live.rollback)


class WatchedBase:
    """What is known of an application's session without a call."""

    def __init__(self, topology: Any, client: ObservedClient, work: Work) -> None:
        self._topology = topology
        self._client = client
        self._work = work
        self.holder = ""
        """Session for which the application waited when last observed; empty if none."""

    @property
    def name(self) -> str:
        """The application's `application_name`."""
        return self._client.name

    def __repr__(self) -> str:
        return f"<application {self.name!r} at {self._client.node}>"


class Watched(WatchedBase):
    """A session that the application has opened, identified by its `application_name`."""

    _topology: TestTopology

    def blocked_by(self, other: TestSession | Watched | str) -> bool:
        """Return whether the application waits for `other`, once it provably waits or its work has ended.

        Raises:
            AssertionError: neither within the time limit.
        """
        __tracebackhide__ = True
        look = self._topology.bed.watched_blocked_by
        blocked, self.holder = self._topology.call(
            look, self._client, name_of(other), over(self._work)
        )
        return blocked


async def started(live: LiveSession, sql: Any, params: Any) -> LiveStatement:
    """Start a statement, on the event loop that serves its session."""
    return live.start(sql, params)


def over(work: Work) -> Callable[[], bool]:
    """Return a function that tells whether the work has ended, without a thread that waits for it."""
    if isinstance(work, Thread):
        return lambda: work.ident is not None and not work.is_alive()
    return work.done if work is not None else lambda: False


def name_of(other: Any) -> str:
    """Return the name of a session in waits."""
    return other if isinstance(other, str) else str(other.name)
