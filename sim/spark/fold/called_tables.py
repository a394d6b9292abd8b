"""Tables that calls of routines changed without recorded rows: they cannot be folded past such a call.

A base that was taken after the call contains its changes; a new base therefore solves the problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.lsn import lsn_text
from twopc.names import article_name
from twopc.sim.spark.archive.manifest import ArticleBase
from twopc.sim.spark.fold.bases import visible
from twopc.sim.spark.routines import routine_calls, routine_name, silent, written_by


def called(
    commands: DataFrame,
    transactions: DataFrame,
    bases: Iterable[ArticleBase],
    articles: Sequence[Row],
    routines: Iterable[Mapping[str, Any]],
) -> dict[int, str]:
    """Return why articles cannot be folded, by article. Reads the calls.

    Args:
        commands: of `shapes.COMMANDS`, up to the requested point.
        transactions: of `shapes.TRANSACTIONS`, those of the commands.
        bases: the bases from which the articles are folded.
        articles: of `shapes.ARTICLES`, the newest shape of each.
        routines: of `shapes.ROUTINES`, all that were ever published.
    """
    snapshots = {each.article_id: each.snapshot for each in bases}
    unseen = {each: ~visible(F.col("xid"), each) for each in sorted({*snapshots.values()})}
    calls = silent(routine_calls(commands)).join(
        transactions.select("seqno", "xid"), on="seqno", how="inner"
    )
    first = F.min("seqno").alias("first")
    after = (F.min(F.when(is_unseen, F.col("seqno"))) for is_unseen in unseen.values())
    known = {int(each["article_id"]): each for each in routines}
    results: dict[int, tuple[int, int]] = {}
    for row in calls.groupBy("article_id").agg(first, *after).collect():
        number = int(row["article_id"])
        of_base = dict(zip(unseen, row[2:], strict=True))
        for article in written_by(known.get(number), (each.asDict() for each in articles)):
            seqno = of_base[snapshots[article]] if article in snapshots else row["first"]
            if seqno is not None:
                results[article] = min(results.get(article, (seqno, number)), (seqno, number))
    names = {int(e["article_id"]): article_name(e["source_schema"], e["source_object"]) for e in articles}  # fmt: skip
    return {
        article: f"{names[article]}: {routine_name(known.get(number), number)} was called by transaction {lsn_text(seqno)}, "
        "and what it changed is not among the commands: choose a point before it, or take a new base of the table"
        for article, (seqno, number) in results.items()
    }
