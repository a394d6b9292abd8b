"""Sessions in the model: coordinated at a Subscriber, plain at the Publisher, or plain at any node.

See `twopc.sim.sessions.interface.ClientSession` for the methods.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import simpy

from twopc.errors import (
    ConfigurationError,
    DeliveryError,
    InDoubtError,
    RejectedError,
    SubscriptionError,
    TransactionError,
    from_sqlstate,
)
from twopc.sim.model.bridge import bridge, performed
from twopc.sim.model.clients import PublisherClient, SubscriberClient
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.sql import parse
from twopc.sim.model.sql.control import control
from twopc.sim.model.sql.types import client_value
from twopc.sim.model.system import System
from twopc.sim.model.values import (
    RequestLostError,
    SqlError,
    StatementResult,
    Steps,
    UnsupportedError,
)
from twopc.sim.model.wire import Wire
from twopc.sim.scenario import sqltext
from twopc.sim.sessions.interface import NOT_SUBSCRIBED, ClientSession, SyncError
from twopc.sim.sessions.results import Result, Rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """The model in which sessions run."""

    model: System
    blame: Callable[[UnsupportedError, str], Exception]
    """Converts an error about an unsupported feature into one with its place in the scenario's file."""


class VirtualSession(ClientSession):
    """Common part of all kinds of session of the model; without transactions, for steps that only sync."""

    def __init__(self, place: SessionPlace, name: str, node: str) -> None:
        super().__init__(node)
        self._model = place.model
        self._blame = place.blame
        self.name = name
        self.work: simpy.Process | None = None
        """Process of the model that performs the operation."""
        self.changing = 0
        """PID of the process that is changing the node's subscription for this session."""

    @property
    def pids(self) -> Mapping[str, int]:
        return {self.node: self.changing or self.pid}

    async def syncing(self) -> list[tuple[str, int]]:
        return [each for name in self.synced for each in self._model.agent(name).sessions]

    async def _do(self, work: Steps[T], text: str = "", *, asks: str = "execute") -> T:
        """Perform work of the model; convert the model's errors into exceptions of `twopc.errors`."""
        process = self._model.kernel.spawn(work, f"session:{self.name}")
        self.work, self.asks = process, asks
        try:
            return await bridge(process)  # type: ignore[no-any-return] # what the work returns
        except asyncio.CancelledError:  # the caller gives up; the result is discarded
            await self.cancel()
            with contextlib.suppress(Exception):
                await bridge(process)
            raise
        except UnsupportedError as error:
            raise self._blame(error, text) from error
        except SqlError as error:
            raise from_sqlstate(
                error.sqlstate,
                error.message,
                detail=error.detail,
                hint=error.hint,
                node=self.node,
                gid=self.gid,
            ) from error
        except RequestLostError as error:
            raise from_sqlstate("08006", str(error), node=self.node, gid=self.gid) from error
        finally:
            self.work, self.asks = None, ""

    async def sync(self, subscribers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        every = self._model.subscribers
        own = (self.node,) if self.node in every else ()
        self.synced = tuple(subscribers or own or every)
        try:
            await performed(
                self._model.kernel, self._model.sync(self.synced), f"sync:{self.name or 'order'}"
            )
        except UnsupportedError as error:
            raise self._blame(error, "") from error
        except DeliveryError as error:
            raise SyncError(
                str(error), node=error.node, sqlstate=error.sqlstate, number=error.number
            ) from error
        except SubscriptionError as error:
            raise SyncError(str(error), node=self.node, sqlstate=NOT_SUBSCRIBED) from error
        finally:
            self.synced = ()
        return ()

    async def reinitialise(self) -> None:
        await self._change(self._model.members.reinitialise)

    async def subscribe(self) -> None:
        await self._change(self._model.members.join)

    async def unsubscribe(self) -> None:
        await self._change(self._model.members.leave)

    async def _change(self, work: Callable[[str, Callable[[int], None]], Steps[None]]) -> None:
        """Change a subscription; may wait for sessions that use its tables."""

        def seen(pid: int) -> None:
            self.changing = pid

        try:
            await self._do(work(self.node, seen))
        except ConfigurationError as error:
            raise RejectedError(str(error), node=self.node, sqlstate=NOT_SUBSCRIBED) from error
        finally:
            self.changing = 0


class CoordinatedSession(VirtualSession):
    """Transactions of the model's own clients: coordinated at a Subscriber, plain at the Publisher."""

    def __init__(
        self,
        place: SessionPlace,
        name: str,
        node: str,
        also: Sequence[str] = (),
        *,
        any_client: bool = False,
        client: PublisherClient | None = None,
    ) -> None:
        super().__init__(place, name, node)
        self._client = client or place.model.session(name, node, also, any_client=any_client)
        self.nodes = (node, *also)
        self.begun: Mapping[str, int] = {}
        """PID at each node at the beginning of the last transaction."""

    @property
    def gid(self) -> str:
        return self._client.gid

    @property
    def has_coordinator(self) -> bool:
        """Whether a coordinator commits the transactions, which is not so for the Publisher's and for any client's."""
        return isinstance(self._client, SubscriberClient)

    @property
    def pids(self) -> Mapping[str, int]:
        client = self._client
        if self.changing or not isinstance(client, SubscriberClient):
            return super().pids
        return client.pids

    async def xid(self) -> str:
        client = self._client
        return "" if isinstance(client, SubscriberClient) else client.xid

    async def begin(self, level: str, role: str = "") -> None:
        await self._do(self._client.begin(level, role))
        self.pid = self._client.pid
        self.begun = dict(self.pids)
        self._open, self._committed = True, False

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        client, given = self._client, used(text, params)
        work = (
            client.execute(text, given, at=self.at)
            if isinstance(client, SubscriberClient)
            else client.execute(text, given)
        )
        return result_of(await self._do(work, text))

    async def commit(self) -> None:
        await self._end(self._client.commit(), asks="commit")
        self._committed = True

    async def rollback(self) -> None:
        if self._open:
            await self._end(self._client.rollback())

    async def _end(self, work: Steps[None], *, asks: str = "rollback") -> None:
        try:
            await self._do(work, asks=asks)
        finally:
            self._open, self.pid = False, 0

    async def cancel(self) -> None:
        self._client.cancel()

    async def close(self) -> None:
        await self._do(self._client.close())


class PlainVirtualSession(VirtualSession):
    """One connection to one node, without a coordinator.

    Args:
        role: the role of the connection.
    """

    _wire: Wire | None = None
    _in_block = False
    """Whether a transaction was open after the node's last answer."""

    def __init__(self, place: SessionPlace, name: str, node: str, *, role: str) -> None:
        super().__init__(place, name, node)
        self._role = role

    @property
    def _session(self) -> NodeSession | None:
        if self._wire is None or self._wire.lost:
            return None
        result = self._wire.served
        assert isinstance(result, NodeSession)
        return result if result.dead is None else None

    @property
    def is_open(self) -> bool:
        return self._session is not None and self._session.in_transaction

    async def begin(self, level: str, role: str = "") -> None:
        await self._run(f"begin isolation level {level}", {})

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        return result_of(await self._run(text, used(text, params)))

    async def script(self, text: str) -> Result:
        """Run a script like a server's simple query message: statements outside a transaction block share one
        transaction.
        """
        result = StatementResult(tag="")
        implicit = False
        for each in parse.statements(text):
            steers = control(each)
            if steers is None and not self.is_open:
                await self._run("begin", {})
                implicit = True
            elif steers is not None and steers.verb == "begin" and implicit:
                implicit = False
                result = StatementResult(tag="BEGIN")
                continue
            try:
                result = await self._run(each, {})
            except TransactionError:
                if implicit and self.is_open:
                    await self._run("rollback", {})
                raise
            implicit = implicit and self.is_open
        if implicit:
            await self._run("commit", {})
        return result_of(result)

    async def _run(self, text: str, params: Mapping[str, Any]) -> StatementResult:
        commits = sqltext.may_commit(text, is_open=self._in_block)
        try:
            result = await self._do(self._steps(text, params), text)
        except TransactionError as error:
            if self._wire is not None and self._session is None:
                self._wire, self._in_block = None, False  # the loss is known now
                if commits:
                    raise InDoubtError(
                        f"the connection to {self.node} is lost: {error}; {PublisherClient.settles}",
                        node=self.node,
                    ) from error
            raise
        self._in_block = self.is_open
        return result

    def _steps(self, text: str, params: Mapping[str, Any]) -> Steps[StatementResult]:
        session = self._session
        if session is None and self._wire is not None:
            # the loss is detected by this request
            raise RequestLostError(self._wire.lost or "the session was ended")
        if session is None:
            node, network = self._model.nodes[self.node], self._model.network
            self._wire = yield from network.connect(
                f"client:{self.name}", self.node, f"session:{self.name}",
                lambda: node.connect(self._role, self.name),
            )  # fmt: skip
            session = self._session
            assert session is not None
            self.pid = session.pid
        assert self._wire is not None
        here = session
        return (
            yield from self._wire.ask(
                lambda: here.execute(text, params), text, frozenset((self.node,))
            )
        )

    async def commit(self) -> None:
        await self._run("commit", {})

    async def rollback(self) -> None:
        if self.is_open:
            await self._run("rollback", {})

    async def cancel(self) -> None:
        if self._session is not None:
            self._session.cancel()

    async def close(self) -> None:
        await self.rollback()
        if self._wire is not None:
            self._wire.close()


def used(text: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a statement uses."""
    return {name: params[name] for name in sqltext.parameters(text)}


def result_of(result: StatementResult) -> Result:
    """Return a statement's result in the form of a scenario's steps."""
    rows = Rows(
        dict(zip(result.names, map(client_value, row), strict=True)) for row in result.rows or ()
    )
    columns = tuple(result.names) if result.rows is not None else ()
    return Result(rows=rows, rowcount=result.rowcount, tag=result.tag, columns=columns)
