"""A range of an archive in windows, and who carries out what in each."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.sim.spark.replay.units import lanes, units


class Sync(StrEnum):
    """Which transactions keep the order in which they were committed."""

    commit = "commit"
    """All."""
    rows = "rows"
    """Those that share a row, directly or through others."""
    session = "session"
    """Those that were made at the same node."""
    off = "off"
    """None."""

    @property
    def delivers(self) -> bool:
        """A Subscriber has the Publisher's rows before a transaction of it begins."""
        return self in (Sync.commit, Sync.rows)


def windows(transactions: DataFrame, size: int) -> Iterator[list[Row]]:
    """So many consecutive transactions at a time: `seqno`, `originator_id` and `entry_time`."""
    columns = ("seqno", "originator_id", "entry_time")
    ordered = transactions.orderBy("seqno").select(*columns).toLocalIterator()
    while window := list(islice(ordered, size)):
        yield window


def edges(decoded: DataFrame) -> Iterable[tuple[int, int]]:
    """Transaction and row, as numbers, for every command."""
    touched = decoded.select(
        "seqno",
        F.explode(F.array_distinct(F.array("key", F.coalesce("new_key", "key")))).alias("key"),
        "article_id",
    )
    found = touched.select("seqno", F.xxhash64("article_id", "key").alias("row")).distinct()
    return [(row["seqno"], row["row"]) for row in found.orderBy("seqno").collect()]


class Turn(NamedTuple):
    """Where a transaction is carried out, and when."""

    seqno: int
    lane: int
    place: int
    """In the lane's order."""
    unit: int
    """Transactions of one unit keep their order among themselves."""


def assigned(
    sync: Sync, window: Sequence[Row], touches: Iterable[tuple[int, int]], count: int
) -> list[Turn]:
    """Who carries out what: at most so many lanes."""
    seqnos = [int(each["seqno"]) for each in window]
    if sync is Sync.commit:
        return [Turn(seqno, 0, seqno, 0) for seqno in seqnos]
    if sync is Sync.off:
        mixed = {seqno: zlib.crc32(str(seqno).encode()) for seqno in seqnos}
        return [Turn(seqno, mixed[seqno] % count, mixed[seqno], seqno) for seqno in seqnos]
    if sync is Sync.session:
        of = {int(each["seqno"]): int(each["originator_id"] or 0) for each in window}
    else:
        of = {seqno: seqno for seqno in seqnos} | units(touches)
    spread = lanes(Counter(of.values()), count)
    lane_of = {unit: lane for lane, taken in enumerate(spread) for unit in taken}
    return [Turn(seqno, lane_of[of[seqno]], seqno, of[seqno]) for seqno in seqnos]
