"""Tests of the shipped loads at a small size on servers: nothing is lost or stays in doubt.

The speed of the machine decides how much is done in a second, and who wins a race. Therefore tests
only require that something was done.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.sim.report.history import History
from twopc.sim.report.load import of
from twopc.sim.scenario.check import load
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "scenarios" / "stress").glob("*.twopc.yaml"))
SMALL = sorted((ROOT / "tests" / "workload" / "small").glob("*.yaml"))
#: Maximum number of lines of a file, for its readers.
LINES_MAX = 60


def test_each_has_a_small_size():
    assert [path.stem for path in SMALL] == [path.name.partition(".")[0] for path in SHIPPED]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_they_can_be_read(path):
    scenario = load(path).scenario
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LINES_MAX
    assert len(scenario.about.split()) >= 40
    assert scenario.thresholds
    assert scenario.expect.sum or scenario.expect.sql, "what must be conserved"


@pytest.mark.postgres
@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
async def test_nothing_is_lost(path, server):
    history = History()
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(load(path), theatre, history)
    (order,) = verdict.orders
    assert [failure.message for failure in order.failures] == []
    told = of(history.records)
    counts = told["counts"]
    assert counts["committed"] > 0
    ended = sum(counts[kind] for kind in ("committed", "rejected", "error", "in_doubt"))
    assert counts["attempts"] == ended
    assert counts["rejected"] == sum(told["rejected"].values())
    lines = [each for each in history.records if each.session and each.step]
    assert len(lines) == ended
    assert all(each["kept"] for each in told["thresholds"])
