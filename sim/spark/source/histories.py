"""Histories of runs as a table: files with one JSON record per line, read by ranges of whole lines."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from twopc.errors import ConfigurationError
from twopc.sim.report.history import SCHEMA, HistoryRecord
from twopc.sim.spark import shapes
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.source.options import SourceOptions

#: Maximum size of a range; a larger file is read by several tasks.
RANGE_BYTES = 64 << 20
_BATCH = 5000
_JSON = ("params", "rows", "conflict", "data")
#: Fields whose value is always kept; empty values of other fields become null.
_FILLED = {"seq", "t_us", "kind", "rowcount"}


@dataclass
class HistoryRange(InputPartition):
    """A range of bytes of a file; it has the lines that begin in it."""

    path: str
    run: str
    begin: int
    end: int


def files(path: str) -> list[Path]:
    """Return the histories that a file, a folder or a pattern names.

    Raises:
        PipelineError: there are none.
    """
    given = Path(path)
    if given.is_file():
        return [given]
    if given.is_dir():
        results = sorted(given.rglob("history.jsonl"))
    else:
        results = sorted(Path(each) for each in glob.glob(path, recursive=True))
        results = [each for one in results for each in (files(str(one)) if one.is_dir() else [one])]
    if not results:
        raise PipelineError(f"{path}: no history.jsonl there")
    # `latest` is a link to a run that is also listed under its own name
    return sorted({each.resolve() for each in results})


def run_of(path: Path) -> str:
    """Return a run's name: ``agent-outage/20261122T101500-4`` for a history in a run directory."""
    if path.name != "history.jsonl":
        return path.stem
    above = path.resolve().parent
    return f"{above.parent.name}/{above.name}" if above.parent.name else above.name


def check(path: Path) -> None:
    """Check that a file is a history that this program reads.

    Raises:
        PipelineError: it is not.
    """
    try:
        with path.open("rb") as file:
            first = file.readline()
        record = HistoryRecord.parse(first.decode()) if first.endswith(b"\n") else None
    except (OSError, ValueError, TypeError) as error:
        raise PipelineError(f"{path}: not a history: {error}") from error
    schema = (record.data or {}).get("schema") if record is not None else None
    if schema != SCHEMA:
        raise PipelineError(f"{path}: history of schema {schema}; this program reads {SCHEMA}")


@dataclass
class HistoryReader(DataSourceReader):
    """Reader of histories; each task reads a file, or a range of a large one."""

    options: SourceOptions

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges of all files, and check each file first."""
        results = []
        for path in files(self.options.path):
            check(path)
            size = path.stat().st_size
            results += [
                HistoryRange(str(path), run_of(path), begin, min(begin + RANGE_BYTES, size))
                for begin in range(0, size, RANGE_BYTES)
            ]
        return results

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of the lines that begin in the range."""
        assert isinstance(partition, HistoryRange)
        schema = shapes.arrow_schema(shapes.HISTORY)
        rows: list[dict[str, Any]] = []
        for line in _lines(partition):
            rows.append(row_of(partition.run, _record(partition.path, line)))
            if len(rows) == _BATCH:
                yield pa.RecordBatch.from_pylist(rows, schema=schema)
                rows = []
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _lines(part: HistoryRange) -> Iterator[bytes]:
    """Yield whole lines; an unterminated last line, as a killed run may leave, is omitted."""
    with open(part.path, "rb") as file:
        if part.begin:
            file.seek(part.begin - 1)
            file.readline()  # this line belongs to the previous range, unless it ends exactly there
        while file.tell() < part.end:
            line = file.readline()
            if not line.endswith(b"\n"):
                return
            yield line


def _record(path: str, line: bytes) -> HistoryRecord:
    try:
        return HistoryRecord.parse(line.decode())
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{path}: not a record of a history: {error}") from error


def row_of(run: str, record: HistoryRecord) -> dict[str, Any]:
    """Return a record as a row of `shapes.HISTORY`."""
    row: dict[str, Any] = {"run": run, "case": record.order or None}
    for name in shapes.HISTORY.names:
        if name in row:
            continue
        value = getattr(record, name)
        if name in _JSON:
            row[name] = (
                None if value is None else json.dumps(value, ensure_ascii=False, default=str)
            )
        else:
            row[name] = value if name in _FILLED or value not in ("", 0) else None
    return row


def record_of(row: Mapping[str, Any]) -> HistoryRecord:
    """Return the record that a row of `shapes.HISTORY` was made from."""
    fields = {name: row[name] for name in ("seq", "t_us", "kind")}
    for name in ("session", "node", "step", "gid", "sql", "tag", "sqlstate", "message"):
        fields[name] = row[name] or ""
    for name in _JSON:
        fields[name] = None if row[name] is None else json.loads(row[name])
    return HistoryRecord(
        order=row["case"] or "", rowcount=row["rowcount"], number=row["number"] or 0, **fields
    )
