"""An order whose fault or step does not happen fails unless that is allowed, in both theatres."""

from __future__ import annotations

import pytest

from twopc.errors import ScenarioError
from twopc.sim.report.history import History
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played
from twopc.sim.scenario.values import Selection

HEAD = """\
twopc: 1
name: lapses
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1], timeouts: {lock: 1m}}
tables: {t: {columns: {id: int primary key, n: int}, rows: [{id: 1, n: 10}]}}
"""
FIFTH = """\
faults: [{id: fifth, at: coordinator.decision_logged, when: {nth: 5}, do: crash coordinator}]
sessions:
  alice: {node: sub1, steps: [a_begin: begin, a_write: {sql: "update t set n = 1 where id = 1"}, a_end: commit]}
orders: [{name: x, faults: [fifth], steps: [a_begin, a_write, a_end], expect: {EXPECT}}]
"""
#: At that point nothing is prepared, marked or decided, no agent has run yet, and no process works
#: at the other nodes.
NO_EFFECT = """\
faults:
  - {id: branch, at: coordinator.before_prepare(pub), do: finish pub commit}
  - {id: marker, at: coordinator.before_prepare(pub), do: forget marker}
  - {id: decision, at: coordinator.before_prepare(pub), do: forget decisions}
  - {id: process, at: coordinator.before_prepare(pub), do: terminate backend sub2}
  - {id: agent, at: coordinator.before_prepare(pub), do: crash agent sub2}
  - {id: killed, at: coordinator.before_prepare(pub), do: kill backend sub2}
  - {id: full, at: coordinator.before_prepare(pub), do: fill slots sub2}
  - {id: fuller, at: coordinator.before_prepare(pub), do: fill slots sub2}
  - {id: stops, at: coordinator.before_prepare(pub), do: stop node sub3}
  - {id: stopped, at: coordinator.before_prepare(pub), do: restart node sub3}
sessions:
  alice: {node: sub1, steps: [a_begin: begin, a_write: {sql: "update t set n = 1 where id = 1"}, a_end: commit]}
orders:
  - name: x
    faults: [branch, marker, decision, process, agent, killed, full, fuller, stops, stopped]
    steps: [a_begin, a_write, a_end]
    expect: {EXPECT}
"""
#: The Subscriber commits as the last agent, so that the request to it is no COMMIT PREPARED.
OTHER_REQUEST = """\
faults: [{id: lost, at: coordinator.before_commit(sub1), do: lose reply}]
sessions:
  alice: {node: sub1, steps: [a_begin: begin, a_write: {sql: "update t set n = 1 where id = 1"}, a_end: commit]}
orders: [{name: x, faults: [lost], steps: [a_begin, a_write, a_end], expect: {EXPECT}}]
"""
TWICE = """\
faults: [{id: late, at: coordinator.decision_logged, do: crash coordinator}]
sessions:
  alice: {node: sub1, steps: [a_begin: begin, a_write: {sql: "update t set n = 1 where id = 1"}, a_end: commit]}
orders:
  - {name: x, steps: [{fault: late}, a_begin, a_write, a_end, {fault: late}], expect: {otherwise: any, EXPECT}}
"""
#: Bob's step waits up to its time limit, because the order expects that a lock timeout may end the
#: wait.
LATE = """\
sessions:
  alice: {node: pub, steps: [a_begin: begin, a_write: {sql: "update t set n = 1 where id = 1"}]}
  bob:
    node: pub
    steps:
      - b_write: {sql: "update t set n = 2 where id = 1", timeout: 300ms}
      - b_more: {sql: "update t set n = 3 where id = 1"}
orders:
  - name: x
    steps: [a_begin, a_write, b_write, b_more]
    expect: {otherwise: any, rejected: {lock_timeout: {at_most: 1}}, EXPECT}
"""
UNSENT = """\
sessions:
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_write: {sql: "update t set n = 1 where id = 1"}
      - a_check: {check: "select n from t", rows: [{n: 12345}]}
      - a_end: commit
  office: {node: pub, steps: [o_write: {sql: "update t set n = 3 where id = 1"}]}
orders:
  - name: x
    steps: [o_write, a_begin, a_write, a_check, a_end]
    expect: {steps: {a_write: {rejected: version_mismatch}, a_end: rolled back}, EXPECT}
"""


