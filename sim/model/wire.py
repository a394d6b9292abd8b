"""One connection: a question, what is done for it at the other end, and its answer.

It is TCP: in order, and nothing is lost in it but with the connection itself; then what was asked was done or not.
What a server has begun it ends, although nobody waits for the answer any more. It must not know what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import simpy

from twopc.sim.model.values import Cause, Label, RequestLostError, Steps

if TYPE_CHECKING:
    from twopc.sim.model.network import Network

T = TypeVar("T")
#: Why a process is interrupted that is to end at once.
KILLED = "killed"
_MESSAGE, _REPLY = Cause.MESSAGE, Cause.REPLY


class ServedSession(Protocol):
    """What is at the other end: a session of a node."""

    def close(self) -> None:
        """The client has gone: what is open is rolled back once it is not busy. Idempotent."""
        ...


class Unconnected:
    """Not connected yet."""

    def close(self) -> None:
        """There is nothing."""


class Wire:
    """One connection. Who waits for an answer may be killed: the other end notices when it has done what was asked.

    Args:
        here, there: names of the ends.
        served: the session at the other end.
    """

    def __init__(
        self, network: Network, here: str, there: str, served: ServedSession, actor: str
    ) -> None:
        self._network = network
        self.kernel = network.kernel
        self.here = here
        self.there = there
        self.served = served
        self._near = frozenset((here,))
        self._way_there = network.between(here, there).given
        self._way_back = network.between(there, here).given
        self.called = f"wire of {actor} to {there} {network.kernel.stretch}"
        self.belongs_to(actor)
        self.lost = ""
        """Why it is gone; empty while it is not."""
        self._waiting: simpy.Process | None = None
        """Who waits for an answer."""
        self._serving = False
        """The other end is doing what was asked."""

    @property
    def waiting(self) -> bool:
        """Somebody waits for an answer."""
        return self._waiting is not None

    def belongs_to(self, actor: str) -> None:
        """Whoever asks from now on."""
        self.actor = actor
        self._asking = Label(actor, _MESSAGE, f"a message → {self.there}")
        self._replying = Label(actor, _REPLY, f"an answer → {self.here}")

    def ask(self, work: Callable[[], Steps[T]], what: str, touches: frozenset[str]) -> Steps[T]:
        """Have the other end do something: what it returns or raises, or LostError."""
        network, kernel = self._network, self.kernel
        watch = kernel.watch
        if watch is not None:
            watch(f"node {self.there}", False)
        if self.lost:
            raise RequestLostError(self.lost)
        self._waiting = kernel.env.active_process
        error: Exception | None = None
        value: Any = None
        try:
            if network.troubled:
                yield from network.travel(self, self.here, self.there, what, _MESSAGE, touches)
            else:
                label = self._to(what, touches) if kernel.labelled else self._asking
                yield kernel.delay(self._way_there, label)
            # The other end does it; if whoever waits is interrupted, it goes on by itself.
            self._serving = True
            steps = work()
            step: Callable[[Any], simpy.Event] = steps.send
            while True:
                try:
                    event = step(value)
                except StopIteration as end:
                    value = end.value
                    break
                except simpy.Interrupt:
                    self._serving = False
                    raise
                except Exception as raised:
                    error = raised
                    break
                except BaseException:
                    self._serving = False
                    raise
                if watch is not None:
                    self._worked(changed=True)
                try:
                    value = yield event
                    step = steps.send
                except simpy.Interrupt:
                    self._worked(changed=True)
                    kernel.spawn(self._alone(steps, event), f"{self.actor} at {self.there}")
                    raise
                except BaseException as raised:
                    step, value = steps.throw, raised
                if watch is not None:
                    self._worked(changed=False)
            self._serving = False
            if isinstance(error, RequestLostError):
                self.lost = str(error)
                raise error
            if network.troubled:
                if network.watches:
                    yield from network.answered(self, what)
                yield from network.travel(self, self.there, self.here, what, _REPLY, touches)
                yield from network.awake(self.actor)
            else:
                label = self._back(what, touches) if kernel.labelled else self._replying
                yield kernel.delay(self._way_back, label)
                if network.troubled:
                    yield from network.awake(self.actor)
        except simpy.Interrupt as interrupt:
            raise self._interrupted(interrupt) from None
        finally:
            self._waiting = None
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return] # what `work` returns

    def _worked(self, *, changed: bool) -> None:
        """The other end continues with the request, or has lost the requester: the search is notified."""
        if self.kernel.watch is not None:
            self.kernel.watch(self.called, changed)

    def _to(self, what: str, touches: frozenset[str]) -> Label:
        return Label(self.actor, _MESSAGE, f"{what} → {self.there}", touches | self._near)

    def _back(self, what: str, touches: frozenset[str]) -> Label:
        return Label(self.actor, _REPLY, f"{what} → {self.here}", touches | self._near)

    def _interrupted(self, interrupt: simpy.Interrupt) -> Exception:
        """Whoever waited for an answer waits no more: what that is for him."""
        was_cut = bool(self.lost) and interrupt.cause != KILLED
        self.lost = self.lost or "its client was killed"
        self._network.wires.pop(self, None)
        if not self._serving:
            self.served.close()
        return RequestLostError(self.lost) if was_cut else interrupt

    def _alone(self, work: Steps[Any], event: simpy.Event) -> Steps[None]:
        """The rest of what nobody waits for."""
        value: Any = None
        failed: BaseException | None = None
        try:
            while True:
                value, failed = None, None
                try:
                    value = yield event
                except Exception as raised:
                    failed = raised
                self._worked(changed=False)
                event = work.send(value) if failed is None else work.throw(failed)
        except StopIteration:
            pass
        except Exception:  # nobody is told what it raised
            pass
        finally:
            self.served.close()

    def break_(self, why: str, killed: Container[simpy.Process] = ()) -> None:
        """Both ends notice at once that it is gone; idempotent.

        Args:
            killed: who does not notice anything any more.
        """
        if self.lost:
            return
        self.lost = why
        waiting = self._waiting
        if waiting is not None and waiting in killed:
            pass  # it was told to end, and closes what it leaves
        elif waiting is not None and waiting.is_alive:
            waiting.interrupt(why)  # what is being done there ends by itself
        else:
            self.served.close()
        self._network.wires.pop(self, None)

    def close(self) -> None:
        """The client goes."""
        if self.kernel.watch is not None:
            self.kernel.watch(f"node {self.there}", False)
        self._gone("closed")

    def _gone(self, why: str) -> None:
        if not self.lost:
            self.lost = why
            self._network.wires.pop(self, None)
            self._network.leave(self)
