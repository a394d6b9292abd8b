"""Waits for locks at the Publisher, and locks that the link itself leaves there."""

from __future__ import annotations

import asyncio
import re
from importlib import resources

import psycopg
import pytest

from tests.fix_link import Eyes, facts_of, holding
from tests.fix_topology import ACCOUNT, BALANCES, ROWS, MakePair, Pair
from twopc.errors import ConflictError, LockTimeoutError, from_sqlstate

pytestmark = [pytest.mark.immediate, pytest.mark.rewinds]


HELD = {
    "update account set balance = 1 where id = 2": "update account set balance = 0 where id = 2",
    "delete from account where id = 2": "update account set balance = 0 where id = 2",
    "insert into account values (9, 1)": "insert into account values (9, 0)",
}


@pytest.mark.parametrize("statement", HELD)
async def test_a_wait_ends_by_lock_timeout(make_pair: MakePair, statement: str) -> None:
    """The error names the table and the lock's holder; the transaction continues from its savepoint."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=300)
    async with holding(pair, HELD[statement]) as connection:
        await pair.begin()
        await pair.execute("update account set balance = 11 where id = 1")
        await pair.execute("savepoint a")
        error = await pair.fails(statement)
        await pair.execute("rollback to a")
        await pair.execute("update account set balance = 33 where id = 3")
        await pair.commit()
        pid = connection.info.backend_pid

    assert error.sqlstate == "55P03"
    assert "a lock on public.account at the Publisher was not granted within 300ms" in str(error)
    assert f"session {pid}" in str(error)
    assert facts_of(error)["article"] == "public.account"
    told = from_sqlstate("55P03", str(error), detail=error.diag.message_detail or "")
    assert isinstance(told, LockTimeoutError)
    there, _ = await pair.rows(BALANCES)
    assert {(1, 11), (2, 100), (3, 33)} <= set(there)
    await pair.same("account")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_the_holder_is_a_prepared_branch(make_pair: MakePair, shipping: str) -> None:
    """If the holder is a prepared branch, the error names the branch instead of a session."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=300)
    gid = f"twopc:{pair.topology.name}:9:9:pub"
    async with holding(pair, HELD["delete from account where id = 2"]) as connection:
        await connection.execute(f"prepare transaction '{gid}'".encode())

        error = await pair.refused("delete from account where id = 2", shipping=shipping)

        assert error.sqlstate == "55P03"
        assert f"prepared branch {gid} holds locks on it" in str(error)
        assert "until its coordinator or recovery finishes it" in str(error.diag.message_hint)
        await connection.execute(f"rollback prepared '{gid}'".encode())
        assert await pair.run("delete from account where id = 2", shipping=shipping) == 1
    await pair.same("account")


async def test_a_table_with_a_hostile_name(make_pair: MakePair) -> None:
    """The error contains the table's name unchanged, whatever characters it has."""
    pair = await make_pair(
        'create schema "Büro ""1"""',
        'create table "Büro ""1"""."Konto ""%s"" {x}" (id int primary key, n int)',
        publish=[{"table": 'Konto "%s" {x}', "schema": 'Büro "1"'}],
        lock_timeout_ms=300,
    )
    insert = 'insert into "Büro ""1"""."Konto ""%s"" {x}" values (1, 1)'
    async with holding(pair, insert):
        error = await pair.refused(insert)

    facts = facts_of(error)
    assert facts["article"] == 'Büro "1".Konto "%s" {x}'
    assert len(facts["holders"]) == 1


