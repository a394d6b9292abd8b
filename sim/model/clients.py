"""Sessions of applications in a model: coordinated at a Subscriber, plain at the Publisher.

Each has the methods of `twopc.sim.sessions.interface.ClientSession`, as steps, and raises `twopc.errors.TransactionError` like the
sessions of a scenario on real servers. Work runs in the caller's process; when a coordinator is killed, the work of
its sessions ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import simpy

from twopc.errors import InDoubtError, LocalProtocolError, RejectedError, from_sqlstate
from twopc.sim.model.coordinator import CoordinatorProcess
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.transaction import ModelTransaction
from twopc.sim.model.values import RequestLostError, SqlError, StatementResult, Steps
from twopc.sim.model.wire import KILLED, Wire

T = TypeVar("T")

#: Role of an application's sessions.
ROLE = "app"


class SubscriberClient:
    """Coordinated transactions of a Subscriber, one after the other.

    Args:
        process: returns the coordinator's process that is alive.
        variant, shipping: options of every transaction.
        also: further Subscribers of every transaction; each statement then names its node.
        numbers: numbers of its transactions, if the coordinator does not number them.
    """

    def __init__(
        self, name: str, node: str, process: Callable[[], CoordinatorProcess], *, variant: str,
        shipping: str, also: Sequence[str] = (), numbers: Iterator[int] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.node = node
        self.nodes = (node, *also)
        self._process = process
        self._variant = variant
        self._shipping = shipping
        self._numbers = numbers
        self._transaction: ModelTransaction | None = None
        self._coordinator: CoordinatorProcess | None = None
        self.gid = ""
        self.pids: dict[str, int] = {}
        """Pids of the client's sessions, by Subscriber, while a transaction is open."""

    @property
    def pid(self) -> int:
        """Pid of the session at the client's node; 0 while no transaction is open."""
        return self.pids.get(self.node, 0)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._transaction is not None

    def begin(self, level: str = "read committed", role: str = "") -> Steps[None]:
        """Begin a global transaction. Raise RejectedError."""
        if self._transaction is not None:
            raise LocalProtocolError(f"{self.name} has a transaction open already")
        by = self._coordinator = self._process()
        one = by.transaction(
            *self.nodes, variant=self._variant, role=role or ROLE, level=level, shipping=self._shipping,
            number=0 if self._numbers is None else next(self._numbers),
        )  # fmt: skip
        yield from self._run_in_process(one.begin, "begin")
        self._transaction = one
        self.gid = one.gid
        self.pids = one.pids

    def execute(
        self, text: str, params: Mapping[str, Any] | None = None, *, at: str = "", beneath: bool = False
    ) -> Steps[StatementResult]:  # fmt: skip
        """Execute one statement, at the client's node or at another of its Subscribers.

        Args:
            at: the node; the client's own if empty.
            beneath: see `ModelTransaction.execute`.

        Raises:
            RejectedError: the statement failed.
            LocalProtocolError: no transaction is open.
        """
        one, where = self._open_transaction(), at or self.node
        return (
            yield from self._run_in_process(
                lambda: one.execute(text, params, at=where, beneath=beneath), "execute"
            )
        )

    def commit(self) -> Steps[None]:
        """Commit at all nodes or at none. Raise RejectedError, InDoubtError or HeuristicError."""
        one = self._open_transaction()
        try:
            yield from self._run_in_process(one.commit, "commit")
        finally:
            self._transaction, self.pids = None, {}

    def rollback(self) -> Steps[None]:
        """Roll back at all nodes; no effect if no transaction is open."""
        one, self._transaction, self.pids = self._transaction, None, {}
        if one is not None and self._coordinator is not None and self._coordinator.alive:
            yield from self._run_in_process(one.rollback, "rollback")

    def cancel(self) -> None:
        """Cancel running statements at the Subscribers."""
        if self._transaction is not None:
            self._transaction.cancel()

    def close(self) -> Steps[None]:
        """Disconnect; an open transaction is rolled back."""
        yield from self.rollback()

    def _open_transaction(self) -> ModelTransaction:
        if self._transaction is None:
            if self._coordinator is not None and not self._coordinator.alive:
                raise self._killed_error("begin")  # ended with its coordinator
            raise LocalProtocolError(f"{self.name} has no transaction open")
        return self._transaction

    def _run_in_process(self, work: Callable[[], Steps[T]], what: str) -> Steps[T]:
        """Run steps as a part of the coordinator's process."""
        by = self._coordinator
        assert by is not None
        if not by.alive:
            raise self._killed_error("begin")
        joined = by.join()
        try:
            return (yield from work())
        except simpy.Interrupt as interrupt:
            if by.alive or interrupt.cause != KILLED:
                raise
            self._transaction = None
            raise self._killed_error(what) from None
        finally:
            if joined is not None:
                by.leave(joined)

    def _killed_error(self, what: str) -> RejectedError | InDoubtError:
        why = "the coordinator's process was killed"
        if what == "commit":
            return InDoubtError(f"{self.gid}: {why}; recovery will settle it", gid=self.gid)
        return RejectedError(
            f"{why}, and with it what was not prepared", gid=self.gid, node=self.node,
            sqlstate="08006",
        )  # fmt: skip


