"""Tests of what a model is built from: all of a scenario's topology, and nothing that it does not support."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twopc.sim.model.values import Delay
from twopc.sim.scenario.check import load, parse
from twopc.sim.scenario.model_setup import spec_of
from twopc.sim.scenario.stage import SetUpError

SCENARIOS = Path(__file__).parents[3] / "scenarios"
FILE = """
twopc: 1
name: timed
topology: {publisher: pub, subscribers: [sub1, sub2], settings: {SETTINGS}, timeouts: {lock: 2s}}
tables: {account: {columns: {id: int primary key, n: int}, rows: [{id: 1, n: 2}], filter: n > 0}}
subscribers: {sub2: {filter: {account: id < 5}, streams: 2}}
sessions: {a: {node: sub1, steps: [one: begin]}}
orders: [{name: only, steps: [one]}]
timing: {TIMING}
"""


def spec(settings="", timing="apply: constant 1ms"):
    text = FILE.replace("SETTINGS", settings).replace("TIMING", timing)
    return spec_of(parse(text).scenario)


def test_tables_and_subscribers():
    made = spec()
    (table,) = made.tables
    assert (table.name, table.key, table.filter) == ("account", (), "n > 0")
    assert dict(table.columns) == {"id": "int primary key", "n": "int"}
    assert [dict(row) for row in table.rows] == [{"id": "1", "n": "2"}]
    assert [(each.name, each.streams, dict(each.filters)) for each in made.subscribers] == [
        ("sub1", 1, {}),
        ("sub2", 2, {"account": "id < 5"}),
    ]
    assert made.lock_timeout_s == 2


def test_timing():
    made = spec(
        timing="sub-pub: exponential 2ms, sub1-sub2: constant 1s, flush: lognormal 0.5ms 0.3,"
        " restart: uniform 1s 2m"
    ).timing
    slow = Delay(kind="exponential", a=0.002)
    assert dict(made.links) == {"sub1-pub": slow, "sub2-pub": slow, "sub1-sub2": Delay(a=1.0)}
    assert made.flush == Delay(kind="lognormal", a=0.0005, b=0.3)
    assert made.restart == Delay(kind="uniform", a=1.0, b=120.0)


def test_settings():
    made = spec(settings="max_prepared_transactions: 2, deadlock_timeout: 200ms")
    assert made.prepared_max == 2
    assert made.timing.deadlock_timeout == Delay(a=0.2)


@pytest.mark.parametrize(
    ("settings", "timing", "path", "said"),
    [
        ("", "sub3-pub: constant 1ms", ("timing", "sub3-pub"), "nothing that takes time is called"),
        ("work_mem: 4MB", "apply: constant 1ms", ("topology", "settings", "work_mem"), "no setting"),
        (
            "max_prepared_transactions: many", "apply: constant 1ms",
            ("topology", "settings", "max_prepared_transactions"), "a whole number",
        ),
        (
            "deadlock_timeout: soon", "apply: constant 1ms",
            ("topology", "settings", "deadlock_timeout"), "a duration",
        ),
    ],
)  # fmt: skip
def test_what_a_model_has_not(settings, timing, path, said):
    with pytest.raises(SetUpError, match=re.escape(said)) as caught:
        spec(settings=settings, timing=timing)
    assert caught.value.path == path


def test_seed():
    scenario = load(SCENARIOS / "immediate/lost_update.twopc.yaml").scenario
    assert spec_of(scenario).seed == 0
    assert spec_of(scenario, seed=7).seed == 7
    assert spec_of(scenario.model_copy(update={"seed": 5})).seed == 5


@pytest.mark.parametrize(
    "path", sorted(SCENARIOS.rglob("*.twopc.yaml")), ids=lambda path: path.stem
)
def test_the_catalogue(path: Path):
    """The model supports the topology of every shipped scenario."""
    for _, scenario in load(path).cells:
        assert len(spec_of(scenario).tables) == len(scenario.tables)
