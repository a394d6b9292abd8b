"""What lies between nodes in virtual time: delays both ways, cuts, silence.

It must not know what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import TypeVar

import simpy

from twopc.sim.model.ports import Kernel
from twopc.sim.model.values import Cause, Delay, Label, ModelTiming, RequestLostError, Steps
from twopc.sim.model.wire import ServedSession, Unconnected, Wire

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestWatch:
    """Somebody waits for the answer to a request."""

    here: str
    """Who has asked: an end of the connection, or the beginning of its name."""
    there: str
    words: str
    """In what was asked."""
    answered: Callable[[str], Steps[bool]]
    """Called when the answer is there and has not set out; True: it is lost."""

    def fits(self, wire: Wire, what: str) -> bool:
        """Whether this is the answer."""
        return _is_of(wire.here, self.here) and wire.there == self.there and self.words in what


class Network:
    """What lies between the nodes.

    Args:
        answer_timeout_s: after so long without an answer a connection is given up.
    """

    def __init__(
        self, kernel: Kernel, timing: ModelTiming, *, answer_timeout_s: float = 30.0
    ) -> None:
        self.kernel = kernel
        self.timing = timing
        self.answer_timeout_s = answer_timeout_s
        self.wires: dict[Wire, None] = {}
        """Those that are open, in the order of their opening."""
        self._refused: set[tuple[str, str]] = set()
        self._silent: set[tuple[str, str]] = set()
        self._asleep: dict[str, simpy.Event] = {}
        self._shut: dict[str, None] = {}
        self._left: list[Wire] = []
        """Given up by clients whose servers cannot notice it yet."""
        self.watches: list[RequestWatch] = []
        """Who waits for answers; see `watch`."""
        self.troubled = False
        """Something is cut, silent or asleep; while nothing is, `travel` and `awake` need not be asked."""

    def _look_again(self) -> None:
        self.troubled = bool(
            self._refused or self._silent or self._shut or self._asleep or self.watches
        )

    def connect(
        self, here: str, there: str, actor: str, open_: Callable[[], ServedSession]
    ) -> Steps[Wire]:
        """A new connection: one message there and back. LostError, and what `open_` raises."""
        touches = frozenset((there,))
        made = Wire(self, here, there, Unconnected(), actor)
        self.wires[made] = None
        opened: list[ServedSession] = []

        def at_once() -> Steps[ServedSession]:
            opened.append(open_())
            return opened[0]
            yield  # it is a generator

        try:
            made.served = yield from made.ask(at_once, "connect", touches)
        except BaseException:
            self.wires.pop(made, None)
            for served in opened:  # nobody has heard of it
                served.close()
            raise
        return made

    def travel(
        self, wire: Wire, source: str, target: str, what: str, cause: Cause, touches: frozenset[str]
    ) -> Steps[None]:
        """A message on its way; LostError if it does not arrive."""
        if (source, target) in self._refused or target in self._shut:
            wire.lost = f"{target} cannot be reached from {source}"
            wire.served.close()
            self.wires.pop(wire, None)
            raise RequestLostError(wire.lost)
        label = Label(
            actor=wire.actor, cause=cause, what=f"{what} → {target}",
            touches=touches | {wire.here},
        )  # fmt: skip
        if (source, target) in self._silent:
            silence = Label(
                actor=wire.actor, cause=Cause.TIMER, what=f"no answer from {wire.there}"
            )
            yield self.kernel.delay(self.answer_timeout_s, silence)
            wire.lost = f"no answer from {wire.there} for {self.answer_timeout_s:g} s"
            self.wires.pop(wire, None)
            self.leave(wire)
            raise RequestLostError(wire.lost)
        yield self.kernel.delay(self.between(source, target), label)

    def leave(self, wire: Wire) -> None:
        """A client has given a connection up: its server notices as soon as messages travel."""
        if self.troubled and not self.reaches(wire.here, wire.there):
            self._left.append(wire)
        else:
            wire.served.close()

    def reaches(self, source: str, target: str) -> bool:
        """Messages arrive, there and back."""
        pairs = {(source, target), (target, source)}
        return not (pairs & self._refused or pairs & self._silent)

    def between(self, source: str, target: str) -> Delay:
        """How long a message takes."""
        links = self.timing.links
        if not links:
            return self.timing.message
        result = links.get(f"{source}-{target}") or links.get(f"{target}-{source}")
        return result or self.timing.message

    # -- faults ------------------------------------------------------------------------------------

    def cut(self, one: str, other: str, *, one_way: bool = False, silent: bool = False) -> None:
        """No messages from `one` to `other`, and none back unless it is cut one way.

        Silent: connections stay, and nobody answers. Else they break at once, and new ones are refused.
        """
        pairs = [(one, other)] if one_way else [(one, other), (other, one)]
        if silent:
            self._silent.update(pairs)
            self.troubled = True
            return
        self._refused.update(pairs)
        self.troubled = True
        for wire in [*self.wires]:
            if {wire.here, wire.there} == {one, other}:
                wire.break_(f"the connection from {wire.here} to {wire.there} was cut")

    def heal(self, one: str, other: str) -> None:
        """Messages travel again, over new connections; idempotent."""
        for pair in ((one, other), (other, one)):
            self._refused.discard(pair)
            self._silent.discard(pair)
        self._look_again()
        left, self._left = self._left, []
        for wire in left:
            self.leave(wire)

    def shut(self, name: str) -> None:
        """A node lets nobody in any more, and ends the connections to it; it goes on. Idempotent."""
        self._shut[name] = None
        self.troubled = True
        for wire in [*self.wires]:
            if wire.there == name:
                wire.break_(f"{name} lets nobody in")

    def open(self, name: str) -> None:
        """It accepts connections again; idempotent."""
        self._shut.pop(name, None)
        self._look_again()

    def watch(self, watch: RequestWatch) -> None:
        """Wait for the next answer to what fits."""
        self.watches.append(watch)
        self.troubled = True

    def answered(self, wire: Wire, what: str) -> Steps[None]:
        """An answer is about to travel; LostError if it is lost, and the connection with it."""
        results = [one for one in self.watches if one.fits(wire, what)]
        self.watches = [one for one in self.watches if one not in results]
        self._look_again()
        lost = False
        for one in results:
            lost |= yield from one.answered(what)
        if lost:
            wire.lost = f"the answer from {wire.there} was lost"
            wire.served.close()
            self.wires.pop(wire, None)
            raise RequestLostError(wire.lost)

    def partition(self, parts: Iterable[Iterable[str]]) -> None:
        """Cut every link between nodes of different parts."""
        groups = [sorted(part) for part in parts]
        for place, group in enumerate(groups):
            for others in groups[place + 1 :]:
                for one in group:
                    for other in others:
                        self.cut(one, other)

    def node_lost(self, name: str) -> None:
        """A node went down: its connections break, those from it and those to it."""
        for wire in [*self.wires]:
            if name in (wire.here, wire.there):
                wire.break_(f"{name} went down")

    def pause(self, actor: str) -> None:
        """A client stops where it is (SIGSTOP): its connections stay, and it does not look at answers."""
        self._asleep.setdefault(actor, self.kernel.event())
        self.troubled = True

    def go_on(self, actor: str) -> None:
        """It looks at what has arrived meanwhile; harmless if it was not paused."""
        event = self._asleep.pop(actor, None)
        self._look_again()
        if event is not None:
            event.succeed()

    def awake(self, actor: str) -> Steps[None]:
        """Until the client is not paused."""
        while event := next(
            (one for name, one in self._asleep.items() if _is_of(actor, name)), None
        ):
            yield event

    def client_lost(self, actor: str, killed: Container[simpy.Process] = ()) -> None:
        """A client was killed, and these processes of it interrupted: the other ends of its connections notice."""
        for wire in [*self.wires]:
            if _is_of(wire.actor, actor):
                wire.break_("its client was killed", killed)


def _is_of(actor: str, whole: str) -> bool:
    """It is the whole, or a part of it."""
    return actor == whole or actor.startswith(f"{whole}:")
