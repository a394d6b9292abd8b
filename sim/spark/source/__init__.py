"""The data source ``format("twopc")``: a distribution database, live tables and histories as tables of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from twopc.sim.spark import shapes
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.source import queries
from twopc.sim.spark.source.histories import HistoryReader
from twopc.sim.spark.source.options import TABLES, PublishedTable, SourceOptions
from twopc.sim.spark.source.reader import PushingLogReader, RowsReader, SmallReader, SparkLogReader
from twopc.sim.spark.source.stream import LogStreamReader

__all__ = ["TABLES", "TwopcDataSource", "live_rows", "read", "register"]


class TwopcDataSource(DataSource):
    """``spark.read.format("twopc").option("table", …)``; see `twopc.sim.spark.source.options.SourceOptions`."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "twopc"

    def schema(self) -> StructType:
        """Return the columns of the table."""
        return self._read().columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for one query."""
        options = self._read()
        if queries.is_log(options.table):
            pushing = self.options.get("pushdown", "false").lower() == "true"
            return PushingLogReader(options) if pushing else SparkLogReader(options)
        if options.table == "rows":
            return RowsReader(options)
        if options.table == "history":
            return HistoryReader(options)
        return SmallReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader for one stream; only commands and transactions can be streamed."""
        options = self._read()
        if not queries.is_log(options.table):
            raise PipelineError(
                f"format('twopc'): {options.table} cannot be streamed; commands and transactions can"
            )
        return LogStreamReader(options)

    def _read(self) -> SourceOptions:
        return SourceOptions.read(dict(self.options))


def register(spark: SparkSession) -> None:
    """Register the format with a session; registering again is harmless."""
    spark.dataSource.register(TwopcDataSource)


def read(spark: SparkSession, table: str, **options: str) -> DataFrame:
    """Return a table as a DataFrame; the database evaluates filters if the session has filter pushdown enabled."""
    register(spark)
    pushed = spark.conf.get("spark.sql.python.filterPushdown.enabled", "false")
    reader = spark.read.format("twopc").options(table=table, pushdown=str(pushed), **options)
    return reader.load()


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
