"""Results of statements and tables: rows as mappings, compared and printed as tables.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.sim.report.history import plain


class Rows(list[dict[str, Any]]):
    """Rows of a table at a node, by key, without their row versions; a list of mappings."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), *, where: str = "") -> None:
        super().__init__(dict(row) for row in rows)
        self.where = where
        """Table and node, for messages."""

    def __getitem__(self, at: Any) -> Any:
        result = super().__getitem__(at)
        return Rows(result, where=self.where) if isinstance(at, slice) else result


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one statement."""

    rows: Rows = field(default_factory=Rows)
    """Rows; empty for a statement that returns none."""
    rowcount: int = -1
    """Number of rows; -1 if the server does not report it."""
    tag: str = ""
    """The server's command tag."""
    columns: tuple[str, ...] = ()
    """Names of the columns; empty for a statement that returns no rows."""

    def one(self) -> dict[str, Any]:
        """Return the only row.

        Raises:
            LookupError: there is no row, or several.
        """
        if len(self.rows) != 1:
            raise LookupError(f"{len(self.rows)} rows where one was expected")
        row: dict[str, Any] = self.rows[0]
        return row

    def scalar(self) -> Any:
        """Return the first column of the only row."""
        return next(iter(self.one().values()))


def returned(result: Result) -> dict[str, Any]:
    """Return the fields of the record of a successful step."""
    fields: dict[str, Any] = {"rowcount": result.rowcount, "tag": result.tag}
    if result.columns:
        fields["rows"] = tuple(
            {name: plain(value) for name, value in row.items()} for row in result.rows
        )
    return fields


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rows as the lines of a table; the single line ``(no rows)`` if there are none."""
    if not rows:
        return ["(no rows)"]
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[cell(row[name]) if name in row else "" for name in names] for row in rows]
    widths = [max(len(line[at]) for line in [names, *cells]) for at in range(len(names))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in [names, *cells]
    ]


def cell(value: Any) -> str:
    """Return a value as psql shows it; text unchanged."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain(value))