@pytest.mark.parametrize("end", ["commit", "rollback", "commit prepared", "rollback prepared"])
async def test_the_holder_ends_meanwhile(make_pair: MakePair, eyes: Eyes, end: str) -> None:
    """After the wait, the call succeeds if the holder rolled back; otherwise there is a conflict."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"], lock_timeout_ms=60_000)
    gid = f"twopc:{pair.topology.name}:9:9:pub"
    async with holding(pair, "update account set balance = 0 where id = 2") as connection:
        verb, _, prepared = end.partition(" ")
        if prepared:
            await connection.execute(f"prepare transaction '{gid}'".encode())
        await pair.begin()
        task = asyncio.create_task(
            pair.app.execute("update account set balance = 2 where id = 2 returning balance")
        )
        await eyes.waiting_link(pair)
        await connection.execute(f"{end} '{gid}'".encode() if prepared else end.encode())
        if verb == "rollback":
            await task
            await pair.commit()
        else:
            with pytest.raises(psycopg.Error) as caught:
                await task
            await pair.rollback()
            detail = caught.value.diag.message_detail or ""
            told = from_sqlstate(caught.value.sqlstate or "", str(caught.value), detail=detail)
            assert isinstance(told, ConflictError)
            assert (told.kind, told.sqlstate) == ("version_mismatch", "40001")
            assert told.key == {"id": 2}

    there, here = await pair.rows("select balance from account where id = 2")
    assert (there, here) == (([(2,)], [(2,)]) if verb == "rollback" else ([(0,)], [(100,)]))


# -- locks that the link leaves -------------------------------------------------------------------


async def assert_free(pair: Pair) -> None:
    """Assert that no row of the table is locked at the Publisher."""
    await pair.topology.execute("pub", "select from account for update nowait")


async def is_locked(pair: Pair) -> bool:
    """Return whether some row of the table is locked at the Publisher."""
    try:
        await assert_free(pair)
    except psycopg.errors.LockNotAvailable:
        return True
    return False


async def test_reset_link_leaves_nothing_locked(pair: Pair, eyes: Eyes) -> None:
    """A local ROLLBACK does not reach the Publisher; reset_link does."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.execute("rollback")
    assert await is_locked(pair)
    link = eyes.open_link(pair)
    assert link.state == "idle in transaction"

    await pair.execute("select msrepl.reset_link()")

    await assert_free(pair)
    link = eyes.open_link(pair)
    assert (link.state, link.writes) == ("idle", False)


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_what_was_rolled_back_is_not_committed_with_the_next(
    pair: Pair, shipping: str
) -> None:
    """A remote transaction that a local ROLLBACK left open is not continued by the next one."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.execute("rollback")

    await pair.run("update account set balance = 2 where id = 2", shipping=shipping)

    there, _ = await pair.rows(BALANCES)
    assert {(1, 100), (2, 2)} <= set(there)
    await pair.same("account")
    await assert_free(pair)


async def test_generated_values_begin_no_transaction(make_pair: MakePair, eyes: Eyes) -> None:
    """Fetching values is the first message of the next transaction, and ends the stale one."""
    pair = await make_pair(
        ACCOUNT,
        ROWS,
        "create table item (id int generated by default as identity primary key, n int)",
        publish=["account", "item"],
    )
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.execute("rollback")
    await pair.begin(shipping="lazy")
    await pair.execute("insert into item (n) values (7)")
    await assert_free(pair)
    await pair.commit()
    assert (1, 100) in (await pair.rows(BALANCES))[0]
    await pair.same("item")


async def test_everything_rolled_back_to_a_savepoint(pair: Pair, eyes: Eyes) -> None:
    """If everything is rolled back to a savepoint, the vote leaves no branch and no lock there."""
    await pair.begin()
    await pair.execute("select pg_current_xact_id()")
    await pair.execute("savepoint a")
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.execute("update account set balance = 2 where id = 2")
    await pair.execute("rollback to a")
    assert await is_locked(pair)

    calls = await pair.prepare()

    assert calls == 0
    assert eyes.prepared(pair.topology.node("pub").database) == []
    await assert_free(pair)
    await pair.finish(calls)
    there, here = await pair.rows("select count(*) from msrepl.branch_marker")
    assert (there, here) == ([(0,)], [(1,)])
    await pair.same("account")


@pytest.mark.parametrize("handling", ["statement", "savepoint", "vote"])
async def test_reset_link_in_mid_transaction(pair: Pair, handling: str) -> None:
    """An application that calls reset_link too early makes only its own transaction fail."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.execute("select msrepl.reset_link()")
    await pair.execute("savepoint a")
    if handling != "vote":
        error = await pair.fails("update account set balance = 2 where id = 2")
        await pair.execute("rollback to a")
        if handling == "savepoint":
            error = await pair.fails("delete from account where id = 3")
    else:
        with pytest.raises(psycopg.Error) as caught:
            await pair.prepare()
        error = caught.value
    await pair.rollback()

    assert error.sqlstate == "25000"
    assert "the transaction at the Publisher that belongs to this one has ended" in str(error)
    assert "reset_link" in str(error.diag.message_hint)
    there, _ = await pair.rows(BALANCES)
    assert there == [(g, 100) for g in range(1, 6)]
    await pair.same("account")


async def test_reset_link_without_a_link_or_with_a_dead_one(pair: Pair, eyes: Eyes) -> None:
    """Without a link, or with a dead one, there is nothing to roll back, and reset_link succeeds."""
    await pair.execute("select msrepl.reset_link()")
    assert eyes.link(pair) is None
    await pair.run("update account set balance = 1 where id = 1")
    link = eyes.open_link(pair)
    eyes.fetch("select pg_terminate_backend(%s, 5000)", (link.pid,))
    await pair.execute("select msrepl.reset_link()")
    assert await pair.run("update account set balance = 2 where id = 1") == 1
    await pair.same("account")


async def test_discard_all_keeps_the_link(pair: Pair, eyes: Eyes) -> None:
    """DISCARD ALL, which connection pools send between clients, does not close the link."""
    await pair.run("update account set balance = 1 where id = 1")
    before = eyes.open_link(pair)
    await pair.execute("discard all")
    await pair.run("update account set balance = 2 where id = 1")
    assert eyes.open_link(pair).pid == before.pid
    await pair.same("account")


def test_no_begin_without_a_rollback_before_it() -> None:
    """Every remote BEGIN follows a ROLLBACK.

    In an open transaction, BEGIN only causes a warning, and the earlier changes would be
    committed as well.
    """
    begins = 0
    for file in resources.files("twopc.subscriber").joinpath("sql").iterdir():
        for found in re.finditer(
            r"'([^'\n]*)\bbegin isolation level", file.read_text(encoding="utf-8")
        ):
            begins += 1
            assert found[1] == "rollback;", f"{file.name}: a remote BEGIN with nothing before it"
    assert begins >= 3
