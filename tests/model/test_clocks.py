"""Tests of wrong clocks, and of what depends on a node's clock."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.pair import PUBLISHER, SUBSCRIBER, Pair
from twopc.protocol import Participant
from twopc.protocol.variants import VARIANTS, Settings
from twopc.sim.model.clocks import Clock
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.values import Delay, ModelTiming, SqlError


def _node(kernel: SimpyKernel, clock: Clock) -> ModelNode:
    settings = Settings(variant=VARIANTS["presumed_abort"].on_postgres(), inquiry_s=float("inf"))
    return ModelNode(
        "one", kernel, timing=ModelTiming(deadlock_timeout=Delay(a=60.0)), clock=clock,
        lock_timeout_s=2.0, prepared_max=5, participant=Participant, settings=settings,
    )  # fmt: skip


def test_it_shows_what_it_was_set_to() -> None:
    now = [10.0]
    clock = Clock(lambda: now[0], shows=1000.0)
    now[0] = 15.0
    assert clock() == 1005.0
    clock.shift(-300)
    assert clock() == 705.0
    fast = Clock(lambda: now[0], shows=705.0, rate=2.0)
    assert fast() == 705.0, "who runs faster shows no other time by that"
    now[0] = 16.0
    assert (clock(), fast()) == (706.0, 707.0)
    assert (clock.lasts(3.0), fast.lasts(3.0)) == (3.0, 1.5)


@pytest.mark.parametrize(("rate", "after"), [(1.0, 2.0), (4.0, 0.5), (0.5, 4.0)])
def test_lock_timeout_goes_by_the_nodes_clock(rate: float, after: float) -> None:
    kernel = SimpyKernel()
    node = _node(kernel, Clock(lambda: kernel.now, shows=1e9, rate=rate))
    node.define("create table t (id int primary key); insert into t values (1)")
    ended: list[float] = []

    def hold(session: Any) -> Any:
        yield from session.execute("begin")
        yield from session.execute("select id from t for update")

    def wait(session: Any) -> Any:
        with pytest.raises(SqlError, match="lock timeout"):
            yield from session.execute("delete from t")
        ended.append(kernel.now)

    kernel.run(kernel.spawn(hold(node.connect("app", "holder")), "holder"))
    kernel.run(kernel.spawn(wait(node.connect("app", "waiter")), "waiter"))
    assert ended == [pytest.approx(after)]


def test_now_and_prepared_at_are_the_nodes() -> None:
    kernel = SimpyKernel()
    clock = Clock(lambda: kernel.now, shows=1e9)
    node = _node(kernel, clock)
    node.define("create table t (id int primary key)")
    clock.shift(3600)

    def prepare() -> Any:
        session = node.connect("app", "one")
        yield from session.execute("begin")
        yield from session.execute("insert into t values (1)")
        shown = yield from session.execute("select now()")
        yield from session.execute("prepare transaction 'x'")
        return shown.rows[0][0].timestamp()

    assert float(kernel.run(kernel.spawn(prepare(), "one"))) == pytest.approx(1e9 + 3600, abs=1)
    assert node.prepared()["x"].prepared_at == pytest.approx(1e9 + 3600, abs=1)


@pytest.mark.parametrize("variant", ["presumed_abort", "last_agent"])
def test_a_commit_does_not_depend_on_clocks(variant: str) -> None:
    """Clocks that differ in time and rate do not change the outcome of a commit."""
    pair = Pair()
    for name, shift, rate in ((PUBLISHER, -86_400.0, 0.3), (SUBSCRIBER, 86_400.0, 3.0)):
        clock = Clock(lambda: pair.kernel.now, shows=1e9 + shift, rate=rate)
        pair.nodes[name].clock = clock
        pair.nodes[name].lasts = pair.nodes[name].locks.lasts = clock.lasts
    assert pair.run(pair.transfer(variant))[0] == "committed"
    assert pair.balances() == ("90", "90")
    pair.until(3.0)
    assert pair.prepared() == []
