"""Results as isolationtester prints them: libpq's `PQprint` with a header and aligned columns.

Widths are counted in bytes, and a column is on the right if all its values look like numbers: as in
PostgreSQL's fe-print.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: `do_field` of fe-print.c: digits and signs only, a digit at the end, no exponent at the beginning.
_NUMERIC = re.compile(r"[0-9. -][0-9.Ee -]*(?<=[0-9])")


def result_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """The lines of one entry of `twopc.sim.sessions.scripts.printable`."""
    if "error" in result:
        yield from str(result["error"]).split("\n")
    elif result.get("columns"):  # else there is nothing that could be shown
        yield from _table(result["columns"], result["rows"], result["rowcount"])


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[str | None]], count: int
) -> Iterator[str]:
    cells = [[value or "" for value in row] for row in rows]
    right = [
        all(not row[at] or _is_numeric(row[at]) for row in cells) for at in range(len(columns))
    ]
    widths = [max(_bytes(row[at]) for row in [columns, *cells]) for at in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "|".join(
            " " * (width - _bytes(text)) + text if on_right else text + " " * (width - _bytes(text))
            for text, width, on_right in zip(row, widths, right, strict=True)
        )

    yield line(columns)
    yield "+".join("-" * width for width in widths)
    for row in cells:
        yield from line(row).split("\n")
    yield f"({count} row{'' if count == 1 else 's'})"
    yield ""


def _is_numeric(text: str) -> bool:
    return _NUMERIC.fullmatch(text) is not None


def _bytes(text: str) -> int:
    return len(text.encode())
