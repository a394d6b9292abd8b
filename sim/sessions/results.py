"""What statements and tables give back: rows as mappings, compared and printed as tables.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.sim.report.history import plain


class Rows(list[dict[str, Any]]):
    """A table's rows at a node, by key, without their versions; a list of mappings."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), *, where: str = "") -> None:
        super().__init__(dict(row) for row in rows)
        self.where = where
        """The table and its node, for messages."""

    def __getitem__(self, at: Any) -> Any:
        result = super().__getitem__(at)
        return Rows(result, where=self.where) if isinstance(at, slice) else result


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one statement returned."""

    rows: Rows = field(default_factory=Rows)
    """Empty for a statement that returns none."""
    rowcount: int = -1
    """-1 if the server does not say."""
    tag: str = ""
    """The server's command tag."""
    columns: tuple[str, ...] = ()
    """None for a statement that returns no rows."""

    def one(self) -> dict[str, Any]:
        """The only row.

        Raises:
            LookupError: there is none, or there are several.
        """
        if len(self.rows) != 1:
            raise LookupError(f"{len(self.rows)} rows where one was expected")
        row: dict[str, Any] = self.rows[0]
        return row

    def scalar(self) -> Any:
        """The first column of the only row."""
        return next(iter(self.one().values()))


def returned(result: Result) -> dict[str, Any]:
    """The fields of the record of a step that went well."""
    fields: dict[str, Any] = {"rowcount": result.rowcount, "tag": result.tag}
    if result.columns:
        fields["rows"] = tuple(
            {name: plain(value) for name, value in row.items()} for row in result.rows
        )
    return fields


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as the lines of a table; one line that says so if there are none."""
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
    """A value as psql would show it; texts as they are."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
