"""Blocking equivalents of asynchronous objects, without a second copy of their code.

An event loop runs in a thread of its own; a `Blocking` object represents an asynchronous one and passes every call
on to it. Coroutines are awaited, asynchronous context managers and iterators become synchronous ones, and a
returned object is wrapped in turn if it is asynchronous.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import TracebackType
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal


class Blocking:
    """Represents an asynchronous object; usable from any thread except the event loop's."""

    __slots__ = ("_manager", "_portal", "_target")

    def __init__(self, target: Any, portal: BlockingPortal) -> None:
        self._target = target
        self._portal = portal
        self._manager: Any = None

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value) or inspect.isclass(value):
            return _wrapped(value, self._portal)
        portal = self._portal

        @functools.wraps(value)
        def call(*arguments: Any, **keywords: Any) -> Any:
            result = portal.call(_called, value, arguments, keywords)
            return _wrapped(result, portal)

        return call

    def __enter__(self) -> Any:
        self._manager = self._portal.wrap_async_context_manager(self._target)
        entered = self._manager.__enter__()
        return self if entered is self._target else _wrapped(entered, self._portal)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        result: bool | None = self._manager.__exit__(kind, error, trace)
        return result

    def __iter__(self) -> Iterator[Any]:
        iterator = self._target.__aiter__()
        while True:
            try:
                yield self._portal.call(iterator.__anext__)
            except StopAsyncIteration:
                return

    def __repr__(self) -> str:
        return f"Blocking({self._target!r})"


async def _called(function: Any, arguments: Any, keywords: Any) -> Any:
    """Call `function` in the event loop's thread, and await the result if it is awaitable."""
    result = function(*arguments, **keywords)
    return await result if inspect.isawaitable(result) else result


def _wrapped(value: Any, portal: BlockingPortal) -> Any:
    return Blocking(value, portal) if _is_asynchronous(type(value)) else value


def _is_asynchronous(kind: type[Any]) -> bool:
    """Whether instances of a class are asynchronous: as context managers, as iterators, or by a coroutine method."""
    if hasattr(kind, "__aenter__") or hasattr(kind, "__anext__"):
        return True
    return any(inspect.iscoroutinefunction(each) for each in vars(kind).values())


@contextmanager
def blocking(target: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
    """Enter `target` on an event loop in a thread of its own; yield its `Blocking` equivalent."""
    with start_blocking_portal("asyncio") as portal, Blocking(target, portal) as entered:
        yield entered
