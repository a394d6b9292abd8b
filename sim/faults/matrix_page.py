"""Results of cells as a table on an HTML page, and as CSV. The page is one file and needs no network.

Independent of how cells are played.
"""

from __future__ import annotations

import csv
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

#: States with their signs and meanings; the worst last.
SIGNS = {
    "empty": ("·", "nothing to strike"),
    "ok": ("✓", "all invariants hold"),
    "broken": ("✗", "broken"),
}
_ORDER = [*SIGNS]


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """A cell as it is shown; the table may show several in one place."""

    row: str
    """Title of the row: ``M1 the coordinator``."""
    column: str
    """Title of the column: ``coordinator.decision_logged``."""
    name: str
    state: str
    """One of `SIGNS`."""
    outcome: str
    seconds: float
    broken: tuple[str, ...]
    command: str
    """Command that plays the cell again."""


def write_csv(path: Path, squares: Sequence[Square]) -> None:
    """Write every cell as one line."""
    names = ("row", "column", "name", "state", "outcome", "seconds", "broken", "command")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for square in squares:
            values = [getattr(square, name) for name in names]
            writer.writerow(
                ["; ".join(value) if isinstance(value, tuple) else value for value in values]
            )


def write_page(
    path: Path,
    *,
    title: str,
    squares: Sequence[Square],
    seconds: float,
    missing: Sequence[tuple[str, str]] = (),
) -> None:
    """Write the page with the table of faults by points.

    Args:
        path: of the file.
        title: title of what was played.
        squares: in the order of rows and columns.
        seconds: duration of the whole matrix.
        missing: rows without squares, each with where it is played instead.
    """
    rows = list(dict.fromkeys(square.row for square in squares))
    columns = list(dict.fromkeys(square.column for square in squares))
    places: dict[tuple[str, str], list[int]] = {}
    for number, square in enumerate(squares):
        places.setdefault((square.row, square.column), []).append(number)
    head = "".join(f'<th class="point"><div>{html.escape(name)}</div></th>' for name in columns)
    body = []
    for row in rows:
        cells = "".join(_cell(squares, places.get((row, column), [])) for column in columns)
        body.append(f'<tr><th class="row">{html.escape(row)}</th>{cells}</tr>')
    for row, where in missing:
        body.append(
            f'<tr class="elsewhere"><th class="row">{html.escape(row)}</th>'
            f'<td colspan="{max(1, len(columns))}">{html.escape(where)}</td></tr>'
        )
    here = resources.files("twopc.sim.faults")
    text = (
        (here / "matrix_page.html")
        .read_text(encoding="utf-8")
        .replace("{{title}}", html.escape(title))
        .replace("{{figures}}", html.escape(figures(squares, seconds)))
        .replace("{{legend}}", _legend())
        .replace("{{head}}", head)
        .replace("{{body}}", "\n".join(body))
        .replace("{{squares}}", _as_json(squares))
    )
    path.write_text(text, encoding="utf-8")


def figures(squares: Sequence[Square], seconds: float) -> str:
    """Return the numbers of cells by state, and the duration, as text."""
    counts = {state: sum(square.state == state for square in squares) for state in SIGNS}
    return (
        f"{len(squares)} cells: {counts['broken']} broken, {counts['ok']} hold,"
        f" {counts['empty']} with nothing to strike; {seconds:.0f} s"
    )


def _cell(squares: Sequence[Square], numbers: list[int]) -> str:
    if not numbers:
        return "<td></td>"
    state = max((squares[number].state for number in numbers), key=_ORDER.index)
    sign, meaning = SIGNS[state]
    count = f"<small>{len(numbers)}</small>" if len(numbers) > 1 else ""
    listed = ",".join(map(str, numbers))
    return (
        f'<td><button class="{state}" data-squares="{listed}" aria-label="{meaning}">'
        f"{sign}{count}</button></td>"
    )


def _legend() -> str:
    return " ".join(
        f'<span class="{state}">{sign}</span> {meaning}' for state, (sign, meaning) in SIGNS.items()
    )


def _as_json(squares: Sequence[Square]) -> str:
    lines = [
        {
            "name": square.name,
            "state": square.state,
            "outcome": square.outcome,
            "seconds": round(square.seconds, 2),
            "broken": square.broken,
            "command": square.command,
        }
        for square in squares
    ]
    return json.dumps(lines, ensure_ascii=False).replace("</", "<\\/")
