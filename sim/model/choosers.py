"""Time in which somebody chooses what happens next: the kernel of exploration.

Every labelled delay is a choice. What has no label (a lock that is granted, a process that ends) happens at once,
in the order in which it became due; all of it up to the next choice is one *stretch*. A stretch is told by what
brought it about, not by when it happened, so that equal stretches of two runs have equal names.

It must not know what a system is, nor what is looked for.
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

#: Only when nothing else can happen, and then the earliest of them.
TIMERS = frozenset((Cause.TIMER, Cause.LOCK_TIMEOUT, Cause.DEADLOCK, Cause.POLL, Cause.PAUSE))
#: Object of what may concern everything.
ALL = "*"
READ, WRITE = 1, 2


class Choice(simpy.Event):
    """A labelled delay that is under way.

    Attributes:
        name: what it is and what brought it about: equal in equivalent runs.
        maker: the name of what brought it about.
        due: when it would come if time decided.
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
        """Others were chosen before it: it comes after all that is not slow."""

    @property
    def is_timer(self) -> bool:
        """It comes only when nothing else can."""
        return self.label.cause in TIMERS

    def __str__(self) -> str:
        return wording(self.label)


#: Of an event and what it has looked at and changed.
Absorbs = Callable[["Choice", Mapping[str, int]], bool]


class Strike:
    """Something that may go wrong now: a choice, too.

    Args:
        what: in words.
        act: does it.
        touches: what it writes.
        do: what a fault of a scenario says that does this; empty if none can.
        absorbs: whether it leaves nothing of an event that came just before it, so that it might as well have
            come before that one.
        on: what it strikes, where words do not tell that: equal in equivalent runs, and of no two at a time.
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
    """Says what happens next."""

    def choose(self, options: Sequence[Option]) -> int:
        """The place of one; the first is what would happen if time decided."""
        ...


class TimeChooser:
    """As time would decide."""

    def choose(self, options: Sequence[Option]) -> int:
        """The first."""
        return 0


class SeededChooser:
    """By chance.

    Args:
        random: its chance.
        often: how often something else than the first happens, of one.
    """

    def __init__(self, random: Any, often: float = 0.3) -> None:
        self._random = random
        self._often = often

    def choose(self, options: Sequence[Option]) -> int:
        """Mostly the first."""
        if len(options) > 1 and self._random.random() < self._often:
            return int(self._random.randrange(1, len(options)))
        return 0


class ReplayChooser:
    """As written down; afterwards as time would decide."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._left = list(reversed(choices))

    def choose(self, options: Sequence[Option]) -> int:
        """The next that is written down."""
        return self._left.pop() if self._left else 0


def digest(*parts: object) -> int:
    """A number that is the same in every process."""
    raw = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(raw, "big")


@functools.lru_cache(maxsize=4096)
def _strike_name(what: str, on: str) -> int:
    return digest("strike", what, on)


_NUMBERS = re.compile(r"\b(?:pid|session) \d+")


def wording(label: Label) -> str:
    """A label in words, without numbers that only count."""
    return _NUMBERS.sub("a session", f"{label.actor}: {label.what}")


