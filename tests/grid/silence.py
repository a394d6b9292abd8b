"""M7, M8: Faults of the network: a connection is silent, or a message is torn in its middle.

A connection is silent in both directions or in one.

All connections between the coordinator and a node lead through one proxy
(`twopc.sim.faults.wires`), which a separate thread serves, since cells are played without an
event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from tests.grid.faults import Fault
from tests.grid.process import CoordinatorProcess
from tests.grid.program import Task
from tests.grid.rig import LOG, NODES, PUBLISHER, SUBSCRIBER, Rig
from twopc.drivers import ParticipantAddress
from twopc.sim.faults.wires import ServerWire

T = TypeVar("T")

#: Time without an answer after which a coordinator gives up a connection through a proxy.
ANSWER_TIMEOUT_S = 2.5


class Wires:
    """A proxy for each node; a context manager that closes them."""

    def __init__(self, rig: Rig) -> None:
        self._dsns = {
            node: (rig.node(node).coordinator_dsn, rig.node(node).app_dsn) for node in NODES
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._wires: dict[str, ServerWire] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        for node, (dsn, _) in self._dsns.items():
            self._wires[node] = ServerWire(dsn)
            self._done(self._wires[node].open())
        return self

    def __exit__(self, *_: object) -> None:
        for wire in self._wires.values():
            self._done(wire.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _done(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def at(self, node: str, do: Callable[[ServerWire], None]) -> None:
        """Apply a function to the proxy of a node."""

        async def done() -> None:
            do(self._wires[node])

        self._done(done())

    def led(self, task: Task) -> Task:
        """Return the task, with addresses that lead through the proxies."""
        return replace(
            task,
            distribution=self._wires[LOG].through(task.distribution),
            publisher=self._address(task.publisher),
            subscriber=self._address(task.subscriber),
            answer_timeout_s=ANSWER_TIMEOUT_S,
        )

    def _address(self, address: ParticipantAddress) -> ParticipantAddress:
        wire = self._wires[address.name]
        return ParticipantAddress(
            name=address.name,
            dsn=wire.through(address.dsn),
            application_dsn=wire.through(address.application_dsn),
        )


class _Struck:
    """A fault of one proxy."""

    def __init__(self, node: str, do: Callable[[ServerWire], None]) -> None:
        self._node = node
        self._do = do
        self._wires: Wires | None = None

    def lead(self, rig: Rig, task: Task) -> Task:
        """Lead a task's connections through proxies, until `end`."""
        self._wires = Wires(rig).__enter__()
        return self._wires.led(task)

    def strike(self, rig: Rig, process: CoordinatorProcess) -> bool:
        """Apply the fault to the proxy."""
        assert self._wires is not None
        self._wires.at(self._node, self._do)
        return True

    def heal(self, rig: Rig, process: CoordinatorProcess) -> None:
        """Let all messages through again."""
        assert self._wires is not None
        self._wires.at(self._node, ServerWire.mend)

    def end(self) -> None:
        """Close the proxies."""
        wires, self._wires = self._wires, None
        if wires is not None:
            wires.__exit__(None, None, None)


_WAYS = {
    "silent": (True, True),
    "silent, what is asked": (True, False),
    "silent, what is answered": (False, True),
}
_TORN = {"request": (True, False), "answer": (False, True)}
_NAMES = {PUBLISHER: "the Publisher", SUBSCRIBER: "the Subscriber", LOG: "the decision log"}


def _fault(row: str, name: str, node: str, do: Callable[[ServerWire], None]) -> Fault:
    struck = _Struck(node, do)
    return Fault(
        name=name, row=row, strike=struck.strike, heal=struck.heal, lead=struck.lead, end=struck.end
    )


SILENCE = (
    *(
        _fault(
            "M7",
            f"the next {word} torn, {_NAMES[node]}",
            node,
            partial(ServerWire.tear, requests=requests, answers=answers),
        )
        for node in NODES
        for word, (requests, answers) in _TORN.items()
    ),
    *(
        _fault(
            "M8",
            f"{_NAMES[node]} {word}",
            node,
            partial(ServerWire.swallow, requests=requests, answers=answers),
        )
        for node in NODES
        for word, (requests, answers) in _WAYS.items()
    ),
)
