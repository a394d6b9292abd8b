"""An event loop whose coroutines run in virtual time: timers go to a kernel, and no real time is waited for.

A task `inside` a kernel has that kernel's clock, and so have the tasks that it creates: several systems on one loop
are independent of each other, and each begins at 0. Outside of all kernels time is real.

This module does not know what is played.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, TypeVarTuple, Unpack

import simpy

from twopc.errors import TwopcError
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import Cause, Label

Args = TypeVarTuple("Args")
_KERNEL: ContextVar[SimpyKernel | None] = ContextVar("kernel", default=None)
_TIMER = Label(actor="loop", cause=Cause.TIMER, what="a timer of the event loop")
#: Number of virtual events after which real I/O is polled.
_AT_ONCE = 256


class HungError(TwopcError):
    """No event is left, but tasks still wait."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time; see the module."""

    def __init__(self) -> None:
        self._kernels: dict[SimpyKernel, None] = {}
        self._began_s = time.monotonic()
        self.is_wanted = False
        """Whether a callback has become ready since virtual time was resumed."""
        self._is_still = False
        super().__init__(_VirtualSelector(self))

    @contextmanager
    def inside(self, kernel: SimpyKernel) -> Generator[None]:
        """Within the block, and in tasks created there, time is this kernel's.

        Events that are left afterwards never happen.
        """
        token = _KERNEL.set(kernel)
        self._kernels[kernel] = None
        try:
            yield
        finally:
            self._kernels.pop(kernel, None)
            _KERNEL.reset(token)

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Within the block no time passes in any kernel, while code outside of them works."""
        before, self._is_still = self._is_still, True
        try:
            yield
        finally:
            self._is_still = before

    def time(self) -> float:
        """Return the seconds of the caller's clock."""
        kernel = _KERNEL.get()
        return time.monotonic() - self._began_s if kernel is None else kernel.now

    def virtual_time(self) -> float:
        """Return the time of the caller's kernel; 0 outside of all kernels, as records must be equal in each run."""
        kernel = _KERNEL.get()
        return 0.0 if kernel is None else kernel.now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a timer in the caller's kernel."""
        kernel = _KERNEL.get()
        if kernel is None:
            return super().call_at(when, callback, *args, context=context)
        return _Timer(self, kernel, when, callback, args, context)

    def call_soon(
        self,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See asyncio."""
        self.is_wanted = True
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See asyncio."""
        self.is_wanted = True
        return super().call_soon_threadsafe(callback, *args, context=context)

    def go_on(self, timeout_s: float | None) -> bool:
        """Let virtual time pass until a callback is ready, or for this much real time; False without kernels.

        Raises:
            HungError: no kernel has an event left.
        """
        if not self._kernels or self._is_still:
            return False
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for _ in range(_AT_ONCE):
            moved = False
            for kernel in [*self._kernels]:
                if kernel.env.peek() < float("inf"):
                    kernel.env.step()
                    moved = True
            if self.is_wanted or (until is not None and time.monotonic() >= until):
                return True
            if not moved:
                self._kernels.clear()
                raise HungError("nothing can happen any more, and a task still waits")
        return True


class _VirtualSelector(selectors.DefaultSelector):
    """A selector that polls real I/O, and lets virtual time pass instead of blocking."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the real file objects that are ready."""
        loop = self._loop
        ready = timeout is not None and timeout <= 0
        if not ready:
            loop.is_wanted = False
            ready = loop.go_on(timeout)
        return super().select(0 if ready else timeout)


class _Timer(asyncio.TimerHandle):
    """A timer in virtual time."""

    def __init__(
        self, loop: VirtualLoop, kernel: SimpyKernel, when: float, callback: Callable[..., Any],
        args: tuple[Any, ...], context: Context | None,
    ) -> None:  # fmt: skip
        super().__init__(when, callback, args, loop, context)
        self._kernel = kernel
        self._virtual = loop
        self._given = context
        self._go_off = lambda: None if self.cancelled() else callback(*args)
        self._due = kernel.delay(max(0.0, when - kernel.now), _TIMER)
        assert self._due.callbacks is not None
        self._due.callbacks.append(self._is_due)

    def _is_due(self, _: simpy.Event) -> None:
        self._virtual.call_soon(self._go_off, context=self._given)

    def cancel(self) -> None:
        """Cancel the timer; time does not pass for it."""
        super().cancel()
        self._kernel.cancel(self._due)
