"""Sessions of an application at a Subscriber, which transactions take and give back.

The same on servers (`twopc.drivers.server_sessions`) and in virtual time (`twopc.sim.model.application`). It must not know how
a transaction goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import pq

from twopc.drivers.lean import ServerReport, report
from twopc.drivers.ports import LeanPort
from twopc.drivers.statements import Trace, trace_of
from twopc.errors import RejectedError
from twopc.together import together

_IDLE_MAX = 32
_ROLL_BACK = b"rollback; select msrepl.reset_link()"


def refusal(results: list[pq.abc.PGresult], lean: LeanPort) -> ServerReport | None:
    """The first error among the results, or the loss of the connection."""
    for result in results:
        outcome = report(result)
        if outcome is not None:
            return outcome
    return ServerReport(message=lean.lost, sqlstate="08006") if lean.lost else None


class LinkedSession:
    """A session at a Subscriber, with the link that hangs on it."""

    __slots__ = (
        "connection", "dirt", "epoch", "isolation", "lean", "modes", "pid", "started", "subscriber",
    )  # fmt: skip

    def __init__(
        self, subscriber: str, epoch: int, connection: Any, lean: LeanPort, pid: int
    ) -> None:
        self.subscriber = subscriber
        self.epoch = epoch
        """Of the coordinator's process, whose name it has: whoever fences the epoch ends the session."""
        self.connection = connection
        """What the application's own statements are sent over."""
        self.lean = lean
        self.pid = pid
        self.started = ""
        """When the server says that it began; with the pid it names the session for ever."""
        self.isolation = ""
        """Of its transactions, by its own settings."""
        self.modes = ""
        """The same for what else BEGIN may say, with a comma before it."""
        self.dirt = Trace.NONE
        """What its transaction has left in it; settings apart, which every BEGIN takes back."""

    @property
    def in_transaction(self) -> bool:
        """A transaction is open, or has failed and waits for its rollback, as far as this side knows."""
        raise NotImplementedError

    @property
    def is_lost(self) -> bool:
        """Nothing can be sent any more, whoever has noticed it."""
        raise NotImplementedError

    async def clean_up(self) -> bool:
        """Take away what `Trace.DIRT` stands for; False: it could not."""
        raise NotImplementedError

    @property
    def standard_conforming_strings(self) -> bool:
        """The session's setting of that name: a backslash is a plain character in a plain string."""
        return True

    def soil(self, query: object) -> None:
        """Note what a statement leaves in the session."""
        standard = self.standard_conforming_strings
        self.dirt = max(self.dirt, trace_of(query, standard_conforming_strings=standard))

    async def roll_back(self) -> None:
        """Roll back what is open, here and over the link; a session that cannot is given up."""
        if self.in_transaction:
            failure = refusal(await self.lean.run(_ROLL_BACK), self.lean)
            if failure is not None:
                self.lean.abort(f"the link could not be reset: {failure}")


class Sessions:
    """The application's sessions at one Subscriber, under one role; each world connects in its own way.

    There is no limit: a server that has enough says so better than a queue that never moves.
    """

    def __init__(self, subscriber: str) -> None:
        self.subscriber = subscriber
        self._idle: list[Any] = []
        self._closed = False

    def is_current(self, session: Any) -> bool:
        """Whether an idle session may be used: it was opened for an epoch that this process still has."""
        raise NotImplementedError

    async def connect(self) -> Any:
        """A new session, a `LinkedSession`.

        Raises:
            RejectedError: the Subscriber cannot be reached, or refuses.
        """
        raise NotImplementedError

    async def take(self, begin: Callable[[Any], bytes]) -> Any:
        """A session in which `begin`, made for it, has succeeded.

        Raises:
            RejectedError: the Subscriber cannot be reached, or refuses; nothing was begun.
        """
        session = await self.take_idle()
        failure = refusal(await session.lean.run(begin(session)), session.lean)
        if failure is not None:
            await session.lean.close()
            raise self.refused(failure)
        return session

    async def take_idle(self) -> Any:
        """A session in which nothing was begun.

        Raises:
            RejectedError: as `take`.
        """
        while self._idle:
            session = self._idle.pop()
            if self.is_current(session) and session.lean.alive():
                return session
            await session.lean.close()
        return await self.connect()

    async def give_back(self, session: LinkedSession) -> None:
        """Take a session back; one that is broken, or in a transaction, is closed."""
        lean = session.lean
        if session.dirt is Trace.DIRT and not lean.lost and not session.in_transaction:
            session.dirt = Trace.NONE if await session.clean_up() else Trace.STAIN
        keep = not session.dirt and not self._closed and len(self._idle) < _IDLE_MAX
        if keep and not lean.lost and not session.in_transaction and self.is_current(session):
            self._idle.append(session)
        else:
            await lean.close()

    async def close(self) -> None:
        """Close the idle sessions, and those in use when they come back."""
        self._closed = True
        idle, self._idle = self._idle, []
        await together(*(session.lean.close() for session in idle))

    def refused(self, failure: ServerReport) -> RejectedError:
        """What the application gets where nothing was begun."""
        return RejectedError(
            f"Subscriber {self.subscriber}: {failure.message}",
            node=self.subscriber,
            sqlstate=failure.sqlstate or "08001",
            detail=failure.detail,
            hint=failure.hint,
        )
