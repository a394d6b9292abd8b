"""Bugs of the log reader, planted in the product's engine or planner: originators, stored content, moves of the
slot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopc.proc_execution import Writers
from twopc.publisher.log_reader import LogReaderEngine
from twopc.publisher.log_reader.planner import LogPlanner, ReaderArticles
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.wiring import replacing


def planned_by(planner: type[LogPlanner]) -> type[LogReaderEngine]:
    """Return an engine of the log reader with another planner."""
    return type("Engine", (LogReaderEngine,), {"planner": planner})


# -- originators and stored content ------------------------------------------------------------------


class IgnoresMarks(LogPlanner):
    """A planner that takes all changes for the Publisher's."""

    def _mark(self, row: Mapping[str, bytes | None]) -> None:
        """Ignore the mark."""


class KeepsOriginator(LogPlanner):
    """A planner that keeps the originator of the previous transaction until a mark names another."""

    def _commit(self, data: bytes) -> None:
        originator = self._scanner.originator
        super()._commit(data)
        self._scanner.originator = originator


class ForgetsMark(LogPlanner):
    """A planner that ignores the stored position, and takes everything from the slot for new."""

    def __init__(self, known: ReaderArticles, **given: Any) -> None:
        super().__init__(known, **{**given, "read_to": 0})


class _AlwaysSeen(Writers):
    def sees_all(self, *_: Any) -> bool:
        return True


class SendsUnseen(LogPlanner):
    """A planner that assumes that a serializable transaction has seen all transactions before it in the log."""

    def __init__(self, known: ReaderArticles, **given: Any) -> None:
        super().__init__(known, **given)
        self._brackets.writers = _AlwaysSeen(known.horizon)


# -- order of actions --------------------------------------------------------------------------------


class MovesFirst(LogReaderEngine):
    """An engine that moves the slot past received changes before it stores them."""

    async def _take(self, block: list[bytes]) -> None:
        if self._live is not None:
            await self._live.confirm(self._live.position, self._live.position)
        await super()._take(block)


class GoesOn(LogReaderEngine):
    """An engine that, after an error, takes planned changes for stored."""

    async def _learn(self) -> None:
        if self._planned is None:
            await super()._learn()
        elif self._store is not None:
            await self._store.registry()


_NONE = Budget(faults=0, deviations=0)
_KILLED = Budget(of=("log reader",), deviations=0)
_LOST = Budget(of=("connection",), deviations=0)

PLANTS = (
    PlantedBug(
        name="mark_ignored",
        why="without its mark the origin of a transaction is not known",
        source="Microsoft, immediate updating subscriptions: loopback detection at the distributor",
        plant=replacing(log_reader=planned_by(IgnoresMarks)),
        program="write and deliver",
        budget=_NONE,
        breaks=("echoed",),
    ),
    PlantedBug(
        name="mark_of_another",
        why="a mark is of its own transaction, and the next one begins without",
        source="PostgreSQL's pgoutput: the origin is sent with each transaction",
        plant=replacing(log_reader=planned_by(KeepsOriginator)),
        program="a Subscriber's change, and the Publisher's",
        budget=Budget(faults=0, deviations=1),
        breaks=("converged",),
    ),
    PlantedBug(
        name="stored_twice",
        why="a slot may show again what is stored already, and only the store knows",
        source="PostgreSQL's documentation of logical decoding: a crash may send changes again",
        plant=replacing(log_reader=planned_by(ForgetsMark)),
        program="insert and deliver",
        budget=_KILLED,
        breaks=("stored_once",),
    ),
    PlantedBug(
        name="confirmed_before_stored",
        why="a position that the slot has passed cannot be read again",
        source="Debezium DBZ-1040 and its likes: an offset that is flushed before its records",
        plant=replacing(log_reader=MovesFirst),
        program="write and deliver",
        budget=_KILLED,
        breaks=("converged",),
    ),
    PlantedBug(
        name="lost_store_is_stored",
        why="a commit that was not answered may not have been done: the store says where to go on",
        source="as unknown_log_is_yes, of the distribution database",
        plant=replacing(log_reader=GoesOn),
        program="write and deliver",
        budget=_LOST,
        breaks=("converged",),
    ),
    PlantedBug(
        name="unseen_writer",
        why="serializable transactions commit in another order than the one that they are equivalent to",
        source="M. Cahill, U. Roehm, A. Fekete, Serializable Isolation for Snapshot Databases",
        plant=replacing(log_reader=planned_by(SendsUnseen)),
        program="a call that has not seen a writer",
        budget=Budget(faults=0, deviations=2),
        breaks=("converged",),
    ),
)
