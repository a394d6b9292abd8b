"""Tests of the player on a toy stage in virtual time, and of a case's state between two items."""

from __future__ import annotations

import pytest

from tests.scenario.toy import TOOK_S, ToyStage, ToyTheatre, in_virtual_time
from twopc.sim.report.history import History
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.player import InfeasibleError, Player
from twopc.sim.scenario.run import run

HEAD = """\
twopc: 1
name: test
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1, sub2], timeouts: {step: 10m}}
tables: {t: {columns: {id: int primary key}, rows: [{id: 1}]}}
faults: [{id: dies, at: coordinator.decision_logged, do: crash coordinator}]
sessions:
  a: {node: pub, steps: [a1: begin, a2: {sql: lock t}, a3: {sql: select 1}, a4: commit]}
  b: {node: sub1, steps: [b1: begin, b2: {sql: lock t}, b3: {sql: select 1}, b4: commit]}
"""


def case_of(orders, which=0):
    (group,) = groups(parse(HEAD + orders))
    for _ in range(which):
        group.courses.next()
    rank, items = group.courses.next()
    return group.case(rank, items)


def test_a_case_in_virtual_time():
    """The history has the event loop's virtual time, in which minutes take milliseconds."""

    async def play():
        history = History()
        loaded = parse(
            HEAD + "orders: [{name: x, steps: [a1, b1, a2, b2, a3, a4, b3, b4], expect: "
            "{steps: {b2: {blocked_by: a2, then: ok}}, sessions: {a: committed, b: committed}}}]"
        )
        return await run(loaded, ToyTheatre(), history), history

    verdict, history = in_virtual_time(play)
    assert [f.message for order in verdict.orders for f in order.failures] == []
    ends = {record.step: record.t_us / 1e6 for record in history.records if record.kind == "ok"}
    assert ends["a2"] == pytest.approx(TOOK_S, abs=0.1)
    assert ends["b2"] == pytest.approx(3 * TOOK_S, abs=0.1)  # it waited while a3 was running
    assert verdict.orders[0].elapsed_us / 1e6 == pytest.approx(4 * TOOK_S, abs=0.5)


def test_the_same_twice():
    async def play():
        history = History()
        loaded = parse(HEAD + "orders: [{name: every order, generate: all}]")
        await run(loaded, ToyTheatre(), history)
        return [
            (record.t_us, record.kind, record.order, record.session, record.step)
            for record in history.records
        ]

    assert in_virtual_time(play) == in_virtual_time(play)


def test_where_it_stands():
    async def play():
        case = case_of("orders: [{name: x, steps: [a1, a2, b1, b2]}]")
        player = Player(case, ToyStage(), History().of(case.name))
        await player.begin()
        assert player.standing() == {"a": "idle", "b": "idle"}
        assert player.ready() == ("a1", "b1")
        seen = []
        for item in case.items:
            await player.item(item)
            seen.append((dict(player.standing()), player.ready()))
        learned = await player.finish()
        await player.close()
        return seen, learned

    seen, learned = in_virtual_time(play)
    assert seen == [
        ({"a": "in a transaction", "b": "idle"}, ("a2", "b1")),
        ({"a": "in a transaction", "b": "idle"}, ("a3", "b1")),
        ({"a": "in a transaction", "b": "in a transaction"}, ("a3", "b2")),
        ({"a": "in a transaction", "b": "b2 waits for a (a2)"}, ("a3",)),
    ]
    assert learned.blocked == {
        1: frozenset(), 2: frozenset(), 3: frozenset(), 4: frozenset({"b"}),
    }  # fmt: skip
    assert learned.infeasible_at is None
    assert learned.behaviour


def test_an_infeasible_case_ends_where_it_cannot_go_on():
    async def play():
        case = case_of("orders: [{name: x, generate: {before: [a2 < b2, b3 < a4], reduce: none}}]")
        stage, history = ToyStage(), History().of(case.name)
        player = Player(case, stage, history)
        await player.begin()
        try:
            with pytest.raises(InfeasibleError):
                for item in case.items:
                    await player.item(item)
            learned = await player.finish()
        finally:
            await player.close()
        return case, learned, history.records, stage

    case, learned, records, stage = in_virtual_time(play)
    assert learned.infeasible_at is not None
    assert case.items[learned.infeasible_at].step == "b3"
    assert learned.behaviour == ""
    (told,) = [record for record in records if record.kind == "infeasible"]
    assert told.message == "b cannot go on: b2 waits at pub for a (a2)"
    assert stage.happened == []  # nothing is delivered after an infeasible case


def test_faults_are_armed_and_told():
    async def play():
        history = History()
        loaded = parse(HEAD + "orders: [{name: x, faults: [dies], steps: [a1, {fault: dies}, a4]}]")
        await run(loaded, ToyTheatre(), history)
        return [(record.kind, record.data) for record in history.records if record.kind == "fault"]

    assert in_virtual_time(play) == [("fault", {"id": "dies", "at": "somewhere"})] * 2


def test_what_is_taken_away_is_given_back():
    async def play():
        case = case_of(
            "orders: [{name: x, steps: [{cut: pub}, {pause: agent sub2}, {sync: everywhere}]}]"
        )
        stage = ToyStage()
        player = Player(case, stage, History().of(case.name))
        await player.begin()
        for item in case.items:
            await player.item(item)
        await player.finish()
        await player.close()
        return stage.happened

    assert in_virtual_time(play) == [
        ("outage", "pub", True),
        ("pause", "sub2", True),
        ("sync", "sub1"),
        ("outage", "pub", False),
        ("pause", "sub2", False),
        ("sync", "sub1"),
        ("sync", "sub2"),
    ]
