"""The loop of every replay: each transaction of a source at its time, one after the other, on a target.

It does not know where transactions were recorded, nor where they are carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Work = TypeVar("Work")
Outcome = TypeVar("Outcome")
Answer = TypeVar("Answer", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTransaction(Generic[Work]):
    """One transaction of a recording, or one step of an order."""

    number: int
    """Its place in the recording: the sequence number, or a load's own number."""
    node: str
    """Where it is carried out."""
    work: Work
    """What the target carries out."""
    session: str = ""
    """Whose it was; of an archive, the node where it was made."""
    due_s: float | None = None
    """When it begins, in seconds after the replay; None: at once."""
    unit: int = 0
    """Transactions of one unit keep their order."""
    rowcounts: tuple[int, ...] = ()
    """How many rows its statements met when it was recorded, if that is known."""


class ReplayClock(Protocol):
    """The time of a replay."""

    def time(self) -> float:
        """In seconds."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        ...


class ReplayTarget(Protocol[Work, Answer]):
    """Where transactions are carried out."""

    async def carry_out(self, transaction: RecordedTransaction[Work]) -> Answer:
        """Carry out one transaction; what came of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult(Generic[Work, Outcome]):
    """What the replay did with one transaction."""

    transaction: RecordedTransaction[Work]
    outcome: Outcome | None
    """None: held back, since one before it in its unit was."""
    lag_s: float | None = None
    """How much later than due it began; None: it was due at no time."""


async def replay(
    transactions: Iterable[RecordedTransaction[Work]],
    target: ReplayTarget[Work, Outcome],
    clock: ReplayClock,
    *,
    began_s: float = 0.0,
    record: Callable[[ReplayResult[Work, Outcome]], object] = lambda _: None,
    holds: Callable[[Outcome], bool] = lambda _: False,
) -> None:
    """Carry out transactions, one after the other.

    Args:
        began_s: when the replay began, by the clock.
        record: called with each transaction's outcome.
        holds: whether an outcome holds back the rest of the transaction's unit.
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
        outcome = await target.carry_out(each)
        if holds(outcome):
            held.add(each.unit)
        record(ReplayResult(transaction=each, outcome=outcome, lag_s=lag_s))
