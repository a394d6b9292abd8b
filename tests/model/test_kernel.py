"""Tests of virtual time: durations, the order of events, and random values."""

from __future__ import annotations

import subprocess
import sys

import pytest

from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import Cause, Delay, Label, Steps


def label(actor: str) -> Label:
    """Return the label of an actor's timer."""
    return Label(actor=actor, cause=Cause.TIMER, what="a while")


def test_time_passes_in_order() -> None:
    kernel, seen = SimpyKernel(), []

    def walk(name: str, pause: float) -> Steps[None]:
        for _ in range(3):
            yield kernel.delay(pause, label(name))
            seen.append((round(kernel.now, 3), name))

    kernel.spawn(walk("slow", 0.3), "slow")
    kernel.spawn(walk("fast", 0.2), "fast")
    kernel.run()
    assert seen == [(0.2, "fast"), (0.3, "slow"), (0.4, "fast"), (0.6, "slow"), (0.6, "fast"), (0.9, "slow")]  # fmt: skip


def test_what_was_cancelled_lets_no_time_pass() -> None:
    kernel, seen = SimpyKernel(), []
    delays = [kernel.delay(n, label("a")) for n in (5.0, 1.0, 3.0, 9.0)]
    for each in delays:
        assert each.callbacks is not None
        each.callbacks.append(lambda _: seen.append(kernel.now))
    for each in (delays[1], delays[3]):
        kernel.cancel(each)
    assert kernel.env.peek() == 3.0
    kernel.run()
    assert (seen, kernel.now) == ([3.0, 5.0], 5.0)
    kernel.cancel(delays[0])  # already over: no effect


def test_waiting_for_an_event() -> None:
    kernel, bell = SimpyKernel(), None

    def ring() -> Steps[str]:
        yield kernel.delay(2.0, label("a"))
        return "rung"

    bell = kernel.spawn(ring(), "bell")
    assert kernel.run(bell) == "rung"
    assert kernel.run(bell) == "rung"
    with pytest.raises(RuntimeError, match="nothing can happen any more"):
        kernel.run(kernel.event())


def test_an_error_comes_as_it_is() -> None:
    kernel = SimpyKernel()

    def fail() -> Steps[None]:
        yield kernel.delay(0.0, label("a"))
        raise ValueError("made up")

    with pytest.raises(ValueError, match="made up"):
        kernel.run(kernel.spawn(fail(), "fails"))


@pytest.mark.parametrize(
    ("delay", "low", "high"),
    [
        (Delay(a=2.0), 2.0, 2.0),
        (Delay(kind="exponential", a=2.0), 0.0, 60.0),
        (Delay(kind="exponential"), 0.0, 0.0),
        (Delay(kind="lognormal", a=2.0, b=0.5), 0.1, 40.0),
        (Delay(kind="uniform", a=1.0, b=3.0), 1.0, 3.0),
    ],
)
def test_durations(delay: Delay, low: float, high: float) -> None:
    """Drawn durations are within bounds and have the right mean or median; only fixed ones are all equal."""
    kernel = SimpyKernel(seed=7)
    drawn = [kernel.draw(delay, "x") for _ in range(4000)]
    assert low <= min(drawn) and max(drawn) <= high
    assert (len(set(drawn)) > 1) == (low != high)
    if low != high:
        middle = sorted(drawn)[2000] if delay.kind == "lognormal" else sum(drawn) / 4000
        assert middle == pytest.approx(2.0, rel=0.1)


def test_chance_is_each_ones_own() -> None:
    """The random values of one actor do not depend on what another has drawn."""
    one, other = SimpyKernel(seed=1), SimpyKernel(seed=1)
    [other.random("b").random() for _ in range(5)]
    assert one.random("a").random() == other.random("a").random()
    assert one.random("a").random() != SimpyKernel(seed=2).random("a").random()


def test_chance_does_not_depend_on_hashes() -> None:
    program = "from twopc.sim.model.kernel import SimpyKernel; print(SimpyKernel(seed=3).random('a').random())"
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
