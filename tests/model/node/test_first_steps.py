"""Tests of two sessions and one row: waits, rechecks, prepared transactions and crashes."""

from __future__ import annotations

import pytest

from tests.model.node.playing import world
from twopc.sim.model.values import RequestLostError

ACCOUNT = """
create table account (id int primary key, balance int not null);
insert into account values (1, 100), (2, 200);
"""


def test_second_writer_waits_and_sees_the_first() -> None:
    """In READ COMMITTED, an update that has waited works on the newest version of the row."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    a.play("begin", "update account set balance = balance - 10 where id = 1")
    b.play("update account set balance = balance - 20 where id = 1 returning balance")
    w.run(0.1)
    assert [(wait.pid, wait.holder_pid) for wait in w.node.waits()] == [
        (b.session.pid, a.session.pid)
    ]
    a.play("commit")
    w.run()
    assert b.rows == [(70,)]
    assert w.node.rows("account", ["id", "balance"])[0] == {"id": "1", "balance": "70"}


def test_row_that_no_longer_matches_is_left_alone() -> None:
    """After a wait, the condition is rechecked against the newest version of the row."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    a.play("begin", "update account set balance = 0 where id = 1")
    b.play("update account set balance = 7 where balance = 100")
    w.run(0.1)
    a.play("commit")
    w.run()
    assert b.told == ["UPDATE 0"]


def test_repeatable_read_refuses_what_changed() -> None:
    """In REPEATABLE READ, an update that has waited for a changed row fails with 40001."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    a.play("begin", "update account set balance = 0 where id = 1")
    b.play(
        "begin isolation level repeatable read",
        "update account set balance = 7 where id = 1",
        "commit",
    )
    w.run(0.1)
    a.play("commit")
    w.run()
    assert b.told == ["BEGIN", "40001", "ROLLBACK"]


def test_prepared_branch_keeps_its_locks_through_a_crash() -> None:
    """A prepared branch keeps its locks through a crash; waits for them name its gid and no process."""
    w = world(ACCOUNT)
    a = w.player("a")
    a.play("begin", "update account set balance = 0 where id = 1", "prepare transaction 'g'")
    w.run()
    assert list(w.node.prepared()) == ["g"]
    w.node.crash()
    with pytest.raises(RequestLostError):
        w.node.connect("app", "too early")
    w.kernel.spawn(w.node.restart(), "restart")
    w.run()
    b = w.player("b")
    b.play("update account set balance = balance + 1 where id = 1")
    w.run(0.5)
    (wait,) = w.node.waits()
    assert (wait.holder_pid, wait.holder_gid) == (0, "g")
    c = w.player("c")
    c.play("commit prepared 'g'", "commit prepared 'g'")
    w.run()
    assert c.told == ["COMMIT PREPARED", "42704"]
    assert b.told == ["UPDATE 1"]
    assert w.node.rows("account", ["balance"]) == [{"balance": "1"}, {"balance": "200"}]
    assert [committed.gid for committed in w.node.log(0)][-2:] == ["g", ""]


def test_crash_takes_what_was_not_forced() -> None:
    """A crash keeps a commit that is being flushed only if it is on disk; its session gets no answer."""
    for keep in (False, True):
        w = world(ACCOUNT)
        a = w.player("a")
        a.play("update account set balance = 0 where id = 1")
        w.run(0.0001)
        (end,) = w.node.wal.young()
        w.node.crash(end if keep else None)
        w.run()
        assert a.told == ["lost"]
        assert w.node.rows("account", ["balance"])[0] == {"balance": "0" if keep else "100"}


def test_lock_timeout_and_deadlock() -> None:
    """A wait ends with 55P03 after `lock_timeout`, and a deadlock with 40P01 for the session that checks first."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    a.play("begin", "update account set balance = 1 where id = 1")
    b.play(
        "begin",
        "set lock_timeout = '50ms'",
        "update account set balance = 2 where id = 1",
        "rollback",
    )
    w.run(0.06)
    assert b.told == ["BEGIN", "SET", "55P03", "ROLLBACK"]
    b.play("begin", "update account set balance = 2 where id = 2")
    w.run(0.01)
    a.play("update account set balance = 1 where id = 2")
    w.run(0.01)
    b.play("set lock_timeout = 0", "update account set balance = 2 where id = 1", "commit")
    w.run()
    assert a.told[-1] == "40P01"
    assert b.told[-3:] == ["SET", "UPDATE 1", "COMMIT"]


