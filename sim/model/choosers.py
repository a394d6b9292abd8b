"""Time in which a chooser decides what happens next: the kernel of exploration.

Every labelled delay is a choice. Events without a label (a lock that is granted, a process that ends) happen at
once, in the order in which they became due; all of them up to the next choice form one *stretch*. A stretch is
identified by its cause, not by its time, so that equal stretches of two runs have equal names.

This module knows neither the system nor the purpose of the search.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

import simpy

from twopc.sim.model.kernel import Environment, SimpyKernel
from twopc.sim.model.values import Cause, Delay, Label

#: Causes of events that happen only when no other can, and then the earliest of them.
TIMERS = frozenset((Cause.TIMER, Cause.LOCK_TIMEOUT, Cause.DEADLOCK, Cause.POLL, Cause.PAUSE))
#: Object of events that may depend on all others.
ALL = "*"
READ, WRITE = 1, 2


class Choice(simpy.Event):
    """A labelled delay that is pending.

    Attributes:
        name: digest of its label and its cause: equal in equivalent runs.
        maker: the name of the stretch that made it.
        due: the time at which it comes if time decides.
    """

    def __init__(
        self, kernel: ChoiceKernel, label: Label, due: float, number: int, name: int, maker: int
    ) -> None:
        super().__init__(kernel.env)
        self.label = label
        self.due = due
        self.number = number
        self.name = name
        self.maker = maker
        self.cancelled = False
        self.slow = False
        """Whether others were chosen before it, so that it comes after all that are not slow."""

    @property
    def is_timer(self) -> bool:
        """Whether it comes only when no other event can."""
        return self.label.cause in TIMERS

    def __str__(self) -> str:
        return wording(self.label)


#: Function of an event and of the objects that it has read and changed.
Absorbs = Callable[["Choice", Mapping[str, int]], bool]


class Strike:
    """A fault that may strike now, which is a choice too.

    Args:
        what: description.
        act: performs the fault.
        touches: objects that it writes.
        do: the action of a scenario's fault that does the same; empty if there is none.
        absorbs: whether the fault leaves no effect of an event just before it, so that the reverse order is
            equivalent.
        on: the target, if the description does not identify it: equal in equivalent runs, and different for any two
            faults at one time.
    """

    __slots__ = ("absorbs", "act", "do", "name", "touches", "what")

    def __init__(
        self, what: str, act: Callable[[], None], touches: Iterable[str], do: str = "",
        absorbs: Absorbs | None = None, on: str = "",
    ) -> None:  # fmt: skip
        self.what = what
        self.absorbs = absorbs
        self.act = act
        self.touches = tuple(touches)
        self.do = do
        self.name = _strike_name(what, on)

    def __str__(self) -> str:
        return self.what


Option = Choice | Strike


class Chooser(Protocol):
    """Decides what happens next."""

    def choose(self, options: Sequence[Option]) -> int:
        """Return the index of an option; the first is the one that happens if time decides."""
        ...


class SeededChooser:
    """A random chooser.

    Args:
        random: the source of randomness.
        often: probability of an option other than the first.
    """

    def __init__(self, random: Any, often: float = 0.3) -> None:
        self._random = random
        self._often = often

    def choose(self, options: Sequence[Option]) -> int:
        """Return an index, mostly that of the first option."""
        if len(options) > 1 and self._random.random() < self._often:
            return int(self._random.randrange(1, len(options)))
        return 0


class ReplayChooser:
    """A chooser that repeats recorded choices, and then follows time."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._left = list(reversed(choices))

    def choose(self, options: Sequence[Option]) -> int:
        """Return the next recorded index."""
        return self._left.pop() if self._left else 0


def digest(*parts: object) -> int:
    """Return a digest of values that is equal in every process."""
    raw = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(raw, "big")


@functools.lru_cache(maxsize=4096)
def _strike_name(what: str, on: str) -> int:
    return digest("strike", what, on)


_NUMBERS = re.compile(r"\b(?:pid|session) \d+")


def wording(label: Label) -> str:
    """Return a label as text, without numbers that only count."""
    return _NUMBERS.sub("a session", f"{label.actor}: {label.what}")


