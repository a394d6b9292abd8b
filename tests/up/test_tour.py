"""The tour, played through psql by a newcomer who types what is printed, and makes a mistake."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.any_client.test_programs import program
from tests.cli.shops import ROOT
from twopc.sim.up.parts import running

TYPED = re.compile(r"  (?P<window>[12])> (?P<text>.+)\n")


class Newcomer:
    """A newcomer with two windows, who reads what the tour prints."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self._stack = stack
        self._windows: dict[str, subprocess.Popen[str]] = {}
        self.prompts: list[str] = []
        self.tour = self._start(
            [sys.executable, "-m", "twopc.sim", "tour", "--state", str(place)], cwd=ROOT
        )
        self.read: list[str] = []

    def _start(self, words: list[str], cwd: Path | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if cwd is None else subprocess.PIPE,
        )

        def end() -> None:
            process.terminate()
            process.communicate()

        self._stack.callback(end)
        return process

    def types(self, window: str, text: str) -> None:
        """Type a text into a window; the first text of a window starts its psql."""
        if window not in self._windows:
            _, *options = shlex.split(text)
            asked = [program("psql"), *options, "-X", "-c", r"\echo :PROMPT1"]
            told = subprocess.run(asked, capture_output=True, text=True, check=True)
            self.prompts.append(told.stdout.strip("\n"))
            self._windows[window] = self._start([program("psql"), "-X", "-q", *options])
            return
        said = self._windows[window].stdin
        assert said is not None
        said.write(f"{text}\n")
        said.flush()

    def plays(self) -> None:
        """Play until the tour has ended."""
        assert self.tour.stdout is not None
        for line in self.tour.stdout:
            self.read.append(line)
            typed = TYPED.fullmatch(line)
            if typed is not None and typed["text"] != "begin;":
                self.types(typed["window"], typed["text"])
            if line.startswith("  ! that was committed at once"):
                self.types("1", "begin;")  # forgotten at first
                self.types("1", "update account set balance = balance - 3 where id = 1;")
        self.tour.wait()


def test_a_newcomer_goes_through(place: Path) -> None:
    """Every step is recognised, a forgotten BEGIN is reported and corrected, nothing is left."""
    with ExitStack() as stack:
        newcomer = Newcomer(place, stack)
        newcomer.plays()
        text = "".join(newcomer.read)
        assert newcomer.tour.returncode == 0, text + newcomer.tour.communicate()[1]
    assert newcomer.prompts == ["sub1%R%x%# ", "sub2%R%x%# "]  # the prompt names the window
    assert text.count("  ✓ ") == 8
    assert text.count("  ! ") == 1
    assert "40001, version_mismatch" in text
    # 100, less 10, less 10 by mistake, less 3, less 20, less 1
    assert (
        "from what your COMMIT has left at the Subscriber: 56 at pub, 56 at sub1, 56 at sub2."
        in text
    )
    assert not place.exists()


def test_its_terminal_closes(place: Path) -> None:
    """If its terminal closes, the tour removes what it has started, as after Ctrl-C.

    While it runs, another tour in the same folder is refused.
    """
    command = [sys.executable, "-m", "twopc.sim", "tour", "--state", str(place)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as tour:
        assert tour.stdout is not None
        while "1/8" not in tour.stdout.readline():
            assert tour.poll() is None
        other = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (other.returncode, "another tour" in other.stderr) == (4, True)
        tour.send_signal(signal.SIGHUP)
        tour.stdout.close()
        tour.wait()
    assert not running(place)
    assert not place.exists()
