"""Tests of the amount of work, counted in calls, so that a busy machine does not change results."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from typing import Any

from tests.model.node.playing import world
from twopc.sim.model.node.session import NodeSession

SETUP = """
create table account (id int primary key, balance int not null);
insert into account select n, 100 from generate_series(1, 1000) as g (n);
"""


def _calls(act: Callable[[], object]) -> int:
    """Return the number of Python calls during an action."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # the collector calls gc.callbacks (Hypothesis has one) at any moment
    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def _at_once(session: NodeSession, text: str, **params: Any) -> None:
    for _ in session.execute(text, params):
        raise AssertionError("it waits")


def test_cached_update_by_key() -> None:
    """A cached update by key takes about 55 calls, which are 40 µs on an idle core."""
    session = world(SETUP).node.connect("app", "a")
    text = "update account set balance = balance + :by where id = :id"
    _at_once(session, "begin")
    _at_once(session, text, by=1, id=1)
    assert _calls(lambda: _at_once(session, text, by=1, id=2)) <= 75


def test_update_by_key_does_not_look_at_other_rows() -> None:
    """An update by key takes the same number of calls with 10 rows and with 1,000."""
    counts = []
    for rows in (10, 1000):
        w = world(
            "create table t (id int primary key, v int);"
            f"insert into t select n, 0 from generate_series(1, {rows}) as g (n)"
        )
        session = w.node.connect("app", "a")
        text = "update t set v = 1 where id = :id"
        _at_once(session, "begin")
        _at_once(session, text, id=1)
        counts.append(_calls(functools.partial(_at_once, session, text, id=2)))
    assert counts[0] == counts[1]


def _queue(waiters: int) -> float:
    """Return the calls per waiter to arrive, wait and end, with all waiters on one row."""
    w = world(SETUP, sessions_max=20_000)
    players = [w.player(f"p{number}") for number in range(waiters)]
    first = w.player("first")
    first.play("begin", "update account set balance = 0 where id = 1")
    w.run(0.001)

    def all_of_them() -> None:
        for player in players:
            player.play("update account set balance = balance + 1 where id = 1")
        w.run(0.001)
        first.play("commit")
        w.run()

    count = _calls(all_of_them)
    assert w.node.rows("account", ["balance"])[0] == {"balance": str(waiters)}
    return count / waiters


def test_long_queues_cost_no_more() -> None:
    """With 10,000 waiters on one row, a waiter costs at most twice as much as with 100."""
    assert _queue(10_000) <= 2 * _queue(100)


def test_old_versions_are_thrown_away() -> None:
    """Old versions of a row are removed, unless a snapshot still needs one."""
    w = world(SETUP)
    w.do(*["update account set balance = balance + 1 where id = 1"] * 300)
    (row,) = w.node.table("account").indexes[0].entries[(1,)]
    assert len(row.versions) <= 70
    old = w.player("old")
    old.play("begin isolation level repeatable read", "select balance from account where id = 1")
    w.do(*["update account set balance = balance + 1 where id = 1"] * 300)
    old.play("select balance from account where id = 1")
    w.run()
    assert old.rows == [(400,)]