class ChoiceKernel(SimpyKernel):
    """A kernel in which each event is chosen before it happens; see `twopc.sim.model.kernel.SimpyKernel`.

    Args:
        seed: seed of every component's random values.
    """

    labelled = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.env = Environment()
        self._pending: dict[Choice, None] = {}
        self._numbers = 0
        self._children: dict[tuple[str, Cause, str], int] = {}
        """Number of events that this stretch has made, by actor, cause and description."""
        self._strikes: dict[int, int] = {}
        """Number of faults so far, by name."""
        self.seen: dict[str, int] = {}
        """Objects that this stretch has read (`READ`) and changed (`WRITE`)."""
        self._readers: dict[str, dict[int, None]] = {}
        self._writers: dict[str, int] = {}
        self.state = 0
        """Digest of the run so far, independent of the order of independent stretches: equal in equivalent runs."""
        self.record_access = self._record_access

    # -- as `SimpyKernel` -------------------------------------------------------------------------------

    def delay(self, duration: Delay | float, label: Label) -> simpy.Event:
        """Return a choice that is due after a duration."""
        if isinstance(duration, Delay):
            duration = self.draw(duration, label.actor)
        self._numbers += 1
        key = (label.actor, label.cause, label.what)
        nth = self._children[key] = self._children.get(key, 0) + 1
        name = digest(self.stretch, nth, label.actor, label.cause.value, label.what)
        made = Choice(self, label, self.now + duration, self._numbers, name, self.stretch)
        self._pending[made] = None
        return made

    def cancel(self, event: simpy.Event) -> None:
        """Cancel a choice; no effect after it has come."""
        if isinstance(event, Choice) and event.callbacks is not None:
            event.callbacks.clear()
            event.cancelled = True
            self._pending.pop(event, None)

    def run(self, until: float | simpy.Event | None = None) -> Any:
        """Run as time decides: to a moment, to an event, or until no event is left."""
        while True:
            self.settle()
            if isinstance(until, simpy.Event) and until.processed:
                if not until.ok:
                    raise cast("BaseException", until.value)
                return until.value
            options = self.enabled()
            if not options:
                if isinstance(until, simpy.Event):
                    raise RuntimeError("nothing can happen any more, and this has not")
                return None
            if isinstance(until, int | float) and options[0].due > until:
                self._advance_to(float(until))
                return None
            self.fire(options[0])

    # -- choosing ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Process all events without a label."""
        queue, step = self.env._queue, self.env.step
        while queue:
            step()

    def enabled(self) -> list[Choice]:
        """Return the choices that may come next, in the order of time; launches and then slow ones come last.

        Timers are included only if no other choice is possible, and then only the earliest.
        """
        results = []
        timer: Choice | None = None
        for one in self._pending:
            if not one.callbacks:
                continue
            if not one.is_timer:
                results.append(one)
            elif timer is None or (one.due, one.number) < (timer.due, timer.number):
                timer = one
        if not results:
            return [] if timer is None else [timer]
        results.sort(key=_order)
        return results

    def timers(self) -> list[Choice]:
        """Return the timers that have waiters, earliest first."""
        return sorted((one for one in self._pending if one.callbacks and one.is_timer), key=_order)

    def fire(self, option: Option) -> dict[str, int]:
        """Let an option happen with all unlabelled events that follow; return the objects that it has read and
        changed.
        """
        self._children = {}
        self.stretch = option.name
        if isinstance(option, Strike):
            nth = self._strikes[option.name] = self._strikes.get(option.name, 0) + 1
            self.stretch = option.name if nth == 1 else digest(option.name, nth)
        seen = self.seen = {}
        if isinstance(option, Choice):
            del self._pending[option]
            self._advance_to(option.due)
            seen.update(_label_accesses(option.label))
            option.succeed()
        else:
            seen.update(dict.fromkeys(option.touches, WRITE))
            option.act()
        self.settle()
        self.seen = {}  # reads from outside do not count
        self.state = (self.state + self._causal_digest(option.name, seen)) & _MASK
        return seen

    def _advance_to(self, moment: float) -> None:
        if moment > self.env._now:
            self.env._now = moment

    def _record_access(self, what: str, changed: bool) -> None:
        """Note that an object is read or changed."""
        if changed:
            self.seen[what] = WRITE
        else:
            self.seen.setdefault(what, READ)

    def _causal_digest(self, name: int, seen: dict[str, int]) -> int:
        """Return the digest of a stretch and of all earlier stretches on which it depends."""
        before: set[int] = set()
        readers, writers = self._readers, self._writers
        for what, how in seen.items():
            if what in writers:
                before.add(writers[what])
            if how == WRITE:
                before.update(readers.get(what, ()))
        result = digest(name, sorted(before))
        for what, how in seen.items():
            if how == WRITE:
                writers[what] = result
                readers.pop(what, None)
            else:
                readers.setdefault(what, {})[result] = None
        return result


_MASK = (1 << 64) - 1


def _order(one: Choice) -> tuple[bool, bool, float, int]:
    return one.slow, one.label.cause is Cause.LAUNCH, one.due, one.number


def passed_over(options: Sequence[Option], at: int) -> list[Choice]:
    """Return the choices that were due before the chosen one and are not slow yet."""
    if isinstance(options[at], Strike):
        return []
    return [one for one in options[:at] if isinstance(one, Choice) and not one.slow]


def _label_accesses(label: Label) -> dict[str, int]:
    """Return the objects on which a stretch depends according to its label."""
    seen = {f"actor {label.actor}": WRITE, ALL: READ}
    for place in _processes(label.actor):
        seen[f"process {place}"] = READ
    for place in label.touches:
        seen[f"node {place}"] = READ
        if label.cause is Cause.RESTART:
            seen[f"door of {place}"] = WRITE
        elif label.cause is Cause.MESSAGE:
            seen[f"door of {place}"] = READ
    if not label.touches or label.cause in TIMERS:
        seen[ALL] = WRITE
    return seen


def _processes(actor: str) -> list[str]:
    """Return the process of an actor: ``coordinator:c:1:7`` is a part of ``coordinator:c:1``."""
    parts = actor.split(":")
    return [":".join(parts[:3])] if len(parts) > 2 else []


def depend(one: dict[str, int], other: dict[str, int]) -> bool:
    """Whether two stretches depend on each other, so that their order may matter."""
    if len(other) < len(one):
        one, other = other, one
    return any(how + other.get(what, 0) > WRITE for what, how in one.items() if what in other)
