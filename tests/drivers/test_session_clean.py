"""Tests that a session of the pool keeps no state of the application that used it last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import psycopg
import pytest

from tests.drivers.bank import SUB, Bank
from twopc.drivers import PostgresCoordinator
from twopc.errors import TwopcError

AT_SUBSCRIBER = """
create function hides(name text, value text) returns void language plpgsql as
$$ begin perform set_config(name, value, false); end $$;
grant create on schema public to public;
"""
UPDATE = "update account set balance = balance + 1 where id = 1"
STATE = """
select current_user::text, current_setting('work_mem'), current_setting('lock_timeout'),
       coalesce(current_setting('app.who', true), ''), current_setting('search_path'),
       (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
       (select count(*) from pg_class where relnamespace = pg_my_temp_schema()),
       (select count(*) from pg_cursors where is_holdable),
       (select count(*) from pg_listening_channels()),
       (select count(*) from pg_prepared_statements where name = 'mine'),
       current_setting('transaction_isolation'), current_setting('transaction_read_only'),
       current_setting('transaction_deferrable')
"""
SETTINGS = {
    "SET": "set work_mem = '77MB'",
    "set_config()": "select set_config('work_mem', '77MB', false)",
    "set_config() of a name of its own": "select set_config('app.who', 'alice', false)",
    "set_config() in a function": "select hides('search_path', 'nowhere')",
    "SET lock_timeout": "set lock_timeout = '7s'",
    "RESET": "reset lock_timeout",
    "the isolation of what comes": "set default_transaction_isolation = 'serializable'",
    "what comes only reads": "set default_transaction_read_only = on",
    "what comes may wait": "select hides('default_transaction_deferrable', 'on')",
}
ROLES = {
    "SET ROLE": "set role pg_monitor",
    "a role by set_config()": "select set_config('role', 'pg_monitor', false)",
}
LOCKS = {"an advisory lock": "select pg_advisory_lock(1)"}
NOT_PREPARED = {
    "a temporary table": "create temp table mine (n int)",
    "a cursor WITH HOLD": "declare mine cursor with hold for select 1",
    "LISTEN": "listen somebody",
}
LASTING = {"PREPARE": "prepare mine as select 1"}
LEFT = SETTINGS | ROLES | LOCKS | NOT_PREPARED | LASTING


@pytest.fixture
async def coordinator(bank: Bank) -> AsyncIterator[PostgresCoordinator]:
    role = bank.topology.node(SUB).app_role
    await bank.fetch(SUB, f"grant pg_monitor to {role}")
    async with bank.coordinator(lock_timeout_ms=4321) as made:
        yield made
    await bank.fetch(SUB, f"revoke pg_monitor from {role}")


async def state(coordinator: PostgresCoordinator) -> tuple[int, tuple[object, ...]]:
    """Return the pid of the session that a transaction gets, and the session's state."""
    async with coordinator.transaction(SUB) as tx:
        cursor = await tx.execute(STATE)
        return tx.pid, (await cursor.fetchall())[0]


@pytest.mark.sample(1, by=("name",))
@pytest.mark.parametrize(
    ("name", "writes"),
    # a transaction in a role without privileges could not prepare
    [*[(name, False) for name in LEFT], *[(name, True) for name in LEFT if name not in ROLES]],
)
async def test_nothing_is_left(
    coordinator: PostgresCoordinator, bank: Bank, name: str, writes: bool
) -> None:
    pid, before = await state(coordinator)
    assert before[2] == "4321ms"
    commit = "last_agent" if name in NOT_PREPARED else "presumed_abort"
    async with coordinator.transaction(SUB, commit=commit) as tx:
        assert tx.pid == pid
        if writes:
            await tx.execute(UPDATE)
        await tx.execute(LEFT[name])
    then, after = await state(coordinator)
    assert after == before
    assert (then == pid) == (name not in LASTING)
    assert await bank.balances(1) == ((1, 1) if writes else (0, 0))
    await coordinator.run(SUB, UPDATE)
    await bank.assert_atomic()


@pytest.mark.parametrize("name", LOCKS | ROLES)
async def test_not_even_by_a_transaction_that_is_rolled_back(
    coordinator: PostgresCoordinator, name: str
) -> None:
    pid, before = await state(coordinator)
    async with coordinator.transaction(SUB) as tx:
        await tx.execute(LEFT[name])
        await tx.rollback()
    assert await state(coordinator) == (pid, before)


async def test_nor_by_a_transaction_of_one_statement(coordinator: PostgresCoordinator) -> None:
    pid, before = await state(coordinator)
    await coordinator.run(
        SUB, f"{UPDATE} returning set_config('work_mem', '77MB', false), pg_advisory_lock(2)"
    )
    assert await state(coordinator) == (pid, before)
    await coordinator.run(SUB, "select set_config('app.who', 'bob', false), pg_advisory_lock(2)")
    assert await state(coordinator) == (pid, before)


async def test_a_role_that_was_chosen_is_taken_again(
    coordinator: PostgresCoordinator, bank: Bank
) -> None:
    role = bank.topology.node(SUB).app_role
    for _ in range(2):
        async with coordinator.transaction(SUB, role="pg_monitor") as tx:
            cursor = await tx.execute("select current_user::text")
            assert await cursor.fetchall() == [("pg_monitor",)]
            await tx.execute(f"set role {role}")


async def test_what_a_session_starts_with_stays(bank: Bank) -> None:
    through = {SUB: {"options": "-c app.who=carol"}}
    async with bank.coordinator(through=through, lock_timeout_ms=4321) as coordinator:
        for _ in range(2):
            _, found = await state(coordinator)
            assert found[2:4] == ("4321ms", "carol")
            async with coordinator.transaction(SUB) as tx:
                await tx.execute("set app.who = dave")


FORGET = {
    "DEALLOCATE ALL": ("deallocate all",),
    "DEALLOCATE ALL in a function": ("do $$ begin execute 'deallocate all'; end $$",),
    "DISCARD PLANS": ("discard plans",),
    "psycopg, after it has prepared one of its own": (
        *["select count(*) from account"] * 6, "savepoint a", "rollback to a", "select 1",
    ),
    "a result of another type": ("alter table changing alter n type bigint",),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGET)
async def test_a_prepared_statement_that_is_gone_is_prepared_anew(
    coordinator: PostgresCoordinator, bank: Bank, name: str
) -> None:
    """A statement of `run` whose prepared statement is gone, in any session, is prepared again."""
    role = bank.topology.node(SUB).app_role
    await bank.fetch(
        SUB,
        f"drop table if exists changing; create table changing (n int); alter table changing owner to {role}",
    )
    update = f"{UPDATE} returning (select n from changing)"
    await asyncio.gather(*(coordinator.run(SUB, update) for _ in range(3)))
    for _ in range(3):
        async with coordinator.transaction(SUB) as tx:
            for statement in FORGET[name]:
                await tx.execute(statement)
    for _ in range(4):
        await coordinator.run(SUB, update)
    assert await bank.balances() == (7, 7)


async def test_an_error_of_that_name_in_the_statement_itself_is_raised(
    coordinator: PostgresCoordinator,
) -> None:
    """A statement whose own execution fails with that error is retried once, and the error is raised."""
    failing = f"{UPDATE} returning raises()"
    async with coordinator.transaction(SUB) as tx:
        await tx.execute(
            "create or replace function raises() returns void language plpgsql as"
            " $$ begin execute 'execute nothing'; end $$"
        )
    for _ in range(2):
        with pytest.raises(TwopcError, match='"nothing" does not exist'):
            await coordinator.run(SUB, failing)


@pytest.mark.parametrize(
    ("statement", "cleaned"), [(SETTINGS["set_config()"], False), (LOCKS["an advisory lock"], True)]
)
async def test_settings_cost_no_message_of_their_own(
    coordinator: PostgresCoordinator, bank: Bank, statement: str, cleaned: bool
) -> None:
    async with coordinator.transaction(SUB) as tx:
        pid = tx.pid
        await tx.execute(UPDATE)
        await tx.execute(statement)
    query = "select query from pg_stat_activity where pid = %s"
    ((last,),) = await bank.fetch(SUB, query, (pid,))
    assert last.startswith("close all" if cleaned else "commit prepared")


async def test_values_are_written_as_they_are_read(bank: Bank) -> None:
    """Values are sent in the session's interval style after another transaction has changed it for itself."""
    through = {SUB: {"options": "-c intervalstyle=sql_standard"}}
    count = "update account set balance = extract(epoch from $1::interval) where id = 1"
    less = timedelta(days=-1, seconds=1)
    async with bank.coordinator(through=through) as coordinator:
        await coordinator.run(SUB, count, (less,))
        async with coordinator.transaction(SUB) as tx:
            await tx.execute("set intervalstyle = postgres")
        await coordinator.run(SUB, count, (less,))
    assert await bank.balances() == (1 - 86400, 1 - 86400)


async def test_a_value_that_cannot_be_written_leaves_nothing_open(bank: Bank) -> None:
    """A value that cannot be adapted leaves no transaction open, for which closing would wait."""
    async with bank.coordinator() as coordinator:
        with pytest.raises(psycopg.ProgrammingError, match="cannot adapt"):
            await coordinator.run(SUB, "update account set balance = $1", (object(),))
        assert coordinator._engine.active == {}
