"""What can be asked of a session, wherever it is: on servers, in a coordinator's process of its own, or in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from twopc.sim.sessions.results import Result
from twopc.sim.sessions.scripts import SessionMessage
from twopc.sim.sessions.waits import ObservedSession

#: There is no subscription, or there is one already (object_not_in_prerequisite_state).
NOT_SUBSCRIBED = "55000"
ONLY_PLAIN = "only a plain session takes a script"
ONLY_SYNCS = "the agents' session only syncs: it has no transactions"


class SyncError(Exception):
    """An agent could not deliver a transaction: it is left, and all that come after it."""

    def __init__(self, message: str, *, node: str, sqlstate: str = "", number: int = 0) -> None:
        super().__init__(message)
        self.node = node
        self.sqlstate = sqlstate
        self.number = number


class ClientSession(ObservedSession, Protocol):
    """One client, connected to one node. Refusals are raised as `twopc.errors.TransactionError`."""

    at: str
    """Where its next statement goes, if its transactions are at several Subscribers."""

    @property
    def messages(self) -> Sequence[SessionMessage]:
        """The notices and notifications that have been taken in, in their order."""
        ...

    @property
    def printable(self) -> Sequence[Mapping[str, Any]]:
        """Everything that its last script has returned, as `twopc.sim.sessions.scripts.printable`."""
        ...

    def collect(self) -> None:
        """Take in the messages that have arrived while nothing ran."""
        ...

    @property
    def is_open(self) -> bool:
        """A transaction is open. A plain session's script may have begun or ended it."""
        ...

    async def begin(self, level: str, role: str = "") -> None:
        """Begin a transaction of an isolation level, in a role other than the application's own."""
        ...

    async def execute(self, sql: str, params: Mapping[str, Any]) -> Result:
        """One statement; ``:name`` stands for a parameter."""
        ...

    async def xid(self) -> str:
        """The id of its open transaction at its node, as far as it has one and no marker will tell it."""
        ...

    async def script(self, text: str) -> Result:
        """Several statements as they stand, transaction control among them: plain sessions only.

        The result is the last statement's.
        """
        ...

    async def commit(self) -> None:
        """Commit everywhere or nowhere."""
        ...

    async def rollback(self) -> None:
        """Roll back everywhere."""
        ...

    async def sync(self, subscribers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Have these Subscribers (none: those of this session's node) get all that is committed.

        Returns what merge sessions have done, one by one: `subscriber`, and the fields of a
        `twopc.drivers.merge.engine.MergeReport`; other agents tell nothing here.

        Raises SyncError.
        """
        ...

    async def reinitialise(self) -> None:
        """Copy everything to this session's Subscriber anew. Raises RejectedError."""
        ...

    async def subscribe(self) -> None:
        """Have this session's Subscriber join: a copy, and all that comes after it. Raises RejectedError."""
        ...

    async def unsubscribe(self) -> None:
        """Have this session's Subscriber leave; its rows stay. Raises RejectedError."""
        ...

    async def cancel(self) -> None:
        """Ask the server to cancel what this session is running; called while it runs."""
        ...

    async def close(self) -> None:
        """Leave; an open transaction is rolled back."""
        ...
