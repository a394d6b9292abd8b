"""What a task of a replay does: the transactions that it is given, one after the other. Runs on executors."""

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
from twopc.sim.spark.replay.execute import FAILED, HELD, LATE, REFUSED, Deed, Ended, Engine, Row
from twopc.sim.spark.replay.place import Place

#: A task ended there: its node, or its topology, is not to be had.
STOPPED = "stopped"
#: A command did not meet exactly one row.
COUNT = "count"
#: What may be tried once more: it may have met one that was under way, or have needed a row of another
#: table that came later, or have come after such a one.
AGAIN = (REFUSED, FAILED, LATE, HELD)
#: As `RESULTS`.
_RESULTS = pyarrow.schema(
    [
        ("seqno", pyarrow.int64()),
        ("node", pyarrow.string()),
        ("outcome", pyarrow.string()),
        ("message", pyarrow.string()),
        ("article", pyarrow.string()),
        ("key", pyarrow.list_(pyarrow.string())),
        ("count", pyarrow.int64()),
        ("lag_s", pyarrow.float64()),
    ]
)
#: A row for each transaction, and one for each command that did not meet exactly one row.
RESULTS = (
    "seqno bigint, node string, outcome string, message string, article string, key array<string>,"
    " count bigint, lag_s double"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What every task is told. Texts and numbers only: it travels."""

    replay: str
    place: Place
    articles: Mapping[tuple[int, int], Row]
    fresh: bool
    holds: bool = False
    """What comes after one that failed, in the same unit, is left for later: the unit keeps its order."""
    began_s: float
    """When the replay began, by the wall clock: what is due is counted from there."""


def carry_out(
    batches: Iterable[pyarrow.RecordBatch], order: Order
) -> Iterator[pyarrow.RecordBatch]:
    """Carry out what comes in; `RESULTS`.

    Args:
        batches: decoded commands with `node`, `due_s` and `unit`, those of a transaction in one piece.
    """
    rows = asyncio.run(_carried_out(_deeds(batches), order))
    yield pyarrow.RecordBatch.from_pylist(rows, schema=_RESULTS)


def _deeds(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[Deed]:
    rows = (row for batch in batches for row in batch.to_pylist())
    one = itemgetter("seqno", "node", "due_s", "unit")
    for (seqno, node, due_s, unit), commands in groupby(rows, key=one):
        yield Deed(seqno=seqno, node=node, commands=list(commands), due_s=due_s, unit=unit)


async def _carried_out(deeds: Iterator[Deed], order: Order) -> list[dict[str, Any]]:
    first = next(deeds, None)
    if first is None:  # nothing fell to this task: nobody is to be asked
        return []
    rows: list[dict[str, Any]] = []
    deed = first
    held: set[int] = set()
    try:
        async with await order.place.attach() as topology:
            engine = Engine(
                topology, replay=order.replay, articles=order.articles, fresh=order.fresh
            )
            for deed in chain([first], deeds):
                if deed.unit in held:
                    rows += _told(Ended(seqno=deed.seqno, node=deed.node, outcome=HELD), None)
                    continue
                lag_s = await _due(deed, order.began_s)
                ended = await engine.carry_out(deed)
                if order.holds and ended.outcome in AGAIN:
                    held.add(deed.unit)
                rows += _told(ended, lag_s)
    except (TwopcError, psycopg.Error) as error:
        # as data: Spark would only do it again
        stopped = Ended(
            seqno=deed.seqno, node=deed.node, outcome=STOPPED, message=str(error).strip()
        )
        rows += _told(stopped, None)
    return rows


async def _due(deed: Deed, began_s: float) -> float | None:
    """Wait until it is to begin; by how much it is late."""
    if deed.due_s is None:
        return None
    at = began_s + deed.due_s
    if (early_s := at - time.time()) > 0:
        await Asyncio().sleep(early_s)
    return max(0.0, time.time() - at)


def _told(ended: Ended, lag_s: float | None) -> Iterator[dict[str, Any]]:
    about = {"seqno": ended.seqno, "node": ended.node, "message": ended.message}
    yield {**about, "outcome": ended.outcome, "lag_s": lag_s}
    for article, key, count in ended.counts:
        yield {**about, "outcome": COUNT, "article": article, "key": list(key), "count": count}
