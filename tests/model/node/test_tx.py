"""Tests of rows changed without SQL and of triggers in Python: they wait and are checked as in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.model.node.playing import World, world
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.values import RequestLostError, RowChange, SqlError, Steps

SETUP = """
create table t (id int primary key, v int not null, note text default 'none');
insert into t values (1, 10, 'a'), (2, 20, 'b');
"""


def _in_tx(
    w: World, name: str, act: Callable[[OpenTx], Steps[Any]], *, ends: str = "commit"
) -> list[Any]:
    """Run `act` in a transaction of its own; the list gets what it returns, or its SQLSTATE."""
    session = w.node.connect("app", name)
    told: list[Any] = []

    def steps() -> Steps[None]:
        yield from session.execute("begin")
        assert session.tx is not None
        try:
            told.append((yield from act(session.tx)))
        except SqlError as error:
            told.append(error.sqlstate)
            ends_with = "rollback"
        else:
            ends_with = ends
        if ends_with:
            yield from session.execute(ends_with)

    w.kernel.spawn(steps(), name)
    return told


def test_each_call() -> None:
    """Insert, get, lock, update and delete a row, with defaults and conditions."""
    w = world(SETUP)

    def act(tx: OpenTx) -> Steps[Any]:
        stored = yield from tx.insert("t", (3, 30))
        found = tx.get("t", (3,))
        locked = yield from tx.lock("t", (2,))
        missed = yield from tx.update("t", (1,), (1, 11, "x"), lambda old: old[1] == 99)
        hit = yield from tx.update("t", (1,), (1, 11, "x"), lambda old: old[1] == 10)
        kept = yield from tx.delete("t", (2,), lambda old: old[1] == 0)
        gone = yield from tx.delete("t", (2,), lambda old: old[1] == 20)
        nothing = yield from tx.lock("t", (9,))
        return stored, found, locked, missed, hit, kept, gone, nothing

    told = _in_tx(w, "a", act)
    w.run()
    assert told == [
        ((3, 30, "none"), (3, 30, "none"), (2, 20, "b"), None, (1, 11, "x"), False, True, None)
    ]
    assert w.query("select id, v from t order by id") == [(1, 11), (3, 30)]


def test_update_waits_and_looks_again() -> None:
    """An update that has waited checks its condition against the newest version of the row."""
    w = world(SETUP)
    a = w.player("a")
    a.play("begin", "update t set v = 11 where id = 1")
    told = _in_tx(w, "b", lambda tx: tx.update("t", (1,), (1, 99, "x"), lambda old: old[1] == 10))
    w.run(0.1)
    assert [wait.what for wait in w.node.waits()] == ["a row of t"]
    a.play("commit")
    w.run()
    assert told == [None]
    assert w.query("select v from t where id = 1") == [(11,)]


def test_wait_for_another_transaction() -> None:
    """A wait for a transaction lasts until it is finished, even if it is prepared; 55P03 after `lock_timeout`."""
    w = world(SETUP)
    w.do("begin", "update t set v = 11 where id = 1", "prepare transaction 'g'")
    xid = w.node.prepared()["g"].xid

    def impatient(tx: OpenTx) -> Steps[Any]:
        tx.set("lock_timeout", "50ms", local=True)
        yield from tx.wait_for(xid, "a branch")

    told = _in_tx(w, "b", impatient)
    patient = _in_tx(w, "c", lambda tx: tx.wait_for(xid, "a branch"))
    w.run(1)
    assert (told, patient) == (["55P03"], [])
    w.do("commit prepared 'g'")
    assert patient == [None]


def test_savepoints_and_settings() -> None:
    """ROLLBACK TO SAVEPOINT also undoes SET LOCAL."""
    w = world(SETUP)

    def act(tx: OpenTx) -> Steps[Any]:
        tx.set("msrepl.gid", "outer", local=True)
        tx.savepoint("s")
        tx.set("msrepl.gid", "inner", local=True)
        yield from tx.insert("t", (3, 30))
        tx.rollback_to("s")
        after = tx.setting("msrepl.gid"), tx.get("t", (3,))
        tx.release("s")
        with pytest.raises(SqlError, match="does not exist"):
            tx.rollback_to("s")
        return after

    told = _in_tx(w, "a", act)
    w.run()
    assert told == [("outer", None)]


class _Stamp:
    """A BEFORE ROW trigger that stamps the note, and skips rows whose v is 0."""

    name = "stamp"
    when = "before row"
    operations = frozenset({"ins", "upd"})

    fires = "origin"

    def fire(
        self, tx: OpenTx, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Return the rows to store."""
        (change,) = changes
        assert change.new is not None
        if change.new[1] == 0:
            return ()
        return (change._replace(new=(*change.new[:2], f"stamped {change.operation}")),)
        yield  # makes this function a generator


