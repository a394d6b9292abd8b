"""Tests of votes on servers: every branch that cannot be prepared is a no, and no other branch is.

Existing drivers take the success of ``PREPARE TRANSACTION`` for a yes; in a failed transaction, it
succeeds with the tag ``ROLLBACK``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import psycopg
import pytest

from tests.drivers.bank import PUB, SUB, Bank
from tests.drivers.voting import (
    LAZY,
    UPDATE,
    C,
    Case,
    Do,
    Stand,
    V,
    ended_past_us,
    kill_link,
    kill_session,
    publisher_changed,
    publisher_inserted,
    publisher_locks_it,
    sql,
    swallowed,
    swallowed_conflict,
    swallowed_serialization_failure,
    taken_gid,
    while_it_prepares,
    write_skew,
)
from twopc import errors, forbidden
from twopc.drivers import Transaction
from twopc.protocol import VARIANTS
from twopc.protocol.effects import Log

AT_SUBSCRIBER = """
create table local_unique (k integer unique deferrable initially deferred);
create table local_parent (k integer primary key);
create table local_child (k integer references local_parent deferrable initially deferred);
create table local_plain (k integer);
create table local_row as select 1 as k;
create function refuse() returns trigger language plpgsql as
$$ begin raise exception 'not today' using errcode = 'P0001'; end $$;
create function warn() returns trigger language plpgsql as
$$ begin raise warning 'committed locally, perhaps'; return null; end $$;
create function take_a_lock() returns trigger language plpgsql as
$$ begin perform pg_advisory_xact_lock(77); return null; end $$;
create table local_refused (k integer);
create table local_warned (k integer);
create table local_gated (k integer);
create constraint trigger refuse after insert on local_refused deferrable initially deferred
    for each row execute function refuse();
create constraint trigger warn after insert on local_warned deferrable initially deferred
    for each row execute function warn();
create constraint trigger gate after insert on local_gated deferrable initially deferred
    for each row execute function take_a_lock();
grant all on all tables in schema public to public;
grant create on schema public to public;
"""
BEFORE_PUBLISHING = """
create table number (n integer primary key);
create function unlucky() returns trigger language plpgsql as
$$ begin
    if new.n = 13 then raise exception 'unlucky' using errcode = 'P0001'; end if;
    if new.n = 14 then notify somebody; end if;
    return null;
end $$;
create constraint trigger unlucky after insert on number deferrable initially deferred
    for each row execute function unlucky();
