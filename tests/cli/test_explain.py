"""Tests of the story of a run, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.files import ACCOUNT
from twopc.sim.cli import exits

RECORDED = Path(__file__).parents[1] / "report/histories"


@pytest.fixture(scope="module")
def history():
    """A recorded run."""
    return sorted(RECORDED.glob("*.jsonl"))[0]


def test_every_order_is_told(twopc, history, tmp_path):
    done = twopc("explain", history)
    assert done.returncode == 0
    assert "   · At first " in done.stdout
    told = twopc("explain", history, "-o", tmp_path / "story.txt")
    assert told.returncode == 0
    lines = (tmp_path / "story.txt").read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("  At first ") for line in lines)
    names = [line for line in lines if line and not line.startswith(" ")]
    assert all(name in done.stdout for name in names)

    one = twopc("explain", history, "--order", names[-1])
    assert names[-1] in one.stdout
    assert len(one.stdout) <= len(done.stdout)


def test_mistakes(twopc, history):
    done = twopc("explain", history, "--order", "nobody")
    assert done.returncode == exits.USAGE
    assert "no order 'nobody' in this run; there is '" in done.stderr
    done = twopc("explain", "nothing")
    assert done.returncode == exits.USAGE
    assert "no history.jsonl in nothing or" in done.stderr
    assert twopc("explain", history, "-o", "/nowhere/x").returncode == exits.ENVIRONMENT


@pytest.mark.postgres
def test_a_file_is_played_first(twopc, tmp_path):
    """A file is played first; of its generated orders, one of each behaviour is told."""
    (tmp_path / "account.twopc.yaml").write_text(ACCOUNT, encoding="utf-8")
    done = twopc("explain", "account.twopc.yaml")
    assert done.returncode == exits.PASS
    told = [line.strip() for line in done.stdout.splitlines() if line.startswith("  every order #")]
    assert len(told) == 4
    assert "bob's b_write is refused (version mismatch), because" in done.stdout
    assert "passed" not in done.stdout
    assert (tmp_path / ".twopc/runs/account/latest/history.jsonl").exists()
