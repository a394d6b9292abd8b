"""Faults during a load, and loads without a protection: what is lost, and what is not."""

from __future__ import annotations

import pytest

from twopc.sim.report.history import History
from twopc.sim.report.load import of
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played

TEXT = """\
twopc: 1
name: dies-under-load
about: x
topology: {publisher: pub, subscribers: [sub1, sub2]}
tables:
  account:
    columns: {id: int primary key, balance: int not null}
    rows: [{id: 1, balance: 1000}]
faults:
  - {id: dies, at: POINT, do: crash coordinator, heal: after 100ms}
workload:
  clients: 4
  for: 1s
  seed: 7
  keys: {table: account, count: 50}
  think: exponential 5ms
  sync: 100ms
  on_conflict: {retry: 3, after: sync, backoff: 5ms..20ms}
  transactions:
    transfer: [{sql: "update account set balance = balance - :amount where id = :from"},
               {sql: "update account set balance = balance + :amount where id = :to"}]
  during:
    - {at: 200ms, fault: dies}
expect:
  sum: {table: account, column: balance, equals: 50000, node: everywhere}
"""


@pytest.mark.parametrize(
    "point",
    [
        "coordinator.before_prepare(sub1)",
        "coordinator.decision_logged",
        "coordinator.after_commit(pub)",
    ],
)
def test_the_coordinator_dies(point):
    async def play() -> tuple[list[str], History]:
        history = History()
        loaded = parse(TEXT.replace("POINT", point))
        assert loaded.document.problems == []
        async with ModelTheatre() as theatre:
            verdict = await run(loaded, theatre, history)
        return [f.message for order in verdict.orders for f in order.failures], history

    failures, history = played("model", play())
    assert failures == []
    counts = of(history.records)["counts"]
    assert [r.message for r in history.records if r.kind == "fault"] == [point]
    assert counts["error"] + counts["in_doubt"] > 0
    died = next(r.t_us for r in history.records if r.kind in ("error", "in_doubt") and r.session)
    after = [r for r in history.records if r.kind == "ok" and r.session and r.t_us > died]
    assert after, "another process of the coordinator went on"


def test_without_the_check_of_versions_the_copies_part():
    """In the twin of a load, copies diverge as the check of versions otherwise prevents."""
    text = TEXT.partition("faults:")[0] + "workload:" + TEXT.partition("workload:")[2]
    text = text.partition("  during:")[0]
    twin = "twin: {protections: {version_check: off}, must_fail: converged}\n"

    async def play() -> list[tuple[str, str]]:
        async with ModelTheatre() as theatre:
            verdict = await run(parse(text + twin), theatre, History())
        return [(order.name, order.kind) for order in verdict.orders]

    assert played("model", play()) == [("load", ""), ("twin of load: version_check off", "")]


def test_a_load_that_outlasts_the_markers():
    """Branch markers, which prove that both sites committed, still exist when they are checked."""
    text = TEXT.partition("faults:")[0] + "workload:" + TEXT.partition("workload:")[2]
    text = text.partition("  during:")[0].replace("for: 1s", "for: 70s")
    text = text.replace("sync: 100ms", "sync: 20s").replace("exponential 5ms", "constant 5s")

    async def play() -> tuple[str, int]:
        history = History()
        async with ModelTheatre() as theatre:
            verdict = await run(parse(text), theatre, history)
        marked = [r.data["markers"] for r in history.records if r.kind == "markers"]
        return verdict.kind, len(marked[0])

    kind, marked = played("model", play())
    assert kind == ""
    assert marked >= 40
