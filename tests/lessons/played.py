"""Run the commands in a page's console blocks, and return the page with their output.

A page is Markdown. ``<!-- file: NAME -->`` before a block saves the block under that name.
``<!-- change: NAME -->`` before a ``diff`` block changes the lines that begin with ``-`` into those
that begin with ``+``. In a ``console`` block each line that begins with ``$`` is a command, and
what follows is its output. Everything is done in order, in an empty folder that has the project's
scenarios in it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import unified_diff
from itertools import zip_longest
from pathlib import Path

from tests.lessons.page import markdown
from twopc.sim.explore.lessons.answers import answer
from twopc.sim.explore.lessons.parts import Lesson

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "lessons"
WIDTH = 100
_BLOCK = re.compile(
    r"(?P<before>(?:<!-- (?P<what>file|change): (?P<name>\S+) -->\n)?)"
    r"```(?P<kind>\w*)\n(?P<text>.*?)```\n",
    re.DOTALL,
)
_MARK = "\x1e"


class WrongPageError(Exception):
    """A page has a step that cannot be performed; the message says where."""


def page_of(lesson: Lesson) -> str:
    """Return a lesson's page before its commands are run, with the model's answers to questions."""
    return markdown(lesson, [answer(lesson, each) for each in lesson.questions])


def without_output(page: str) -> str:
    """Return a page whose console blocks contain commands only."""
    return _BLOCK.sub(_without_output, page)


def _without_output(block: re.Match[str]) -> str:
    if block["kind"] != "console":
        return block[0]
    lines = "".join(f"$ {command}\n" for command in _commands(block["text"]))
    return f"```console\n{lines}```\n"


def played(page: str, folder: Path) -> str:
    """Return the page with the output of its commands, which are run in `folder`, an empty one."""
    (folder / "scenarios").symlink_to(ROOT / "scenarios")
    environment = _environment(folder)

    def done(block: re.Match[str]) -> str:
        text = block["text"]
        if block["what"] == "file":
            (folder / block["name"]).write_text(text, encoding="utf-8")
        elif block["what"] == "change":
            _change(folder / block["name"], text)
        elif block["kind"] == "console":
            text = "".join(_run(_commands(text), folder, environment))
        return f"{block['before']}```{block['kind']}\n{text}```\n"

    return _BLOCK.sub(done, page)


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a terminal of fixed width without colours, with command `twopc`."""
    commands = folder.parent / f"{folder.name}-bin"
    commands.mkdir()
    twopc = commands / "twopc"
    twopc.write_text(f'#!/bin/sh\nexec {sys.executable} -m twopc.sim "$@"\n', encoding="utf-8")
    twopc.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TWOPC_")}
    kept.pop("CI", None)  # with it, expectations are not accepted
    return {
        **kept,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": str(WIDTH),
        "NO_COLOR": "1",
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
    }


def _commands(block: str) -> list[str]:
    return [line[2:] for line in block.splitlines() if line.startswith("$ ")]


def _run(commands: list[str], folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Yield each command with its output; `$?` is the exit code of the previous one."""
    script = "last=0\n" + "".join(
        f"(exit $last)\n{command}\nlast=$?\nprintf '{_MARK}'\n" for command in commands
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    printed = done.stdout.split(_MARK)
    if len(printed) != len(commands) + 1:
        raise WrongPageError(f"{commands}: {done.stdout}")
    for command, output in zip(commands, printed[:-1], strict=True):
        if "Traceback (most recent call last)" in output:
            raise WrongPageError(f"{command}: {output}")
        yield f"$ {command}\n{steady(output)}"


def _change(path: Path, diff: str) -> None:
    """Replace lines of a diff that begin with `-` by the lines after them that begin with `+`."""
    text = path.read_text(encoding="utf-8")
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)*)", diff, re.MULTILINE):
        before, after = (re.sub(r"^[-+]", "", each, flags=re.MULTILINE) for each in (old, new))
        if text.count(before) != 1:
            raise WrongPageError(f"{path.name} has {text.count(before)} times: {before}")
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


# -- what differs from run to run --------------------------------------------------------------------


def _same_width(unit: str) -> Callable[[re.Match[str]], str]:
    return lambda found: f"…{unit}".rjust(len(found[0]))


_STEADY: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"(?m)^… \d+ s, .*\n", ""),  # printed during a long run
    (r"(?m)^.*⧗ waits for \w+ \(\w+\),\n\s+prepared at \w+\n", ""),  # printed in a long commit
    (r"(?m)^ *\d+(?:\.\d| s|\.\d s)(?=   )", _same_width("")),
    (
        r"(?m)^ *… +(?:commit|rollback)\n(?! *[✗?])",
        "",
    ),  # a separate row if something is printed in between
    (r"(?m) {2,}\d+(?:\.\d+)? s$", _same_width(" ms")),  # an order takes seconds on a busy machine
    (r" +\d+(?:\.\d+)? ms\b", _same_width(" ms")),
    (r"\b\d+(?:\.\d+)? (s|seconds)\b(?= ·|$)", r"… \1"),
    (r"\bin \d+(?:\.\d+)? s\b", "in … s"),
    (r"\b\d{8}T\d{6}-\d+\b", "…"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "…"),
    (r"\btwopc:[\w.-]+:\d+:\d+(?::[\w.-]+)?", "…"),
    (r"\bpid \d+\b", "pid …"),
    (r"\b0/[0-9A-F]{6,8}\b", "…"),
    (r"(?m)[ \t]+$", ""),
)


def difference(shown: str, happened: str) -> str:
    """Return the difference of two pages as a diff.

    Lines of one block that happen at the same time may be in any order.
    """
    ones, others = _parts(shown), _parts(happened)
    told = [
        line
        for mine, theirs in zip_longest(ones, others, fillvalue="")
        if Counter(mine.splitlines()) != Counter(theirs.splitlines())
        for line in unified_diff(mine.splitlines(), theirs.splitlines(), lineterm="", n=1)
    ]
    return "\n".join(told)


def _parts(page: str) -> list[str]:
    """Return the text between blocks, and the blocks."""
    return re.split(r"(?m)^```\w*$", page)


def steady(output: str) -> str:
    """Return output without what differs between runs: times, names of runs and transactions."""
    for pattern, instead in _STEADY:
        output = re.sub(pattern, instead, output)
    return output