class _Ship:
    """An AFTER STATEMENT trigger that gets all changed rows at once."""

    name = "ship"
    when = "after statement"
    operations = frozenset({"upd", "ins", "del"})
    fires = "always"

    def __init__(self) -> None:
        self.seen: list[list[RowChange]] = []

    def fire(
        self, tx: OpenTx, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Record the changes; execute a query."""
        self.seen.append(list(changes))
        if any(change.new is not None and change.new[1] == 66 for change in changes):
            raise SqlError("MR001", "refused")
        yield from tx.run("select 1")
        return None


def test_triggers_in_python() -> None:
    """Triggers in Python fire at their time and under their role; their errors are the statement's."""
    w = world(SETUP)
    ship = _Ship()
    w.node.add_trigger("t", _Stamp())
    w.node.add_trigger("t", ship)
    assert w.do("insert into t values (3, 30), (4, 0)") == ["INSERT 0 1"]
    assert w.do("update t set v = v + 1 where id < 3") == ["UPDATE 2"]
    assert [[(change.operation, change.new) for change in seen] for seen in ship.seen] == [
        [("ins", (3, 30, "stamped ins"))],
        [("upd", (1, 11, "stamped upd")), ("upd", (2, 21, "stamped upd"))],
    ]
    assert w.do("set session_replication_role = replica", "update t set v = 0 where id = 1") == [
        "SET", "UPDATE 1",
    ]  # fmt: skip
    assert ship.seen[-1][0].new == (1, 0, "stamped upd")
    assert w.do("update t set v = 66 where id = 2") == ["MR001"]
    assert w.query("select v from t where id = 2") == [(21,)]


def test_functions_in_python() -> None:
    """Functions in Python can be called by SELECT and CALL, and may wait for locks."""
    w = world(SETUP)

    def raise_all(tx: OpenTx, by: int) -> Steps[int]:
        done = yield from tx.run("update t set v = v + :by", {"by": by})
        return done.rowcount

    w.node.add_function("msrepl.raise_all", raise_all)
    a = w.player("a")
    a.play("begin", "update t set v = 0 where id = 1")
    b = w.player("b")
    b.play("select msrepl.raise_all(5)", "call msrepl.raise_all(1)")
    w.run(0.1)
    assert b.told == []
    a.play("commit")
    w.run()
    assert b.told == ["SELECT 1", "CALL"]
    assert w.query("select v from t order by id") == [(6,), (26,)]


def test_fence() -> None:
    """A gid without a branch is fenced; for others the fence returns prepared or committed, or 55P03 if open."""
    w = world(SETUP)
    marker = "insert into msrepl.branch_marker (gid, xid, participants) values (:gid, pg_current_xact_id(), '{pub}')"
    a = w.player("a")
    a.play("begin", marker, params={"gid": "g1"})
    w.run()
    told: list[Any] = []

    def ask(gid: str) -> Steps[None]:
        try:
            told.append((yield from w.node.fence(gid, ("pub",))))
        except SqlError as error:
            told.append(error.sqlstate)

    for gid in ("g1", "g2"):
        w.kernel.spawn(ask(gid), "asks")
    w.run(5)
    assert told == ["fenced", "55P03"]
    a.play("prepare transaction 'g1'")
    w.run()
    w.kernel.spawn(ask("g1"), "asks")
    w.run()
    w.do("commit prepared 'g1'")
    w.kernel.spawn(ask("g1"), "asks")
    w.kernel.spawn(ask("g2"), "asks")
    w.run()
    assert told[2:] == ["prepared", "committed", "fenced"]
    b = w.player("b")
    b.play("begin", marker, params={"gid": "g2"})
    w.run()
    assert b.told == ["BEGIN", "23505"]
    assert {row.gid: row.fence for row in w.node.markers()} == {"g1": False, "g2": True}


def test_a_node_that_is_down_or_full() -> None:
    """A node that is full or down accepts no session."""
    w = world(SETUP, sessions_max=1)
    w.node.connect("app", "a")
    with pytest.raises(SqlError, match="too many"):
        w.node.connect("app", "b")
    w.node.crash()
    with pytest.raises(RequestLostError):
        w.node.connect("app", "c")
