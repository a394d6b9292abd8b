"""Tests of the footprints of steps: brute force finds no behaviour that the reduced orders lack."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.scenario.locking import Toy
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.ordering import courses
from twopc.sim.scenario.ordering.courses import space_of
from twopc.sim.scenario.ordering.footprint import Dependence, Footprint, footprints, independent

HEAD = """\
twopc: 1
name: x
about: x
topology: {publisher: pub, subscribers: [sub1, sub2], isolation: %s}
tables:
%s
sessions:
%s
orders:
  - {name: every order, generate: %s}
"""
TABLE = "  {}: {{columns: {{id: int primary key, n: int}}, rows: []}}\n"


def scenario_of(
    sessions: str, *, generate="all", level="read committed", tables="t u", more=""
) -> Scenario:
    plain = "".join(TABLE.format(name) for name in tables.split())
    return parse(HEAD % (level, plain + more, sessions, generate)).scenario


WORKED = """\
  alice: {node: sub1, steps: [a_begin: begin, a_read: {sql: select n from t}, a_write: {sql: update t set n = 1}, a_end: commit]}
  bob: {node: sub2, steps: [b_begin: begin, b_read: {sql: select n from t}, b_write: {sql: update t set n = 2}, b_end: commit]}
"""
BEFORE = '{before: ["a_read < b_write", "b_read < a_write"]}'


def played(scenario: Scenario, how: str = ""):
    """Play the courses of the scenario's order on the toy; return the counts and behaviours."""
    told = courses(scenario, scenario.orders[0], how=how)
    behaviours = set()
    while (course := told.next()) is not None:
        rank, items = course
        learned = Toy(scenario).play([item.step for item in items])
        told.learn(rank, learned)
        behaviours.add(learned.behaviour)
    return told.counts, behaviours - {""}


def test_the_orders_of_a_lost_update():
    scenario = scenario_of(WORKED, generate=BEFORE)
    counts, behaviours = played(scenario)
    assert (counts.orders, counts.infeasible) == (36, 12)
    assert (counts.run, counts.behaviours, counts.left_out) == (4, 4, 0)
    every, brute = played(scenario, how="all")
    assert (every.orders, every.run, every.infeasible) == (36, 24, 12)
    assert behaviours == brute
    assert played(scenario_of(WORKED))[0].orders == 70


@st.composite
def sessions(draw):
    """Draw two or three sessions that read and write a few tables, in transactions and without."""
    count = draw(st.integers(2, 3))
    room = 8 if count == 3 else 10
    found = []
    for name in "abc"[:count]:
        node = draw(st.sampled_from(("pub", "sub1", "sub2")))
        steps = draw(steps_of(name, min(3 if count == 3 else 5, room)))
        room -= len(steps)
        if steps:
            found.append(f"  {name}: {{node: {node}, steps: [{', '.join(steps)}]}}\n")
    return "".join(found)


@st.composite
def steps_of(draw, name, room):
    """Draw at most `room` steps."""
    steps = []
    while room:
        size = draw(st.integers(0, min(2, room - 2))) if room > 2 else 0
        body = [f"{name}{len(steps) + at}: {{lines: {draw(TEXTS)}}}" for at in range(size or 1)]
        if size:
            end = draw(st.sampled_from(("commit", "commit", "rollback")))
            body = [
                f"{name}{len(steps)}_begin: begin",
                *body,
                f"{name}{len(steps)}_end: {end}",
            ]
        steps += [each.replace("'", '"') for each in body]
        room -= len(body)
        if draw(st.booleans()):
            break
    return steps


TEXTS = st.lists(
    st.sampled_from(
        ["select n from t", "select n from u", "update t set n = 1", "update u set n = 1"]
    ),
    min_size=1,
    max_size=2,
)


