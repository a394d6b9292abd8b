"""Tests of connections in virtual time: messages that arrive, that are lost, and requests that are executed."""

from __future__ import annotations

from typing import Any

import pytest
import simpy

from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.network import Network
from twopc.sim.model.values import (
    Cause,
    Delay,
    Label,
    ModelTiming,
    RequestLostError,
    SqlError,
    Steps,
)
from twopc.sim.model.wire import Wire

HERE, THERE = "app", "sub1"
TOUCHES = frozenset((THERE,))


class Server:
    """A server that records the requests that it executed and the times at which connections were closed."""

    def __init__(self, kernel: SimpyKernel) -> None:
        self.kernel = kernel
        self.done: list[tuple[float, str]] = []
        self.closed: list[float] = []

    def close(self) -> None:
        self.closed.append(self.kernel.now)

    def work(self, what: str, seconds: float = 1.0) -> Steps[str]:
        """Execute a request, which takes a while."""
        yield self.kernel.delay(seconds, Label(actor="server", cause=Cause.FLUSH, what=what))
        if what == "fail":
            raise SqlError("23505", "twice")
        self.done.append((self.kernel.now, what))
        return f"{what} done"


class World:
    """A client, a server and the network between them."""

    def __init__(self, **timing: Any) -> None:
        self.kernel = SimpyKernel()
        self.network = Network(
            self.kernel, ModelTiming(message=Delay(a=0.1), **timing), answer_timeout_s=5.0
        )
        self.server = Server(self.kernel)
        self.wire: Wire | None = None
        self.said: list[Any] = []

    def client(self, *whats: str, seconds: float = 1.0) -> Steps[None]:
        """Connect, and send one request after another."""
        try:
            self.wire = yield from self.network.connect(HERE, THERE, "app:1", lambda: self.server)
            for what in whats:
                answer = yield from self.wire.ask(
                    lambda what=what: self.server.work(what, seconds), what, TOUCHES
                )
                self.said.append((round(self.kernel.now, 3), answer))
        except (RequestLostError, SqlError) as error:
            self.said.append((round(self.kernel.now, 3), str(error)))
        except simpy.Interrupt:
            self.said.append((round(self.kernel.now, 3), "killed"))

    def at(self, seconds: float, action: Any) -> None:
        """Perform an action after a delay."""

        def act() -> Steps[None]:
            yield self.kernel.delay(seconds, Label(actor="fault", cause=Cause.FAULT, what="fault"))
            action()

        self.kernel.spawn(act(), "fault")


def test_there_and_back() -> None:
    world = World()
    world.kernel.spawn(world.client("a", "fail"), "client")
    world.kernel.run()
    assert world.said == [(1.4, "a done"), (2.6, "twice")]
    assert world.server.closed == []


@pytest.mark.parametrize(
    ("moment", "done"),
    [(0.25, False), (0.8, True), (1.35, True)],
    ids=["on its way", "being done", "answer on its way"],
)
def test_a_cut(moment: float, done: bool) -> None:
    """A cut is an error at the client at once; a request that has arrived is executed, then the connection closed."""
    world = World()
    world.kernel.spawn(world.client("a"), "client")
    world.at(moment, lambda: world.network.cut(HERE, THERE))
    world.kernel.run()
    assert world.said == [(moment, "the connection from app to sub1 was cut")]
    assert bool(world.server.done) == done
    assert len(world.server.closed) == 1
    assert world.server.closed[0] == pytest.approx(1.3 if 0.3 < moment < 1.3 else moment)
    assert world.network.wires == {}


def test_a_cut_while_nobody_asks() -> None:
    world = World()
    world.kernel.spawn(world.client(), "client")
    world.at(1.0, lambda: world.network.cut(HERE, THERE))
    world.kernel.run()
    assert world.server.closed == [1.0]
    assert world.wire is not None and world.wire.lost
    world.kernel.spawn(world.client("a"), "client")
    world.kernel.run()
    assert world.said == [(1.0, "sub1 cannot be reached from app")]
    world.network.heal(HERE, THERE)
    world.kernel.spawn(world.client("a"), "client")
    world.kernel.run()
    assert world.said[-1] == (2.4, "a done")


@pytest.mark.parametrize("moment", [0.25, 0.8])
def test_a_killed_client(moment: float) -> None:
    """A server finishes a request that it has begun when the client is killed."""
    world = World()
    client = world.kernel.spawn(world.client("a"), "client")
    world.at(moment, lambda: client.interrupt("killed"))
    world.kernel.run()
    assert world.said == [(moment, "killed")]
    assert bool(world.server.done) == (moment > 0.3)
    assert len(world.server.closed) == 1


@pytest.mark.parametrize("one_way", [False, True])
def test_silence(one_way: bool) -> None:
    """A silent cut is noticed only at the timeout; a request is executed if only its answer is lost."""
    world = World()
    world.kernel.spawn(world.client("a"), "client")
    lost, found = (THERE, HERE) if one_way else (HERE, THERE)
    world.at(
        0.8 if one_way else 0.2, lambda: world.network.cut(lost, found, one_way=True, silent=True)
    )
    world.kernel.run()
    assert world.said == [(6.3 if one_way else 5.2, "no answer from sub1 for 5 s")]
    assert bool(world.server.done) == one_way


def test_parts_of_the_world() -> None:
    world = World()
    world.network.partition([["app"], ["sub1", "pub"]])
    world.kernel.spawn(world.client("a"), "client")
    world.kernel.run()
    assert world.said == [(0.0, "sub1 cannot be reached from app")]


def test_links_of_their_own() -> None:
    world = World(links={"sub1-app": Delay(a=2.0)})
    world.kernel.spawn(world.client("a"), "client")
    world.kernel.run()
    assert world.said == [(9.0, "a done")]
