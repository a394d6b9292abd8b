"""Tests of distribution in a whole model: coordinated sessions, the log reader, agents."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.system import build
from twopc.sim.model.values import ModelSpec, Steps, SubscriberSpec, TableSpec

STOCK = TableSpec(
    name="stock", columns={"item": "text", "pieces": "int not null"}, key=("item",),
    rows=({"item": "nut", "pieces": 10}, {"item": "bolt", "pieces": 10}),
)  # fmt: skip
SPEC = ModelSpec(
    publisher="pub", subscribers=(SubscriberSpec(name="sub1"), SubscriberSpec(name="sub2")), tables=(STOCK,),
)  # fmt: skip


class Silent:
    """A recorder that keeps nothing."""

    def write(self, kind: str, **fields: Any) -> None:
        """Discard a record."""

    def drew(self, name: str, value: Any) -> None:
        """Discard a drawn parameter."""


def test_a_publishers_change_reaches_everybody() -> None:
    kernel = SimpyKernel()
    system = build(SPEC, kernel=kernel, recorder=Silent())

    def office() -> Steps[Any]:
        session = system.session("office", "pub")
        yield from session.begin()
        yield from session.execute("update stock set pieces = 4 where item = 'nut'", {})
        yield from session.commit()
        return (yield from system.sync())

    done = kernel.run(kernel.spawn(office(), "office"))
    assert {name: each.transactions for name, each in done.items()} == {"sub1": 1, "sub2": 1}
    for node in system.nodes.values():
        assert node.rows("stock", ["pieces"]) == [{"pieces": "10"}, {"pieces": "4"}]
    told = system.take_deliveries()
    assert [(one.node, one.origin, one.commands) for one in told] == [
        ("sub1", "pub", ("update stock item=nut",)),
        ("sub2", "pub", ("update stock item=nut",)),
    ]
    assert system.take_deliveries() == []
    assert system.quiet()


@pytest.mark.parametrize("poll_s", [0.0, 0.1])
def test_it_is_not_quiet_while_a_change_travels(poll_s: float) -> None:
    """A system is not quiet during a delivery, by polling agents or by `sync`, although no transaction is open."""
    kernel = SimpyKernel()
    system = build(replace(SPEC, agent_poll_s=poll_s), kernel=kernel, recorder=Silent())

    def office() -> Steps[None]:
        session = system.session("office", "pub")
        yield from session.begin()
        yield from session.execute("update stock set pieces = 4 where item = 'nut'", {})
        yield from session.commit()

    kernel.run(kernel.spawn(office(), "office"))
    if not poll_s:
        assert system.quiet()  # no delivery was requested yet
        kernel.spawn(system.sync(), "sync")
    seen = []
    for _ in range(2000):
        arrived = all(
            {"pieces": "4"} in node.rows("stock", ["pieces"]) for node in system.nodes.values()
        )
        seen.append((system.quiet(), arrived))
        kernel.run(kernel.now + 0.001)
    assert (False, False) in seen
    assert (True, False) not in seen[1:]
    assert seen[-1] == (True, True)
