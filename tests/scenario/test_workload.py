"""Tests of the notation of loads, of generated orders, and of their expectations."""

from __future__ import annotations

from decimal import Decimal

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.expectations import Count

HEAD = """\
twopc: 1
name: two
about: x
topology: {publisher: pub, subscribers: [sub1, sub2]}
tables: {account: {columns: {id: int primary key, balance: int}}}
"""
LOAD = """\
transactions:
  transfer: [{sql: "update account set balance = balance - :amount where id = :from"},
             {sql: "update account set balance = balance + :amount where id = :to"}]
workload:
  clients: 16
  for: 20s
  warmup: 2s
  seed: 7
  nodes: {sub1: 60, sub2: 40}
  keys: {table: account, count: 1000, pick: zipfian 0.9}
  mix: {transfer: 40, read: 20}
  transactions: {read: {sql: "select balance from account where id = :from"}}
  on_conflict: {retry: 3, after: sync, backoff: 5ms..50ms}
thresholds:
  - rejected.version_mismatch.rate < 15%
  - commit.latency.p99 < 80ms
  - in_doubt.count == 0
timing: {sub-pub: exponential 2ms, apply: lognormal 1ms 0.5}
"""
ORDERS = """\
sessions:
  alice: {node: sub1, steps: [{a: {sql: "select 1"}}, {b: {sql: "select 1"}}]}
  bob: {node: sub2, steps: [{x: {sql: "select 1"}}, {y: {sql: "select 1"}}]}
orders:
  - name: every order
    generate: %s
"""


def test_a_load():
    scenario = parse(HEAD + LOAD).scenario
    load = scenario.workload
    assert (load.clients, load.rate, load.for_ms, load.count) == (16, None, 20_000, None)
    assert (load.warmup_ms, load.seed, load.nodes) == (2000, 7, {"sub1": 60, "sub2": 40})
    assert (load.keys_of.table, load.keys_of.count, load.keys_of.pick) == (
        "account",
        1000,
        "zipfian 0.9",
    )
    assert list(scenario.transactions) == ["transfer"]
    assert [step.sql for step in load.transactions["read"]] == [
        "select balance from account where id = :from"
    ]
    assert (load.on_conflict.retry, load.on_conflict.after, load.on_conflict.backoff) == (
        3,
        "sync",
        "5ms..50ms",
    )
    bounds = [(each.metric, each.op, each.number, each.unit) for each in scenario.thresholds]
    assert bounds == [
        ("rejected.version_mismatch.rate", "<", 15.0, "%"),
        ("commit.latency.p99", "<", 80.0, "ms"),
        ("in_doubt.count", "==", 0.0, ""),
    ]
    assert scenario.timing["apply"].distribution == "lognormal"
    assert scenario.timing["apply"].values == ("1ms", "0.5")


def test_an_open_load_of_so_many_transactions():
    text = 'workload: {rate: 30/m, transactions: 500}\ntransactions: {t: {sql: "select 1"}}\n'
    load = parse(HEAD + text).scenario.workload
    assert (load.rate, load.count, load.transactions) == (0.5, 500, {})


@pytest.mark.parametrize("pick", ["uniform", "latest", "zipfian 1", "hotspot 20%/80%"])
def test_how_keys_are_picked(pick):
    assert parse(HEAD + LOAD.replace("zipfian 0.9", pick)).scenario.workload.keys_of.pick == pick


