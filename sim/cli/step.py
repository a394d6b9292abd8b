"""``twopc step``: step through one order by hand, with the state of every node after each step."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.completion import order_names
from twopc.sim.cli.exits import NOTHING, PASS
from twopc.sim.cli.options import PlaceOptions, RunOptions

if TYPE_CHECKING:
    from twopc.sim.scenario.check import LoadedScenario


@command
def step(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A scenario file.")],
    order: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The order; a generated one as 'every order #3'. Default: the first.",
            autocompletion=order_names,
        ),
    ] = "",
    place: PlaceOptions,
) -> None:
    """Step through an order by hand, forward, back or to another step, with the state of every node side by side.

    Commands are read line by line from a terminal or a pipe; ? lists them.
    """
    from twopc.sim.cli.files import scenario_files
    from twopc.sim.scenario.check import load
    from twopc.sim.scenario.theatres import played

    if str(file) == "-":
        raise typer.BadParameter("standard input is where you type: name a file")
    options = RunOptions(paths=[file], order=[order] if order else None, place=place)
    loaded = load(scenario_files([file])[0])
    if loaded.scenario.workload is not None:
        raise typer.BadParameter(
            f"{file} is a load: its clients work all at once, so there are no steps; play it by twopc run"
        )
    if loaded.document.problems:
        print(loaded.document.report(), file=sys.stderr)
    raise typer.Exit(played(options.settings.on, _go(loaded, options)))


async def _go(loaded: LoadedScenario, options: RunOptions) -> int:
    from twopc.sim.cli.play import selection_of, theatre_of
    from twopc.sim.cli.step_dialog import StepDialog
    from twopc.sim.cli.walk import Walk
    from twopc.sim.report import terminal
    from twopc.sim.scenario.cases import groups
    from twopc.sim.scenario.run import refuse
    from twopc.sim.scenario.theatres import standing_still

    for group in groups(loaded, selection_of(options)):
        course = group.courses.next()
        if course is not None:
            break
    else:
        names = ", ".join(f"'{each.name}'" for each in groups(loaded))
        print(
            f"no order is called '{(options.order or [''])[0]}'; there is {names}", file=sys.stderr
        )
        return NOTHING
    rank, items = course
    async with theatre_of(options) as stages:
        refuse(loaded, stages.capabilities)
        walk = Walk(loaded, group.case(rank, items), stages)
        try:
            await walk.begin()
            stepping = StepDialog(loaded, walk, terminal.console())
            stepping.head()
            lines = Lines()
            while True:
                with standing_still():
                    line = await lines.next(stepping.prompt)
                if line is None or not await stepping.do(line):
                    break
        finally:
            await walk.close()
    return PASS


_CHUNK = 4096


class Lines:
    """Lines of input, typed at a terminal or read from a pipe."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._rest = b""
        self._echo = not os.isatty(self._fd)

    async def next(self, prompt: str) -> str | None:
        """Return the next line without its end; None at the end of the input.

        A line that does not come from a terminal is printed after the prompt, so that the output looks the same.
        """
        print(prompt, end="", flush=True)
        while b"\n" not in self._rest:
            chunk = await self._chunk()
            if not chunk:
                line, self._rest = self._rest, b""
                print()
                return line.decode(errors="replace") if line else None
            self._rest += chunk
        raw, _, self._rest = self._rest.partition(b"\n")
        line_text = raw.decode(errors="replace").rstrip("\r")
        if self._echo:
            print(line_text, flush=True)
        return line_text

    async def _chunk(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._fd, ready.set)
        except PermissionError:  # a regular file is always ready, and cannot be watched
            return os.read(self._fd, _CHUNK)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, _CHUNK)
