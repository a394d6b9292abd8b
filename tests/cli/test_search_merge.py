"""Tests of ``twopc search`` with merge replication: all orders, and sessions that are cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.sim.cli import exits
from twopc.sim.scenario.check import load, parse
from twopc.sim.scenario.merge_search import MergeSearch, MergeSearchResult
from twopc.sim.scenario.theatres import played

SCENARIOS = Path(__file__).parents[2] / "scenarios" / "merge"
THREE = """
twopc: 1
name: three
about: Three nodes change two rows, one of them in a transaction that is open for a while.
topology: {replication: merge, publisher: pub, subscribers: [anna, ben]}
tables:
  t:
    columns: {id: int primary key, n: int}
    rows: [{id: 1, n: 0}, {id: 2, n: 0}]
sessions:
  p: {node: pub, steps: [p_write: {sql: "update t set n = 3 where id = 2"}]}
  a:
    node: anna
    steps: [a_begin: begin, a_write: {sql: "update t set n = 1"}, a_end: commit, a_sync: sync]
  other: {node: anna, steps: [o_write: {sql: "update t set n = 9 where id = 1"}]}
  b: {node: ben, steps: [b_write: {sql: "update t set n = 2 where id = 1"}, b_sync: sync]}
orders: [{name: one, steps: [p_write, a_begin, a_write, a_end, a_sync, o_write, b_write, b_sync]}]
"""


def search(**options: object) -> MergeSearchResult:
    return played("model", MergeSearch(parse(THREE), **options).search())


def test_of_equivalent_orders_one_is_played() -> None:
    """Reduced orders have the same endings as all orders, and are far fewer."""
    reduced, every = (
        search(only=("a", "other", "b")),
        search(only=("a", "other", "b"), reduced=False),
    )
    assert reduced.endings == every.endings
    assert len(every.endings) == 6
    assert every.runs > 3 * reduced.runs
    assert reduced.counts.orders == every.counts.orders == 105
    assert not (reduced.broken or every.broken)


def test_what_a_protection_prevents_is_found_and_can_be_played(twopc, tmp_path) -> None:
    """Without a protection a lost change is found, which can be played; with it nothing is found.

    A session is cut off after its upload, and a later change is based on what it has sent.
    """
    path = SCENARIOS / "session_dies.twopc.yaml"
    right = twopc("search", path, "--all", "--crashes", "1")
    assert (right.returncode, "no invariant is broken\n" in right.stdout) == (exits.PASS, True)
    wrong = twopc("search", path, "--all", "--crashes", "1", "--without", "lineage")
    assert wrong.returncode == exits.SAFETY
    assert "broken: nothing_lost" in wrong.stdout
    found = tmp_path / "session-dies.found.twopc.yaml"
    assert "must_fail: nothing_lost" in found.read_text(encoding="utf-8")
    assert "do: crash agent anna" in found.read_text(encoding="utf-8")
    assert twopc("run", "--on", "model", found).returncode == exits.PASS


def test_a_republisher_is_looked_at_after_each_session() -> None:
    """A republisher's rows are recorded after each session, so that no change seems to be lost."""
    loaded = load(SCENARIOS / "republisher.twopc.yaml")
    result = played("model", MergeSearch(loaded, only=("driver", "store")).search())
    assert result.broken is None
    assert result.counts.run > 3


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (("--crashes", "2"), "one is cut off"),
        (("--crashes", "1", "--of", "coordinator"), "there is agent"),
        (("--without", "version_check"), "guid_check"),
        (("--only", "nobody"), "there is a, office"),
    ],
)
def test_what_means_nothing_where_changes_are_merged(twopc, wrong, text) -> None:
    done = twopc("search", SCENARIOS / "session_dies.twopc.yaml", "--all", *wrong)
    assert done.returncode == exits.USAGE
    assert text in " ".join(done.stderr.split())
