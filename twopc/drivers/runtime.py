"""What a driver needs of the world that it runs in: its time, and to come to an end once it has begun.

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
    """A world."""

    def time(self) -> float:
        """Seconds of a clock that only goes forward."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` to its end, even if whoever waits is told to stop meanwhile."""
        ...

    async def together(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """What each came to, once all have ended; raises the first failure."""
        ...

    def cancellations(self) -> int:
        """How often whoever runs now was told to stop, and has not yet."""
        ...


class Asyncio:
    """The running event loop."""

    def time(self) -> float:
        """The loop's."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Let other tasks go on."""
        await asyncio.sleep(seconds)

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """See `twopc.drivers.lean.unbroken`."""
        return await unbroken(work)

    async def together(self, *work: Coroutine[Any, Any, T]) -> list[T]:
        """See `twopc.together`."""
        return await together(*work)

    def cancellations(self) -> int:
        """The task's."""
        task = asyncio.current_task()
        return task.cancelling() if task is not None else 0
