"""Streaming reader of stored commands or transactions; its offset is the last sequence number of a batch.

A batch ends at the end of a transaction. Offsets that Spark keeps are not authoritative: the writer skips what is
before its own position.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from twopc.sim.spark.source import queries
from twopc.sim.spark.source.facts import connected, facts
from twopc.sim.spark.source.options import SourceOptions
from twopc.sim.spark.source.reader import Range, log_batches, ranges

Offset = dict[str, int]


@dataclass
class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream of commands or transactions in the order of their sequence numbers."""

    options: SourceOptions
    target: int | None = field(default=None, init=False)
    """Position at which the stream ends if it covers only what is stored when it starts; else None."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset of a stream without a checkpoint."""
        return {"seqno": self.options.after}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the limit that `latestOffset` receives."""
        if self.options.segment is None:
            return ReadAllAvailable()
        return ReadMaxRows(self.options.segment)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of the stream: transactions stored later are not included."""
        self.target = self._end()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return the end of the next batch, which is the end of a transaction."""
        after = start["seqno"]
        end = self._end() if self.target is None else self.target
        if end <= after:
            return start
        if isinstance(limit, ReadMaxRows):
            result = facts(self.options.dsn, self.options.publisher)
            query = queries.batch_end(result.publisher.number, after=after, rows=limit.max_rows)
            with connected(self.options.dsn, "the distribution database") as connection:
                row = connection.execute(query.encode()).fetchone()
            if row is not None and row[0] is not None:
                end = min(end, int(row[0]))
        return {"seqno": end}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return ranges between two offsets. Raises `GapError` if some commands have been removed."""
        after, upto = start["seqno"], end["seqno"]
        result = facts(self.options.dsn, self.options.publisher)
        if upto > after:
            result.holds(after=after, upto=upto, where="the distribution database")
        return ranges(self.options, result.publisher.number, after, upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one range."""
        assert isinstance(partition, Range)
        return log_batches(self.options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: what a stream has read stays until clean-up removes it."""

    def _end(self) -> int:
        result = facts(self.options.dsn, self.options.publisher).read_to
        return result if self.options.upto is None else min(result, self.options.upto)

    def stop(self) -> None:
        """Called at the end of the process that Spark has started for this reader."""
        sys.excepthook = _report


def _report(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Report an error that ends the process, except that Spark, which was stopped during a poll, does not take the
    answer.
    """
    if not issubclass(kind, BrokenPipeError | ConnectionResetError):
        sys.__excepthook__(kind, error, traceback)
