"""Work of a replay's tasks on executors: each carries out the transactions of its lane."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import psycopg
import pyarrow

from twopc.drivers.runtime import Asyncio
from twopc.errors import TwopcError
from twopc.sim.replay.engine import RecordedTransaction, ReplayResult, replay
from twopc.sim.replay.topology import (
    AGAIN,
    Commands,
    Row,
    TopologyAddress,
    TopologyTarget,
    TransactionOutcome,
)
from twopc.sim.spark import shapes

#: The task ended at this transaction, as its node or topology is not available.
STOPPED = "stopped"
#: The transaction was postponed, as an earlier one in its unit failed.
HELD = "held"
#: A command did not meet exactly one row.
COUNT = "count"
#: A row for each transaction, and one for each command that did not meet exactly one row.
RESULTS = shapes.shape(
    "seqno bigint, node string, outcome string, message string, article string, key array<string>,"
    " count bigint, lag_s double"
)


class WallClock(Asyncio):
    """Wall-clock time, which the machines of a cluster share."""

    def time(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTask:
    """Parameters of every task. Only texts and numbers, as they are sent to executors."""

    replay: str
    address: TopologyAddress
    articles: Mapping[tuple[int, int], Row]
    fresh: bool
    holds: bool = False
    """Whether transactions that follow a failed one in the same unit are held, so that the unit keeps its order."""
    began_s: float
    """When the replay began, by the wall clock."""


def carry_out(
    batches: Iterable[pyarrow.RecordBatch], task: LaneTask
) -> Iterator[pyarrow.RecordBatch]:
    """Carry out the transactions of the batches; yield `RESULTS`.

    Args:
        batches: decoded commands with `node`, `due_s` and `unit`; those of a transaction are consecutive.
    """
    rows = asyncio.run(_carried_out(_transactions(batches), task))
    yield pyarrow.RecordBatch.from_pylist(rows, schema=shapes.arrow_schema(RESULTS))


def _transactions(
    batches: Iterable[pyarrow.RecordBatch],
) -> Iterator[RecordedTransaction[Commands]]:
    rows = (row for batch in batches for row in batch.to_pylist())
    one = itemgetter("seqno", "node", "due_s", "unit")
    for (seqno, node, due_s, unit), commands in groupby(rows, key=one):
        yield RecordedTransaction(
            number=seqno, node=node, work=list(commands), due_s=due_s, unit=unit
        )


async def _carried_out(
    transactions: Iterator[RecordedTransaction[Commands]], task: LaneTask
) -> list[dict[str, Any]]:
    first = next(transactions, None)
    if first is None:  # this task has no transactions, so it connects to no node
        return []
    rows: list[dict[str, Any]] = []
    current = first

    def lane() -> Iterator[RecordedTransaction[Commands]]:
        nonlocal current
        for each in chain([first], transactions):
            current = each
            yield each

    try:
        async with await task.address.attach() as topology:
            target = TopologyTarget(
                topology, replay=task.replay, articles=task.articles, fresh=task.fresh
            )
            await replay(
                lane(),
                target.carry_out,
                WallClock(),
                began_s=task.began_s,
                record=lambda each: rows.extend(_rows(each)),
                holds=lambda ended: task.holds and ended.outcome in AGAIN,
            )
    except (TwopcError, psycopg.Error) as error:
        # returned as data, as Spark would retry a task that raises
        stopped = TransactionOutcome(outcome=STOPPED, message=str(error).strip())
        rows += _rows(ReplayResult(transaction=current, outcome=stopped))
    return rows


def _rows(replayed: ReplayResult[Commands, TransactionOutcome]) -> Iterator[dict[str, Any]]:
    ended = replayed.outcome or TransactionOutcome(outcome=HELD)
    about = {
        "seqno": replayed.transaction.number,
        "node": replayed.transaction.node,
        "message": ended.message,
    }
    yield {**about, "outcome": ended.outcome, "lag_s": replayed.lag_s}
    for article, key, count in ended.counts:
        yield {**about, "outcome": COUNT, "article": article, "key": list(key), "count": count}
