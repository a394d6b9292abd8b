"""One connection: a request, its execution at the other end, and the answer.

As with TCP, messages arrive in order and are lost only with the connection; a request may then have been executed
or not. A
server completes a request that it has begun even if the client has gone. This module does not know the content of
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import simpy

from twopc.sim.model.values import Cause, Label, RequestLostError, Steps

if TYPE_CHECKING:
    from twopc.sim.model.network import Network

T = TypeVar("T")
#: Cause of an interrupt that kills a process.
KILLED = "killed"
_MESSAGE, _REPLY = Cause.MESSAGE, Cause.REPLY


class ServedSession(Protocol):
    """The session at the other end of a connection."""

    def close(self) -> None:
        """Note that the client has gone: an open transaction is rolled back once the session is not busy.
        Idempotent.
        """
        ...


class Unconnected:
    """The other end of a connection that is being opened."""

    def close(self) -> None:
        """Do nothing."""


class Wire:
    """One connection. A client that waits for an answer may be killed: the server notices after executing the
    request.

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
        self.search_name = f"wire of {actor} to {there} {network.kernel.stretch}"
        self.belongs_to(actor)
        self._lost = ""
        self._waiting: simpy.Process | None = None
        """The process that waits for an answer."""
        self._serving = False
        """Whether the other end is executing a request."""

    @property
    def lost(self) -> str:
        """Reason why the connection is lost; empty while it is open."""
        if self.kernel.record_access is not None:
            self.kernel.record_access(f"node {self.there}", False)
        return self._lost

    @lost.setter
    def lost(self, why: str) -> None:
        self._lost = why

    def alive(self) -> bool:
        """Whether the connection is open."""
        return not self.lost

    @property
    def waiting(self) -> bool:
        """Whether a process waits for an answer."""
        return self._waiting is not None

    def belongs_to(self, actor: str) -> None:
        """Set the actor of further requests."""
        self.actor = actor
        self._request = Label(actor, _MESSAGE, f"a message → {self.there}")
        self._reply = Label(actor, _REPLY, f"an answer → {self.here}")

    def ask(self, work: Callable[[], Steps[T]], what: str, touches: frozenset[str]) -> Steps[T]:
        """Have the other end perform a request; return its result. Raise its errors, or RequestLostError."""
        network, kernel = self._network, self.kernel
        record_access = kernel.record_access
        if record_access is not None:
            record_access(f"node {self.there}", False)
        if self._lost:
            raise RequestLostError(self._lost)
        self._waiting = kernel.env.active_process
        error: Exception | None = None
        value: Any = None
        try:
            if network.troubled:
                yield from network.travel(self, self.here, self.there, what, _MESSAGE, touches)
            else:
                label = self._request_label(what, touches) if kernel.labelled else self._request
                yield kernel.delay(self._way_there, label)
            # The other end works; if the waiting process is interrupted, the work goes on in a process of its own.
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
                if record_access is not None:
                    self._notify_work(changed=True)
                try:
                    value = yield event
                    step = steps.send
                except simpy.Interrupt:
                    self._notify_work(changed=True)
                    kernel.spawn(self._complete(steps, event), f"{self.actor} at {self.there}")
                    raise
                except BaseException as raised:
                    step, value = steps.throw, raised
                if record_access is not None:
                    self._notify_work(changed=False)
            self._serving = False
            if isinstance(error, RequestLostError):
                self._lost = str(error)
                raise error
            if network.troubled:
                if network.watches:
                    yield from network.notify_watches(self, what)
                yield from network.travel(self, self.there, self.here, what, _REPLY, touches)
                yield from network.awake(self.actor)
            else:
                label = self._reply_label(what, touches) if kernel.labelled else self._reply
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

    def _notify_work(self, *, changed: bool) -> None:
        """Notify the search that the other end continues with the request, or has lost the client."""
        if self.kernel.record_access is not None:
            self.kernel.record_access(self.search_name, changed)

    def _request_label(self, what: str, touches: frozenset[str]) -> Label:
        return Label(self.actor, _MESSAGE, f"{what} → {self.there}", touches | self._near)

    def _reply_label(self, what: str, touches: frozenset[str]) -> Label:
        return Label(self.actor, _REPLY, f"{what} → {self.here}", touches | self._near)

    def _interrupted(self, interrupt: simpy.Interrupt) -> Exception:
        """Clean up after an interrupt of the waiting process, and return the exception to raise."""
        was_cut = bool(self._lost) and interrupt.cause != KILLED
        self._lost = self._lost or "its client was killed"
        self._network.wires.pop(self, None)
        if not self._serving:
            self.served.close()
        return RequestLostError(self._lost) if was_cut else interrupt

    def _complete(self, work: Steps[Any], event: simpy.Event) -> Steps[None]:
        """Complete a request whose client has gone."""
        value: Any = None
        failed: BaseException | None = None
        try:
            while True:
                value, failed = None, None
                try:
                    value = yield event
                except Exception as raised:
                    failed = raised
                self._notify_work(changed=False)
                event = work.send(value) if failed is None else work.throw(failed)
        except StopIteration:
            pass
        except Exception:  # there is no client to report the error to
            pass
        finally:
            self.served.close()

    def break_(self, why: str, killed: Container[simpy.Process] = ()) -> None:
        """Break the connection, which both ends notice at once; idempotent.

        Args:
            killed: processes that were killed, and so notice nothing.
        """
        if self._lost:
            return
        self._lost = why
        waiting = self._waiting
        if waiting is not None and waiting in killed:
            pass  # already interrupted, and closes its own connections
        elif waiting is not None and waiting.is_alive:
            waiting.interrupt(why)  # the request in progress is completed
        else:
            self.served.close()
        self._network.wires.pop(self, None)

    def close(self) -> None:
        """Close the connection for the client."""
        if self.kernel.record_access is not None:
            self.kernel.record_access(f"node {self.there}", False)
        if not self._lost:
            self._lost = "closed"
            self._network.wires.pop(self, None)
            self._network.leave(self)
