"""Tests of outputs and folders that cannot be used: a command says so in a line, or ignores a closed output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TWOPC = (sys.executable, "-m", "twopc.sim")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
FULL = "/dev/full"
SCENARIO = """\
twopc: 1
name: river
about: One session.
topology: {publisher: pub, subscribers: [sub1]}
tables: {account: {columns: {id: int primary key}, rows: [{id: 1}, {id: 2}, {id: 3}]}}
sessions: {a: {node: sub1, steps: [a_write: {sql: "delete from account where id = 1"}]}}
orders: [{name: over the river, steps: [a_write]}]
"""


@pytest.mark.skipif(not os.path.exists(FULL), reason="there is no device that is always full")
@pytest.mark.parametrize("words", [("schema",), ("--help",)], ids=" ".join)
def test_a_full_disk(words: tuple[str, ...]) -> None:
    with open(FULL, "w", encoding="utf-8") as full:
        done = subprocess.run([*TWOPC, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "error: cannot write: No space left on device\n"
    assert done.returncode == 4


@pytest.mark.parametrize(
    ("redirection", "words"), [(">&-", ("schema",)), ("<&-", ("run", "--on", "model", "-"))]
)
def test_a_closed_end(redirection: str, words: tuple[str, ...]) -> None:
    """A closed output is not written, and a closed input is empty."""
    shell = ["sh", "-c", f'exec "$@" {redirection}', "sh", *TWOPC, *words]
    done = subprocess.run(shell, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if "run" in words else 0)


def test_an_encoding_without_our_signs(tmp_path: Path) -> None:
    """What the output's encoding lacks is written as similar characters."""
    done = subprocess.run(
        [*TWOPC, "run", "--on", "model", "--no-timeline", "-"],
        input=SCENARIO,
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[1].startswith("  + over the river")
    assert lines[2].endswith(
        "s * invariants: atomic prepared_left versions_move_forward converged echoed"
    )


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    words = ("sh", "-c", script, "sh", *TWOPC, "run", "--on", "model", "-")
    done = subprocess.run(
        words, input=SCENARIO, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT
    )
    assert (done.returncode, done.stderr) == (
        4,
        "error: the working directory does not exist any more: change to another one\n",
    )
