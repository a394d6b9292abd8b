"""Tests of scenarios in virtual time: the runner on a model, what it cannot play, and equal histories."""

from __future__ import annotations

import asyncio

import pytest

from tests.model.stage.toys import ONE_ORDER, TWO_WRITERS, loaded, play
from twopc.errors import ConfigurationError, ScenarioError
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.model_check import unknown
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.values import Cell, Selection


def failures(verdict):
    return [failure.message for order in verdict.orders for failure in order.failures]


def test_who_waits_is_seen_and_goes_on():
    verdict, history = play(loaded())
    assert failures(verdict) == []
    (blocked,) = [record for record in history.records if record.kind == "blocked"]
    assert (blocked.step, blocked.wait["session"], blocked.wait["node"]) == ("b_write", "a", "pub")
    assert history.records[0].data["on"] == "model"


def test_the_same_bytes_each_time():
    one, other = (play(loaded(), seed=3)[1] for _ in range(2))
    assert [each.line() for each in one.records] == [each.line() for each in other.records]
    stage = next(each for each in one.records if each.message == "stage")
    assert stage.data["seed"] == 3


def test_an_order_is_the_same_among_others_and_alone():
    """An order has its own clock and random values, also if it runs at the same time as others."""
    several = (
        TWO_WRITERS + ONE_ORDER + ONE_ORDER.replace("orders:\n", "").replace("b waits", "again")
    )
    alone, both, at_once = (
        [
            (each.t_us, each.kind, each.step, each.message)
            for each in play(loaded(several), selection=selection)[1].records
            if each.order == "again" and each.kind != "verdict"
        ]
        for selection in (Selection(orders=("again",)), Selection(), Selection(jobs=2))
    )
    assert alone == both == at_once
    assert len(alone) > 10


SETUP = TWO_WRITERS.replace(
    "tables:", "setup: insert into account values (2, 5)\nteardown: delete from account\ntables:"
)


def test_setup_and_teardown():
    verdict, _ = play(
        loaded(SETUP + ONE_ORDER.replace("balance: 202}", "balance: 202}, {id: 2, balance: 5}"))
    )
    assert failures(verdict) == []


def test_a_plain_session_sends_scripts():
    text = """
twopc: 1
name: plain
topology: {publisher: pub, subscribers: [sub1], distribution: none}
tables: {t: {columns: {id: int primary key}, rows: [{id: 1}]}}
sessions:
  p:
    node: pub
    plain: true
    steps:
      - both:   {script: "insert into t values (2); insert into t values (3)"}
      - none:   {script: "insert into t values (4); insert into t values (3)"}
      - open:   {script: "insert into t values (5); begin; insert into t values (6)"}
      - close:  commit
      - gid:    {script: "begin; delete from t where id = 1; prepare transaction 'mine'"}
      - undone: {script: "rollback prepared 'mine'"}
orders:
  - name: all
    steps: [both, none, open, close, gid, undone]
    expect:
      steps: {none: {error: 23505}}
      tables: {t: {pub: [{id: 1}, {id: 2}, {id: 3}, {id: 5}, {id: 6}]}}
      converged: false
"""
    assert failures(play(loaded(text))[0]) == []


def test_a_node_lets_nobody_in():
    text = (
        TWO_WRITERS
        + """
orders:
  - name: away and back
    steps: [{cut: pub}, b_write, {restore: pub}, a_write]
    expect: {steps: {b_write: {error: 08006}}, tables: {account: {pub: [{id: 1, balance: 101}]}}, converged: false}
"""
    )
    assert failures(play(loaded(text))[0]) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("returning balance", "returning row_number() over ()", "toy.twopc.yaml:16:"),
        ("int not null}", "int4range not null}", "toy.twopc.yaml:7:"),
        ("{id: 1, balance: 100}", "{id: 1, balance: much}", "invalid input syntax"),
        ("distribution: none", "distribution: none, settings: {work_mem: 4MB}", "no setting 'work_mem'"),
    ],
)  # fmt: skip
def test_what_the_model_does_not_know_has_its_place(old, new, said):
    file = loaded((TWO_WRITERS + ONE_ORDER).replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        play(file)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("returning balance", "returning row_number() over ()", "the model does not know"),
        ("b_write: {sql:", "b_write: {as: boss, sql:", "no roles"),
        ("steps: [a_begin,", "steps: [a_begin, {wait: a_begin notices 1},", "no notices"),
        ("int not null}", "int4range not null}", "the model does not know"),
    ],
)
def test_it_is_said_before_a_run(old, new, said):
    file = loaded((TWO_WRITERS + ONE_ORDER).replace(old, new))
    found = [message for _, message in unknown(file.scenario, Cell())]
    assert any(said in message for message in found), found


def test_queries_of_twins_and_cells_are_checked_before_a_run():
    """What the model lacks is reported also for the queries of twins, and of cells where they apply."""
    query = "select row_number() over () from account"
    own = f"{{sql: '{query}'}}"
    twin = f"twin: {{protections: {{version_check: off}}, must_fail: sql, expect: {own}}}\n"
    cells = f"expect: {{cells: {{serializable: {own}}}}}\n"
    matrix = "matrix: {isolation.pub: [read committed, serializable]}\n"
    file = loaded(TWO_WRITERS + ONE_ORDER + matrix + twin + cells)
    found = {cell.label: [at[0] for at, _ in unknown(each, cell)] for cell, each in file.cells}
    assert found == {"read committed": ["twin"], "serializable": ["expect", "twin"]}


def test_nothing_is_said_of_what_it_knows():
    assert [*unknown(loaded().scenario, Cell())] == []


def test_it_is_played_in_virtual_time_only():
    (group,) = groups(loaded())
    rank, items = group.courses.next()

    async def go():
        async with ModelTheatre() as theatre, theatre.stage(group.case(rank, items)):
            pass

    with pytest.raises(ConfigurationError, match="in virtual time"):
        asyncio.run(go())


FOREIGN = """
twopc: 1
name: agent-behind-a-child
topology: {publisher: pub, subscribers: [sub1]}
tables:
  item: {columns: {id: int primary key, code: int UNIQUE n: int}, rows: [{id: 1, n: 0}]}
  part: {columns: {id: int primary key, item: int references item}}
sessions:
  office: {node: pub, steps: [o_add: {sql: "update item set n = 1"}]}
  shop:
    node: sub1
    steps: [s_begin: begin, s_part: {sql: "insert into part values (1, 1)"}, s_end: commit]
  agent: {node: sub1, steps: [a_sync: sync]}
orders:
  - name: only
    steps: [s_begin, s_part, o_add, a_sync, s_end]
    expect: {steps: {a_sync: WAITS}, tables: {item: {everywhere: [{id: 1, n: 1}]}}}
"""


@pytest.mark.parametrize(
    ("unique", "waits"), [("unique,", "{blocked_by: s_part}"), (",", "{delivered: 1}")]
)
def test_an_agent_names_keys_in_what_it_sets(unique, waits):
    """An UPDATE that names a key column locks the row as if the key changed, as PostgreSQL does before triggers."""
    verdict, _ = play(loaded(FOREIGN.replace("UNIQUE", unique).replace("WAITS", waits)))
    assert failures(verdict) == []
