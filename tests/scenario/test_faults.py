"""Tests of the notation of faults: points, deeds, and how they heal."""

from __future__ import annotations

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.faults_meaning import DEEDS, SCENARIO_POINTS, points

FILE = """\
twopc: 1
name: two
about: x
topology: {{replication: {kind}, publisher: pub, subscribers: [sub1, sub-2], snapshot: {snapshot}}}
tables: {{t: {{columns: {{id: int primary key}}}}}}
sessions:
  alice: {{node: sub1, steps: [{{a_write: {{sql: "insert into t values (1)"}}}}]}}
faults:
  - {fault}
orders: [{{name: one, faults: [f], steps: [a_write]}}]
"""


def fault(**said):
    given = {"id": "f", "at": "coordinator.decision_logged", "do": "crash coordinator", **said}
    text = ", ".join(f"{key}: {value!r}" for key, value in given.items())
    kind = "merge" if given["at"].startswith(("merge.", "merge_delivery.")) else "updating"
    snapshot = "before" if given["at"].startswith("merge_delivery.") else "none"
    file = FILE.format(kind=kind, snapshot=snapshot, fault=f"{{{text}}}")
    (found,) = parse(file).scenario.faults
    return found


@pytest.mark.parametrize("point", sorted(points()))
def test_every_point_of_the_protocol_can_be_named(point):
    node = "1" if point.startswith("agent.") else "sub-2"
    deed = {"do": "crash agent sub-2"} if point.startswith(("merge.", "merge_delivery.")) else {}
    assert fault(at=point.replace("(node)", f"({node})"), **deed).heal == "at end"


def test_scenarios_know_points_that_no_driver_reaches():
    assert set(SCENARIO_POINTS) <= points()
    assert "coordinator.before_commit(node)" in points()


@pytest.mark.parametrize(
    "do",
    [
        "crash coordinator",
        "kill backend pub",
        "restart node sub-2",
        "restart node pub immediate",
        "cut pub-sub1",
        "cut pub–sub-2",
        "cut sub-2-pub",
        "cut coordinator-pub",
        "delay 200ms",
        "lose reply",
        "error 53200",
        "pause agent sub-2",
        "pause coordinator",
        "crash agent sub1",
        "terminate backend pub",
        "cancel backend sub-2",
        "stop node pub",
        "stop node sub1 immediate",
        "black hole coordinator-pub",
        "one way sub-2-pub",
        "forget decisions",
        "repeat request",
        "finish pub commit",
        "finish sub1 rollback",
        "fill slots pub",
        "forget marker",
        "skew clock sub1 +5m",
        "skew clock pub -200ms",
    ],
)
def test_deeds(do):
    assert fault(do=do).do == do
    assert do.split()[0] in DEEDS


@pytest.mark.parametrize(
    "do",
    [
        "",
        "crash",
        "crash pub",
        "cut pub-pub",
        "cut sub-2",
        "cut sub1-sub-2",
        "restart node pub gently",
        "delay 0ms",
        "skew clock sub1 5m",
        "pause agent pub",
        "crash agent pub",
        "finish pub",
        "finish pub by hand",
        "fill slots",
        "black pub-sub1",
        "lose",
        "error 5320",
    ],
)
def test_no_deeds(do):
    with pytest.raises(ScenarioError, match=r"nothing that a fault does|not as it is written"):
        fault(do=do)


@pytest.mark.parametrize("heal", ["after 1s", "at recovery.end", "at end", "never"])
def test_how_it_heals(heal):
    assert fault(heal=heal).heal == heal


@pytest.mark.parametrize("do", ["stop node pub", "pause coordinator"])
def test_what_is_away_for_good_cannot_be_looked_at(do):
    with pytest.raises(ScenarioError, match="for good"):
        fault(do=do, heal="never")


def test_when():
    text = "{id: f, at: trigger.enter, do: lose reply, when: {session: alice, nth: 2, gid: 'twopc:a:1:2'}}"
    (found,) = parse(FILE.format(kind="updating", snapshot="none", fault=text)).scenario.faults
    assert (found.when.session, found.when.nth, found.when.gid) == ("alice", 2, "twopc:a:1:2")
