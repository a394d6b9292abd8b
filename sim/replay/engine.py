"""The loop of every replay: each transaction of a source is executed at its time, one after the other, on a target.

The loop depends neither on where transactions were recorded nor on where they are executed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Work = TypeVar("Work")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTransaction(Generic[Work]):
    """One transaction of a recording, or one step of an order."""

    number: int
    """Place in the recording: the sequence number, or a load's own number."""
    node: str
    """Node at which the transaction is executed."""
    work: Work
    """Content that the target executes."""
    session: str = ""
    """Session that executed the transaction; in an archive, the node where it was made."""
    due_s: float | None = None
    """Time to begin, in seconds since the replay began; None to begin at once."""
    unit: int = 0
    """Unit to which the transaction belongs; transactions of one unit keep their order."""
    rowcounts: tuple[int, ...] = ()
    """Recorded row counts of the statements, if known."""


class ReplayClock(Protocol):
    """The clock of a replay."""

    def time(self) -> float:
        """Return the time in seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for some time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult(Generic[Work, Outcome]):
    """The result of replaying one transaction."""

    transaction: RecordedTransaction[Work]
    outcome: Outcome | None
    """Outcome; None if the transaction was held back, as was an earlier one of its unit."""
    lag_s: float | None = None
    """Delay of the start, in seconds; None if the transaction had no due time."""


async def replay(
    transactions: Iterable[RecordedTransaction[Work]],
    carry_out: Callable[[RecordedTransaction[Work]], Awaitable[Outcome]],
    clock: ReplayClock,
    *,
    began_s: float = 0.0,
    record: Callable[[ReplayResult[Work, Outcome]], object] = lambda _: None,
    holds: Callable[[Outcome], bool] = lambda _: False,
) -> None:
    """Execute transactions, one after the other.

    Args:
        carry_out: executes one transaction at its place, and returns its outcome.
        began_s: when the replay began, by the clock.
        record: called with each transaction's outcome.
        holds: returns whether an outcome holds back the rest of the transaction's unit.
    """
    held: set[int] = set()
    for each in transactions:
        if each.unit in held:
            record(ReplayResult(transaction=each, outcome=None))
            continue
        lag_s = None
        if each.due_s is not None:
            due_s = began_s + each.due_s
            if (early_s := due_s - clock.time()) > 0:
                await clock.sleep(early_s)
            lag_s = max(0.0, clock.time() - due_s)
        outcome = await carry_out(each)
        if holds(outcome):
            held.add(each.unit)
        record(ReplayResult(transaction=each, outcome=outcome, lag_s=lag_s))
