"""Tests of the event loop of virtual time, and of the bridge between its futures and the model's events."""

from __future__ import annotations

import asyncio

import pytest

from twopc.sim.model.bridge import bridge, performed
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.loop import HungError, VirtualLoop
from twopc.sim.model.values import Cause, Label


def in_virtual_time(play, *args):
    """Run a coroutine function within a kernel, and return its result."""

    async def inside():
        loop = asyncio.get_running_loop()
        kernel = SimpyKernel()
        with loop.inside(kernel):
            return await play(kernel, *args)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(inside())


def pause(kernel, seconds):
    """Steps that take a given time."""
    yield kernel.delay(seconds, Label(actor="test", cause=Cause.PAUSE, what="pause"))
    return kernel.now


def test_an_hour_is_over_at_once():
    async def play(kernel):
        queue = asyncio.Queue()
        for _ in range(3600):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(queue.get(), 1.0)
        return asyncio.get_running_loop().time(), kernel.now

    assert in_virtual_time(play) == (3600, 3600)  # real time would not be exact


def test_timers_and_events_come_in_one_order():
    async def play(kernel):
        seen = []

        async def timer(seconds):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), seconds)
            seen.append(("timer", seconds))

        async def event(seconds):
            assert await performed(kernel, pause(kernel, seconds), "pause") == seconds
            seen.append(("event", seconds))

        await asyncio.gather(timer(3), event(2), timer(1), event(4))
        return seen

    seen = in_virtual_time(play)
    assert seen == [("timer", 1), ("event", 2), ("timer", 3), ("event", 4)]


def test_time_does_not_pass_for_a_timer_that_was_cancelled():
    async def play(kernel):
        asyncio.get_running_loop().call_later(100, lambda: None).cancel()
        await performed(kernel, pause(kernel, 1), "pause")
        assert await asyncio.wait_for(_at_once(), 50) == "done"
        return kernel.now, kernel.env.peek()

    assert in_virtual_time(play) == (1, float("inf"))


async def _at_once():
    return "done"


def test_several_systems_have_clocks_of_their_own():
    """Each task of one loop that is inside a system sees only the time of that system."""

    async def one(seconds):
        kernel = SimpyKernel()
        with asyncio.get_running_loop().inside(kernel):
            await performed(kernel, pause(kernel, seconds), "pause")
            await asyncio.create_task(asyncio.wait_for(_at_once(), 1))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), seconds)
            return asyncio.get_running_loop().time()

    async def play():
        return await asyncio.gather(*(asyncio.create_task(one(s)) for s in (1, 2, 3)))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(play()) == [2, 4, 6]


def test_what_work_raises_comes_over_and_is_no_ones_if_nobody_waits():
    def failing(kernel):
        yield kernel.delay(1, Label(actor="test", cause=Cause.PAUSE, what="pause"))
        raise ValueError("no")

    async def play(kernel):
        with pytest.raises(ValueError, match="no"):
            await performed(kernel, failing(kernel), "fails")
        given_up = asyncio.create_task(performed(kernel, failing(kernel), "fails later"))
        await asyncio.wait_for(_at_once(), 1)
        given_up.cancel()
        await performed(kernel, pause(kernel, 5), "pause")
        return given_up.cancelled()

    assert in_virtual_time(play)


def test_an_event_that_has_come_already():
    async def play(kernel):
        process = kernel.spawn(pause(kernel, 1), "pause")
        await performed(kernel, pause(kernel, 2), "pause")
        return await bridge(process)

    assert in_virtual_time(play) == 1


def test_who_waits_for_nothing_is_told():
    async def play(kernel):
        await asyncio.Event().wait()

    with pytest.raises(HungError, match="a task still waits"):
        in_virtual_time(play)


def test_outside_time_is_the_worlds():
    async def play():
        loop = asyncio.get_running_loop()
        assert loop.virtual_time() == 0
        before = loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        return loop.time() - before

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(play()) >= 0.009


def test_a_thread_can_call():
    """A thread can wake the loop, as a signal does: Ctrl-C also ends a run in virtual time."""

    async def play(kernel):
        loop = asyncio.get_running_loop()
        called = asyncio.Event()
        asyncio.create_task(asyncio.to_thread(loop.call_soon_threadsafe, called.set))  # noqa: RUF006 -- it outlives nothing
        while not called.is_set():
            await performed(kernel, pause(kernel, 1), "pause")
        return True

    assert in_virtual_time(play)
