"""Tests of ``twopc search``, which plays every order, and writes one that fails into a file."""

from __future__ import annotations

import re

import pytest

from twopc.sim.cli import exits

SOURCE = """\
twopc: 1
name: both
topology: {publisher: pub, subscribers: [sub1, sub2]}
tables: {t: {columns: {id: int primary key, v: int}, rows: [{id: 1, v: 0}]}}
sessions:
  a: {node: sub1, steps: [{a1: begin}, {a2: {sql: "update t set v = 1 where id = 1"}}, {a3: commit}]}
  b: {node: sub2, steps: [{b1: begin}, {b2: {sql: "update t set v = 2 where id = 1"}}, {b3: commit}]}
orders:
  - name: one
    steps: [a1, a2, b1, {rollback: a}, b2, b3]
    expect: {sessions: {a: rolled back}}
twin: {order: one, protections: {marker: off}, must_fail: echoed}
"""


@pytest.fixture
def both(tmp_path):
    """A file with two sessions that change one row."""
    path = tmp_path / "both.twopc.yaml"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_every_order(twopc, both) -> None:
    done = twopc("search", both, "--all")
    assert done.returncode == exits.PASS
    assert "2 behaviours" not in done.stdout
    assert "4 behaviours" in done.stdout
    assert "no invariant is broken\n" in done.stdout


def test_a_step_by_itself_is_a_transaction(twopc, both) -> None:
    """A step outside of a transaction is committed by itself, as when it is played."""
    alone = SOURCE.replace("{a1: begin}, ", "").replace(", {a3: commit}", "")
    both.write_text(
        alone.replace("[a1, a2, b1, {rollback: a}, b2, b3]", "[a2, b1, b2, b3]"), encoding="utf-8"
    )
    done = twopc("search", both, "--all")
    assert done.returncode == exits.PASS
    assert "  a committed, b refused; t ((1, 1),)\n" in done.stdout
    assert "nothing" not in done.stdout


def test_what_is_found_can_be_played(twopc, both, tmp_path) -> None:
    """A finding can be played as a scenario, and replayed exactly."""
    done = twopc("search", both, "--all", "--without", "version_check")
    assert done.returncode == exits.SAFETY
    assert "broken: converged" in done.stdout
    found = tmp_path / "both.found.twopc.yaml"
    assert "must_fail: converged" in found.read_text(encoding="utf-8")
    assert twopc("run", "--on", "model", found).returncode == exits.PASS
    line = next(one for one in done.stdout.splitlines() if "--replay" in one)
    again = twopc(*line.split()[1:])
    assert again.returncode == exits.SAFETY
    assert "broken: converged" in again.stdout


def test_what_goes_wrong_is_a_fault_of_the_scenario(twopc, both, tmp_path) -> None:
    done = twopc(
        "search", both, "--all", "--crashes", "1", "--of", "coordinator", "--without", "decision_expires"
    )  # fmt: skip
    assert done.returncode == exits.SAFETY
    text = (tmp_path / "both.found.twopc.yaml").read_text(encoding="utf-8")
    assert "do: crash coordinator" in text
    assert "steps: [a1, a2, a3]" in text or "steps: [b1, b2, b3]" in text  # one session is enough
    assert "--only" in done.stdout
    assert twopc("check", tmp_path / "both.found.twopc.yaml").returncode == exits.PASS


def test_runs_that_are_drawn(twopc, both) -> None:
    first, again = (twopc("search", both, "--runs", "5", "--seed", "7").stdout for _ in range(2))
    assert first.splitlines()[1:] == again.splitlines()[1:]
    assert "of 5" in first


@pytest.mark.parametrize(
    "wrong", [(), ("--all", "--runs", "2"), ("--all", "--of", "x"), ("--all", "--without", "x"), ("--replay", "x")]
)  # fmt: skip
def test_wrong_usage(twopc, both, wrong) -> None:
    assert twopc("search", both, *wrong).returncode == exits.USAGE


def test_what_it_does_not_know(twopc, both) -> None:
    source = SOURCE.replace("{a1: begin}", "{a0: {pause: agent sub1}}, {a1: begin}")
    both.write_text(source, encoding="utf-8")
    done = twopc("search", both, "--all")
    assert done.returncode == exits.USAGE
    message = r"both\.twopc\.yaml:6:\d+: a search does not know step a0: it knows begin, commit"
    assert re.search(message, " ".join(done.stderr.split()))
