"""Sessions at a Subscriber that faults can strike: with a coordinator in a process of its own, and of any client.

See `twopc.sim.sessions.interface.ClientSession` for the methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from twopc.errors import InDoubtError, RejectedError
from twopc.sim.faults.remote import DeadError, RemoteProcess
from twopc.sim.sessions.any_client import AnyClientSession
from twopc.sim.sessions.results import Result
from twopc.sim.sessions.servers import PostgresSession


class RemoteSession(PostgresSession):
    """Coordinated transactions of a Subscriber.

    Args:
        living: returns the coordinator's process for new transactions; None while there is none.
        also: further Subscribers of its transactions.
        place, name, options: see `twopc.sim.sessions.servers.PostgresSession`.
    """

    def __init__(
        self,
        *place: Any,
        name: str,
        living: Callable[[], Awaitable[RemoteProcess | None]],
        also: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(*place, name=name, **options)
        self.nodes = (self.node, *also)
        self.begun: Mapping[str, int] = {}
        """PID at each node at the beginning of the last transaction."""
        self._living = living
        self._process: RemoteProcess | None = None
        """The coordinator's process with the open transaction."""

    @property
    def pids(self) -> Mapping[str, int]:
        return self.begun if self._open else super().pids

    @property
    def is_pending(self) -> bool:
        """Whether the transaction's process is alive."""
        return self._process is not None and self._process.is_alive

    @property
    def is_stopped(self) -> bool:
        """Whether the transaction's process is stopped."""
        return self._process is not None and self._process.is_stopped

    async def begin(self, level: str, role: str = "") -> None:
        process = await self._living()
        if process is None:
            raise RejectedError(
                "there is no coordinator: it has crashed, and was not started again",
                node=self.node, sqlstate="08006",
            )  # fmt: skip
        self._process = process
        try:
            self.gid, self.begun = await self._call("begin", self.nodes, level, role)
        except DeadError:
            raise self._lost() from None
        self.pid = self.begun[self.node]
        self._open, self._committed = True, False

    async def send(self, query: Any, params: Any = None) -> Result:
        text = query.as_string(None) if isinstance(query, sql.Composable) else query
        try:
            result = await self._call("send", self.at or self.node, text, params)
        except DeadError:
            raise self._lost() from None
        assert isinstance(result, Result)
        return result

    async def commit(self) -> None:
        if not self.is_pending:
            raise self._lost()
        try:
            await self._call("commit")
            self._committed = True
        except DeadError:
            raise InDoubtError(
                "the coordinator has died while it was committing: the outcome was not reported",
                gid=self.gid, node=self.node,
            ) from None  # fmt: skip
        finally:
            self._forget()

    async def rollback(self) -> None:
        try:
            if self.is_pending:
                await self._call("rollback")
        except DeadError:
            pass  # the server rolls back when the connection is lost
        finally:
            self._forget()

    async def _call(self, verb: str, *arguments: Any) -> Any:
        if self._process is None:
            raise DeadError
        self.asks = verb
        try:
            return await self._process.call(self._name, verb, *arguments)
        except psycopg.Error as error:
            raise self._error(error) from error
        finally:
            self.asks = ""

    def _forget(self) -> None:
        self._process, self.pid, self._open = None, 0, False

    def _lost(self) -> RejectedError:
        """Forget the transaction, and return the error for its loss."""
        self._forget()
        return RejectedError(
            "the coordinator has died, and with it what was not prepared",
            gid=self.gid, node=self.node, sqlstate="08006",
        )  # fmt: skip


class StruckAnyClientSession(AnyClientSession):
    """A session of any client, which gates and wires can identify."""

    is_stopped = False
    """False, since there is no coordinator."""

    @property
    def begun(self) -> Mapping[str, int]:
        """PID at the session's node."""
        return self.pids

    async def send(self, query: Any, params: Any = None) -> Result:
        self.asks = "send"
        try:
            return await super().send(query, params)
        finally:
            self.asks = ""

    async def commit(self) -> None:
        self.asks = "commit"
        try:
            await super().commit()
        finally:
            self.asks = ""
