"""Tests of outputs that cannot be written: a command says so in a line, or ignores a closed one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

TWOPC = (sys.executable, "-m", "twopc.sim")
FULL = "/dev/full"


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
