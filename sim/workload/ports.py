"""Interfaces between a load and the place where it is played: clients and a bench.

The same load is played on servers and in virtual time; this module depends on neither.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

#: Outcomes of an attempt, as seen by its client.
COMMITTED, REJECTED, ERROR, IN_DOUBT = "ok", "rejected", "error", "in_doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTransaction:
    """One transaction for a client to execute, and to retry if it is refused."""

    number: int
    """Number among all transactions of the load, from 1."""
    name: str
    statements: tuple[tuple[str, Mapping[str, Any]], ...]
    """SQL of each statement and the values of its ``:names``."""
    new: int | None = None
    """Key of the row that the transaction inserts, if it inserts one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """The outcome of one attempt."""

    kind: str
    """`COMMITTED`, `REJECTED`, `ERROR` or `IN_DOUBT`: also the kind of the history record."""
    why: str = ""
    """Kind of the refusal, or SQLSTATE of the error."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the history record."""
    rowcounts: Sequence[int] = ()
    """Row counts of the executed statements, in order; -1 if the server reports none."""

    @property
    def is_lost(self) -> bool:
        """Whether the node or the connection was lost: no conflict, and an immediate retry is pointless."""
        return self.why == "publisher_unreachable" or self.why[:2] in ("08", "57", "")


class LoadClient(Protocol):
    """One application at one node. Refusals are raised as `twopc.errors.TransactionError`."""

    @property
    def gid(self) -> str:
        """Global transaction that is open or was the last one; empty at the Publisher."""
        ...

    async def begin(self, level: str) -> None:
        """Begin a transaction."""
        ...

    async def execute(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Execute one statement; ``:name`` stands for a parameter."""
        ...

    async def commit(self) -> None:
        """Commit at all nodes or at none."""
        ...

    async def rollback(self) -> None:
        """Roll back at all nodes."""
        ...

    async def close(self) -> None:
        """Close the session."""
        ...


class LoadGate(Protocol):
    """A gate that is closed until `set` is called, such as an `asyncio.Event`."""

    def set(self) -> None:
        """Let all waiting tasks continue, and later ones pass."""
        ...

    async def wait(self) -> Any:
        """Wait until the gate is open."""
        ...


class LoadBench(Protocol):
    """The clock, tasks, clients and agents that a load uses."""

    def time(self) -> float:
        """Return the seconds of a monotonic clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for some time."""
        ...

    def gate(self) -> LoadGate:
        """Return a new closed gate."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine concurrently under a name."""
        ...

    async def all_over(self, patience_s: Callable[[], float]) -> list[str]:
        """Wait for all spawned coroutines; cancel those that do not end in time, and return their names.

        Args:
            patience_s: returns how much longer to wait, as of now; called again when that time has passed.
        """
        ...

    async def client(self, name: str, node: str) -> LoadClient:
        """Connect a client to a node."""
        ...

    async def sync(self, subscribers: Sequence[str]) -> None:
        """Bring all committed changes to Subscribers. Raises `twopc.errors.TwopcError`, or an error of the stage."""
        ...

    async def outage(self, node: str, *, on: bool) -> None:
        """Make a node unreachable, or reachable again."""
        ...

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Pause or resume a Subscriber's agent."""
        ...

    async def arm(self, fault: str) -> None:
        """Arm a fault of the file, so that it strikes at its point."""
        ...