def generate(text):
    return parse(HEAD + ORDERS % text).scenario.orders[0].generate


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("all", "pairs", ()),
        ('{before: ["a < x", "b<y"]}', "pairs", (("a", "x"), ("b", "y"))),
        ("{together: [a, x]}", "together", (("a", "x"),)),
        ("{together: [[a, x], [b, y]]}", "together", (("a", "x"), ("b", "y"))),
        ("{sessions: bob}", "sessions", ("bob",)),
        ("{sessions: [bob, alice]}", "sessions", ("bob", "alice")),
        ("all", "limit", 200),
        ("{limit: 7}", "limit", 7),
        ("{limit: none}", "limit", None),
        ("all", "sample", None),
        ("{sample: 500 seed 7}", "sample", (500, 7)),
        ("all", "reduce", "equivalent"),
        ("{reduce: none}", "reduce", "none"),
    ],
)
def test_generated_orders(text, field, value):
    assert getattr(generate(text), field) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{before: ["a < x", "x < a"]}', "'x < a' cannot be: already a < x"),
        ('{before: ["a < a"]}', "'a < a' cannot be: already a < a"),
        ('{before: ["y < a"], together: [b, x]}', "'x' cannot follow 'b': x < y < a < b"),
        ("{together: [[a, x], [y, b]]}", ""),
        ("{together: [[a, y], [x, b]]}", "no order fulfils this"),
        ("{together: [a, x, y, b]}", ""),
        ('{together: [x, a, y], before: ["y < b"]}', ""),
        ('{together: [a, b], before: ["a < x", "x < b"]}', "no order fulfils this"),
    ],
)
def test_constraints_that_no_order_fulfils(text, said):
    if said:
        with pytest.raises(ScenarioError, match=said.replace("<", "[<]")):
            generate(text)
    else:
        assert generate(text)


@pytest.mark.parametrize(
    ("said", "fitting"),
    [
        ({"exactly": 1}, {1}),
        ({"at_least": 2}, {2, 3}),
        ({"at_most": 1}, {0, 1}),
        ({"at_least": 1, "at_most": 2}, {1, 2}),
    ],
)
def test_counts(said, fitting):
    count = Count(**said)
    assert {number for number in range(4) if count.fits(number)} == fitting


def test_what_many_orders_come_to():
    text = (
        ORDERS % "all"
        + """\
    expect:
      committed: 1
      rejected: {version_mismatch: {at_most: 1}}
      otherwise: any
      sum: {table: account, column: balance, equals: 100.50, node: everywhere}
      sql: [select 1 where false, {at: sub1, text: select 2 where false}]
      no_lost_update: true
      prepared_left: false
      isolation: serializable
"""
    )
    expect = parse(HEAD + text).scenario.orders[0].expect
    assert (expect.committed.exactly, expect.rejected["version_mismatch"].at_most) == (1, 1)
    assert expect.otherwise == "any"
    assert (expect.sum[0].equals, expect.sum[0].node) == (Decimal("100.50"), "everywhere")
    assert [(query.at, query.text) for query in expect.sql] == [
        (None, "select 1 where false"),
        ("sub1", "select 2 where false"),
    ]
    assert (expect.no_lost_update, expect.prepared_left) == (True, -1)
    assert expect.isolation_claim == "serializable"


def test_calls():
    text = (
        HEAD
        + """\
sessions:
  alice:
    node: sub1
    steps:
      - a: {call: raise_all, args: {by: 10, note: "x", bal: ":bal"}, params: {bal: 3}}
      - b: {call: public.raise_all, args: [10, ":bal"], params: {bal: 4}}
      - c: {call: nothing_more}
orders: [{name: one, steps: [a, b, c]}]
"""
    )
    steps = {name: step for name, (_, step) in parse(text).scenario.steps.items()}
    assert steps["a"].statements == (
        "call raise_all(by => :argument_by, note => :argument_note, bal => :bal)",
    )
    assert steps["a"].values == {"bal": 3, "argument_by": 10, "argument_note": "x"}
    assert steps["b"].statements == ("call public.raise_all(:argument_1, :bal)",)
    assert steps["b"].values == {"bal": 4, "argument_1": 10}
    assert (steps["c"].statements, steps["c"].values) == (("call nothing_more()",), {})


def test_items_of_an_order():
    text = (
        HEAD
        + """\
sessions:
  alice: {node: sub1, steps: [{a: {sql: "select 1"}}, {b: {pause: agent sub2}}]}
orders:
  - {name: one, steps: [{cut: pub}, a, {restore: pub}, b, {resume: agent sub2}, {wait: a notices 2}]}
"""
    )
    items = parse(text).scenario.orders[0].steps
    assert (items[0].cut, items[2].restore, items[4].resume) == ("pub", "pub", "sub2")
    assert (items[5].waited, items[5].waits_for_notices, items[5].waits_for_end) == ("a", 2, False)
