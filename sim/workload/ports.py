"""What plays a load and where it is played: clients that work, and the world in which they do.

The same load is played on servers and in virtual time. Nothing here knows either.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

#: How a transaction can end for its client.
COMMITTED, REJECTED, ERROR, IN_DOUBT = "ok", "rejected", "error", "in_doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTransaction:
    """One transaction that a client is to carry out, again if it is refused."""

    number: int
    """Among all of the load, from 1."""
    name: str
    statements: tuple[tuple[str, Mapping[str, Any]], ...]
    """SQL and the values of its ``:names``."""
    new: int | None = None
    """The key of a row that it inserts, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """How one attempt ended."""

    kind: str
    """`COMMITTED`, `REJECTED`, `ERROR` or `IN_DOUBT`: also the kind of its record."""
    why: str = ""
    """The kind of the refusal, or the error's SQLSTATE."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Of its record."""
    rowcounts: Sequence[int] = ()
    """Of the statements that were carried out, in their order; -1 if the server does not say."""

    @property
    def is_lost(self) -> bool:
        """Its node could not be reached, or left it: no conflict, and trying at once is of no use."""
        return self.why == "publisher_unreachable" or self.why[:2] in ("08", "57", "")


class LoadClient(Protocol):
    """One application at one node. Refusals are raised as `twopc.errors.TransactionError`."""

    @property
    def gid(self) -> str:
        """The global transaction that is open or was last; empty at the Publisher."""
        ...

    async def begin(self, level: str) -> None:
        """Begin a transaction."""
        ...

    async def execute(self, sql: str, params: Mapping[str, Any]) -> Any:
        """One statement; ``:name`` stands for a parameter."""
        ...

    async def commit(self) -> None:
        """Commit everywhere or nowhere."""
        ...

    async def rollback(self) -> None:
        """Roll back everywhere."""
        ...

    async def close(self) -> None:
        """Leave."""
        ...


class LoadGate(Protocol):
    """Shut until somebody opens it."""

    def open(self) -> None:
        """Let everybody through, from now on."""
        ...

    async def wait(self) -> None:
        """Until it is open."""
        ...


class LoadBench(Protocol):
    """The world of a load."""

    def time(self) -> float:
        """Seconds of a clock that only goes forward."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def gate(self) -> LoadGate:
        """A new one, shut."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run it beside everything else."""
        ...

    async def all_over(self, patience_s: Callable[[], float]) -> list[str]:
        """Wait for what was spawned; the names of what is not over in time, and is ended.

        Args:
            patience_s: for how much longer it is waited, as of now; asked again when that has passed.
        """
        ...

    async def client(self, name: str, node: str) -> LoadClient:
        """Connect one."""
        ...

    async def sync(self, subscribers: Sequence[str]) -> None:
        """Have them get everything that is committed. Raises `twopc.errors.TwopcError`, or what a stage does."""
        ...

    async def outage(self, node: str, *, on: bool) -> None:
        """Let nobody reach a node, or everybody again."""
        ...

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Have an agent rest, or go on."""
        ...

    async def arm(self, fault: str) -> None:
        """Have one of the file's faults happen at its point."""
        ...