def test_terminated_while_waiting_and_while_idle() -> None:
    """A terminated session gets 57P01 once, then no answer; its transaction is rolled back."""
    w = world(ACCOUNT)
    a, b, c = w.player("a"), w.player("b"), w.player("c")
    a.play("begin", "update account set balance = 1 where id = 1")
    b.play(
        "begin",
        "update account set balance = 2 where id = 2",
        "update account set balance = 2 where id = 1",
    )
    w.run(0.1)
    b.session.terminate()
    w.run(0.1)
    assert b.told == ["BEGIN", "UPDATE 1", "57P01"]
    c.play("update account set balance = balance + 1 where id = 2 returning balance")
    w.run(0.1)
    assert c.rows == [(201,)]
    a.session.terminate()
    a.play("select 1", "select 1")
    c.play("update account set balance = balance + 1 where id = 1 returning balance")
    w.run()
    assert a.told[2:] == ["57P01", "lost"]
    assert c.rows == [(101,)]


def test_cancelled_while_waiting() -> None:
    """A cancelled statement fails with 57014; its transaction has failed, and its session goes on."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    a.play("begin", "update account set balance = 1 where id = 1")
    b.play("begin", "update account set balance = 2 where id = 1", "rollback", "select 1")
    w.run(0.1)
    b.session.cancel()
    w.run(0.1)
    assert b.told == ["BEGIN", "57014", "ROLLBACK", "SELECT 1"]


def test_timeouts_of_sessions() -> None:
    """A session that is idle in a transaction is ended after a timeout; a long statement is cancelled (57014)."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    a.play(
        "set idle_in_transaction_session_timeout = '1s'",
        "begin",
        "update account set balance = 1 where id = 1",
    )
    b.play("set statement_timeout = '300ms'", "update account set balance = 2 where id = 1")
    w.run(0.5)
    assert b.told == ["SET", "57014"]
    b.play("set statement_timeout = 0", "update account set balance = 2 where id = 1")
    w.run()
    a.play("commit", "commit")
    w.run()
    assert b.told[2:] == ["SET", "UPDATE 1"]
    assert a.told[3:] == ["25P03", "lost"]


def test_slots_for_prepared_transactions() -> None:
    """PREPARE TRANSACTION without a free slot fails, and rolls the transaction back.

    The error is 53200 if all slots are taken, and 55000 if there are none.
    """
    w = world(ACCOUNT, prepared_max=1)
    one = ("begin", "update account set balance = 1 where id = 1", "prepare transaction 'a'")
    two = (
        "begin",
        "update account set balance = 2 where id = 2",
        "prepare transaction 'b'",
        "commit",
    )
    assert w.do(*one)[-1] == "PREPARE TRANSACTION"
    assert w.do(*two)[-2:] == ["53200", "COMMIT"]
    assert w.query("select balance from account where id = 2") == [(200,)]
    assert world(ACCOUNT, prepared_max=0).do(*one)[-1] == "55000"


def test_only_its_owner_finishes_a_branch() -> None:
    """Roles other than the owner get 42501, except superusers; 55000 if another session is finishing the branch."""
    w = world(ACCOUNT)
    a, b, c = w.player("a"), w.player("b", "another"), w.player("c")
    a.play("begin", "update account set balance = 1 where id = 1", "prepare transaction 'a'")
    w.run()
    b.play("commit prepared 'a'")
    w.run()
    assert b.told == ["42501"]
    a.play("commit prepared 'a'")
    c.play("rollback prepared 'a'")
    w.run()
    assert (a.told[-1], c.told) == ("COMMIT PREPARED", ["55000"])


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_who_began_to_wait_first_goes_on_first(end: str) -> None:
    """Sessions that wait for one transaction go on in order, whichever rows they wait for, as on a server."""
    w = world(ACCOUNT + "alter table account add column code int unique;")
    a, b, c = w.player("a"), w.player("b"), w.player("c")
    touch = "update account set balance = balance + 1 where id = {}"
    a.play("begin", touch.format(1), touch.format(2))
    w.run(0.1)
    b.play("update account set code = 7 where id = 1")
    w.run(0.2)
    c.play("update account set code = 7 where id = 2")
    w.run(0.3)
    a.play(end)
    w.run()
    assert (b.told, c.told) == (["UPDATE 1"], ["23505"])
