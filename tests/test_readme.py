"""Tests that the README is correct: its commands come first, and its examples print what it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.lessons.played import difference, played
from tests.plugin.running import arguments

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def test_the_two_commands_come_first() -> None:
    """`make run` and `make test` are the first commands."""
    kind, text = BLOCKS[0]

    assert kind == "console"
    assert re.findall(r"^\$ (.*?)\s*(?:#.*)?$", text, re.MULTILINE) == ["make run", "make test"]


def test_the_example_prints_what_is_said() -> None:
    """The first Python block, run as a program, prints the block after it."""
    place = next(n for n, (kind, _) in enumerate(BLOCKS) if kind == "python")
    kind, expected = BLOCKS[place + 1]
    assert kind == "text"

    done = subprocess.run(
        [sys.executable, "-c", BLOCKS[place][1]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    pattern = re.escape(expected.strip()).replace("…", r"[0-9a-f-]+")
    assert re.fullmatch(pattern, done.stdout.strip()), done.stdout


def test_the_test_passes(tmp_path: Path) -> None:
    """The second Python block passes as a test file."""
    _, text = [block for block in BLOCKS if block[0] == "python"][1]
    (tmp_path / "test_readme_example.py").write_text(text, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_mistake_is_answered_as_shown(tmp_path: Path) -> None:
    """`twopc check` prints the caret report that the README shows."""
    shown = next(text for kind, text in BLOCKS if kind == "text" and "did you mean" in text)
    scenario = (ROOT / "scenarios" / "immediate" / "lost_update.twopc.yaml").read_text(
        encoding="utf-8"
    )
    (tmp_path / "mine.twopc.yaml").write_text(
        scenario.replace("node: sub2", "node: sub9"), encoding="utf-8"
    )

    done = subprocess.run(
        [sys.executable, "-m", "twopc.sim", "check", "mine.twopc.yaml"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.strip() == shown.strip()


def test_the_first_steps_show_what_happens(tmp_path: Path) -> None:
    """The first two sections are played: runs of the worked example, and the scenario that a reader writes."""
    begin, end = (README.index(f"### {head}") for head in ("1. See a lost update", "3. Explore it"))
    section = README[begin:end]
    folder = tmp_path / "first"
    folder.mkdir()

    after = played(section, folder)

    assert difference(section, after) == ""


def test_the_keys_that_it_explains_are_enough() -> None:
    """The README's table names these kinds of steps and outcomes."""
    table = README[README.index("| a step is |") :].partition("\n\n")[0]
    for word in ("begin", "commit", "rollback", "sql", "check", "sync", "rejected", "blocked_by"):
        assert word in table
