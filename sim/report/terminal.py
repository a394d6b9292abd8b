"""The terminal output of a run: one line for each order, its timeline, and the details of a failure."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO, cast

from twopc.sim.report.phrases import counted, took_text
from twopc.sim.report.timeline import STYLES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from twopc.sim.report.diagram import Line

#: Width of the output without a terminal.
WIDTH = 100
#: Minimum width of the column of orders' names, before that of the notes.
_NAME_MIN = 24


class _Trimmed(io.TextIOBase):
    """A stream that removes the spaces with which rich pads lines."""

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
    """Return a console for standard output: colours on a terminal, plain text elsewhere or if NO_COLOR is set.

    Args:
        width: columns; by default those of the terminal, or `WIDTH` without a terminal.
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


def _indented(out: Console, text: Text | str, style: str = "", columns: int = 4) -> None:
    """Print text that is wrapped within an indented column."""
    from rich.padding import Padding
    from rich.text import Text

    shown = Text(text, style=style) if isinstance(text, str) else text
    out.print(Padding(shown, (0, 0, 0, columns)))


def _unbroken(out: Console, text: str, style: str = "") -> None:
    """Print text that is not wrapped."""
    from rich.text import Text

    out.print(Text(text, style=style), soft_wrap=True)


def head(
    out: Console, path: str, about: str, nodes: Sequence[str], seed: int | None = None
) -> None:
    """Print the first lines: the file, its description, and the seed if given."""
    from rich.text import Text

    what = f"1 Publisher, {counted(len(nodes) - 1, 'Subscriber')}"
    what += f" · seed {seed}" if seed is not None else ""
    out.print(Text.assemble((path, "bold"), (f"  {what}", "dim")), soft_wrap=True)
    if about:
        _indented(out, " ".join(about.split()), columns=2)


def order_line(
    out: Console, name: str, *, passed: bool, unknown: bool, notes: str, elapsed_us: int
) -> None:
    """Print the line of an order: mark, name, notes and duration.

    If there is no room for the notes beside a long name, they are printed below.
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
    """Print the cause of a failure and the counterpoint; an empty text is left out."""
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
    """Print another failed order of the same name, in short."""
    from rich.text import Text

    _indented(out, Text.assemble(("✗ ", "bold red"), f"{name}: {message}"))
    if command:
        _unbroken(out, f"      again:  {command}", "dim")


def difference(out: Console, text: str) -> None:
    """Print where a repeated order behaved differently."""
    if text:
        _indented(out, text)


def picture(out: Console, lines: Sequence[Line]) -> None:
    """Print a sequence diagram, or a part of one."""
    for line in lines:
        _unbroken(out, f"    {line.text}", STYLES[line.style])


def table(out: Console, lines: Sequence[str]) -> None:
    """Print a load's figures, which are already in columns."""
    for line in lines:
        _unbroken(out, f"    {line}")


def remark(out: Console, text: str) -> None:
    """Print a description below an order's line."""
    if text:
        _indented(out, " ".join(text.split()), "dim")


def failure(out: Console, where: str, excerpt: Sequence[str], message: str) -> None:
    """Print the place of a failed expectation, and the message."""
    from rich.text import Text

    out.print(
        Text.assemble("    ", (where, "bold")), soft_wrap=True
    )  # unbroken, so that terminals make it a link
    for line in excerpt:
        _unbroken(out, f"  {line}")
    if message:
        _indented(out, message, "red")


def print_repeat(out: Console, command: str, directory: str = "") -> None:
    """Print the command that plays the order again, and the directory of the run's files."""
    _unbroken(out, f"    again:  {command}")
    if directory:
        files = "history.jsonl report.html sequence.mmd"
        _unbroken(out, f"    files:  {directory}/  ({files})")


def total(
    out: Console, *, passed: int, failed: int, unknown: int = 0, elapsed_s: float, invariants: str
) -> None:
    """Print the last line; orders that neither passed nor failed are inconclusive."""
    from rich.text import Text

    parts = [f"{counted(passed, 'order')} passed"] if passed or not (failed or unknown) else []
    parts += [f"{counted(failed, 'order')} failed"] if failed else []
    parts += [f"{counted(unknown, 'order')} inconclusive"] if unknown else []
    style = "bold red" if failed else "bold yellow" if unknown else "bold green"
    out.print(
        Text.assemble(
            (", ".join(parts), style), f" in {elapsed_s:.2f} s · invariants: {invariants}"
        ),
        soft_wrap=True,
    )
