"""Tests of groups of cases: order of begin and report, concurrency, repeats, and until-fail."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from tests.scenario.conftest import HEAD
from twopc.sim.report.history import History
from twopc.sim.report.verdict import verdict as told_of
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.jobs import UNTIL_FAIL_MAX, CaseOutcome, Jobs
from twopc.sim.scenario.judging import FailedCheck, OrderVerdict
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.values import CaseLesson, NotPlayableError, Selection

SESSIONS = """\
sessions:
  a: {node: pub, steps: [a1: begin, a2: {sql: "update t set n = 1 where id = 1"}, a3: commit]}
  b: {node: pub, steps: [b1: begin, b2: {sql: "update t set n = 2 where id = 1"}, b3: commit]}
"""
TEXT = HEAD + SESSIONS + """\
orders:
  - {name: first, steps: [a1, a2, a3]}
  - {name: every, generate: {reduce: none, sessions: [a, b]}}
  - {name: last, steps: [b1, b2, b3]}
"""  # fmt: skip


class Played:
    """Jobs with a fake player, which records what is begun, reported and finished."""

    def __init__(self, *, at_once: int = 1, failing=lambda case: False):
        self.begun: list[str] = []
        self.told: list[str] = []
        self.over: list[tuple[str, int]] = []
        self.under_way = 0
        self.most = 0
        self._failing = failing
        self.jobs = Jobs(
            self._play,
            tell=lambda outcome: self.told.append(outcome.case.name),
            over=lambda group, series: self.over.append((group.name, len(series))),
            at_once=at_once,
        )

    async def _play(self, case):
        self.begun.append(case.name)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        for _ in range(3 if len(self.begun) % 2 else 1):  # the second ends before the first
            await asyncio.sleep(0)
        self.under_way -= 1
        failures = (FailedCheck(path=(), message="wrong"),) if self._failing(case) else ()
        judged = OrderVerdict(
            name=case.name, group=case.group, failures=failures, elapsed_us=0, behaviour="one"
        )
        return CaseOutcome(
            case=case, learned=CaseLesson(behaviour="one"), verdict=judged, records=()
        )


@pytest.mark.parametrize("at_once", [1, 2, 5])
async def test_everything_is_told_in_the_order_of_the_file(at_once):
    played = Played(at_once=at_once)
    series = await played.jobs.run(groups(parse(TEXT)))
    assert played.told == played.begun == [each.case.name for each in series]
    assert played.told[0] == "first"
    assert played.told[-1] == "last"
    assert played.told[1:-1] == [f"every #{rank}" for rank in range(1, 21)]
    assert played.over == [("first", 1), ("every", 20), ("last", 1)]
    assert played.most == at_once


async def test_again():
    played = Played(at_once=2, failing=lambda case: case.name == "every #7 (2)")
    series = await played.jobs.run(groups(parse(TEXT)), repeat=3)
    assert len(played.told) == 3 * 22
    assert played.told[22:24] == ["first (2)", "every #1 (2)"]
    assert [(each.case.name, each.failed) for each in series if each.failed] == [("every #7", 1)]
    assert {each.behaviours for each in series} == {1}
    assert played.over == [("first", 1), ("every", 20), ("last", 1)]


async def test_until_something_fails():
    played = Played(failing=lambda case: case.name == "last (4)")
    chosen = groups(parse(TEXT), Selection(expression="last"))
    await played.jobs.run(chosen, until_fail=True)
    assert played.told == ["last", "last (2)", "last (3)", "last (4)"]
    played = Played()
    chosen = groups(parse(TEXT), Selection(expression="last"))
    await played.jobs.run(chosen, until_fail=True)
    assert len(played.told) == UNTIL_FAIL_MAX
    played = Played()
    chosen = groups(parse(TEXT), Selection(expression="last"))
    await played.jobs.run(chosen, until_fail=True, repeat=5)
    assert len(played.told) == 5


async def test_one_that_breaks_ends_the_others():
    ended = []

    async def play(case):
        try:
            if case.name == "every #2":
                raise RuntimeError("no server")
            await asyncio.Event().wait()
        finally:
            ended.append(case.name)

    jobs = Jobs(play, tell=lambda _: None, over=lambda *_: None, at_once=3)
    with pytest.raises(RuntimeError, match="no server"):
        await jobs.run(groups(parse(TEXT)))
    assert sorted(ended) == ["every #1", "every #2", "first"]


async def verdicts(server, text, **selection):
    history = History()
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(parse(text), theatre, history, selection=Selection(**selection))
    return history, verdict


async def test_several_at_once_come_to_the_same(server):
    text = HEAD + SESSIONS + """\
