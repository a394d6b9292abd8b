"""The base of all sessions: on servers, with a coordinator in a process of its own, and in the model."""

# ruff: noqa: B027 -- most sessions have nothing to do in some methods

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from twopc.errors import LocalProtocolError
from twopc.sim.sessions.results import Result
from twopc.sim.sessions.scripts import SessionMessage

#: SQLSTATE if there is no subscription, or one exists already (object_not_in_prerequisite_state).
NOT_SUBSCRIBED = "55000"
NO_SUBSCRIPTIONS = "subscriptions of a scenario that merges last as long as its order"
ONLY_SYNCS = "the agents' session only syncs: it has no transactions"


class SyncError(Exception):
    """An agent could not deliver a transaction: neither this transaction nor later ones are delivered."""

    def __init__(self, message: str, *, node: str, sqlstate: str = "", number: int = 0) -> None:
        super().__init__(message)
        self.node = node
        self.sqlstate = sqlstate
        self.number = number


class ClientSession(ABC):
    """One client, connected to one node, as servers, a coordinator's own process, and the model implement it.

    Refusals are raised as `twopc.errors.TransactionError`. Without further implementation it only syncs: it has no
    transactions, and receives no messages.
    """

    messages: Sequence[SessionMessage] = ()
    """Notices and notifications received, in order."""
    printable: Sequence[Mapping[str, Any]] = ()
    """All results of the last script, in the form of `twopc.sim.sessions.scripts.printable`."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.nodes: tuple[str, ...] = (node,)
        """Nodes at which the transactions have branches."""
        self.at = ""
        """Subscriber at which the next statement is run, if the transactions span several."""
        self.pid = 0
        self._open = False
        self._committed = False
        self.synced: tuple[str, ...] = ()
        """Subscribers whose agents are working for this session."""
        self.asks = ""
        """Request in progress, for sessions that faults strike: ``commit`` or another; empty: none."""

    @property
    def gid(self) -> str:
        """The global transaction that is open or was last."""
        return ""

    @property
    def pids(self) -> Mapping[str, int]:
        """PID of the session's backend at each of its nodes."""
        return {self.node: self.pid}

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open. A plain session's script may have begun or ended it."""
        return self._open

    @property
    def has_committed(self) -> bool:
        """Whether the last transaction has committed and no other is open."""
        return self._committed and not self.is_open

    async def syncing(self) -> list[tuple[str, int]]:
        """Return node and PID of the agents at work for the session."""
        return []

    def collect(self) -> None:
        """Receive the messages that have arrived while the session was idle."""

    async def begin(self, level: str, role: str = "") -> None:
        """Begin a transaction with an isolation level, optionally in another role than the application's."""
        raise LocalProtocolError(ONLY_SYNCS)

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        """Run one statement; ``:name`` stands for a parameter."""
        raise LocalProtocolError(ONLY_SYNCS)

    async def xid(self) -> str:
        """Return the transaction ID at the session's node; empty if none is assigned or a branch marker will show
        it.
        """
        return ""

    async def script(self, text: str) -> Result:
        """Send several statements unchanged, transaction control among them; for plain sessions only.

        Returns the last statement's result.
        """
        raise LocalProtocolError("only a plain session takes a script")

    async def commit(self) -> None:
        """Commit at all nodes or at none."""
        raise LocalProtocolError(ONLY_SYNCS)

    async def rollback(self) -> None:
        """Roll back at all nodes; no effect if no transaction is open."""

    @abstractmethod
    async def sync(self, subscribers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Deliver all that is committed to these Subscribers (none: that of this session's node, or all).

        Returns the report of each merge session: `subscriber`, and the fields of a
        `twopc.drivers.merge.engine.MergeReport`; distribution agents report nothing. Raises SyncError.
        """

    @abstractmethod
    async def reinitialise(self) -> None:
        """Replace every row of this session's Subscriber. Raises RejectedError."""

    async def subscribe(self) -> None:
        """Subscribe this session's node: make a copy, and deliver later changes. Raises RejectedError."""
        raise LocalProtocolError(NO_SUBSCRIPTIONS)

    async def unsubscribe(self) -> None:
        """Remove the subscription of this session's node; its rows stay. Raises RejectedError."""
        raise LocalProtocolError(NO_SUBSCRIPTIONS)

    async def cancel(self) -> None:
        """Ask the server to cancel the session's running statement; called while it runs."""

    async def close(self) -> None:
        """Disconnect; an open transaction is rolled back."""
        await self.rollback()
