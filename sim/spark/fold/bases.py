"""Selection of the commands that a base already contains.

A base is the content of one snapshot. It contains a command if the command's transaction is visible in that
snapshot, whatever the order of the log: a transaction is in the log before other sessions can see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.lsn import lsn_text
from twopc.sim.spark.archive.manifest import ArticleBase
from twopc.sim.spark.errors import ArchiveError


def bases_of(base: DataFrame) -> list[ArticleBase]:
    """Return the bases in a frame; a row without a key represents a base that may have no rows.

    Args:
        base: of `shapes.ROWS`, with `shape`, `snapshot` and `seqno`.
    """
    columns = ("article_id", "shape", "snapshot", "seqno")
    return [ArticleBase(**row.asDict()) for row in base.select(*columns).distinct().collect()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBounds:
    """The positions of the transactions that bound a snapshot."""

    first_unseen: int | None
    """First transaction that is not visible in the snapshot; None if all are."""
    last_seen: int | None
    """Last transaction that is visible in the snapshot; None if none is."""


def ends_of(transactions: DataFrame, bases: Iterable[ArticleBase]) -> dict[str, SnapshotBounds]:
    """Return the bounds of each snapshot. Reads the transactions."""
    seen = {each.snapshot: visible(F.col("xid"), each.snapshot) for each in bases}
    if not seen:
        return {}
    row = transactions.agg(
        *(F.min(F.when(~is_seen, F.col("seqno"))) for is_seen in seen.values()),
        *(F.max(F.when(is_seen, F.col("seqno"))) for is_seen in seen.values()),
    ).first()
    assert row is not None
    return {
        snapshot: SnapshotBounds(first_unseen=row[at], last_seen=row[len(seen) + at])
        for at, snapshot in enumerate(seen)
    }


def chosen(
    bases: Iterable[ArticleBase], ends: Mapping[str, SnapshotBounds], *, upto: int | None
) -> list[ArticleBase]:
    """Return for each article its newest base that contains nothing later than a point.

    Raises:
        ArchiveError: an article has bases, but each of them contains later transactions.
    """
    newest: dict[int, ArticleBase] = {}
    late: dict[int, int] = {}
    for base in sorted(bases, key=lambda each: (each.seqno, each.shape)):
        last = ends[base.snapshot].last_seen
        if upto is None or last is None or last <= upto:
            newest[base.article_id] = base
        else:
            late.setdefault(base.article_id, last)
    for article, last in late.items():
        if article not in newest:
            raise ArchiveError(
                f"nothing can be told of article {article} at {lsn_text(upto or 0)}: its first base has in it "
                f"what was committed up to {lsn_text(last)}; choose that point or a later one"
            )
    return list(newest.values())


def rows_of(base: DataFrame, bases: Iterable[ArticleBase]) -> DataFrame:
    """Return the rows of these bases only."""
    these = [
        (F.col("article_id") == each.article_id)
        & (F.col("shape") == each.shape)
        & (F.col("snapshot") == each.snapshot)
        & (F.col("seqno") == each.seqno)
        for each in bases
    ]
    any_of = reduce(or_, these, F.lit(False))
    return base.where(any_of & F.col("key").isNotNull()).select(*base.columns)


def visible(xid: Column, snapshot: str) -> Column:
    """Return whether a transaction is visible in a snapshot (``xmin:xmax:xip,xip``)."""
    low, high, under_way = snapshot.split(":")
    running = [int(each) for each in under_way.split(",") if each]
    seen = xid < int(high)
    return ((xid < int(low)) | (seen & ~xid.isin(running))) if running else seen


def remaining(
    decoded: DataFrame,
    transactions: DataFrame,
    bases: Iterable[ArticleBase],
    ends: Mapping[str, SnapshotBounds],
) -> DataFrame:
    """Return the commands (`shapes.DECODED`) that are not in their article's base.

    Nearly all are decided by their sequence numbers: the base contains all commands before the first transaction
    that is not visible in the snapshot. The few visible transactions after that one are selected by a join.
    """
    by_snapshot: dict[str, list[int]] = {}
    for each in bases:
        by_snapshot.setdefault(each.snapshot, []).append(each.article_id)
    left = decoded
    for snapshot, articles in by_snapshot.items():
        end = ends[snapshot]
        if end.last_seen is None:
            continue
        of_these = F.col("article_id").isin(articles)
        if end.first_unseen is None:
            left = left.where(~of_these)
            continue
        left = left.where(~of_these | (F.col("seqno") >= end.first_unseen))
        if end.last_seen > end.first_unseen:
            seen = visible(F.col("xid"), snapshot) & (F.col("seqno") > end.first_unseen)
            ahead = transactions.where(seen).select(F.col("seqno").alias("ahead"))
            in_it = of_these & (F.col("seqno") == F.col("ahead"))
            left = left.join(F.broadcast(ahead), on=in_it, how="left_anti")
    return left.select(*decoded.columns)
