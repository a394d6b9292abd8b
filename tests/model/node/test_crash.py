"""Tests of what a crash of a node loses and keeps, for each place at which the WAL may be cut."""

from __future__ import annotations

import pytest

from tests.model.node.playing import World, world
from twopc.sim.model.values import RowChange

ACCOUNT = """
create table account (id int primary key, balance int not null);
insert into account values (1, 100), (2, 200);
"""
PREPARE = ("begin", "update account set balance = 0 where id = 1", "prepare transaction 'g'")


def _balance(w: World, row: int = 1) -> str | None:
    return w.node.rows("account", ["balance"])[row - 1]["balance"]


def _up_again(w: World) -> None:
    w.kernel.spawn(w.node.restart(), "restart")
    w.run()
    assert w.node.up


@pytest.mark.parametrize("kept", [False, True])
def test_while_it_prepares(kept: bool) -> None:
    """A crash during PREPARE TRANSACTION keeps the branch only if its record is on disk."""
    w = world(ACCOUNT)
    a = w.player("a")
    a.play(*PREPARE)
    w.run(0.0001)
    (end,) = w.node.wal.young()
    assert not w.node.prepared()
    w.node.crash(end if kept else None)
    w.run()
    assert a.told[2] == "lost"
    _up_again(w)
    assert list(w.node.prepared()) == (["g"] if kept else [])
    if kept:
        assert w.do("rollback prepared 'g'") == ["ROLLBACK PREPARED"]
    assert w.do("update account set balance = balance + 1 where id = 1") == ["UPDATE 1"]
    assert _balance(w) == "101"


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("verb", ["commit", "rollback"])
def test_while_it_is_finished(kept: bool, verb: str) -> None:
    """A branch whose finish is lost in a crash is still prepared."""
    w = world(ACCOUNT)
    w.do(*PREPARE)
    a = w.player("a", "postgres")
    a.play(f"{verb} prepared 'g'")
    w.run(0.0001)
    (end,) = w.node.wal.young()
    w.node.crash(end if kept else None)
    w.run()
    assert a.told == ["lost"]
    _up_again(w)
    assert list(w.node.prepared()) == ([] if kept else ["g"])
    if not kept:
        assert w.do(f"{verb} prepared 'g'") == [f"{verb.upper()} PREPARED"]
    assert _balance(w) == ("0" if verb == "commit" else "100")
    gids = [committed.gid for committed in w.node.log(0) if committed.gid]
    assert gids == (["g"] if verb == "commit" else [])


def test_commits_that_nobody_waited_for() -> None:
    """With `synchronous_commit = off`, a crash loses commits that were visible but not flushed."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    off = "set synchronous_commit = off"
    a.play(off, "update account set balance = 1 where id = 1")
    b.play(off, "update account set balance = balance + 1 where id = 1 returning balance")
    w.run(0.01)
    assert b.rows == [(2,)]
    assert all(one.end_lsn <= w.node.wal.durable for one in w.node.log(0))
    first, second = w.node.wal.young()
    w.node.crash(first)
    _up_again(w)
    assert _balance(w) == "1"
    assert second > w.node.wal.end
    w.do("update account set balance = balance + 5 where id = 1")
    assert _balance(w) == "6"


def test_the_log_writer_writes_them_soon() -> None:
    """The WAL writer soon flushes asynchronous commits, which then survive a crash."""
    w = world(ACCOUNT)
    w.do("set synchronous_commit = off", "update account set balance = 1 where id = 1")
    assert not w.node.wal.young()
    w.node.crash()
    _up_again(w)
    assert _balance(w) == "1"


def test_open_transactions_and_those_who_wait() -> None:
    """A crash rolls back open and waiting transactions; each of their sessions is lost once."""
    w = world(ACCOUNT)
    a, b = w.player("a"), w.player("b")
    a.play("begin", "savepoint s", "update account set balance = 1 where id = 1")
    b.play("update account set balance = 2 where id = 1")
    w.run(0.1)
    w.node.crash()
    w.run()
    a.play("commit")
    w.run()
    assert (a.told[-1], b.told) == ("lost", ["lost"])
    _up_again(w)
    assert not w.node.waits()
    assert w.do("update account set balance = balance + 1 where id = 1") == ["UPDATE 1"]
    assert _balance(w) == "101"


def test_who_waits_for_a_prepared_branch_goes_down_with_the_node() -> None:
    """A prepared branch and its lock survive a crash; a session that waits for the lock is lost."""
    w = world(ACCOUNT)
    w.do(*PREPARE)
    b = w.player("b")
    b.play("update account set balance = balance + 1 where id = 1")
    w.run(0.1)
    assert w.node.waits()
    w.node.crash()
    w.run()
    assert b.told == ["lost"]
    _up_again(w)
    assert not w.node.waits()
    w.do("rollback prepared 'g'")
    assert b.told == ["lost"]
    assert _balance(w) == "100"


def test_log_has_what_is_durable_in_commit_order() -> None:
    """`log` returns durable commits in order, a prepared branch at its commit with its gid."""
    w = world(ACCOUNT)
    w.do(*PREPARE)
    w.do("insert into account values (3, 300)", "delete from account where id = 3")
    before = w.node.log(0)[-1].end_lsn
    w.do("commit prepared 'g'")
    (last,) = w.node.log(before)
    assert last.gid == "g"
    assert last.changes == (RowChange(table="account", operation="upd", old=(1, 100), new=(1, 0)),)
    a = w.player("a")
    a.play("update account set balance = 7 where id = 2")
    w.run(0.0001)
    assert w.node.log(last.end_lsn) == []
    w.run()
    assert len(w.node.log(last.end_lsn)) == 1
    w.node.wal.trim(last.end_lsn)
    assert len(w.node.log(0)) == 1


def test_flushes_are_shared() -> None:
    """Group commit: commits that arrive during a flush share the next one."""
    w = world(ACCOUNT + "insert into account select n, 0 from generate_series(3, 50) as g (n);")
    before = w.node.wal.flushes
    players = [w.player(f"p{number}") for number in range(1, 51)]
    for number, player in enumerate(players, 1):
        player.play(f"update account set balance = 1 where id = {number}")
    w.run()
    assert all(player.told == ["UPDATE 1"] for player in players)
    assert w.node.wal.flushes - before <= 2


def test_digest_is_of_what_matters() -> None:
    """A digest depends on the state of a node and not on how the state was reached."""

    def after(*texts: str) -> int:
        w = world(ACCOUNT)
        w.do(*texts)
        return w.node.digest()

    assert after("update account set balance = 1 where id = 1") == after(
        "begin", "update account set balance = 5 where id = 2", "rollback",
        "update account set balance = 1 where id = 1",
    )  # fmt: skip
    assert after() != after("update account set balance = 1 where id = 1")
    assert after(*PREPARE) != after(*PREPARE[:2], "rollback")
