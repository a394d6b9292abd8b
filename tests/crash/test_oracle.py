"""Tests of the oracle: counters after faults (I11, M35), and traces (I10).

Counts are equal, and in equal order, at both sites. A new machine reproduces each trace.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.grid.cells import Kind, Seen
from tests.grid.invariants import Evidence
from tests.grid.oracle import Lane, refines, swarm
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import SITES, SUBSCRIBER, Rig
from twopc.protocol import effects as x
from twopc.protocol.effects import Message

COMMITS = ("presumed_abort", "last_agent", "presumed_commit", "presumed_nothing")


def traced(rig: Rig, commit: str) -> Evidence:
    """Return the evidence of a transaction without a fault."""
    seen = Seen.begin(rig, Kind(commit=commit))
    with CoordinatorProcess(rig.task(seen.name, row=seen.row, commit=commit)) as process:
        process.end()
        seen.hear(process)
    return seen.evidence(rig)


@pytest.mark.parametrize("commit", COMMITS)
def test_a_trace_is_that_of_the_machine(rig: Rig, commit: str) -> None:
    evidence = traced(rig, commit)
    assert len(evidence.trace) > 6
    assert refines(evidence, commit) == []
    for cut in range(len(evidence.trace)):
        assert refines(replace(evidence, trace=evidence.trace[:cut]), commit) == []


def test_what_the_machine_would_not_do_is_seen(rig: Rig) -> None:
    evidence = traced(rig, "presumed_abort")
    told = [
        note
        for note in evidence.trace
        if isinstance(note.what, x.Send) and note.what.message is Message.COMMIT
    ]
    early = replace(evidence, trace=(evidence.trace[0], told[0], *evidence.trace[1:]))
    assert refines(early, "presumed_abort")[0].startswith("I10: effect 1 was Send")
    twice = replace(evidence, trace=(*evidence.trace, evidence.trace[0]))
    assert "no new machine takes" in refines(twice, "presumed_abort")[0]


def test_both_ends_count_and_list_alike(rig: Rig) -> None:
    with Lane(rig) as lane:
        lane.restart()
    assert lane.broken == []


def test_a_difference_is_seen(rig: Rig) -> None:
    lane = Lane(rig)
    with lane:
        pass
    assert lane.broken == []
    rig.fetch(SUBSCRIBER, "set session_replication_role = replica; update tally set count = count + 1, list = '3;'")  # fmt: skip
    try:
        lane._judge()
        assert [line[:3] for line in lane.broken][:1] == ["I11"]
    finally:
        there = "select count, list from tally where id = %s"
        count, listed = rig.fetch(SITES[0], there, (lane._tally,))[0]
        rig.fetch(SUBSCRIBER, "set session_replication_role = replica; update tally set count = 0, list = ''")  # fmt: skip
        rig.fetch(
            SUBSCRIBER,
            f"set session_replication_role = replica; update tally set count = {count},"
            f" list = '{listed}' where id = {lane._tally}",
        )


@pytest.mark.parametrize(("seed", "commit"), [(1, "presumed_abort"), (2, "last_agent")])
def test_a_swarm_of_faults(rig: Rig, seed: int, commit: str) -> None:
    """M35: Four random faults strike clients at work; within 5 s of their end nothing is in doubt."""
    assert swarm(rig, seed, commit=commit) == []