@settings(max_examples=50, deadline=None)
@given(sessions(), st.sampled_from(("read committed", "repeatable read", "serializable")))
def test_what_is_spared_is_not_missed(text, level):
    scenario = scenario_of(text, level=level, generate="{limit: none}")
    assume(space_of(scenario, scenario.orders[0].generate).count <= 700)
    brute, every = played(scenario, how="all")
    counts, behaviours = played(scenario)
    assert behaviours == every
    assert (counts.orders, counts.infeasible) == (brute.orders, brute.infeasible)
    assert (counts.behaviours, counts.left_out) == (len(every), 0)
    assert counts.run <= brute.run


CHAIN = """\
  alice: {node: pub, steps: [a_begin: begin, a_t: {sql: update t set n = 1}, a_end: commit]}
  bob: {node: pub, steps: [b_begin: begin, b_u: {sql: update u set n = 2}, b_t: {sql: update t set n = 2}, b_end: commit]}
  carol: {node: pub, steps: [c_u: {sql: update u set n = 3}, c_v: {sql: select n from v}]}
"""


def test_who_waits_for_whom_is_felt_through_third_ones():
    """Dependence includes waits through third sessions.

    Carol waits for Bob, who waits for Alice: when Alice ends, Bob may fail, and then Carol
    continues.
    """
    scenario = scenario_of(CHAIN, tables="t u v", level="repeatable read")
    feels = Dependence(scenario, scenario.orders[0])
    assert feels("a_end", "c_v")
    assert feels("b_t", "c_u"), "it may fail, and give back what Carol waits for"
    assert not feels("a_begin", "c_u")
    assert not feels("b_begin", "a_end")
    assert feels("b_begin", "b_u"), "a session keeps its own order"
    brute, every = played(scenario, how="all")
    counts, behaviours = played(scenario)
    assert behaviours == every
    assert counts.run < brute.run


def feet(step: str, *, node="sub1", **options):
    """Return the footprints of a step in an open transaction, and of the transaction's end."""
    text = f"  alice: {{node: {node}, steps: [a: begin, b: {step}, c: commit]}}\n"
    scenario = scenario_of(text, **options)
    found = footprints(scenario, scenario.orders[0])
    assert found["a"] == Footprint()
    return found["b"], found["c"]


def at(*places: str):
    return frozenset(tuple(each.split(".")) for each in places)


EVERYTHING = Footprint(all_of=frozenset({"pub", "sub1", "sub2"}))


@pytest.mark.parametrize(
    ("step", "reads", "writes"),
    [
        ("{sql: select n from t}", "sub1.t", ""),
        ("{check: select n from t, rows: []}", "sub1.t", ""),
        ("{sql: select 1}", "", ""),
        ("{explain: so far so good}", "", ""),
        ("{sql: savepoint s}", "", ""),
        ("{sql: update t set n = 1}", "sub1.t", "sub1.t pub.t"),
        ("{sql: select n from t for update}", "sub1.t", "sub1.t pub.t"),
        ("{lines: [select n from u, delete from t]}", "sub1.u sub1.t", "sub1.t pub.t"),
    ],
)
def test_what_a_step_touches(step, reads, writes):
    step, end = feet(step)
    assert step == Footprint(reads=at(*reads.split()), writes=at(*writes.split()))
    assert end == Footprint(writes=at(*writes.split()))


@pytest.mark.parametrize(
    "step",
    [
        "{sql: select mine(n) from t}",
        "{sql: select n from other.place}",
        "{sql: create index on t (n)}",
        "{call: mine}",
        "{lines: [select n from t, select mine(n) from t]}",
    ],
)
def test_what_cannot_be_told_touches_everything(step):
    step, end = feet(step)
    assert step == EVERYTHING
    assert end == EVERYTHING


def test_a_snapshot_sees_everything_of_its_node():
    step, _ = feet("{sql: select n from t}", level="repeatable read")
    assert step.reads == at("sub1.t", "sub1.u")
    step, end = feet("{sql: update t set n = 1}", level="repeatable read")
    assert step.reads == at("sub1.t", "sub1.u", "pub.t", "pub.u")
    assert end == Footprint(writes=at("sub1.t", "pub.t"))
    _, end = feet("{sql: update t set n = 1}", level="serializable")
    assert end.writes == at("sub1.t", "sub1.u", "pub.t", "pub.u")


