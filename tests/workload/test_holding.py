"""How long branches are in doubt, according to a coordinator's machines."""

from __future__ import annotations

from twopc.protocol.events import BranchAborted, BranchCommitted, CommitAsked, VotedYes
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.agree import compare
from twopc.sim.workload.load_play import BranchTimes


def test_from_the_vote_to_the_end():
    now, ended = [0.0], []
    holding = BranchTimes(lambda: now[0], ended.append)
    for at, gid, event in [
        (1.0, "a", CommitAsked()),
        (1.0, "a", VotedYes(participant="pub")),
        (1.5, "b", VotedYes(participant="pub")),
        (2.0, "a", VotedYes(participant="sub1")),
        (3.0, "a", BranchCommitted(participant="pub")),
        (3.0, "a", BranchCommitted(participant="pub")),
        (4.0, "b", BranchAborted(participant="pub")),
        (5.0, "c", BranchAborted(participant="pub")),
        (6.0, "a", BranchCommitted(participant="sub1")),
    ]:
        now[0] = at
        holding(gid, event)
    assert ended == [2.0, 2.5, 4.0]


def test_two_loads_are_not_compared():
    """Two loads are not compared: each is judged by itself, and has no given order of steps."""
    one = [
        HistoryRecord(seq=0, t_us=0, kind="ok", order="load", session="client 1", step="add"),
        HistoryRecord(seq=1, t_us=1, kind="load", order="load", data={}),
    ]
    assert compare(one, one[1:]) == []
