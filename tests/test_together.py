"""Tests that tasks which run together have all ended when one of them fails."""

from __future__ import annotations

import asyncio

import pytest

from twopc.together import together


async def test_all_have_ended_when_one_has_failed() -> None:
    """A failure is raised only after all other tasks have ended."""
    slow, ended = asyncio.Event(), []

    async def fails() -> None:
        asyncio.get_running_loop().call_soon(slow.set)
        raise ValueError("first")

    async def waits() -> None:
        await slow.wait()
        ended.append("second")

    with pytest.raises(ValueError, match="first"):
        await together(fails(), waits())
    assert ended == ["second"]


async def test_results_stand_in_the_order_of_the_work() -> None:
    """Results are in the order of the arguments, as with `asyncio.gather`."""

    async def gives(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert await together(*(gives(n) for n in range(3))) == [0, 1, 2]


async def test_whoever_gives_up_ends_all() -> None:
    """Cancellation cancels every task, and waits for its end."""
    begun, ended = asyncio.Barrier(3), []

    async def forever(name: str) -> None:
        try:
            await begun.wait()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    task = asyncio.create_task(together(forever("a"), forever("b")))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == ["a", "b"]