@pytest.mark.parametrize(
    ("level", "reads"),
    [
        ("read committed", "sub1.u"),
        ("repeatable read", "sub1.u"),
        ("serializable", "sub1.t sub1.u pub.t pub.u"),
    ],
)
def test_a_later_change_sees_the_publisher_again_if_that_may_be_refused(level, reads):
    """A later change reads the Publisher's tables again only at serializable.

    Only serializable refuses a change for rows that are seen after the first one.
    """
    steps = "[a: begin, b: {sql: update t set n = 1}, c: {sql: update u set n = 1}, d: commit]"
    scenario = scenario_of(f"  alice: {{node: sub1, steps: {steps}}}\n", level=level)
    found = footprints(scenario, scenario.orders[0])
    assert found["c"] == Footprint(reads=at(*reads.split()), writes=at("sub1.u", "pub.u"))


@pytest.mark.parametrize(
    "more",
    [
        "  v: {columns: {id: int primary key, t: int references t}, rows: []}\n",
        "  v: {columns: {id: int primary key}, sql: [\"create trigger x after insert on v execute function f('t')\"], rows: []}\n",
        '  v: {columns: {id: int primary key}, filter: "id in (select id from t)", rows: []}\n',
    ],
    ids=["foreign key", "trigger", "filter"],
)
def test_tables_that_touch_each_other_are_written_together(more):
    step, _ = feet("{sql: update t set n = 1}", more=more)
    assert step.writes == at("sub1.t", "pub.t", "sub1.v", "pub.v")
    step, _ = feet("{sql: update u set n = 1}", more=more)
    assert step.writes == at("sub1.u", "pub.u")


def test_tables_with_functions_may_meet_in_one_that_nobody_lists():
    made = '  {}: {{columns: {{id: int primary key}}, sql: ["create function {}() …"], rows: []}}\n'
    step, _ = feet("{sql: delete from v}", more=made.format("v", "f") + made.format("w", "g"))
    assert step.writes == at("sub1.v", "pub.v", "sub1.w", "pub.w")


def test_independent():
    reads, writes = Footprint(reads=at("pub.t")), Footprint(writes=at("pub.t"))
    assert independent(reads, reads)
    assert not independent(reads, writes)
    assert not independent(writes, writes)
    assert independent(writes, Footprint(writes=at("sub1.t")))
    assert not independent(reads, Footprint(all_of=frozenset({"pub"})))
    assert independent(Footprint(), EVERYTHING)
    assert not independent(EVERYTHING, EVERYTHING)


COMMITS = """\
  alice: {node: sub1, steps: [a_begin: begin, a_t: {sql: update t set n = 1}, a_end: commit, a_v: {sql: select n from v}]}
  bob: {node: sub2, steps: [b_begin: begin, b_t: {sql: update t set n = 2}, b_end: commit]}
"""


def test_a_commit_that_ships_may_wait():
    eager = scenario_of(COMMITS, tables="t v")
    assert not Dependence(eager, eager.orders[0])("a_v", "b_end")
    lazy = eager.model_copy(
        update={"topology": eager.topology.model_copy(update={"shipping": "lazy"})}
    )
    assert Dependence(lazy, lazy.orders[0])("a_v", "b_end")


DEADLOCK = """\
  alice: {node: sub1, steps: [a_begin: begin, a_t: {sql: update t set n = 1}, a_u: {sql: update u set n = 1}, a_end: commit, a_look: {sql: select n from v}]}
  bob: {node: pub, steps: [b_begin: begin, b_u: {sql: update u set n = 2}, b_t: {sql: update t set n = 2}, b_end: rollback]}
"""


def test_deadlocks_are_not_missed():
    scenario = scenario_of(DEADLOCK, tables="t u v")
    brute, every = played(scenario, how="all")
    counts, behaviours = played(scenario)
    assert behaviours == every
    assert sum("deadlock" in each for each in every) >= 2
    assert (counts.infeasible, counts.left_out) == (brute.infeasible, 0)
    assert counts.run < brute.run / 5
