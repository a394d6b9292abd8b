"""Virtual time: simpy's, with labelled delays, and a chance of its own for each component.

It must not know what happens. Everything in the model asks the kernel for time, so that another kernel, in which
somebody chooses what happens next, can stand in its place.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, cast

import simpy
from simpy.core import EmptySchedule
from simpy.events import NORMAL

from twopc.sim.model.values import Delay, Label, Steps

#: What a delay has in the place of callbacks once nobody waits for it any more.
_CANCELLED: Any = ()


class Environment(simpy.Environment):
    """As simpy's, but time does not pass for what nobody waits for any more.

    Else a run would end when its last timer would have gone off, not when the last thing has happened. And whoever
    fails raises its exception itself, where simpy would raise a copy that lacks all but the message.
    """

    active_process = property(attrgetter("_active_proc"))
    """As simpy's, without a call of Python's."""

    def step(self) -> None:
        """Process the next event that was not cancelled."""
        queue = self._queue
        while queue:
            moment, _, _, event = heappop(queue)
            callbacks = event.callbacks
            if callbacks is _CANCELLED:
                continue
            self._now = moment
            event.callbacks = None  # type: ignore[assignment] # as simpy does
            for callback in callbacks:
                callback(event)
            if not event._ok and not event.defused:
                raise cast("BaseException", event._value)
            return
        raise EmptySchedule

    def step_to(self, event: simpy.Event) -> None:
        """Steps, until an event was processed: `step` in a loop, without a call for each."""
        queue = self._queue
        while event.callbacks is not None:
            if not queue:
                raise EmptySchedule
            moment, _, _, one = heappop(queue)
            callbacks = one.callbacks
            if callbacks is _CANCELLED:
                continue
            self._now = moment
            one.callbacks = None  # type: ignore[assignment] # as simpy does
            for callback in callbacks:
                callback(one)
            if not one._ok and not one.defused:
                raise cast("BaseException", one._value)

    def peek(self) -> float:
        """When the next event comes; infinity if none does."""
        queue = self._queue
        while queue and queue[0][3].callbacks is _CANCELLED:
            heappop(queue)
        return float(super().peek())


class _Delay(simpy.Event):
    """A delay that can be cancelled; `SimpyKernel.delay` makes it, without the calls that simpy makes."""

    _value = None
    _ok = True


_new_delay = _Delay.__new__
#: Objects made until garbage is looked for, and how often the older ones are looked at, too.
_GARBAGE = (200_000, 20, 100)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage seldom: what happens here leaves none that is not counted.

    With a thousand clients nearly everything that is new is still used when it is looked at, and looking at it
    takes as long as making it.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class SimpyKernel:
    """Time, chance and processes; see `twopc.sim.model.ports.Kernel`.

    Args:
        seed: of every component's chance.
    """

    labelled = False
    """Here a label says no more than whose chance it is."""
    watch: Callable[[str, bool], None] | None = None
    """Is told what is looked at, and (True) what is changed, where somebody wants to know what depends on what."""

    def __init__(self, seed: int = 0) -> None:
        self.env = Environment()
        self.seed = seed
        self._randoms: dict[str, random.Random] = {}

    @property
    def stretch(self) -> int:
        """The name of what happens now, where somebody explores; the same in equivalent runs."""
        return 0

    now: float = property(attrgetter("env._now"))  # type: ignore[assignment] # so it takes no call of Python's
    """Seconds since the run began."""

    def delay(self, duration: Delay | float, label: Label) -> simpy.Event:
        """An event that comes after `duration`, drawn from the chance of whoever waits."""
        if duration.__class__ is Delay:
            duration = duration.a if duration.kind == "fixed" else self.draw(duration, label.actor)
        if duration < 0:  # type: ignore[operator] # a number by now
            raise ValueError(f"a delay of {duration} s")
        env, result = self.env, _new_delay(_Delay)
        result.env = env
        result.callbacks = []
        heappush(env._queue, (env._now + duration, NORMAL, next(env._eid), result))  # type: ignore[operator] # likewise
        return result

    def event(self) -> simpy.Event:
        """One that somebody succeeds or fails; who waits for it goes on at once, in the order of waiting."""
        return simpy.Event(self.env)

    def spawn(self, steps: Steps[Any], name: str) -> simpy.Process:
        """Run it, from now on."""
        return simpy.Process(self.env, steps)

    def random(self, name: str) -> random.Random:
        """The chance of one component: the same for the same seed and name, whatever others draw.

        Seeding by text does not depend on PYTHONHASHSEED.
        """
        result = self._randoms.get(name)
        if result is None:
            result = self._randoms[name] = random.Random(f"{self.seed}/{name}")
        return result

    def forget(self, name: str) -> None:
        """This component is no more, and its chance may go."""
        self._randoms.pop(name, None)

    def cancel(self, event: simpy.Event) -> None:
        """A delay is not wanted any more; harmless if it has come."""
        if isinstance(event, _Delay) and event.callbacks is not None:
            event.callbacks = _CANCELLED

    def draw(self, delay: Delay, name: str) -> float:
        """A duration in seconds, never negative, from the chance of `name`."""
        if delay.kind == "fixed":
            return delay.a
        chance = self.random(name)
        if delay.kind == "exponential":
            return chance.expovariate(1 / delay.a) if delay.a else 0.0
        if delay.kind == "lognormal":
            return chance.lognormvariate(0.0, delay.b) * delay.a
        return max(0.0, chance.uniform(delay.a, delay.b))

    def run(self, until: float | simpy.Event | None = None) -> Any:
        """Let things happen: to a moment, to an event (whose value is returned), or until nothing is left.

        Raises:
            RuntimeError: nothing is left, and the event has not come.
        """
        with _seldom_collecting():
            if not isinstance(until, simpy.Event):
                return self.env.run(until)
            until.defused = True  # who asked for it is told what it fails with
            try:
                self.env.step_to(until)
            except EmptySchedule:
                raise RuntimeError("nothing can happen any more, and this has not") from None
        if not until.ok:
            raise cast("BaseException", until.value)
        return until.value
