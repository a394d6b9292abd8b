"""Functions of a test that run on its event loop, although a thread calls them one after the other.

Independent of what the functions do, and of their order.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from twopc.sim.testing.blame import own_trace

T = TypeVar("T")


class LoopCalls:
    """Calls functions on the event loop of a test, on which this object is created.

    Args:
        argument: passed to functions that have a parameter.
    """

    def __init__(self, argument: Any) -> None:
        self._argument = argument
        self._loop = asyncio.get_running_loop()
        self._running: set[Future[Any]] = set()
        self._is_over = False

    async def run(self, play: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Run `play`, which calls the functions, in a thread; cancel the functions when the caller is cancelled."""
        playing = asyncio.ensure_future(asyncio.to_thread(play, *arguments, **options))
        __tracebackhide__ = True
        try:
            return await asyncio.shield(playing)
        except Exception as error:
            raise error.with_traceback(own_trace(error)) from error.__cause__
        except asyncio.CancelledError:
            self._is_over = True
            for each in [*self._running]:
                each.cancel()
            # its functions are cancelled, and it ends
            await asyncio.wait({playing})
            raise

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function in a form that a thread can call and that blocks until the end."""

        @functools.wraps(function)
        def called(*given: Any) -> Any:
            return self._await(function, *(self._argument for _ in given))

        return called

    def check(self, function: Callable[[T], Any]) -> Callable[[T], None]:
        """Return a function of an order's result in a form that a thread can call and that blocks until the end."""

        def checked(run: T) -> None:
            self._await(function, run)

        return checked

    def _await(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self._is_over:
            raise CancelledError
        made = function(*arguments)
        if not inspect.isawaitable(made):
            return made
        running = asyncio.run_coroutine_threadsafe(_awaited(made), self._loop)
        self._running.add(running)
        # the cancellation may have come before it was added
        if self._is_over:
            running.cancel()
        try:
            return running.result()
        finally:
            self._running.discard(running)


async def _awaited(made: Awaitable[T]) -> T:
    return await made
