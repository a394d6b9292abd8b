"""Virtual time: simpy's, with labelled delays, and an own source of random values for each component.

This module does not know the events' meaning. All of the model takes its time from the kernel, so that it can be
replaced by one in which a chooser decides what happens next (`choosers`).
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

#: Value of a delay's callbacks once it is cancelled.
_CANCELLED: Any = ()


class Environment(simpy.Environment):
    """Simpy's environment, except that time does not pass for cancelled events.

    Otherwise a run would end at its last timer, not at its last event. A failed event raises its own exception,
    where simpy would raise a copy that has only the message.
    """

    active_process = property(attrgetter("_active_proc"))
    """See simpy; here without a Python call."""

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
        """Process events until a given one: `step` in a loop, without a call for each."""
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
        """Return the time of the next event; infinity if there is none."""
        queue = self._queue
        while queue and queue[0][3].callbacks is _CANCELLED:
            heappop(queue)
        return float(super().peek())


class _Delay(simpy.Event):
    """A delay that can be cancelled; created by `SimpyKernel.delay` without the calls that simpy makes."""

    _value = None
    _ok = True


_new_delay = _Delay.__new__
#: Thresholds of garbage collection: new objects, and collections until older generations are examined.
_GARBAGE = (200_000, 20, 100)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Within the block, collect garbage rarely: nearly all is freed by reference counts.

    With a thousand clients nearly all new objects are still in use when they are examined, and examining them takes
    as long as making them.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class SimpyKernel:
    """Time, random values and processes.

    Args:
        seed: seed of every component's random values.
    """

    labelled = False
    """Whether labels matter; here a label only names the component whose random values are drawn."""
    record_access: Callable[[str, bool], None] | None = None
    """Called with each object that is read or (True) changed, if a search records dependencies."""
    stretch = 0
    """The name of the current stretch, equal in equivalent runs of a search; 0 without one."""

    def __init__(self, seed: int = 0) -> None:
        self.env = Environment()
        self.seed = seed
        self._randoms: dict[str, random.Random] = {}

    now: float = property(attrgetter("env._now"))  # type: ignore[assignment] # read without a Python call
    """Seconds since the run began."""

    def delay(self, duration: Delay | float, label: Label) -> simpy.Event:
        """Return an event that comes after `duration`, which is drawn from the random values of the label's actor."""
        if duration.__class__ is Delay:
            duration = duration.a if duration.kind == "fixed" else self.draw(duration, label.actor)
        if duration < 0:  # type: ignore[operator] # a number by now
            raise ValueError(f"a delay of {duration} s")
        env, result = self.env, _new_delay(_Delay)
        result.env = env
        result.callbacks = []
        heappush(env._queue, (env._now + duration, NORMAL, next(env._eid), result))  # type: ignore[operator] # a number by now
        return result

    def event(self) -> simpy.Event:
        """Return an event to be succeeded or failed; its waiters continue at once, in the order of waiting."""
        return simpy.Event(self.env)

    def spawn(self, steps: Steps[Any], name: str) -> simpy.Process:
        """Start steps as a process."""
        return simpy.Process(self.env, steps)

    def random(self, name: str) -> random.Random:
        """Return the random source of a component: equal for equal seed and name, whatever others draw.

        Seeding by text does not depend on PYTHONHASHSEED.
        """
        result = self._randoms.get(name)
        if result is None:
            result = self._randoms[name] = random.Random(f"{self.seed}/{name}")
        return result

    def forget(self, name: str) -> None:
        """Discard the random source of a component that has ended."""
        self._randoms.pop(name, None)

    def cancel(self, event: simpy.Event) -> None:
        """Cancel a delay; no effect after it has come."""
        if isinstance(event, _Delay) and event.callbacks is not None:
            event.callbacks = _CANCELLED

    def draw(self, delay: Delay, name: str) -> float:
        """Draw a duration in seconds, never negative, from the random source of `name`."""
        if delay.kind == "fixed":
            return delay.a
        chance = self.random(name)
        if delay.kind == "exponential":
            return chance.expovariate(1 / delay.a) if delay.a else 0.0
        if delay.kind == "lognormal":
            return chance.lognormvariate(0.0, delay.b) * delay.a
        return max(0.0, chance.uniform(delay.a, delay.b))

    def run(self, until: float | simpy.Event | None = None) -> Any:
        """Run to a moment, to an event (whose value is returned), or until no event is left.

        Raises:
            RuntimeError: no event is left, and the awaited one has not come.
        """
        with _seldom_collecting():
            if not isinstance(until, simpy.Event):
                return self.env.run(until)
            until.defused = True  # its error is raised below
            try:
                self.env.step_to(until)
            except EmptySchedule:
                raise RuntimeError("nothing can happen any more, and this has not") from None
        if not until.ok:
            raise cast("BaseException", until.value)
        return until.value