class ChoiceKernel(SimpyKernel):
    """See `twopc.sim.model.kernel.SimpyKernel`; here nothing happens before it is chosen.

    Args:
        seed: of every component's chance.
    """

    labelled = True

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.env = Environment()
        self._pending: dict[Choice, None] = {}
        self._numbers = 0
        self._children: dict[tuple[str, Cause, str], int] = {}
        """How often this stretch has brought about what is called so."""
        self._strikes: dict[int, int] = {}
        """How often what is called so went wrong."""
        self._stretch = 0
        """Name of what is happening."""
        self._clock = 0.0
        self.seen: dict[str, int] = {}
        """What this stretch has looked at (`READ`) and changed (`WRITE`)."""
        self._readers: dict[str, dict[int, None]] = {}
        self._writers: dict[str, int] = {}
        self.state = 0
        """Of the run so far, whatever the order of what is independent: equal in equivalent runs."""
        self.watch = self._watch

    # -- as `SimpyKernel` -------------------------------------------------------------------------------

    def delay(self, duration: Delay | float, label: Label) -> simpy.Event:
        """A choice, due when it would come."""
        if isinstance(duration, Delay):
            duration = self.draw(duration, label.actor)
        self._numbers += 1
        called = (label.actor, label.cause, label.what)
        nth = self._children[called] = self._children.get(called, 0) + 1
        name = digest(self._stretch, nth, label.actor, label.cause.value, label.what)
        made = Choice(self, label, self.now + duration, self._numbers, name, self._stretch)
        self._pending[made] = None
        return made

    def cancel(self, event: simpy.Event) -> None:
        """It is not wanted any more; harmless if it has come."""
        if isinstance(event, Choice) and event.callbacks is not None:
            event.callbacks.clear()
            event.cancelled = True
            self._pending.pop(event, None)

    def run(self, until: float | simpy.Event | None = None) -> Any:
        """Let things happen as time would decide: to a moment, to an event, or until nothing is left."""
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
                self._pass_to(float(until))
                return None
            self.fire(options[0])

    @property
    def stretch(self) -> int:
        """The name of what happened last."""
        return self._stretch

    # -- choosing ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """What has no label happens."""
        queue, step = self.env._queue, self.env.step
        while queue:
            step()

    def enabled(self) -> list[Choice]:
        """What may happen next, in the order in which time would decide: nobody begins anything before what was
        begun has come as far as it can.

        Timers only if nothing else can, and of them the earliest only: nobody is hurried.
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
        """The timers that somebody waits for, earliest first."""
        return sorted((one for one in self._pending if one.callbacks and one.is_timer), key=_order)

    def fire(self, option: Option) -> dict[str, int]:
        """Let it happen, and all that follows without a label; what that has looked at and changed."""
        self._children = {}
        self._stretch = option.name
        if isinstance(option, Strike):
            nth = self._strikes[option.name] = self._strikes.get(option.name, 0) + 1
            self._stretch = option.name if nth == 1 else digest(option.name, nth)
        seen = self.seen = {}
        if isinstance(option, Choice):
            del self._pending[option]
            self._pass_to(option.due)
            seen.update(_touched(option.label))
            option.succeed()
        else:
            seen.update(dict.fromkeys(option.touches, WRITE))
            option.act()
        self.settle()
        self.seen = {}  # who looks from outside changes nothing
        self.state = (self.state + self._cause_of(option.name, seen)) & _MASK
        return seen

    def _pass_to(self, moment: float) -> None:
        if moment > self.env._now:
            self.env._now = moment

    def _watch(self, what: str, changed: bool) -> None:
        """Something is looked at, or changed."""
        if changed:
            self.seen[what] = WRITE
        else:
            self.seen.setdefault(what, READ)

    def _cause_of(self, name: int, seen: dict[str, int]) -> int:
        """The name of a stretch with all that happened before and that it depends on."""
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
    """Whose turn it was before that of the one that is chosen, and that are not slow yet."""
    if isinstance(options[at], Strike):
        return []
    return [one for one in options[:at] if isinstance(one, Choice) and not one.slow]


def _touched(label: Label) -> dict[str, int]:
    """What the label says that its stretch depends on."""
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
    """``coordinator:c:1:7`` is a part of ``coordinator:c:1``."""
    parts = actor.split(":")
    return [":".join(parts[:3])] if len(parts) > 2 else []


def depend(one: dict[str, int], other: dict[str, int]) -> bool:
    """Whether the order of two stretches may matter."""
    if len(other) < len(one):
        one, other = other, one
    return any(how + other.get(what, 0) > WRITE for what, how in one.items() if what in other)