DROPPED = """\
sessions: {office: {node: pub, plain: true, steps: [drop: {script: "drop table t cascade"}]}}
orders: [{name: x, steps: [drop], expect: {EXPECT}}]
"""


@pytest.fixture(params=["postgres", "model"])
def failures(request):
    """Return a function that plays a file on servers or on the model, and returns its failures."""

    def play(
        text: str, *allowed: str, selection: Selection | None = None, head: str = HEAD
    ) -> list[str]:
        said = f"allow: [{', '.join(allowed)}]" if allowed else ""
        loaded = parse(head + text.replace("EXPECT", said).replace(", }", "}"))
        theatre = (
            ModelTheatre()
            if request.param == "model"
            else PostgresTheatre(server=request.getfixturevalue("server"))
        )

        async def playing() -> list[str]:
            async with theatre:
                verdict = await run(loaded, theatre, History(), **options)
            return [each.message for order in verdict.orders for each in order.failures]

        options = {} if selection is None else {"selection": selection}
        return played(request.param, playing())

    return play


def test_a_fault_that_is_not_reached(failures):
    (failure,) = failures(FIFTH)
    assert failure.startswith(
        "fault 'fifth' was not reached: fewer than 5 arrivals at coordinator.decision_logged"
    )
    assert failures(FIFTH, "fault_not_reached") == []


def test_faults_that_have_nothing_to_act_on(failures):
    """Faults that strike without an effect fail the order, on servers and on the model alike."""
    head = HEAD.replace("[sub1]", "[sub1, sub2, sub3]")
    missing = {
        "branch": "the transaction has no prepared branch at pub",
        "marker": "no node has a marker of the transaction",
        "decision": "the decision log has no decision",
        "process": "no process works for the transaction at sub2",
        "agent": "the agent of sub2 is not running",
        "killed": "no process works for the transaction at sub2",
        "fuller": "no slot for a prepared transaction is free at sub2",
        "stopped": "the server of sub3 is stopped",
    }
    assert failures(NO_EFFECT, head=head) == [
        f"fault '{name}' had no effect at coordinator.before_prepare(pub): {what}. Correct where it strikes, or "
        "allow this: {allow: [fault_without_effect]} in 'expect'"
        for name, what in missing.items()
    ]
    assert failures(NO_EFFECT, "fault_without_effect", head=head) == []


def test_a_fault_whose_request_does_not_come(failures):
    head = HEAD.replace("subscribers: [sub1]", "subscribers: [sub1], commit: last_agent")
    (failure,) = failures(OTHER_REQUEST, head=head)
    assert failure.startswith(
        "fault 'lost' was not reached: no arrival at coordinator.before_commit(sub1), or not the request after it"
    )


def test_a_fault_that_strikes_once_of_twice(failures):
    lapse = "again (it is armed 2 times and struck 1)"
    assert [each for each in failures(TWICE) if lapse in each]
    assert not [each for each in failures(TWICE, "fault_not_reached") if lapse in each]


def test_a_step_without_end_and_those_after_it(failures):
    """A step that does not end, and those after it, fail the order despite ``otherwise: any``.

    That setting only allows any outcome of a step.
    """
    assert failures(LATE) == [
        "b_write: expected ok, got no end within its time limit: it waits at pub for alice (a_write); "
        "not played after it: b_more"
    ]
    assert failures(LATE, "time_limit") == ["b_more was not played"]
    assert failures(LATE, "time_limit", "step_not_played") == []


def test_rows_that_are_not_compared(failures):
    assert failures(UNSENT) == [
        "a_check: expected its rows, got not sent: its transaction was refused at a_write"
    ]
    assert failures(UNSENT, "step_not_played") == []


def test_a_table_that_a_step_drops(failures):
    """A step that drops a table is an error of the file, since rows are shown after each step."""
    with pytest.raises(ScenarioError, match=r"a step has dropped or renamed .*does not exist"):
        failures(DROPPED, head=HEAD.replace("[sub1]", "[], distribution: none"))
