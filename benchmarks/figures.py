"""The report of a benchmark: a table for readers, then one line of JSON per figure."""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value."""

    name: str
    value: float
    unit: str
    target: float | None
    """None: the value is reported without a target."""
    better: str
    """``higher`` or ``lower``."""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether the target is reached; True if there is none."""
        if self.target is None:
            return True
        return self.value >= self.target if self.better == "higher" else self.value <= self.target


def add_only(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--only``, which selects figures; `selected` returns their names."""
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="FIGURE", help="beginnings of the figures' names"
    )


def selected(
    parser: argparse.ArgumentParser, beginnings: Sequence[str], names: Iterable[str]
) -> list[str]:
    """Return the `names` that begin with one of the `beginnings`; without any, all names.

    No name begins with one of them: end the program with the parser's error, which lists the names.
    """
    names = list(names)
    for each in beginnings:
        if not any(name.startswith(each) for name in names):
            parser.error(f"--only {each}: no such figure; the figures are {', '.join(names)}")
    return [name for name in names if not beginnings or name.startswith(tuple(beginnings))]


def report(title: str, figures: Sequence[Figure]) -> None:
    """Print the table, then the lines of JSON."""
    table = Table(title=f"{title} ({os.cpu_count()} cores)", title_justify="left")
    for heading in ("figure", "value", "target", "", "detail"):
        table.add_column(heading)
    for figure in figures:
        sign = "≥" if figure.better == "higher" else "≤"
        table.add_row(
            figure.name,
            f"{figure.value:.3f} {figure.unit}",
            "–" if figure.target is None else f"{sign} {figure.target:g}",
            "" if figure.target is None else "met" if figure.met else "missed",
            ", ".join(f"{key} {value}" for key, value in figure.detail.items()),
        )
    Console(width=160).print(table)
    for figure in figures:
        print(
            json.dumps(
                {
                    "name": figure.name,
                    "value": round(figure.value, 4),
                    "unit": figure.unit,
                    "target": figure.target,
                    "better": figure.better,
                    "detail": figure.detail,
                }
            )
        )


def spread(values: Sequence[float]) -> str:
    """Return the lowest and the highest value, for the detail column."""
    return f"{min(values):.2f}-{max(values):.2f}"


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)
