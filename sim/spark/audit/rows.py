"""Check of rows: the Publisher, its Subscribers and the fold of the commands hold the same rows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.sim.spark.audit.frames import (
    Frames,
    Names,
    by_whom,
    findings,
    last_changes,
    newest_articles,
)

#: The node of a difference between the Publisher's rows and the fold.
ARCHIVE = "archive"


def differences(frames: Frames, names: Names) -> DataFrame:
    """Return the rows whose texts differ between two places.

    Returns:
        `node article_id key expected actual last article columns version`; node: where `actual` is, or `ARCHIVE`
        for a difference between the fold and the Publisher. `last`: the row's last change. `version`: its place;
        null where versions are not compared.
    """
    at_publisher = frames.rows_at.where(F.col("node") == names.publisher)
    here = at_publisher.select("article_id", "key", F.col("values").alias("expected"))
    present = frames.rows_at.where(F.col("node") != names.publisher)
    pairs = (
        frames.subscriptions.where("status = 2")
        .select("article_id", F.col("subscriber").alias("node"))
        .where(F.col("node").isin(*frames.read))
    )
    expected = F.broadcast(pairs).join(here, on="article_id", how="inner")
    there = present.select("node", "article_id", "key", F.col("values").alias("actual")).join(
        F.broadcast(pairs), on=["node", "article_id"], how="left_semi"
    )
    newest = newest_articles(frames.articles)
    if frames.own_versions:
        places = F.broadcast(newest.select("article_id", "version"))
        expected = _without_version(frames, expected.join(places, on="article_id"), "expected")
        there = _without_version(frames, there.join(places, on="article_id"), "actual")
    differ = ~F.col("expected").eqNullSafe(F.col("actual"))
    of_subscribers = expected.join(there, on=["node", "article_id", "key"], how="full").where(
        differ
    )
    folded = F.col("article_id").isin(*frames.folded)
    of_fold = (
        frames.state.where(folded)
        .select("article_id", "key", F.col("values").alias("expected"))
        .join(
            at_publisher.where(folded).select("article_id", "key", F.col("values").alias("actual")),
            on=["article_id", "key"],
            how="full",
        )
        .where(differ)
        .join(frames.later, on=["article_id", "key"], how="left_anti")
        .select(F.lit(ARCHIVE).alias("node"), "article_id", "key", "expected", "actual")
    )
    columns = ("node", "article_id", "key", "expected", "actual")
    return (
        of_subscribers.select(*columns)
        .unionByName(of_fold)
        .join(last_changes(frames.changes), on=["article_id", "key"], how="left")
        .join(F.broadcast(newest), on="article_id", how="left")
        .select(
            *columns, "last", "article", "columns",
            F.when(~_own_versions(frames), F.col("version")).alias("version"),
        )
    )  # fmt: skip


def _own_versions(frames: Frames) -> Column:
    """Return the condition that the row versions at a node are its own."""
    result = F.lit(False)
    for node, article in sorted(frames.own_versions):
        result |= (F.col("node") == node) & (F.col("article_id") == article)
    return result


def _without_version(frames: Frames, rows: DataFrame, values: str) -> DataFrame:
    """Replace the row version by null where versions are not compared."""

    def kept(value: Column, at: Column) -> Column:
        return F.when(~(_own_versions(frames) & at.eqNullSafe(F.col("version"))), value)

    cut = F.when(F.col(values).isNotNull(), F.transform(values, kept))
    return rows.withColumn(values, cut).drop("version")


def check(frames: Frames, names: Names, result: DataFrame | None = None) -> DataFrame:
    """Return `FINDINGS` of class ``rows``.

    Args:
        result: the result of `differences`; None: it is computed.
    """
    frame = differences(frames, names) if result is None else result
    of_fold = F.col("node") == ARCHIVE
    where = F.when(of_fold, F.lit(names.publisher)).otherwise(F.col("node"))
    lines = (
        F.when(
            F.col("actual").isNull(),
            F.when(of_fold, F.lit("not there; the commands come to a row")).otherwise(
                "not there; the Publisher has it"
            ),
        )
        .when(
            F.col("expected").isNull(),
            F.when(of_fold, F.lit("there; the commands come to no row")).otherwise(
                "there; the Publisher has no such row"
            ),
        )
        .otherwise(changed_columns())
    )
    return findings(
        frame, "rows", names, node=where, detail=F.concat(lines, by_whom("last")),
        seqno=F.col("last.seqno"), gid=F.col("last.gid"),
    )  # fmt: skip


def changed_columns() -> Column:
    """Return ``balance '90', not '80'; …`` from `expected`, `actual` and `columns`."""

    def text(value: Column) -> Column:
        return F.coalesce(F.concat(F.lit("'"), F.substr(value, F.lit(1), F.lit(60)), F.lit("'")), F.lit("NULL"))  # fmt: skip

    def of_column(name: Column, at: Column) -> Column:
        actual, expected = F.get("actual", at), F.get("expected", at)
        return F.when(
            ~actual.eqNullSafe(expected),
            F.concat(name, F.lit(" "), text(actual), F.lit(", not "), text(expected)),
        )

    report = F.transform("columns", of_column)
    return F.array_join(F.filter(report, lambda each: each.isNotNull()), "; ")
