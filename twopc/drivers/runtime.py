"""The environment of a driver: time, concurrency, and completion of work in spite of cancellation.

There are two: an asyncio event loop, and virtual time (`twopc.drivers.virtual`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from twopc.drivers.lean import unbroken
from twopc.together import together

T = TypeVar("T")


class Runtime(Protocol):
    """Interface to the environment."""

    def time(self) -> float:
        """Return the time in seconds, by a monotonic clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for a time."""
        ...

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` to its end, even if the caller is cancelled meanwhile."""
        ...

    async def together(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """Run coroutines concurrently, and return their results once all have ended; raise the first failure."""
        ...

    def cancellations(self) -> int:
        """Return the number of pending cancellations of the caller."""
        ...


class Asyncio:
    """The running event loop."""

    def time(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run for a time."""
        await asyncio.sleep(seconds)

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """See `twopc.drivers.lean.unbroken`."""
        return await unbroken(work)

    async def together(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """See `twopc.together`."""
        return await together(*work)

    def cancellations(self) -> int:
        """Return the number of pending cancellations of the current task."""
        task = asyncio.current_task()
        return task.cancelling() if task is not None else 0
