"""Readers of the data source: partitions planned by the driver, and batches that tasks read as Arrow through ADBC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from twopc.sim.spark.shapes import arrow_schema
from twopc.sim.spark.source import queries
from twopc.sim.spark.source.facts import connected, facts
from twopc.sim.spark.source.filters import PushedFilters, push
from twopc.sim.spark.source.options import SourceOptions
from twopc.sql.checksum import PINNED


@dataclass
class Range(InputPartition):
    """A range of sequence numbers without `after`, or of a table's pages without `upto`."""

    after: int
    upto: int


def batches(
    options: SourceOptions, query: str, *, before: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the result of a query in batches, each with exactly the table's schema.

    Args:
        before: statements that are executed first, in the same transaction.
    """
    import adbc_driver_postgresql.dbapi as adbc

    schema = arrow_schema(options.columns)
    with (
        closing(adbc.connect(options.dsn)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.adbc_statement.set_options(
            **{"adbc.postgresql.batch_size_hint_bytes": str(options.batch_bytes)}
        )
        for statement in before:
            cursor.execute(statement)
        cursor.execute(query)
        with cursor.fetch_record_batch() as reader:
            for batch in reader:
                yield fitted(batch, schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the declared schema; Spark checks the first batch only."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


# -- tables that grow by sequence numbers ---------------------------------------------------------


@dataclass
class SparkLogReader(DataSourceReader):
    """Reader of commands or transactions; ranges of blocks are read in parallel."""

    options: SourceOptions
    pushed: PushedFilters | None = None

    def partitions(self) -> Sequence[InputPartition]:
        """Return ranges with about equal numbers of commands. Raises `GapError` if some have been removed."""
        result = facts(self.options.dsn, self.options.publisher)
        after, upto = self.options.after, self.options.upto
        if upto is None:
            upto = result.read_to
        if upto > after:
            result.holds(after=after, upto=upto, where="the distribution database")
        if self.pushed is not None:
            after, upto = max(after, self.pushed.after), min(upto, self.pushed.upto)
        return ranges(self.options, result.publisher.number, after, upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one range."""
        assert isinstance(partition, Range)
        conditions = self.pushed.conditions if self.pushed is not None else ()
        return log_batches(self.options, partition, conditions=conditions)


class PushingLogReader(SparkLogReader):
    """A `SparkLogReader` whose filters the database evaluates; Spark's filter pushdown must be enabled."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Accept the filters that compare integers; return the others."""
        self.pushed, left = push(self.options.table, filters, after=0, upto=(1 << 63) - 1)
        return left


def ranges(options: SourceOptions, number: int, after: int, upto: int) -> list[InputPartition]:
    """Return ranges that cover an interval; never an empty list, for which Spark would call a reader with None."""
    if upto <= after:
        return [Range(0, 0)]
    parts = options.partitions or 1 << 16
    query = queries.bounds(number, after=after, upto=upto, parts=parts, rows=options.partition_rows)
    with connected(options.dsn, "the distribution database") as connection:
        ends = [int(row[0]) for row in connection.execute(query.encode()).fetchall()]
    ends = [*(end for end in ends if end < upto), upto]
    return [Range(begin, end) for begin, end in zip([after, *ends], ends, strict=False)]


def log_batches(
    options: SourceOptions, part: Range, *, conditions: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one range."""
    if part.upto <= part.after:
        return
    # the partition does not carry the Publisher's number, so the task reads it
    number = facts_number(options)
    query = queries.logged(
        options.table, number, after=part.after, upto=part.upto, conditions=conditions
    )
    yield from batches(options, query, before=("set transaction read only",))


def facts_number(options: SourceOptions) -> int:
    """Return the Publisher's number in the distribution database."""
    return facts(options.dsn, options.publisher).publisher.number


# -- others ---------------------------------------------------------------------------------------


@dataclass
class SmallReader(DataSourceReader):
    """Reader of a small table, with one task."""

    options: SourceOptions

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition."""
        return [Range(0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the whole table."""
        options = self.options
        if options.table == "articles":
            result = facts(options.dsn, options.publisher).articles
            yield pa.RecordBatch.from_pylist(
                [dict(each) for each in result], schema=arrow_schema(options.columns)
            )
            return
        of_node = options.table in ("markers", "prepared")
        number = 0 if of_node else facts_number(options)
        yield from batches(
            options, queries.small(options.table, number), before=("set transaction read only",)
        )


@dataclass
class RowsReader(DataSourceReader):
    """Reader of a published table's rows; ranges of its pages are read in parallel."""

    options: SourceOptions

    def partitions(self) -> Sequence[InputPartition]:
        """Return ranges of the table's present pages; the last range includes pages that are added later."""
        article = self.options.article
        assert article is not None
        with connected(self.options.dsn, f"the table {article.source_object}") as connection:
            query = queries.pages((article.source_schema, article.source_object))
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        count = min(self.options.partitions or 1, max(1, int(row[0])))
        ends = [int(row[0]) * (each + 1) // count for each in range(count)]
        ends[-1] = (1 << 32) - 1
        return [Range(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows in one range of pages, in one snapshot."""
        assert isinstance(partition, Range)
        article = self.options.article
        assert article is not None
        query = queries.rows(
            article.article_id,
            (article.source_schema, article.source_object),
            article.columns,
            article.key,
            row_filter=article.filter_clause,
            pages=(partition.after, partition.upto),
        )
        before = ["set transaction isolation level repeatable read read only"]
        if self.options.snapshot:
            before.append(queries.snapshot(self.options.snapshot))
        before += PINNED.split("; ")
        return batches(self.options, query, before=before)
