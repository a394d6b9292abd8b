"""From simpy's events to asyncio's futures: coroutines on a `twopc.sim.model.loop.VirtualLoop` await events of the
model.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, cast

import simpy

from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import Steps

T = TypeVar("T")


async def performed(kernel: SimpyKernel, work: Steps[T], name: str) -> T:
    """Run steps of the model; return their result or raise their error.

    If the awaiting task is cancelled, the steps go on and their result is discarded.
    """
    return await bridge(kernel.spawn(work, name))  # type: ignore[no-any-return] # what the work returns


def bridge(event: simpy.Event) -> asyncio.Future[Any]:
    """Return a future of an event's value or error."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def came(event: simpy.Event) -> None:
        if not event.ok:
            event.defused = True
        if future.done():
            return
        if event.ok:
            future.set_result(event.value)
        else:
            future.set_exception(cast("BaseException", event.value))

    if event.callbacks is None:
        came(event)
    else:
        event.callbacks.append(came)
    return future
