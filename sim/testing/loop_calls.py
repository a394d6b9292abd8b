"""Functions of a test that are awaited on its event loop, though a thread calls them one after the other.

It must not know what they do, nor in which order.
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
    """Made on the event loop of a test.

    Args:
        argument: what functions get that take one.
    """

    def __init__(self, argument: Any) -> None:
        self._argument = argument
        self._loop = asyncio.get_running_loop()
        self._running: set[Future[Any]] = set()
        self._is_over = False

    async def run(self, play: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """Run in a thread what calls the functions; if nobody waits for it any more, they are cancelled."""
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
            await asyncio.wait(
                {playing}
            )  # its functions end at once now, and the sessions with them
            raise

    def of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """For a thread: the same function, to its end."""

        @functools.wraps(function)
        def called(*given: Any) -> Any:
            return self._await(function, *(self._argument for _ in given))

        return called

    def check(self, function: Callable[[T], Any]) -> Callable[[T], None]:
        """For a thread: a function of what has happened, to its end."""

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
        if (
            self._is_over
        ):  # since it was begun: whoever ended it all may have looked before it was added
            running.cancel()
        try:
            return running.result()
        finally:
            self._running.discard(running)


async def _awaited(made: Awaitable[T]) -> T:
    return await made
