"""Tests of comparing two runs on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twopc.sim.cli import exits

RUN = Path(__file__).parents[1] / "report/histories/isolation_triptych.jsonl"


@pytest.fixture
def other(tmp_path):
    """The same run, except for one step of its first order."""
    lines = []
    for line in RUN.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "rejected" and record["order"] == "read committed":
            record |= {"kind": "ok", "rowcount": 1}
            del record["conflict"]
        lines.append(json.dumps(record))
    path = tmp_path / "other.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_same(twopc):
    done = twopc("diff", RUN, RUN)
    assert done.returncode == exits.PASS
    assert done.stdout == "3 of 3 orders went the same way\n"


def test_the_first_difference(twopc, other):
    done = twopc("diff", RUN, other)
    assert done.returncode == exits.SAFETY
    lines = done.stdout.splitlines()
    assert lines[0] == "read committed"
    assert lines[-3:-1] == ["  < bob b_write: rejected version_mismatch", "  > bob b_write: ok 1"]
    assert lines[-1] == "2 of 3 orders went the same way"


def test_side_by_side(twopc, other):
    done = twopc("diff", RUN, other, "--side-by-side")
    assert done.returncode == exits.SAFETY
    (line,) = (line for line in done.stdout.splitlines() if "≠" in line)
    assert line.split("  ≠  ") == [
        "bob b_write: rejected version_mismatch".ljust(47),
        "bob b_write: ok 1",
    ]


def test_one_order(twopc, other):
    assert twopc("diff", RUN, other, "--order", "serializable").returncode == exits.PASS
    assert twopc("diff", RUN, other, "--order", "read committed").returncode == exits.SAFETY
    assert twopc("diff", RUN, other, "--order", "nobody").returncode == exits.USAGE


def test_an_order_of_one_run_only(twopc):
    done = twopc("diff", RUN, RUN.with_name("aba.jsonl"))
    assert done.returncode == exits.SAFETY
    assert f"serializable\n  only in {RUN}\n" in done.stdout
    assert f"there and back\n  only in {RUN.with_name('aba.jsonl')}\n" in done.stdout
    assert done.stdout.endswith("0 of 4 orders went the same way\n")


def test_no_such_run(twopc):
    done = twopc("diff", RUN, "nothing")
    assert done.returncode == exits.USAGE
    assert "no history.jsonl in nothing or" in done.stderr
