"""A stream of what the log reader stores: its offset is the last sequence number of a batch.

A batch ends where a transaction ends. What Spark remembers of offsets decides nothing: whoever writes cuts
at its own position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
    """Commands or transactions, as they are stored."""

    options: SourceOptions
    target: int | None = field(default=None, init=False)
    """Where the stream is to end, if it is for what is there now."""

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Where a stream without a checkpoint begins."""
        return {"seqno": self.options.after}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What `latestOffset` is given."""
        if self.options.segment is None:
            return ReadAllAvailable()
        return ReadMaxRows(self.options.segment)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """From now on what is stored later does not count."""
        self.target = self._end()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """The end of the next batch, which is the end of a transaction."""
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
        """Ranges between two offsets. Raises `GapError` if some of it is not there any more."""
        after, upto = start["seqno"], end["seqno"]
        result = facts(self.options.dsn, self.options.publisher)
        if upto > after:
            result.holds(after=after, upto=upto, where="the distribution database")
        return ranges(self.options, result.publisher.number, after, upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One range."""
        assert isinstance(partition, Range)
        return log_batches(self.options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: what a stream has read stays until clean-up removes it."""

    def _end(self) -> int:
        result = facts(self.options.dsn, self.options.publisher).read_to
        return result if self.options.upto is None else min(result, self.options.upto)
