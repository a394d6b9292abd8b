"""An event loop on which coroutines live in virtual time: timers go to a kernel, and nobody ever waits.

Whoever is `inside` a kernel has that kernel's clock, and so have the tasks that he makes: several systems on one
loop do not disturb each other, and each begins at 0. Outside of all of them time is the world's.

It must not know what is played.
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
#: So many events may happen before it is looked whether the world wants something.
_AT_ONCE = 256


class HungError(TwopcError):
    """Nothing can happen any more, and somebody still waits."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._kernels: dict[SimpyKernel, None] = {}
        self._began_s = time.monotonic()
        self.is_wanted = False
        """Something has become ready since the kernels were let go on."""
        self._is_still = False
        super().__init__(_VirtualSelector(self))

    @contextmanager
    def inside(self, kernel: SimpyKernel) -> Generator[None]:
        """Within the block, and in the tasks made there, time is this kernel's.

        What is left of it afterwards never happens.
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
        """Within the block no time passes in any kernel: somebody outside thinks."""
        before, self._is_still = self._is_still, True
        try:
            yield
        finally:
            self._is_still = before

    def time(self) -> float:
        """Seconds, by the clock of whoever asks."""
        kernel = _KERNEL.get()
        return time.monotonic() - self._began_s if kernel is None else kernel.now

    def virtual_time(self) -> float:
        """The same, but 0 for all who are in no kernel: a run's records must be the same each time."""
        kernel = _KERNEL.get()
        return 0.0 if kernel is None else kernel.now

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """A timer of the kernel that the caller is in."""
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
        """As every loop's."""
        self.is_wanted = True
        return super().call_soon(callback, *args, context=context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """As every loop's."""
        self.is_wanted = True
        return super().call_soon_threadsafe(callback, *args, context=context)

    def go_on(self, timeout_s: float | None) -> bool:
        """Let virtual time pass until something is ready, or so long in the world's time; False if there is none.

        Raises:
            HungError: in no kernel anything is left to happen.
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
                raise HungError("nothing can happen any more, and somebody still waits")
        return True


class _VirtualSelector(selectors.DefaultSelector):
    """Looks what the world wants, and lets virtual time pass instead of waiting for it."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready in the world."""
        loop = self._loop
        ready = timeout is not None and timeout <= 0
        if not ready:
            loop.is_wanted = False
            ready = loop.go_on(timeout)
        return super().select(0 if ready else timeout)


class _Timer(asyncio.TimerHandle):
    """One that goes off in virtual time."""

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
        """It does not go off; time does not pass for it."""
        super().cancel()
        self._kernel.cancel(self._due)
