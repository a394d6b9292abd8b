"""The drivers in virtual time: `Driver` and `Recovery` as they are, awaited under simpy.

A coroutine that awaits nothing but simpy's events needs no event loop, only somebody who waits for those events
for it: `steps`. So what is tested in virtual time is the very code that runs against servers.

It must not know what a node is made of.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import simpy
from psycopg import pq

T = TypeVar("T")
#: Work under simpy: yields events to wait for, returns a value. Composed with ``yield from``.
Steps = Generator[simpy.Event, Any, T]


class AwaitableSteps(Generic[T]):
    """Steps, to be awaited by a coroutine that runs as `steps`."""

    __slots__ = ("_work",)

    def __init__(self, work: Steps[T]) -> None:
        self._work = work

    def __await__(self) -> Steps[T]:
        return self._work


def wait(event: simpy.Event) -> Steps[Any]:
    """Until an event has come; its value."""
    return (yield event)


@types.coroutine
def awaited(event: simpy.Event) -> Steps[Any]:
    """The same for coroutines, without an `AwaitableSteps` around it."""
    return (yield event)


def steps(work: Coroutine[Any, Any, T]) -> Steps[T]:
    """A coroutine as a simpy process' steps: what it awaits may be `AwaitableSteps` only."""
    return (yield from work.__await__())


class VirtualTime:
    """The `twopc.drivers.runtime.Runtime` of a simpy environment.

    Args:
        now: seconds.
        delay: an event that comes after so many seconds.
    """

    def __init__(self, now: Callable[[], float], delay: Callable[[float], simpy.Event]) -> None:
        self.time = now
        self._delay = delay

    async def sleep(self, seconds: float) -> None:
        """Let other processes go on."""
        await AwaitableSteps(wait(self._delay(seconds)))

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """There is nobody who could stop it, but a crash, which stops everything."""
        return await work

    async def together(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """One after the other."""
        return [await one for one in work]

    def cancellations(self) -> int:
        """See `unbroken`."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualReport:
    """An error as a server reports it."""

    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""
    context: str = ""


class VirtualResult:
    """One result of a message: what the readers of votes use of a `psycopg.pq.PGresult`."""

    __slots__ = ("_refusal", "_rows", "command_status", "status")

    def __init__(
        self,
        tag: str = "",
        rows: Sequence[Sequence[bytes | None]] | None = None,
        refusal: VirtualReport | None = None,
    ) -> None:
        self._rows = rows
        self._refusal = refusal
        self.command_status = tag.encode() if refusal is None else None
        """The command's tag; None for an error."""
        self.status = (
            pq.ExecStatus.FATAL_ERROR
            if refusal is not None
            else pq.ExecStatus.COMMAND_OK
            if rows is None
            else pq.ExecStatus.TUPLES_OK
        )

    @property
    def ntuples(self) -> int:
        """How many rows it has."""
        return len(self._rows or ())

    def get_value(self, row: int, column: int) -> bytes | None:
        """A value as text; None is NULL, or not there."""
        rows = self._rows or ()
        return rows[row][column] if row < len(rows) else None

    def error_field(self, field: pq.DiagnosticField) -> bytes | None:
        """A field of the error; None if it is none."""
        name = _FIELDS.get(field)
        if name is None or self._refusal is None:
            return None
        value: str = getattr(self._refusal, name)
        return value.encode() or None

    def get_error_message(self, encoding: str = "utf-8") -> str:
        """The error in a line; empty if it is none."""
        return "" if self._refusal is None else f"ERROR:  {self._refusal.message}"


_FIELDS = {
    pq.DiagnosticField.SQLSTATE: "sqlstate",
    pq.DiagnosticField.MESSAGE_PRIMARY: "message",
    pq.DiagnosticField.MESSAGE_DETAIL: "detail",
    pq.DiagnosticField.MESSAGE_HINT: "hint",
    pq.DiagnosticField.CONTEXT: "context",
}
