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
    articles: Iterable[Row | Mapping[str, Any]],
    *,
    is_publisher: bool,
) -> DataFrame:
    """Return `shapes.ROWS` of a node's tables; at the Publisher, only rows that satisfy the article's row filter."""
    frames = [
        read(
            spark,
            "rows",
            dsn=dsn,
            article=PublishedTable(
                article_id=each["article_id"],
                source_schema=each["source_schema"],
                source_object=each["source_object"],
                columns=tuple(each["columns"]),
                key=tuple(each["columns"][at] for at in each["key"]),
                filter_clause=each["filter_clause"] if is_publisher else None,
            ).text(),
        )
        for each in articles
    ]
    nothing = shapes.frame(spark, [], shapes.ROWS)
    return reduce(DataFrame.unionByName, frames, nothing)