class PublisherClient:
    """Plain transactions at the Publisher."""

    gid = ""
    settles = "whether it is committed, its rows tell"
    """How the outcome is determined if the connection was lost at COMMIT."""

    def __init__(self, name: str, node: ModelNode, network: Network) -> None:
        self.name = name
        self.node = node.name
        self._node = node
        self._network = network
        self._wire: Wire | None = None
        self.is_open = False

    @property
    def pid(self) -> int:
        """Pid of the session; 0 if it is not connected."""
        return self._session.pid if self._wire is not None else 0

    @property
    def xid(self) -> str:
        """Transaction id of the open transaction; empty if there is none."""
        tx = None if self._wire is None or self._is_lost else self._session.tx
        return str(tx.top.xid) if tx is not None and tx.top.xid else ""

    @property
    def _session(self) -> NodeSession:
        assert self._wire is not None
        assert isinstance(self._wire.served, NodeSession)
        return self._wire.served

    @property
    def _is_lost(self) -> bool:
        """Whether the connection, or the session at its other end, is lost."""
        return self._wire is None or bool(self._wire.lost) or self._session.dead is not None

    def begin(self, level: str = "read committed", role: str = "") -> Steps[None]:
        """Begin a transaction. Raise RejectedError."""
        yield from self._run(f"begin isolation level {level}", None)
        self.is_open = True

    def execute(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """Execute one statement. Raise RejectedError."""
        return (yield from self._run(text, params))

    def commit(self) -> Steps[None]:
        """Commit. Raise RejectedError or InDoubtError."""
        self.is_open = False
        if self._wire is None:
            raise RejectedError(
                f"the connection to {self.node} was lost before COMMIT was sent",
                gid=self.gid, node=self.node, sqlstate="08006",
            )  # fmt: skip
        try:
            if self._wire.lost:  # noticed only now
                raise from_sqlstate("08006", self._wire.lost, node=self.node)
            result = yield from self._run("commit", None)
        except RejectedError as error:
            if self._is_lost:  # the outcome is unknown
                raise InDoubtError(
                    f"the connection to {self.node} is lost: {error}; {self.settles}",
                    gid=self.gid, node=self.node,
                ) from error  # fmt: skip
            raise
        if result.tag != "COMMIT":
            raise RejectedError(
                "the transaction was rolled back: a statement of it had failed",
                gid=self.gid, node=self.node,
            )  # fmt: skip

    def rollback(self) -> Steps[None]:
        """Roll back."""
        self.is_open = False
        if self._wire is not None and not self._wire.lost:
            yield from self._run("rollback", None)

    def cancel(self) -> None:
        """Cancel the running statement."""
        if self._wire is not None:
            self._session.cancel()

    def close(self) -> Steps[None]:
        """Disconnect; an open transaction is rolled back."""
        wire, self._wire, self.is_open = self._wire, None, False
        if wire is not None:
            wire.close()
        return
        yield  # makes this a generator, like the other methods

    def raised_at(self, error: SqlError) -> str:
        """Return the node that raised an error."""
        return self.node

    def _run(self, text: str, params: Mapping[str, Any] | None) -> Steps[StatementResult]:
        try:
            wire = self._wire
            if wire is None or wire.lost:
                wire = self._wire = yield from self._network.connect(
                    f"client:{self.name}", self.node, f"session:{self.name}",
                    lambda: self._node.connect(ROLE, self.name),
                )  # fmt: skip
            session = self._session
            touches = frozenset((self.node,))
            return (yield from wire.ask(lambda: session.execute(text, params), text, touches))
        except SqlError as error:
            raise from_sqlstate(
                error.sqlstate, error.message, detail=error.detail, hint=error.hint,
                node=self.raised_at(error), gid=self.gid,
            ) from error  # fmt: skip
        except RequestLostError as error:
            self._wire = None
            raise from_sqlstate("08006", str(error), node=self.node) from error
