"""Sessions on real servers: coordinated at a Subscriber, plain at the Publisher.

See `twopc.sim.sessions.interface.ClientSession` for the methods.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psycopg

from twopc.drivers import PostgresCoordinator
from twopc.drivers.transaction import Transaction
from twopc.errors import (
    ConfigurationError,
    DeliveryError,
    LocalProtocolError,
    RejectedError,
    ScenarioError,
    SubscriptionError,
    TransactionError,
)
from twopc.sim.sessions.interface import NOT_SUBSCRIBED, SyncError
from twopc.sim.sessions.local import LocalSession, OneNodeSession, Refusal, result_of
from twopc.sim.sessions.results import Result
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology


class PostgresSession(OneNodeSession):
    """Common part of all kinds of session of a topology; without transactions, for steps that only sync.

    Args:
        name: part of the connection's application_name; empty: not set.
        refusal: converts a server's error into an exception; default: one of `twopc.errors`.
    """

    def __init__(
        self,
        topology: Topology,
        node: str,
        observer: Observer,
        *,
        name: str = "",
        refusal: Refusal | None = None,
    ) -> None:
        super().__init__(node, observer, refusal=refusal)
        self._topology = topology
        self._name = name
        self.join: Callable[[str], Awaitable[None]] = topology.subscribe
        """Subscribes a Subscriber as its scenario specifies."""

    async def syncing(self) -> list[tuple[str, int]]:
        """Return node and PID of the agents at work for this session."""
        results = []
        for name in self.synced:
            results += await self._topology.agents.processes(name)
        return results

    async def sync(self, subscribers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        own = () if self.node == self._topology.publisher else (self.node,)
        self.synced = tuple(subscribers or own or self._topology.subscribers)
        try:
            await self._topology.sync(*self.synced)
        except DeliveryError as error:
            self._observer.is_disturbed = True
            state = error.sqlstate or ("08006" if self._observer.cut else "")
            raise SyncError(
                str(error), node=error.node, sqlstate=state, number=error.number
            ) from error
        except SubscriptionError as error:
            self._observer.is_disturbed = True
            raise SyncError(str(error), node=self.node, sqlstate=NOT_SUBSCRIBED) from error
        except (psycopg.OperationalError, ConfigurationError) as error:
            if not self._observer.cut:
                raise
            at = self._observer.cut[0]
            raise SyncError(f"{at} cannot be reached", node=at, sqlstate="08006") from error
        finally:
            self.synced = ()
        return ()

    async def reinitialise(self) -> None:
        await self._change(self._topology.reinitialise(self.node))

    async def subscribe(self) -> None:
        await self._change(self.join(self.node))

    async def unsubscribe(self) -> None:
        await self._change(self._topology.unsubscribe(self.node))

    async def _change(self, work: Awaitable[None]) -> None:
        """Change a subscription; may wait for sessions that use its tables.

        Raises:
            RejectedError: the change was not possible; nothing has changed.
        """
        self.pid = (await self._topology.admin(self.node)).info.backend_pid
        try:
            await work
        except TransactionError:
            raise
        except psycopg.Error as error:
            self._observer.is_disturbed = True
            raise self._error(error) from error
        except (ScenarioError, ConfigurationError) as error:
            self._observer.is_disturbed = True
            state = _state_of(error)
            raise RejectedError(str(error), node=self.node, sqlstate=state) from error
        finally:
            self.pid = 0


def _state_of(error: BaseException | None) -> str:
    """Return the SQLSTATE of a server's error among an exception's causes, or `NOT_SUBSCRIBED`."""
    while error is not None and not isinstance(error, psycopg.Error):
        error = error.__cause__
    return (error.sqlstate or "08006") if error is not None else NOT_SUBSCRIBED


class PublisherSession(LocalSession, PostgresSession):
    """Plain transactions at the Publisher."""

    _topology: Topology

    @property
    def application(self) -> str | None:
        return f"twopc/{self._name} {self._topology.name}"[:63] if self._name else None


class SubscriberSession(PostgresSession):
    """Coordinated transactions at one Subscriber, or at further ones too.

    Args:
        also: the further Subscribers.
        place, options: see `PostgresSession`.
    """

    _transaction: Transaction | None = None

    def __init__(self, *place: Any, also: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*place, **options)
        self.nodes = (self.node, *also)

    @property
    def pids(self) -> Mapping[str, int]:
        if self._transaction is None or len(self.nodes) == 1:
            return super().pids
        return {part.subscriber: part.pid for part in self._transaction.parts}

    async def begin(self, level: str, role: str = "") -> None:
        topology = self._topology
        made = transaction_at(
            await topology.coordinator(),
            self.nodes,
            isolation=level,
            shipping=topology.shipping,
            commit=topology.commit,
            role=role or None,
        )
        try:
            self._transaction = await made.begin()
        except psycopg.Error as error:
            raise self._error(error) from error
        self.pid, self.gid = made.at(self.node).pid, made.gid
        self._open, self._committed = True, False

    async def _send(self, query: Any, params: Any) -> Result:
        if self._transaction is None:
            raise LocalProtocolError(f"no transaction is open at {self.node}")
        here = self._transaction.at(self.at or self.node)
        return await result_of(await here.execute(query, params))

    async def commit(self) -> None:
        transaction = self._transaction
        if transaction is None:
            raise LocalProtocolError(f"no transaction is open at {self.node}")
        self._open = False
        try:
            await transaction.commit()
            self._committed = True
        finally:
            self._leave()

    async def rollback(self) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        try:
            await transaction.rollback()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._transaction, self.pid, self._open = None, 0, False


def transaction_at(
    coordinator: PostgresCoordinator, subscribers: Sequence[str], **options: Any
) -> Transaction:
    """Create a transaction at one Subscriber, or at several."""
    if len(subscribers) > 1:
        return coordinator.several(subscribers, **options)
    return coordinator.transaction(subscribers[0], **options)
