"""Tests of `twopc list` and `twopc show`, which play nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twopc.sim.cli import exits

ROOT = Path(__file__).parents[2]
SOURCE = """\
twopc: 1
name: both
about: Two sessions change a row.
tags: [conflict]
topology: {publisher: pub, subscribers: [sub1, sub2]}
matrix: {isolation.pub: [read committed, serializable]}
tables: {t: {columns: {id: int primary key, v: int}, rows: [{id: 1, v: 0}]}}
sessions:
  a: {node: sub1, steps: [{a1: begin}, {a2: {sql: "update t set v = 1 where id = 1"}}, {a3: commit}]}
  b: {node: sub2, steps: [{b1: begin}, {b2: {sql: "update t set v = 2 where id = 1"}}, {b3: commit}]}
orders:
  - name: one
    steps: [a1, a2, b1, {rollback: a}, b2, b3, {sync: [sub1, sub2]}]
    expect: {sessions: {a: rolled back}}
  - name: every
    generate: {before: ["a1 < b1"], limit: 3}
twin: {order: one, protections: {marker: off}, must_fail: echoed}
"""


@pytest.fixture
def both(tmp_path):
    """A file with a matrix, a generated order and a twin."""
    path = tmp_path / "both.twopc.yaml"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_list(twopc, both):
    done = twopc("list", both)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"both  4 orders, 1 twin  conflict  {both}",
        "1 scenario, 4 orders, 1 twin",
    ]
    named = twopc("list", both, "--orders").stdout.splitlines()
    assert named[1:-1] == [
        "  one [read committed]",
        "  one [serializable]",
        "  every [read committed]  (10 generated)",
        "  every [serializable]  (10 generated)",
        "  twin of one: marker off [read committed]",
    ]


def test_list_what_is_selected(twopc, both):
    some = twopc("list", both, "-k", "one and serializable", "--orders").stdout
    assert some.splitlines()[1:] == ["  one [serializable]", "1 scenario, 1 order"]
    assert "twin" not in twopc("list", both, "--no-twins").stdout
    assert twopc("list", both, "--tag", "conflict").returncode == 0
    none = twopc("list", both, "--tag", "teaching")
    assert none.returncode == exits.NOTHING
    assert none.stdout == "0 scenarios, 0 orders\n"


def test_list_as_json(twopc, both):
    (told,) = json.loads(twopc("list", both, "--json").stdout)
    assert told["scenario"] == "both"
    assert told["orders"][2] == {"name": "every [read committed]", "twin": False, "orders": 10}
    assert [order["twin"] for order in told["orders"]] == [False] * 4 + [True]


def test_list_everything_that_is_shipped(twopc):
    done = twopc("list", ROOT / "scenarios", "--orders")
    assert done.returncode == 0
    assert "…" not in done.stdout


def test_show(twopc, both):
    done = twopc("show", both)
    assert done.returncode == 0
    assert "  Two sessions change a row." in done.stdout
    assert "Publisher  pub; Subscribers: sub1, sub2" in done.stdout
    assert "b at sub2: b1, b2, b3" in done.stdout
    assert "10 orders; of those that cannot differ one is run; at most 3 are run" in done.stdout
    assert "must fail: echoed" in done.stdout
    assert "it has not been run from this folder" in done.stdout


def test_show_every_order(twopc, both):
    done = twopc("show", both, "--orders", "--order", "one")
    assert "a1 a2 b1 {rollback: a} b2 b3 {sync: [sub1, sub2]}" in done.stdout
    assert "every [" not in done.stdout
    done = twopc("show", both, "--orders", "--order", "every [serializable]")
    assert "#1    a1 a2 a3 b1 b2 b3" in done.stdout


def test_show_what_it_took(twopc, both, tmp_path):
    latest = tmp_path / ".twopc/runs/both/latest"
    latest.mkdir(parents=True)
    orders = [
        {"name": "one [serializable]", "elapsed_ms": 1500},
        {"name": "every #1 [serializable]", "group": "every [serializable]", "elapsed_ms": 300},
        {"name": "every #2 [serializable]", "group": "every [serializable]", "elapsed_ms": 200},
    ]
    (latest / "verdict.json").write_text(json.dumps({"orders": orders}), encoding="utf-8")
    done = twopc("show", both)
    assert "at most 3 are run  500 ms" in done.stdout
    assert "the latest run from here played 2 of these 5, 2.0 s of playing\n" in done.stdout
    (latest / "history.jsonl").write_text('{"t_us": 0}\n{"t_us": 4100000}\n', encoding="utf-8")
    assert "2.0 s of playing; 4.1 s with all that it takes" in twopc("show", both).stdout
    (latest / "verdict.json").write_text("{", encoding="utf-8")
    assert "it has not been run" in twopc("show", both).stdout


def test_no_such_order(twopc, both):
    done = twopc("show", both, "--order", "nobody")
    assert done.returncode == exits.NOTHING
    assert "no order is called 'nobody'; there is 'one [read committed]'" in done.stderr


@pytest.mark.parametrize("command", ["list", "show"])
def test_what_cannot_be_read(twopc, command):
    bad = ROOT / "tests/scenario/bad/unknown_key.twopc.yaml"
    done = twopc(command, bad)
    assert done.returncode == exits.USAGE
    assert "did you mean 'rows'?" in done.stderr
