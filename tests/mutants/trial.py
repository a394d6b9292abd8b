"""One mutant against the tests that reach it, in a separate working tree."""

from __future__ import annotations

import compileall
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.operators import Mutant

#: A run in which no test ends for this long hangs.
HANG_S = 180.0
_NO_TESTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a mutant."""

    verdict: str
    """``killed``; ``survived`` all tests that reach it; or ``unfinished`` if the time limit ended the run."""
    by: str = ""
    """The test that failed, or how the run ended."""
    files: int = 0
    """How many test files or tests were run."""
    seconds: float = 0.0


def parts(step: list[str]) -> Iterator[list[str]]:
    """Yield the first few tests, then more, then the rest: collecting all at once would take long."""
    for begin, end in itertools.pairwise((0, 10, 60, len(step))):
        if begin < len(step):
            yield step[begin:end]


@contextmanager
def worktree(root: Path) -> Iterator[Path]:
    """Create a checkout of HEAD, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="twopc-mutants-") as folder:
        tree = Path(folder) / "tree"
        _git(root, "worktree", "add", "--detach", "--quiet", str(tree), "HEAD")
        # Each run starts dozens of interpreters, which write no bytecode: that of a mutant would outlive it.
        compileall.compile_dir(tree, quiet=2)
        try:
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


class Trials:
    """Runs tests in a working tree."""

    def __init__(self, tree: Path, *, limit_s: float, jobs: int, seed: str) -> None:
        self._tree = tree
        self._limit_s = limit_s
        self._jobs = jobs
        self._seed = seed
        self._broken: set[str] = set()
        """Tests that also fail without a mutant."""

    def run(self, mutant: Mutant, steps: list[list[str]]) -> Trial:
        """Apply the mutant and run the tests, the nearest first, until one fails."""
        path = self._tree / mutant.path
        before, began, files = path.read_bytes(), time.monotonic(), 0
        for part in (part for step in steps for part in parts(step)):
            files += len(part)
            while True:
                left_s = self._limit_s - (time.monotonic() - began)
                if left_s <= 0:
                    return self._trial("unfinished", "", files - len(part), began)
                path.write_bytes(mutant.source(self._tree))
                try:
                    verdict, by = self._pytest(part, left_s)
                finally:
                    path.write_bytes(before)
                if verdict != "killed" or not self._fails_anyway(by):
                    break
            if verdict != "survived":
                return self._trial(verdict, by, files, began)
        return self._trial("survived", "", files, began)

    @staticmethod
    def _trial(verdict: str, by: str, files: int, began: float) -> Trial:
        return Trial(
            verdict=verdict, by=by, files=files, seconds=round(time.monotonic() - began, 1)
        )

    def _fails_anyway(self, by: str) -> bool:
        """Return whether a test fails without the mutant too, and therefore kills none."""
        if "::" not in by or self._pytest([by], HANG_S)[0] != "killed":
            return False
        self._broken.add(by)
        return True

    def _pytest(self, tests: list[str], left_s: float) -> tuple[str, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        if self._jobs > 1:
            command += ["-n", str(self._jobs), "--dist", "loadgroup"]
        command += [word for each in sorted(self._broken) for word in ("--deselect", each)]
        environment = {
            **os.environ, "PYTHONPATH": str(self._tree), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1", "SAMPLE_SEED": self._seed,
        }  # fmt: skip
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command, cwd=self._tree, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output,
            )  # fmt: skip
            end = _ended(process, output.fileno(), left_s)
            output.seek(0)
            shown = output.read().decode(errors="replace")
        if end:
            return end
        if process.returncode in (0, _NO_TESTS):
            return "survived", ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", shown, re.MULTILINE)
        return "killed", failed[1] if failed else f"pytest ended with {process.returncode}"


def _ended(process: subprocess.Popen[bytes], output: int, left_s: float) -> tuple[str, str] | None:
    """Wait for the end of a run; return a verdict if it hung or exceeded its time."""
    until, size = time.monotonic() + left_s, -1
    try:
        while (now := time.monotonic()) < until:
            try:
                process.wait(min(HANG_S, until - now))
                return None
            except subprocess.TimeoutExpired:
                if size == (size := os.fstat(output).st_size) and time.monotonic() < until:
                    return "killed", f"no test has ended for {HANG_S:.0f} s"
        return "unfinished", ""
    finally:
        process.kill()
        process.wait()
