"""Tests of samples: the same for the same seed, some of each class, and everything with ``--full``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fix_sample import SEED, drawn

ROOT = Path(__file__).parents[1]
CELLS = [(row, number) for row in "abc" for number in range(40)]


def test_a_seed_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = []
    for seed in ("one", "two", "one"):
        monkeypatch.setenv(SEED, seed)
        samples.append(drawn(CELLS, 3, "a test", by=lambda cell: cell[0]))
    assert samples[0] == samples[2] != samples[1]
    for sample in samples:
        assert [row for row, _ in sample] == [*"aaabbbccc"]
        assert sample == sorted(sample)


def test_fewer_than_are_wanted() -> None:
    assert drawn([1, 2], 3, "a test") == [1, 2]


PROJECT = """
import pytest

@pytest.mark.sample(2, by=("row",))
@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("row", "ab")
def test_grid(row, number): pass

@pytest.mark.full
def test_long(): pass

def test_loop(sample):
    print("played", len(sample(range(9), 4)))
"""


@pytest.fixture
def counts(tmp_path: Path):
    """Return a function that plays a project: it returns how many tests passed, and whether a loop was complete."""
    (tmp_path / "test_it.py").write_text(PROJECT, encoding="utf-8")

    def play(*arguments: str) -> tuple[int, bool]:
        command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "-p", "tests.fix_sample", *arguments],
            cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", SEED: "one"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert (f"{SEED}=one" in done.stdout) == ("--full" not in arguments)
        passed = done.stdout.splitlines()[-1].partition(" passed")[0]
        return int(passed), "played 9" in done.stdout

    return play


def test_what_is_played(counts) -> None:
    assert counts() == (2 + 2 + 1, False)
    assert counts("--full") == (20 + 1 + 1, True)
    named = ["test_it.py::test_grid[a-3]", "test_it.py::test_long"]
    assert counts(*named) == (2, False)
