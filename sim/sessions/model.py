"""Sessions in a model: coordinated at a Subscriber, plain at the Publisher, or plain everywhere.

See `twopc.sim.sessions.interface.ClientSession` for what each method does.
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
    LocalProtocolError,
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
from twopc.sim.sessions.interface import NOT_SUBSCRIBED, ONLY_PLAIN, ONLY_SYNCS, SyncError
from twopc.sim.sessions.results import Result, Rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlace:
    """Where sessions are."""

    model: System
    blame: Callable[[UnsupportedError, str], Exception]
    """Says where in the file it stands what the model does not know."""


class VirtualSession:
    """What all kinds of session have in common; as it stands it is nobody's, who only syncs."""

    messages = ()
    """The model sends none."""
    printable = ()
    """It has no text of its own for values."""

    def __init__(self, place: SessionPlace, name: str, node: str) -> None:
        self._model = place.model
        self._blame = place.blame
        self.name = name
        self.node = node
        self.at = ""
        self.pid = 0
        self._open = False
        self._committed = False
        self.synced: tuple[str, ...] = ()
        """The Subscribers whose agents work for it now."""
        self.asks = ""
        """What it is doing: ``commit`` or anything else; empty: nothing."""
        self.work: simpy.Process | None = None
        """What does that in the model."""
        self.changing = 0
        """The process that changes its node's subscription for it now."""

    @property
    def gid(self) -> str:
        """The global transaction that is open or was last."""
        return ""

    @property
    def pids(self) -> Mapping[str, int]:
        """Its process at each node that it works at."""
        return {self.node: self.changing or self.pid}

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def has_committed(self) -> bool:
        return self._committed and not self.is_open

    async def syncing(self) -> list[tuple[str, int]]:
        """Node and process of the agents at work for this session."""
        return [each for name in self.synced for each in self._model.agent(name).sessions]

    async def _do(self, work: Steps[T], text: str = "", *, asks: str = "execute") -> T:
        """Some work of the model; what it reports comes as our own exceptions."""
        process = self._model.kernel.spawn(work, f"session:{self.name}")
        self.work, self.asks = process, asks
        try:
            return await bridge(process)  # type: ignore[no-any-return] # what the work returns
        except asyncio.CancelledError:  # it is given up: nobody is told what comes of it
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
        """Have something become of a subscription; it may wait for those who use its tables."""

        def seen(pid: int) -> None:
            self.changing = pid

        try:
            await self._do(work(self.node, seen))
        except ConfigurationError as error:
            raise RejectedError(str(error), node=self.node, sqlstate=NOT_SUBSCRIBED) from error
        finally:
            self.changing = 0

    async def begin(self, level: str, role: str = "") -> None:
        raise LocalProtocolError(ONLY_SYNCS)

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        raise LocalProtocolError(ONLY_SYNCS)

    async def xid(self) -> str:
        return ""

    def collect(self) -> None:
        """Nothing ever arrives."""

    async def script(self, text: str) -> Result:
        raise LocalProtocolError(ONLY_PLAIN)

    async def commit(self) -> None:
        raise LocalProtocolError(ONLY_SYNCS)

    async def rollback(self) -> None:
        """Nothing is open."""

    async def cancel(self) -> None:
        """Cancel the running statement."""

    async def close(self) -> None:
        """Leave; what is open is rolled back."""


class CoordinatedSession(VirtualSession):
    """Transactions as the model's own clients have them: coordinated at a Subscriber, plain at the Publisher."""

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
        """Its process at each node when its last transaction had begun."""

    @property
    def gid(self) -> str:
        return self._client.gid

    @property
    def has_coordinator(self) -> bool:
        """Its transactions are committed by one: neither the Publisher's nor any client's are."""
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
    """One connection to one node, with no coordinator and no care.

    Args:
        role: as whom it connects.
    """

    _wire: Wire | None = None
    _in_block = False
    """A transaction was open when it heard from its node last."""

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
        """As a server takes one message of several statements: those outside of a block are one together."""
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
                self._wire, self._in_block = None, False  # now it knows
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
            raise RequestLostError(
                self._wire.lost or "the session was ended"
            )  # unnoticed until now
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
    """The parameters that a statement has."""
    return {name: params[name] for name in sqltext.parameters(text)}


def result_of(result: StatementResult) -> Result:
    """What a statement has returned, as a scenario sees it."""
    rows = Rows(
        dict(zip(result.names, map(client_value, row), strict=True)) for row in result.rows or ()
    )
    columns = tuple(result.names) if result.rows is not None else ()
    return Result(rows=rows, rowcount=result.rowcount, tag=result.tag, columns=columns)
