"""The interface of a session, common to servers, a coordinator's own process, and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from twopc.sim.sessions.results import Result
from twopc.sim.sessions.scripts import SessionMessage
from twopc.sim.sessions.waits import ObservedSession

#: SQLSTATE if there is no subscription, or one exists already (object_not_in_prerequisite_state).
NOT_SUBSCRIBED = "55000"
ONLY_PLAIN = "only a plain session takes a script"
ONLY_SYNCS = "the agents' session only syncs: it has no transactions"


class SyncError(Exception):
    """An agent could not deliver a transaction: neither this transaction nor later ones are delivered."""

    def __init__(self, message: str, *, node: str, sqlstate: str = "", number: int = 0) -> None:
        super().__init__(message)
        self.node = node
        self.sqlstate = sqlstate
        self.number = number


class ClientSession(ObservedSession, Protocol):
    """One client, connected to one node. Refusals are raised as `twopc.errors.TransactionError`."""

    at: str
    """Subscriber at which the next statement is run, if the transactions span several."""

    @property
    def messages(self) -> Sequence[SessionMessage]:
        """Notices and notifications received, in order."""
        ...

    @property
    def printable(self) -> Sequence[Mapping[str, Any]]:
        """All results of the last script, in the form of `twopc.sim.sessions.scripts.printable`."""
        ...

    def collect(self) -> None:
        """Receive the messages that have arrived while the session was idle."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open. A plain session's script may have begun or ended it."""
        ...

    async def begin(self, level: str, role: str = "") -> None:
        """Begin a transaction with an isolation level, optionally in another role than the application's."""
        ...

    async def execute(self, sql: str, params: Mapping[str, Any]) -> Result:
        """Run one statement; ``:name`` stands for a parameter."""
        ...

    async def xid(self) -> str:
        """Return the transaction ID at the session's node; empty if none is assigned or a branch marker will show
        it.
        """
        ...

    async def script(self, text: str) -> Result:
        """Send several statements unchanged, transaction control among them; for plain sessions only.

        Returns the last statement's result.
        """
        ...

    async def commit(self) -> None:
        """Commit at all nodes or at none."""
        ...

    async def rollback(self) -> None:
        """Roll back at all nodes."""
        ...

    async def sync(self, subscribers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Deliver all that is committed to these Subscribers (none: that of this session's node, or all).

        Returns the report of each merge session: `subscriber`, and the fields of a
        `twopc.drivers.merge.engine.MergeReport`; distribution agents report nothing. Raises SyncError.
        """
        ...

    async def reinitialise(self) -> None:
        """Replace every row of this session's Subscriber. Raises RejectedError."""
        ...

    async def subscribe(self) -> None:
        """Subscribe this session's node: make a copy, and deliver later changes. Raises RejectedError."""
        ...

    async def unsubscribe(self) -> None:
        """Remove the subscription of this session's node; its rows stay. Raises RejectedError."""
        ...

    async def cancel(self) -> None:
        """Ask the server to cancel the session's running statement; called while it runs."""
        ...

    async def close(self) -> None:
        """Disconnect; an open transaction is rolled back."""
        ...