"""
PUBLISH = ("number",)


@pytest.fixture
async def stand(bank: Bank) -> AsyncIterator[Stand]:
    tables = "local_unique, local_parent, local_child, local_plain, local_refused, local_warned, local_gated"
    await bank.fetch(SUB, f"truncate {tables}")
    async with AsyncExitStack() as after, bank.coordinator(lock_timeout_ms=500) as coordinator:
        yield Stand(bank, coordinator, after)


REFUSED: dict[str, Case] = {
    # failed transactions whose error was swallowed
    "an error swallowed": Case(swallowed("select 1/0"), V, "25P02"),
    "a syntax error swallowed": Case(swallowed("selekt"), V, "25P02"),
    "a refusal of the publisher swallowed": Case(swallowed_conflict, V, "25P02"),
    "a serialization failure swallowed": Case(
        swallowed_serialization_failure, V, "25P02", options={"isolation": "repeatable read"}
    ),
    "an end past the coordinator": Case(ended_past_us, errors.LocalProtocolError),
    # deferred constraints
    "a deferred unique constraint": Case(
        sql("insert into local_unique values (1), (1)"), V, "23505"
    ),
    "a deferred foreign key": Case(
        sql("insert into local_child values (1)"), C, "23503", "fk_violation"
    ),
    "a deferred trigger": Case(sql("insert into local_refused values (1)"), V, "P0001"),
    "a deferred trigger at the publisher": Case(sql("insert into number values (13)"), V, "P0001"),
    # what PREPARE forbids
    "a temporary table": Case(sql("create temporary table tt (n integer)"), V, "0A000"),
    "notify": Case(sql("notify somebody"), V, "0A000"),
    "listen": Case(sql("listen somebody"), V, "0A000"),
    "a cursor with hold": Case(sql("declare c cursor with hold for select 1"), V, "0A000"),
    "an exported snapshot": Case(sql("select pg_export_snapshot()"), V, "0A000"),
    "an advisory lock held twice over": Case(
        sql("select pg_advisory_lock(5), pg_advisory_xact_lock(5)"), V, "0A000"
    ),
    "a notify of the publisher's": Case(sql("insert into number values (14)"), V, "0A000"),
    # gids
    "a gid taken at the subscriber": Case(taken_gid(SUB, PUB), V, "42710"),
    "a gid taken at the publisher": Case(taken_gid(PUB, SUB), V, "42710"),
    # conflicts that surface at commit
    "a stale row shipped lazily": Case(publisher_changed(1), C, "40001", "version_mismatch", LAZY),
    "a lock of the publisher's met lazily": Case(
        publisher_locks_it, errors.LockTimeoutError, "55P03", "lock_timeout", LAZY
    ),
    "a row inserted at the publisher met lazily": Case(
        publisher_inserted, C, "23505", "insert_exists", LAZY
    ),
    "a serialization failure in PREPARE": Case(
        write_skew, C, "40001", "serialization_failure", {"isolation": "serializable"}
    ),
    # interference
    "a cancel while it prepares": Case(while_it_prepares("pg_cancel_backend"), V, "57014"),
    "a session ended while it prepares": Case(
        while_it_prepares("pg_terminate_backend"), V, "57P01"
    ),
    "a lock timeout while it prepares": Case(
        while_it_prepares(), errors.LockTimeoutError, "55P03", "lock_timeout"
    ),
    "a session ended before it prepares": Case(kill_session, V, "57P01"),
    "a link ended before it prepares": Case(
        kill_link, errors.PublisherUnreachableError, "08006", "publisher_unreachable"
    ),
}
"""Cases in which the vote must be no."""


FORBIDDEN = {
    "a temporary table": forbidden.TEMPORARY,
    "notify": forbidden.NOTIFY,
    "listen": forbidden.LISTEN,
    "a cursor with hold": forbidden.HOLD,
    "an exported snapshot": forbidden.SNAPSHOT,
    "an advisory lock held twice over": forbidden.BOTH_LOCKS,
}
"""What PREPARE forbids in a session at the Subscriber, with the remedy in the hint."""


@pytest.mark.sample(1, by=("name",))
@pytest.mark.parametrize(
    ("name", "commit"),
    [
        (name, commit)
        for name in REFUSED
        for commit in ("presumed_abort", "last_agent")
        # the last agent is not prepared: it may execute what PREPARE forbids
        if commit != "last_agent" or name not in (*FORBIDDEN, "a gid taken at the subscriber")
    ],
)
async def test_it_is_refused_and_nothing_is_left(stand: Stand, name: str, commit: str) -> None:
    case = REFUSED[name]
    tx = stand.coordinator.transaction(SUB, commit=commit, **case.options)
    with pytest.raises(case.error) as caught:
        async with tx:
            await tx.execute(UPDATE)
            await case.do(stand, tx)
    await stand.after.aclose()
    error = caught.value
    if isinstance(error, errors.TransactionError):
        assert error.definite
        assert error.sqlstate
        assert case.sqlstate in ("", error.sqlstate)
        assert error.gid == tx.gid
        if case.sqlstate == "0A000":
            assert FORBIDDEN.get(name, forbidden.NOTIFY).remedy in error.hint
    if case.kind:
        assert isinstance(error, errors.RejectedError)
        assert error.kind == case.kind
    assert tx.outcome == "aborted"
    await stand.coordinator.recover()
    await stand.bank.assert_atomic((1, 2))
    assert (await stand.bank.balances(1))[0] == 0

    async with stand.coordinator.transaction(SUB) as following:
        await following.execute("update account set balance = 7 where id = 3")
    assert await stand.bank.balances(3) == (7, 7)


@pytest.mark.parametrize("node", [PUB, SUB])
async def test_a_fenced_branch_cannot_even_begin(stand: Stand, node: str) -> None:
    with pytest.raises((errors.RejectedError, psycopg.errors.UniqueViolation)):
        async with stand.coordinator.transaction(SUB) as tx:
            await stand.at(node, "select msrepl.fence_branch(%s, '{}')", (f"{tx.gid}:{node}",))
            await tx.execute(UPDATE)
    await stand.bank.assert_atomic()


# -- accepted transactions -------------------------------------------------------------------------


async def savepoint(stand: Stand, tx: Transaction) -> None:
    await tx.execute("savepoint a")
    with pytest.raises(psycopg.errors.DivisionByZero):
        await tx.execute("select 1/0")
    await tx.execute("rollback to savepoint a")


async def refused_and_taken_back(stand: Stand, tx: Transaction) -> None:
    await tx.execute("savepoint a")
    await swallowed_conflict(stand, tx)
    await tx.execute("rollback to savepoint a")


ACCEPTED: dict[str, Do] = {
    "nothing more": sql(),
    "an error taken back to a savepoint": savepoint,
    "a refusal of the publisher taken back to a savepoint": refused_and_taken_back,
    "a warning at the very end": sql("insert into local_warned values (1)"),
    "a gid changed in the transaction": sql(
        "set local msrepl.gid = 'twopc:x:1:1'", "update account set balance = 2 where id = 2"
    ),
    "DDL": sql("create table made (n integer)", "drop table made"),
    "settings": sql("set local work_mem = '5MB'", "set work_mem = '6MB'"),
    "a session's advisory lock": sql("select pg_advisory_lock(9)"),
    "a cursor": sql("declare c cursor for select 1", "fetch all from c"),
    "deferred constraints that hold": sql(
        "insert into local_child values (1)", "insert into local_parent values (1)"
    ),
}


@pytest.mark.sample(1, by=("name",))
@pytest.mark.parametrize("commit", [*VARIANTS])
@pytest.mark.parametrize("name", ACCEPTED)
async def test_it_is_accepted(stand: Stand, name: str, commit: str) -> None:
    async with stand.coordinator.transaction(SUB, commit=commit) as tx:
        await tx.execute(UPDATE)
        await ACCEPTED[name](stand, tx)
    await stand.after.aclose()
    assert tx.outcome == "committed"
    assert await stand.bank.balances(1) == (1, 1)
    await stand.bank.assert_atomic((1, 2))


READ_ONLY: dict[str, Do] = {
    "nothing": sql(),
    "a read": sql("select * from account"),
    "an update of no rows": sql("update account set balance = 1 where id = -1"),
    "everything rolled back to a savepoint": sql(
        "savepoint a", UPDATE, "rollback to savepoint a", "release savepoint a"
    ),
}


@pytest.mark.parametrize("commit", [*VARIANTS])
@pytest.mark.parametrize("name", READ_ONLY)
async def test_what_changed_nothing_commits(stand: Stand, name: str, commit: str) -> None:
    async with stand.coordinator.transaction(SUB, commit=commit) as tx:
        await READ_ONLY[name](stand, tx)
    assert tx.outcome == "committed"
    assert await stand.bank.balances(1) == (0, 0)
    await stand.bank.assert_atomic()


@pytest.mark.parametrize("name", ["nothing", "a read", "an update of no rows"])
async def test_a_read_only_transaction_is_never_prepared(stand: Stand, name: str) -> None:
    async with stand.coordinator.transaction(SUB) as tx:
        await READ_ONLY[name](stand, tx)
    assert stand.bank.seen == []
    assert await stand.bank.markers(SUB) == {}
    assert await stand.bank.decisions() == []


@pytest.mark.parametrize("commit", [*VARIANTS])
async def test_a_local_change_only_is_committed_too(stand: Stand, commit: str) -> None:
    async with stand.coordinator.transaction(SUB, commit=commit) as tx:
        await tx.execute("insert into local_plain values (1)")
    assert await stand.at(SUB, "select k from local_plain") == [(1,)]
    assert await stand.bank.markers(PUB) == {}
    await stand.bank.assert_atomic()


@pytest.mark.parametrize("commit", [*VARIANTS])
async def test_a_statement_that_changed_nothing_needs_no_decision(
    stand: Stand, commit: str
) -> None:
    """A statement that changed nothing is prepared without a marker, and needs no decision.

    It is prepared because it is sent in one message with the request for the vote.
    """
    done = await stand.coordinator.run(
        SUB, "update account set balance = 1 where id = $1", (-1,), commit=commit
    )
    assert done.rowcount == 0
    await stand.bank.assert_atomic()
    assert await stand.bank.markers(SUB) == await stand.bank.markers(PUB) == {}
    assert not any(
        isinstance(seen, Log) and seen.record.kind == "commit" and seen.forced
        for _, seen in stand.bank.seen
    )
    await stand.coordinator.recover()
    assert await stand.coordinator.heuristics() == []


@pytest.mark.parametrize("commit", [*VARIANTS])
async def test_a_query_that_changes_rows_here_only_is_committed(stand: Stand, commit: str) -> None:
    """A query that changes rows at the Subscriber only is committed, although its tag is ``SELECT``."""
    done = await stand.coordinator.run(
        SUB,
        "with noted as (insert into local_plain values ($1) returning k) select k from noted",
        (5,),
        commit=commit,
    )
    assert (done.tag, done.rows) == ("SELECT 1", ((5,),))
    assert await stand.at(SUB, "select k from local_plain") == [(5,)]
    await stand.bank.assert_atomic()
