"""What a run prints: one line an order, its timeline, and for a failure where, what and how again."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO, cast

from twopc.sim.report.phrases import took_text
from twopc.sim.report.timeline import STYLES

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.report.diagram import Line

#: Columns where there is no terminal that has a width.
WIDTH = 100
#: Columns of an order's name; what is said of it stands behind them.
_NAME_MIN = 24


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
            raise  # rich would end the process here, during a run

    stream = file or sys.stdout
    if stream.isatty():
        return Console(file=stream, width=width, highlight=False)
    if width is None and "COLUMNS" not in os.environ:
        width = WIDTH
    trimmed = cast("TextIO", _Trimmed(stream))
    return Console(file=trimmed, width=width, highlight=False, color_system=None)


def head(
    out: Console, path: str, about: str, nodes: Sequence[str], seed: int | None = None
) -> None:
    """The first lines: which file, and what it shows; the seed if there is one to be told."""
    from rich.padding import Padding
    from rich.text import Text

    what = f"1 Publisher, {_counted(len(nodes) - 1, 'Subscriber')}"
    what += f" · seed {seed}" if seed is not None else ""
    out.print(Text.assemble((path, "bold"), (f"  {what}", "dim")), soft_wrap=True)
    if about:
        out.print(Padding(Text(" ".join(about.split())), (0, 0, 0, 2)))


def order_line(
    out: Console, name: str, *, passed: bool, unknown: bool, notes: str, elapsed_us: int
) -> None:
    """One order: its mark, name, what was remarkable, and how long it took.

    Beside a long name there may be no room for what was remarkable: then it stands below.
    """
    from rich.table import Table
    from rich.text import Text

    mark, style = ("✓", "green") if passed else ("?", "yellow") if unknown else ("✗", "bold red")
    took = took_text(elapsed_us)
    room = out.width - 3 - max(len(name), _NAME_MIN) - len(took) - 3
    below = len(name) > _NAME_MIN and len(notes) > room
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(width=3, justify="right")
    line.add_column(min_width=_NAME_MIN)
    line.add_column(ratio=1, style="dim")
    line.add_column(justify="right", style="dim", no_wrap=True)
    line.add_row(Text(mark, style=style), Text(name), Text("" if below else notes), took)
    out.print(line)
    if below:
        remark(out, notes)


def failure_story(out: Console, because: str, however: str) -> None:
    """Why it came otherwise, and what speaks against that; an empty one is left out."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=11, justify="right", style="dim")
    grid.add_column()
    for word, text in (("because", because), ("however", however)):
        if text:
            grid.add_row(word, Text(text))
    if because or however:
        out.print(grid)


def also_failed(out: Console, name: str, message: str, command: str) -> None:
    """Another order of the same name that failed, in short."""
    from rich.padding import Padding
    from rich.text import Text

    text = Text.assemble(("✗ ", "bold red"), f"{name}: {message}")
    out.print(Padding(text, (0, 0, 0, 4)))
    if command:
        out.print(Text(f"      again:  {command}", style="dim"), soft_wrap=True)


def difference(out: Console, text: str) -> None:
    """Where an order that was repeated went another way."""
    from rich.padding import Padding
    from rich.text import Text

    if text:
        out.print(Padding(Text(text), (0, 0, 0, 4)))


def picture(out: Console, lines: Sequence[Line]) -> None:
    """A sequence diagram, or a part of one."""
    from rich.text import Text

    for line in lines:
        out.print(Text(f"    {line.text}", style=STYLES[line.style]), soft_wrap=True)


def table(out: Console, lines: Sequence[str]) -> None:
    """A load's figures, in columns as they are."""
    from rich.text import Text

    for line in lines:
        out.print(Text(f"    {line}"), soft_wrap=True)


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
    if message:
        out.print(Padding(Text(message, style="red"), (0, 0, 0, 4)))


def print_repeat(out: Console, command: str, directory: str = "") -> None:
    """How to see it again, and where everything about it is."""
    from rich.text import Text

    out.print(Text(f"    again:  {command}"), soft_wrap=True)
    if directory:
        files = "history.jsonl report.html sequence.mmd"
        out.print(Text(f"    files:  {directory}/  ({files})"), soft_wrap=True)


def total(
    out: Console, *, passed: int, failed: int, unknown: int = 0, elapsed_s: float, invariants: str
) -> None:
    """The last line; what is neither passed nor failed is in doubt, or came out in several ways."""
    from rich.text import Text

    parts = [f"{_counted(passed, 'order')} passed"] if passed or not (failed or unknown) else []
    parts += [f"{_counted(failed, 'order')} failed"] if failed else []
    parts += [f"{_counted(unknown, 'order')} inconclusive"] if unknown else []
    style = "bold red" if failed else "bold yellow" if unknown else "bold green"
    out.print(
        Text.assemble(
            (", ".join(parts), style), f" in {elapsed_s:.2f} s · invariants: {invariants}"
        ),
        soft_wrap=True,
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
