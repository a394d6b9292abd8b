"""Pools of an application's sessions at a Subscriber.

The same on servers (`twopc.drivers.server_sessions`) and in virtual time (`twopc.sim.model.application`). This
module must not depend on the course of a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import pq

from twopc.drivers.lean import ServerReport, first_error
from twopc.drivers.ports import LeanPort
from twopc.drivers.statements import Trace, trace_of
from twopc.errors import RejectedError
from twopc.together import together

_IDLE_MAX = 32
_ROLL_BACK = b"rollback; select msrepl.reset_link()"


def refusal(results: list[pq.abc.PGresult], lean: LeanPort) -> ServerReport | None:
    """Return the first error among the results, or the loss of the connection."""
    return first_error(results, lean.lost)[1]


class LinkedSession:
    """A session at a Subscriber, with its link to the Publisher."""

    __slots__ = (
        "connection", "dirt", "epoch", "isolation", "lean", "modes", "pid", "started", "subscriber",
    )  # fmt: skip

    def __init__(
        self, subscriber: str, epoch: int, connection: Any, lean: LeanPort, pid: int
    ) -> None:
        self.subscriber = subscriber
        self.epoch = epoch
        """Epoch of the coordinator's process, part of the session's name: a process that fences the epoch ends the
        session.
        """
        self.connection = connection
        """The connection over which the application's own statements are sent."""
        self.lean = lean
        self.pid = pid
        self.started = ""
        """Start time according to the server; with the pid it identifies the session for ever."""
        self.isolation = ""
        """Default isolation level of its transactions."""
        self.modes = ""
        """Other default transaction modes, in the syntax of BEGIN, with a leading comma."""
        self.dirt = Trace.NONE
        """State left in the session by its transaction, apart from settings, which every BEGIN resets."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or has failed and waits for its rollback, as far as this side knows."""
        raise NotImplementedError

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be sent any more."""
        raise NotImplementedError

    async def clean_up(self) -> bool:
        """Remove the state that `Trace.DIRT` stands for; return False if that failed."""
        raise NotImplementedError

    @property
    def standard_conforming_strings(self) -> bool:
        """The session's setting of that name: whether a backslash is an ordinary character in an ordinary string."""
        return True

    def soil(self, query: object) -> None:
        """Record the state that a statement leaves in the session."""
        standard = self.standard_conforming_strings
        self.dirt = max(self.dirt, trace_of(query, standard_conforming_strings=standard))

    async def roll_back(self) -> None:
        """Roll back open transactions, here and over the link; a session that cannot is closed."""
        if self.in_transaction:
            failure = refusal(await self.lean.run(_ROLL_BACK), self.lean)
            if failure is not None:
                self.lean.abort(f"the link could not be reset: {failure}")


class Sessions:
    """The application's sessions at one Subscriber, under one role; subclasses connect on servers or in the model.

    The number is unlimited: a server's refusal is more informative than a queue that never advances.
    """

    def __init__(self, subscriber: str) -> None:
        self.subscriber = subscriber
        self._idle: list[Any] = []
        self._closed = False

    def is_current(self, session: Any) -> bool:
        """Return whether an idle session may be used: its epoch must still belong to this process."""
        raise NotImplementedError

    async def connect(self) -> Any:
        """Open a new session, a `LinkedSession`.

        Raises:
            RejectedError: the Subscriber cannot be reached, or refuses.
        """
        raise NotImplementedError

    async def take(self, begin: Callable[[Any], bytes]) -> Any:
        """Return a session in which the statements of `begin` have succeeded.

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
        """Return a session without a transaction.

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
        """Return a session to the pool; a session that is broken, or in a transaction, is closed."""
        lean = session.lean
        if session.dirt is Trace.DIRT and not lean.lost and not session.in_transaction:
            session.dirt = Trace.NONE if await session.clean_up() else Trace.STAIN
        keep = not session.dirt and not self._closed and len(self._idle) < _IDLE_MAX
        if keep and not lean.lost and not session.in_transaction and self.is_current(session):
            self._idle.append(session)
        else:
            await lean.close()

    async def close(self) -> None:
        """Close the idle sessions, and those in use when they are given back."""
        self._closed = True
        idle, self._idle = self._idle, []
        await together(*(session.lean.close() for session in idle))

    def refused(self, failure: ServerReport) -> RejectedError:
        """Return the exception for the application if nothing was begun."""
        return RejectedError(
            f"Subscriber {self.subscriber}: {failure.message}",
            node=self.subscriber,
            sqlstate=failure.sqlstate or "08001",
            detail=failure.detail,
            hint=failure.hint,
        )
