"""Report of a replay: counts, divergences by class, and what could not be examined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from twopc.lsn import lsn_text
from twopc.sim.replay.divergence import CLASSES, Divergence
from twopc.sim.spark import shapes
from twopc.sim.spark.archive.files import spark_path

#: Columns by which divergences are sorted.
_ORDER = ("class", "article", "key", "seqno", "session", "call", "actual")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """Report of one replay."""

    after: int
    upto: int
    """The range, as sequence numbers."""
    counts: Mapping[str, int]
    classes: Mapping[str, int]
    """Number of divergences by class, without classes that were not examined."""
    divergences: DataFrame | Sequence[Divergence]
    """All divergences, as a DataFrame of `shapes.DIVERGENCES` or as values."""
    unexamined: Sequence[str] = ()
    """What could not be examined, and why."""
    seconds: float = 0.0
    remarks: Sequence[str] = ()
    """Lines about the replay itself."""
    pace: Mapping[str, float] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Measurements of the recording and of the replay."""

    @property
    def total(self) -> int:
        """Number of divergences."""
        return sum(self.classes.values())

    def shown(self, limit: int) -> list[dict[str, Any]]:
        """Return the first divergences, by class, article and key."""
        if not self.total:
            return []
        if isinstance(self.divergences, DataFrame):
            ordered = self.divergences.orderBy(*_ORDER)
            return [row.asDict() for row in ordered.limit(limit).collect()]
        return sorted((each.as_row() for each in self.divergences), key=_nulls_first)[:limit]

    def write(self, folder: Path) -> None:
        """Write all divergences as Parquet."""
        if isinstance(self.divergences, DataFrame):
            self.divergences.write.mode("overwrite").parquet(spark_path(folder.absolute()))
            return
        folder.mkdir(parents=True, exist_ok=True)
        schema = shapes.arrow_schema(shapes.DIVERGENCES)
        made = pyarrow.Table.from_pylist(
            [each.as_row() for each in self.divergences], schema=schema
        )
        pyarrow.parquet.write_table(made, folder / "part-00000.parquet", compression="zstd")

    def as_json(self, *, limit: int, repro: str) -> dict[str, Any]:
        """Return the report as one JSON document."""
        shown = self.shown(limit)
        return {
            "command": "replay",
            "range": {"after": self.after, "upto": self.upto},
            "counts": dict(self.counts),
            "classes": dict(self.classes),
            "divergences": shown,
            "left_out": self.total - len(shown),
            "unexamined": list(self.unexamined),
            "pace": dict(self.pace),
            "figures": dict(self.figures),
            "seconds": round(self.seconds, 3),
            "repro": repro,
        }

    def lines(self, *, limit: int) -> list[str]:
        """Return the report as lines of text."""
        shown = self.shown(limit)
        texts = list(self.remarks)
        by_class = " · ".join(f"{name} {count:,}" for name, count in self.classes.items())
        if self.classes:
            texts.append(f"divergence: {self.total or 'none'}   {by_class}")
        texts += [_line(each) for each in shown]
        if self.total > len(shown):
            texts.append(f"  … and {self.total - len(shown):,} more")
        texts += [f"not examined: {each}" for each in self.unexamined]
        return texts


def frame_of(spark: SparkSession, divergences: Iterable[Divergence]) -> DataFrame:
    """Return `shapes.DIVERGENCES` with these values."""
    names = shapes.DIVERGENCES.names
    rows = [tuple(row[name] for name in names) for row in (each.as_row() for each in divergences)]
    return shapes.frame(spark, rows, shapes.DIVERGENCES)


def counted(divergences: DataFrame, examined: Sequence[str]) -> dict[str, int]:
    """Return the number of divergences by class, 0 for examined classes without any."""
    results = {row["class"]: row["count"] for row in divergences.groupBy("class").count().collect()}
    return {
        name: int(results.get(name, 0)) for name in CLASSES if name in examined or name in results
    }


def _nulls_first(result: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple((result[name] is not None, result[name]) for name in _ORDER)


def _line(result: Mapping[str, Any]) -> str:
    key = ", ".join("NULL" if each is None else each for each in result["key"] or ())
    place = " ".join(
        each
        for each in (
            result["article"],
            f"key {key}" if result["key"] else None,
            result["session"],
            result["call"],
            lsn_text(result["seqno"]) if (result["seqno"] or -1) > 0 else None,
            result["gid"],
        )
        if each
    )
    return (
        f"  ✗ {result['class']:<8} {place}: {result['expected']} was expected, {result['actual']}"
    )
