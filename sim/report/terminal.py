"""What a run prints: one line an order, its timeline, and for a failure where, what and how again."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

#: Columns where there is no terminal that has a width.
WIDTH = 100


class _Trimmed(io.TextIOBase):
    """Passes text on without the spaces with which rich fills its lines."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._line = ""

    def write(self, text: str) -> int:
        *whole, self._line = (self._line + text).split("\n")
        for line in whole:
            self._stream.write(line.rstrip() + "\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def console(file: TextIO | None = None, *, width: int | None = None) -> Console:
    """A console for standard output: colours on a terminal, plain text elsewhere or by NO_COLOR.

    Args:
        width: columns; without it those of the terminal, or `WIDTH` where there is none.
    """
    from rich import console

    class Console(console.Console):
        def on_broken_pipe(self) -> None:
            raise  # rich would end the process here, in the midst of a run

    stream = file or sys.stdout
    if stream.isatty():
        return Console(file=stream, width=width, highlight=False)
    if width is None and "COLUMNS" not in os.environ:
        width = WIDTH
    trimmed = cast("TextIO", _Trimmed(stream))
    return Console(file=trimmed, width=width, highlight=False, color_system=None)


def head(out: Console, path: str, about: str, nodes: Sequence[str]) -> None:
    """The first lines: which file, and what it shows."""
    from rich.padding import Padding
    from rich.text import Text

    what = f"1 Publisher, {_counted(len(nodes) - 1, 'Subscriber')}"
    out.print(Text.assemble((path, "bold"), (f"  {what}", "dim")), soft_wrap=True)
    if about:
        out.print(Padding(Text(" ".join(about.split())), (0, 0, 0, 2)))


def order_line(
    out: Console, name: str, *, passed: bool, unknown: bool, notes: str, elapsed_us: int
) -> None:
    """One order: its mark, name, what was remarkable, and how long it took."""
    from rich.table import Table
    from rich.text import Text

    mark, style = ("✓", "green") if passed else ("?", "yellow") if unknown else ("✗", "bold red")
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(width=3, justify="right")
    line.add_column(min_width=24)
    line.add_column(ratio=1, style="dim")
    line.add_column(justify="right", style="dim", no_wrap=True)
    line.add_row(Text(mark, style=style), Text(name), Text(notes), f"{elapsed_us / 1000:.0f} ms")
    out.print(line)


def remark(out: Console, text: str) -> None:
    """What an order is about, under its line."""
    from rich.padding import Padding
    from rich.text import Text

    if text:
        out.print(Padding(Text(" ".join(text.split()), style="dim"), (0, 0, 0, 4)))


def failure(out: Console, where: str, excerpt: Sequence[str], message: str) -> None:
    """Where something was expected, and what came instead."""
    from rich.padding import Padding
    from rich.text import Text

    out.print(Text.assemble("    ", (where, "bold")), soft_wrap=True)  # to be clicked on
    for line in excerpt:
        out.print(Text(f"  {line}"), soft_wrap=True)
    out.print(Padding(Text(message, style="red"), (0, 0, 0, 4)))


def again(out: Console, command: str, directory: str = "") -> None:
    """How to see it again, and where everything about it is."""
    from rich.text import Text

    out.print(Text(f"    again:  {command}"), soft_wrap=True)
    if directory:
        out.print(Text(f"    files:  {directory}/  (history.jsonl verdict.json)"), soft_wrap=True)
        out.print(Text(f"    page:   twopc report {directory} --html"), soft_wrap=True)


def total(out: Console, *, passed: int, failed: int, elapsed_s: float, invariants: str) -> None:
    """The last line."""
    from rich.text import Text

    parts = [f"{_counted(passed, 'order')} passed"] if passed or not failed else []
    parts += [f"{_counted(failed, 'order')} failed"] if failed else []
    style = "bold red" if failed else "bold green"
    out.print(
        Text.assemble(
            (", ".join(parts), style), f" in {elapsed_s:.2f} s · invariants: {invariants}"
        ),
        soft_wrap=True,
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
