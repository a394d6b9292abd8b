"""The README is true: its commands come first, its example runs and prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.DOTALL)


def test_the_two_commands_come_first() -> None:
    """Nothing stands before `make run` and `make test`."""
    kind, text = BLOCKS[0]

    assert kind == "console"
    assert re.findall(r"^\$ (.*?)\s*(?:#.*)?$", text, re.MULTILINE) == ["make run", "make test"]


def test_the_example_prints_what_is_said() -> None:
    """The first Python block, as a program of its own, against the block behind it."""
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


def test_the_mistake_is_answered_as_shown(tmp_path: Path) -> None:
    """The caret report in the README is what `twopc check` says."""
    shown = next(text for kind, text in BLOCKS if kind == "text" and "did you mean" in text)
    scenario = (ROOT / "scenarios" / "immediate" / "lost_update.twopc.yaml").read_text()
    (tmp_path / "mine.twopc.yaml").write_text(scenario.replace("node: sub2", "node: sub9"))

    done = subprocess.run(
        [sys.executable, "-m", "sim", "check", "mine.twopc.yaml"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.strip() == shown.strip()


def test_the_run_is_shown_as_it_looks() -> None:
    """Every line of the timeline in the README is one of a real run, times apart."""
    shown = next(text for kind, text in BLOCKS if kind == "text" and "⧗ waits for alice" in text)
    done = subprocess.run(
        [sys.executable, "-m", "sim", "run", "scenarios/immediate/lost_update.twopc.yaml"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    def plain(text: str) -> list[str]:
        # how long the Publisher's branch stays prepared decides whether that wait is seen at all
        lines = [re.sub(r"^ *[\d.]+ {3}| +\d+ ms$", "", line).strip() for line in text.splitlines()]
        return [line for line in lines if line and "(a_end), prepared" not in line]

    assert done.returncode == 0, done.stderr
    assert [line for line in plain(shown) if line not in plain(done.stdout)] == []
