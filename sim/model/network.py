"""The network between nodes in virtual time: delays in both directions, cuts, silence.

This module does not know the content of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import TypeVar

import simpy

from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import Cause, Delay, Label, ModelTiming, RequestLostError, Steps
from twopc.sim.model.wire import ServedSession, Unconnected, Wire

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestWatch:
    """A watch for the answer to a request."""

    here: str
    """The client: an end of the connection, or the beginning of its name."""
    there: str
    words: str
    """Text that the request contains."""
    answered: Callable[[str], Steps[bool]]
    """Called when the answer exists but is not sent; True makes it lost."""

    def fits(self, wire: Wire, what: str) -> bool:
        """Whether a request matches the watch."""
        return _is_part_of(wire.here, self.here) and wire.there == self.there and self.words in what


class Network:
    """The network between the nodes.

    Args:
        answer_timeout_s: seconds without an answer after which a connection is closed.
    """

    def __init__(
        self, kernel: SimpyKernel, timing: ModelTiming, *, answer_timeout_s: float = 30.0
    ) -> None:
        self.kernel = kernel
        self.timing = timing
        self.answer_timeout_s = answer_timeout_s
        self.wires: dict[Wire, None] = {}
        """Open connections, in the order of opening."""
        self._refused: set[tuple[str, str]] = set()
        self._silent: set[tuple[str, str]] = set()
        self._paused: dict[str, simpy.Event] = {}
        self._shut: dict[str, None] = {}
        self._half_closed: list[Wire] = []
        """Connections closed by clients, of which the servers cannot be notified yet."""
        self.watches: list[RequestWatch] = []
        """Watches for answers; see `watch`."""
        self.troubled = False
        """Whether a cut, silence, pause or watch exists; otherwise `travel` and `awake` can be skipped."""

    def _update_troubled(self) -> None:
        self.troubled = bool(
            self._refused or self._silent or self._shut or self._paused or self.watches
        )

    def connect(
        self, here: str, there: str, actor: str, open_: Callable[[], ServedSession]
    ) -> Steps[Wire]:
        """Open a connection: one message there and back. Raise RequestLostError, and the errors of `open_`."""
        touches = frozenset((there,))
        made = Wire(self, here, there, Unconnected(), actor)
        self.wires[made] = None
        opened: list[ServedSession] = []

        def at_once() -> Steps[ServedSession]:
            opened.append(open_())
            return opened[0]
            yield  # makes this a generator

        try:
            made.served = yield from made.ask(at_once, "connect", touches)
        except BaseException:
            self.wires.pop(made, None)
            for served in opened:  # the client does not know the session
                served.close()
            raise
        return made

    def travel(
        self, wire: Wire, source: str, target: str, what: str, cause: Cause, touches: frozenset[str]
    ) -> Steps[None]:
        """Wait while a message travels. Raise RequestLostError if it does not arrive."""
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
        """Close a connection for its client; the server notices as soon as messages travel."""
        if self.troubled and not self.reaches(wire.here, wire.there):
            self._half_closed.append(wire)
        else:
            wire.served.close()

    def reaches(self, source: str, target: str) -> bool:
        """Whether messages arrive in both directions."""
        pairs = {(source, target), (target, source)}
        return not (pairs & self._refused or pairs & self._silent)

    def between(self, source: str, target: str) -> Delay:
        """Return the delay of a message."""
        links = self.timing.links
        if not links:
            return self.timing.message
        result = links.get(f"{source}-{target}") or links.get(f"{target}-{source}")
        return result or self.timing.message

    # -- faults ------------------------------------------------------------------------------------

    def cut(self, one: str, other: str, *, one_way: bool = False, silent: bool = False) -> None:
        """Stop messages from `one` to `other`, and back unless `one_way`.

        If `silent`, connections stay but are not answered. Otherwise they break at once, and new ones are refused.
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
        """Let messages travel again, over new connections; idempotent."""
        for pair in ((one, other), (other, one)):
            self._refused.discard(pair)
            self._silent.discard(pair)
        self._update_troubled()
        left, self._half_closed = self._half_closed, []
        for wire in left:
            self.leave(wire)

    def shut(self, name: str) -> None:
        """Refuse connections to a node and break those that exist; the node goes on. Idempotent."""
        self._shut[name] = None
        self.troubled = True
        for wire in [*self.wires]:
            if wire.there == name:
                wire.break_(f"{name} refuses connections")

    def open(self, name: str) -> None:
        """Accept connections to a node again; idempotent."""
        self._shut.pop(name, None)
        self._update_troubled()

    def watch(self, watch: RequestWatch) -> None:
        """Watch for the next answer to a matching request."""
        self.watches.append(watch)
        self.troubled = True

    def notify_watches(self, wire: Wire, what: str) -> Steps[None]:
        """Notify the watches of an answer that is about to travel.

        Raise RequestLostError if the answer is lost, and the connection with it.
        """
        results = [one for one in self.watches if one.fits(wire, what)]
        self.watches = [one for one in self.watches if one not in results]
        self._update_troubled()
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
        """Break all connections from and to a node that went down."""
        for wire in [*self.wires]:
            if name in (wire.here, wire.there):
                wire.break_(f"{name} went down")

    def pause(self, actor: str) -> None:
        """Stop a client (SIGSTOP): its connections stay, but it does not process answers."""
        self._paused.setdefault(actor, self.kernel.event())
        self.troubled = True

    def go_on(self, actor: str) -> None:
        """Continue a client, which then processes answers; no effect if it was not paused."""
        event = self._paused.pop(actor, None)
        self._update_troubled()
        if event is not None:
            event.succeed()

    def awake(self, actor: str) -> Steps[None]:
        """Wait until a client is not paused."""
        while name := next((one for one in self._paused if _is_part_of(actor, one)), ""):
            # they go on in the order in which they began to wait
            if self.kernel.record_access is not None:
                self.kernel.record_access(f"pause of {name}", True)
            yield self._paused[name]

    def client_lost(self, actor: str, killed: Container[simpy.Process] = ()) -> None:
        """Break the connections of a client that was killed; `killed` are its interrupted processes."""
        for wire in [*self.wires]:
            if _is_part_of(wire.actor, actor):
                wire.break_("its client was killed", killed)


def _is_part_of(actor: str, whole: str) -> bool:
    """Whether an actor is `whole` or a part of it."""
    return actor == whole or actor.startswith(f"{whole}:")
