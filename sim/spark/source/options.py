"""The options of the data source, read once and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import StructType

from twopc.sim.spark import shapes
from twopc.sim.spark.errors import PipelineError

#: All tables with their columns.
TABLES: dict[str, StructType] = {
    "commands": shapes.COMMANDS,
    "transactions": shapes.TRANSACTIONS,
    "articles": shapes.ARTICLES,
    "originators": shapes.ORIGINATORS,
    "subscriptions": shapes.SUBSCRIPTIONS,
    "agents": shapes.AGENTS,
    "agent_history": shapes.AGENT_HISTORY,
    "markers": shapes.MARKERS,
    "prepared": shapes.PREPARED,
    "rows": shapes.ROWS,
    "history": shapes.HISTORY,
}
PARTITION_ROWS = 500_000
BATCH_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A published table whose rows are to be read."""

    article_id: int
    source_schema: str
    source_object: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    filter_clause: str | None = None

    @classmethod
    def of(cls, article: Mapping[str, Any] | Row, *, filtered: bool = True) -> PublishedTable:
        """Return the table of a row of `shapes.ARTICLES`; `filtered`: only rows that fulfil its row filter."""
        columns = article["columns"]
        return cls(
            article_id=article["article_id"],
            source_schema=article["source_schema"],
            source_object=article["source_object"],
            columns=tuple(columns),
            key=tuple(columns[place] for place in article["key"]),
            filter_clause=article["filter_clause"] if filtered else None,
        )

    @classmethod
    def parse(cls, text: str) -> PublishedTable:
        """Parse the JSON text that `text` returns."""
        result = json.loads(text)
        result |= {name: tuple(result[name]) for name in ("columns", "key")}
        return cls(**result)

    def text(self) -> str:
        """Return the table as JSON text for `parse`."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Checked options of the data source. Only texts and numbers, as it is sent to executors."""

    table: str
    dsn: str = ""
    publisher: str = ""
    """The Publisher's name; empty: the only Publisher."""
    after: int = 0
    upto: int | None = None
    """None: the log reader's position when the query is planned."""
    partitions: int | None = None
    """Maximum number of partitions; None: as many as `partition_rows` gives."""
    partition_rows: int = PARTITION_ROWS
    """Minimum number of commands per partition."""
    path: str = ""
    article: PublishedTable | None = None
    snapshot: str = ""
    """Snapshot exported by a transaction that is still open; empty: the present rows."""
    batch_bytes: int = BATCH_BYTES
    segment: int | None = None
    """Approximate number of commands per batch of a stream; None: all that are stored."""
    columns: StructType = field(default_factory=StructType)

    @classmethod
    def read(cls, given: Mapping[str, str]) -> SourceOptions:
        """Parse and check the options given with ``.option(…)``; their names are not case-sensitive.

        Raises:
            PipelineError: an option is unknown, missing or invalid.
        """
        results = {name.lower(): value for name, value in given.items()}
        table = results.get("table", "")
        if table not in TABLES:
            raise PipelineError(
                f"format('twopc'): no table {table!r}; there are {', '.join(sorted(TABLES))}"
            )
        unknown = sorted(set(results) - _KNOWN)
        if unknown:
            raise PipelineError(
                f"format('twopc'): no option {unknown[0]!r}; there are {', '.join(sorted(_KNOWN))}"
            )
        needed = {"history": ("path",), "rows": ("dsn", "article")}.get(table, ("dsn",))
        for name in needed:
            if not results.get(name):
                raise PipelineError(f"format('twopc'): table {table!r} needs the option {name!r}")
        article = results.get("article")
        return cls(
            table=table,
            dsn=results.get("dsn", ""),
            publisher=results.get("publisher", ""),
            after=_number(results, "after") or 0,
            upto=_number(results, "upto"),
            partitions=_number(results, "partitions", least=1),
            partition_rows=_number(results, "partition_rows", least=1) or PARTITION_ROWS,
            path=results.get("path", ""),
            article=PublishedTable.parse(article) if article else None,
            snapshot=results.get("snapshot", ""),
            batch_bytes=_number(results, "batch_bytes", least=1) or BATCH_BYTES,
            segment=_number(results, "segment", least=1),
            columns=TABLES[table],
        )


#: All options; `TwopcDataSource` reads ``pushdown`` itself.
_KNOWN = {each.name for each in fields(SourceOptions)} - {"columns"} | {"pushdown"}


def _number(result: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    text = result.get(name)
    if text is None or text == "":
        return None
    if not text.isdecimal() or int(text) < least:
        raise PipelineError(f"format('twopc'): {name}={text!r} is not a number from {least} on")
    return int(text)
