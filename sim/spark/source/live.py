"""Rows of a node's tables as one DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from twopc.sim.spark import shapes
from twopc.sim.spark.source import read
from twopc.sim.spark.source.options import PublishedTable


def live_rows(
    spark: SparkSession,
    dsn: str,
    articles: Iterable[Mapping[str, Any] | Row],
    *,
    is_publisher: bool,
) -> DataFrame:
    """Return `shapes.ROWS` of a node's tables; at the Publisher, only rows that satisfy the article's row filter."""
    tables = [PublishedTable.of(each, filtered=is_publisher) for each in articles]
    frames = [read(spark, "rows", dsn=dsn, article=each.text()) for each in tables]
    nothing = shapes.frame(spark, [], shapes.ROWS)
    return reduce(DataFrame.unionByName, frames, nothing)
