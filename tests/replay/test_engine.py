"""The loop of every replay: its pace, and the transactions that it holds back."""

from __future__ import annotations

import asyncio
from typing import Any

from twopc.sim.replay.engine import RecordedTransaction, ReplayResult, replay


class Minutes:
    """A clock that advances only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class Slow:
    """A target that takes a second for each transaction, and returns its work as the outcome."""

    def __init__(self, clock: Minutes) -> None:
        self._clock = clock
        self.began: list[float] = []

    async def carry_out(self, transaction: RecordedTransaction[str]) -> str:
        self.began.append(self._clock.now - 100)
        await self._clock.sleep(1)
        return transaction.work


def replayed(*transactions: RecordedTransaction[str]) -> tuple[list[float], list[tuple[Any, ...]]]:
    """Return when transactions were carried out, and what was recorded of each."""
    clock = Minutes()
    target = Slow(clock)
    done: list[ReplayResult[str, str]] = []
    work = replay(
        transactions,
        target.carry_out,
        clock,
        began_s=100.0,
        record=done.append,
        holds=lambda outcome: outcome == "refused",
    )
    asyncio.run(work)
    return target.began, [(each.transaction.number, each.outcome, each.lag_s) for each in done]


def one(number: int, work: str = "done", **about: Any) -> RecordedTransaction[str]:
    return RecordedTransaction(number=number, node="pub", work=work, **about)


def test_a_transaction_begins_when_it_is_due_or_late() -> None:
    began, done = replayed(one(1), one(2, due_s=5.0), one(3, due_s=5.5), one(4, due_s=9.0))
    assert began == [0, 5, 6, 9]
    assert done == [(1, "done", None), (2, "done", 0), (3, "done", 0.5), (4, "done", 0)]


def test_the_rest_of_a_unit_is_held_back() -> None:
    """The rest of a unit is neither carried out nor waited for; other units continue."""
    began, done = replayed(
        one(1, unit=1),
        one(2, "refused", unit=1),
        one(3, unit=1, due_s=60.0),
        one(4, unit=2),
        one(5, unit=1),
    )
    assert began == [0, 1, 2]
    assert done == [
        (1, "done", None), (2, "refused", None), (3, None, None), (4, "done", None), (5, None, None),
    ]  # fmt: skip
