"""Waits and cycles across servers are detected in time, and a killed run leaves no server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.cli.processes import running
from tests.scenario.waiting import LATE_US, percentile, told_after_us
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario.check import load
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.values import Selection

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"


async def history_of(server, name, **selection):
    history = History()
    async with PostgresTheatre(server=server) as theatre:
        chosen = Selection(twins=False, **selection)
        await run(load(SCENARIOS / name), theatre, history, selection=chosen)
    return history.records


async def test_a_cycle_is_named_within_a_second(server):
    records = await history_of(
        server, "immediate/cross_node_deadlock.twopc.yaml", orders=("a ring",)
    )
    (named,) = [record for record in records if record.kind == "deadlock"]
    (closed,) = [r for r in records if r.kind == "invoke" and r.step == "a_two"]
    assert named.t_us - closed.t_us <= 1_000_000
    assert len(named.data["cycle"]) == 3


async def test_each_wait_tells_how_old_it_was(server):
    records = await history_of(server, "immediate/lost_update.twopc.yaml", orders=("alice first",))
    first = next(record for record in records if record.kind == "blocked")
    assert first.data["seen_after_us"] > 0


def test_percentiles():
    blocked = [
        HistoryRecord(seq=at, t_us=0, kind="blocked", data={"seen_after_us": 21 - at})
        for at in range(20)
    ]
    values = told_after_us([*blocked, HistoryRecord(seq=20, t_us=0, kind="blocked")])
    assert values == list(range(2, 22))
    assert (percentile(values, 50), percentile(values, 95), percentile(values, 100)) == (11, 20, 21)


@pytest.mark.full
async def test_waits_of_the_catalogue_are_told_in_time(server, whole_catalogue):
    """On an idle machine, 95 % of the catalogue's waits are recorded within the limit."""
    waits = []
    for path in whole_catalogue:
        waits += told_after_us(await history_of(server, path))
    assert percentile(sorted(waits), 95) <= LATE_US


def test_a_run_that_is_killed_leaves_no_server(tmp_path):
    words = ("--log-level=debug", "run", SCENARIOS / "immediate")
    plain = {"NO_COLOR": "1"}
    with running(*words, cwd=tmp_path, env=plain, stdout=subprocess.DEVNULL) as process:
        lines = iter(process.stderr.readline, "")
        pid = next(
            int(found[1]) for line in lines if (found := re.search(r"started.*\bpid=(\d+)", line))
        )
        postmaster = psutil.Process(pid)
    postmaster.wait(timeout=30)