orders:
  - {name: first, steps: [a1, a2, a3]}
  - {name: every, generate: {before: [a1 < b1, a2 < b2]}, expect: {committed: 2}}
  - {name: wrong, steps: [b1, b2, b3], expect: {committed: 2}}
"""  # fmt: skip
    found = []
    for jobs in (1, 4):
        history, verdict = await verdicts(server, text, jobs=jobs)
        found.append([(each.name, each.kind, each.behaviour) for each in verdict.orders])
        assert verdict.kind == "safety"
        assert [each["name"] for each in verdict.as_json()["groups"]] == ["first", "every", "wrong"]
        for record in history.records:
            assert record.order or record.kind in ("header", "group")
    assert found[0] == found[1]
    (group,) = [record.data for record in history.records if record.kind == "group"]
    assert group["group"] == "every"
    assert group["run"] == len(group["behaviours"]) == len(found[0]) - 2
    assert group["infeasible"] > 0


async def test_repeats_are_told(server):
    history, verdict = await verdicts(
        server, HEAD + SESSIONS + "orders: [{name: x, steps: [a1, a2, a3]}]", repeat=2, seed=7
    )
    assert [each.name for each in verdict.orders] == ["x", "x (2)"]
    (repeat,) = [record for record in history.records if record.kind == "repeat"]
    assert (repeat.message, repeat.data["runs"], repeat.data["failed"]) == ("x", 2, 0)
    told = verdict.as_json()
    assert told["seed"] == 7
    assert told["orders"][0]["repro"] == 'twopc run scenario --order "x" --seed 7'
    # a repeat that behaves differently makes the run unstable, although nothing has failed
    records = [
        dataclasses.replace(record, data={**record.data, "behaviour": "another"})
        if (record.kind, record.order) == ("verdict", "x (2)")
        else record
        for record in history.records
    ]
    assert (told["kind"], told_of(records)["kind"]) == (None, "unstable")


async def test_a_twin_that_cannot_be_played_is_passed_over(server):
    text = HEAD + SESSIONS + """\
orders: [{name: x, steps: [a1, a2, a3]}]
twin: {protections: {fence: off, marker: off}, must_fail: atomic}
"""  # fmt: skip
    history, verdict = await verdicts(server, text)
    assert verdict.kind == ""
    assert [each.name for each in verdict.orders] == ["x"]
    (skipped,) = [record for record in history.records if record.kind == "twin_skipped"]
    assert skipped.message == (
        "twin of x: fence and marker off: fence cannot be switched off on real servers: it keeps out a request that "
        "arrives after recovery, and there recovery ends the dead coordinator's sessions first, with whatever was "
        "sent to them"
    )


REFUSED = """\
twopc: 1
name: test
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1]}
tables: {t: {columns: {id: int primary key}, rows: [{id: 1}]}}
faults:
  - id: dies
    at: coordinator.decision_logged
    do: skew clock sub1 +5m
sessions: {a: {node: sub1, steps: [a1: {sql: "update t set id = 2"}]}}
orders:
  - name: x
    faults: [dies]
    steps: [{fault: dies}, a1]
    expect: {isolation: serializable}
"""


async def test_what_real_servers_cannot_do_is_refused_by_name(server):
    with pytest.raises(NotPlayableError) as caught:
        await verdicts(server, REFUSED)
    message = str(caught.value)
    assert (
        "scenario:9:9: error: fault 'dies': 'skew' is not performed on real servers: "
        "a server takes the time of its machine" in message
    )
    assert "scenario:13:14: error: fault 'dies' is not performed on real servers" in message
    assert "scenario:14:21: error: fault 'dies' is not performed on real servers" in message
    assert "scenario:15:14: error: a history's isolation is judged by an external" in message
    assert caught.value.path == ("faults", 0, "do")


async def test_databases_that_are_there_are_used_in_turn(make_database):
    dsns = {node: make_database().dsn for node in ("pub", "sub1", "sub2", "distribution")}
    text = HEAD + SESSIONS + """\
orders: [{name: one, steps: [a1, a2, a3]}, {name: two, steps: [b1, b2, b3]}]
"""  # fmt: skip
    async with PostgresTheatre(dsns=dsns) as theatre:
        verdict = await run(parse(text), theatre, History(), selection=Selection(jobs=2))
    assert [(each.name, each.kind) for each in verdict.orders] == [("one", ""), ("two", "")]
