"""Where two states of the same tables differ, row by row."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.sim.spark import shapes

#: What is said of a row that is on one side only.
NO_ROW = "no row"
NO_BASE = "incomplete: no base"


def compare_states(
    expected: DataFrame,
    actual: DataFrame,
    articles: DataFrame,
    *,
    node: str = "",
    versions: bool = True,
) -> DataFrame:
    """The rows in which two states differ, by key and text.

    Args:
        expected: of `shapes.STATE` or `shapes.ROWS`. A row that is not complete, since nobody knows what was
            there before its first update, is a divergence whatever the other side has.
        actual: likewise, in the same shapes.
        articles: of `shapes.ARTICLES`, the one shape of each article that both are in. Others are not looked at.
        node: where the actual rows are, for the text.
        versions: False: rows that differ in their version only are equal.

    Returns:
        `shapes.DIVERGENCES` of class ``state``.
    """
    named = articles.select(
        "article_id", _name().alias("article"), F.col("columns").alias("names"), "version"
    )
    one = _side(expected).withColumnRenamed("values", "expected_values")
    other = _side(actual).select("article_id", "key", F.col("values").alias("actual_values"))
    same_row = ["article_id", "key"]
    joined = one.join(other, on=same_row, how="full_outer").join(
        F.broadcast(named), on="article_id", how="inner"
    )
    if not versions:
        for side in ("expected_values", "actual_values"):
            joined = joined.withColumn(side, _without(side, "version"))
    incomplete = F.coalesce(~F.col("complete"), F.lit(False))
    differs = incomplete | ~F.col("expected_values").eqNullSafe(F.col("actual_values"))
    at = F.lit(f" at {node}" if node else "")
    return joined.where(differs).select(
        F.lit("state").alias("class"),
        "article",
        "key",
        F.col("seqno"),
        F.lit(None).cast("string").alias("gid"),
        F.lit(None).cast("string").alias("session"),
        F.lit(None).cast("string").alias("call"),
        F.when(incomplete, NO_BASE)
        .otherwise(_told(F.col("expected_values"), F.col("actual_values")))
        .alias("expected"),
        F.concat(_told(F.col("actual_values"), F.col("expected_values")), at).alias("actual"),
    ).select(*shapes.DIVERGENCES.names)  # fmt: skip


def _name() -> Column:
    """``table``, or ``schema.table`` outside ``public``."""
    return F.when(F.col("source_schema") == "public", F.col("source_object")).otherwise(
        F.concat_ws(".", "source_schema", "source_object")
    )


def _without(values: str, place: str) -> Column:
    """The same values, NULL at one place."""
    return F.transform(values, lambda value, at: F.when(at != F.col(place), value))


def _side(state: DataFrame) -> DataFrame:
    complete = F.col("complete") if "complete" in state.columns else F.lit(True)
    seqno = F.col("seqno") if "seqno" in state.columns else F.lit(None).cast("bigint")
    return state.select(
        "article_id", "key", "values", seqno.alias("seqno"), complete.alias("complete")
    )


def _told(values: Column, others: Column) -> Column:
    """``balance '90', note NULL``: the columns that differ; of a row that is on one side only, all."""

    def literal(value: Column) -> Column:
        return F.coalesce(F.concat(F.lit("'"), value, F.lit("'")), F.lit("NULL"))

    def said(name: Column, at: Column) -> Column:
        value = F.get(values, at)
        differs = others.isNull() | ~value.eqNullSafe(F.get(others, at))
        return F.when(differs, F.concat(name, F.lit(" "), literal(value)))

    told = F.array_join(F.transform("names", said), ", ")
    return F.when(values.isNull(), NO_ROW).otherwise(told)
