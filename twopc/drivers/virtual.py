"""The drivers in virtual time: `Driver` and `Recovery` unchanged, awaited under simpy.

A coroutine that awaits only simpy's events needs no event loop, only a process that waits for these events on its
behalf: `steps`. So tests in virtual time run the same code as on servers. This module must not depend on the
implementation of a node.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

import simpy
from psycopg import pq

from twopc.drivers.lean import ServerReport

T = TypeVar("T")
#: Work under simpy: yields events to wait for, returns a value. Composed with ``yield from``.
Steps = Generator[simpy.Event, Any, T]


class AwaitableSteps(Generic[T]):
    """Steps that can be awaited by a coroutine that runs under `steps`."""

    __slots__ = ("_work",)

    def __init__(self, work: Steps[T]) -> None:
        self._work = work

    def __await__(self) -> Steps[T]:
        return self._work


def wait(event: simpy.Event) -> Steps[Any]:
    """Wait for an event, and return its value."""
    return (yield event)


@types.coroutine
def awaited(event: simpy.Event) -> Steps[Any]:
    """Wait for an event and return its value, in a coroutine, without an `AwaitableSteps`."""
    return (yield event)


def steps(work: Coroutine[Any, Any, T]) -> Steps[T]:
    """Return a coroutine as steps of a simpy process; it may await `AwaitableSteps` only."""
    return (yield from work.__await__())


class VirtualTime:
    """The `twopc.drivers.runtime.Runtime` of a simpy environment.

    Args:
        now: returns the time in seconds.
        delay: returns an event that occurs after a number of seconds.
    """

    def __init__(self, now: Callable[[], float], delay: Callable[[float], simpy.Event]) -> None:
        self.time = now
        self._delay = delay

    async def sleep(self, seconds: float) -> None:
        """Let other processes run for a time."""
        await AwaitableSteps(wait(self._delay(seconds)))

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """Await the work: only a crash, which ends everything, could interrupt it."""
        return await work

    async def together(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """Run the coroutines one after the other."""
        return [await one for one in work]

    def cancellations(self) -> int:
        """Return 0; see `unbroken`."""
        return 0


class VirtualResult:
    """One result of a message, with those parts of a `psycopg.pq.PGresult` that are used to read votes."""

    __slots__ = ("_refusal", "_rows", "command_status", "status")

    def __init__(
        self,
        tag: str = "",
        rows: Sequence[Sequence[bytes | None]] | None = None,
        refusal: ServerReport | None = None,
    ) -> None:
        self._rows = rows
        self._refusal = refusal
        self.command_status = tag.encode() if refusal is None else None
        """The command tag; None for an error."""
        self.status = (
            pq.ExecStatus.FATAL_ERROR
            if refusal is not None
            else pq.ExecStatus.COMMAND_OK
            if rows is None
            else pq.ExecStatus.TUPLES_OK
        )

    @property
    def ntuples(self) -> int:
        """Number of rows."""
        return len(self._rows or ())

    def get_value(self, row: int, column: int) -> bytes | None:
        """Return a value as text; None for NULL, or if there is no such row."""
        rows = self._rows or ()
        return rows[row][column] if row < len(rows) else None

    def error_field(self, field: pq.DiagnosticField) -> bytes | None:
        """Return a field of the error; None if the result is not an error."""
        name = _FIELDS.get(field)
        if name is None or self._refusal is None:
            return None
        value: str = getattr(self._refusal, name)
        return value.encode() or None

    def get_error_message(self, encoding: str = "utf-8") -> str:
        """Return the error in one line; empty if the result is not an error."""
        return "" if self._refusal is None else f"ERROR:  {self._refusal.message}"


_FIELDS = {
    pq.DiagnosticField.SQLSTATE: "sqlstate",
    pq.DiagnosticField.MESSAGE_PRIMARY: "message",
    pq.DiagnosticField.MESSAGE_DETAIL: "detail",
    pq.DiagnosticField.MESSAGE_HINT: "hint",
    pq.DiagnosticField.CONTEXT: "context",
}
