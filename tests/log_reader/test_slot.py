"""Tests of the slot: its creation, its removal, and its reported state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.fix_server import Database, MakeDatabase
from twopc import names
from twopc.errors import ServerError
from twopc.publisher import slot

NAME = "msrepl_test_slot"


@pytest.fixture
async def pub(fresh_database: Database) -> AsyncIterator[AsyncConnection[Any]]:
    """A connection to an empty database; the slot is dropped after the test."""
    connection = await AsyncConnection.connect(fresh_database.dsn, autocommit=True)
    async with connection:
        yield connection
        await slot.drop(connection, NAME)


async def test_it_is_created_once_and_dropped(pub: AsyncConnection[Any]) -> None:
    assert await slot.look(pub, NAME) is None
    position = await slot.create(pub, NAME)
    assert await slot.create(pub, NAME) == position
    found = await slot.look(pub, NAME)
    assert found is not None
    assert found.problem is None
    assert found.confirmed_flush == position
    assert (found.plugin, found.two_phase, found.wal_status) == ("pgoutput", False, "reserved")
    assert not found.active
    assert found.inactive_since is not None
    await slot.drop(pub, NAME)
    await slot.drop(pub, NAME)
    assert await slot.look(pub, NAME) is None


async def test_what_was_written_and_not_read_is_its_lag(pub: AsyncConnection[Any]) -> None:
    await slot.create(pub, NAME)
    await pub.execute("create table t as select repeat('x', 100) from generate_series(1, 10000)")
    found = await slot.look(pub, NAME)
    assert found is not None
    assert found.lag_bytes is not None
    assert found.lag_bytes > 1_000_000
    assert found.retained_bytes is not None
    assert found.retained_bytes >= found.lag_bytes


async def test_a_prepared_transaction_in_another_database_is_named(
    pub: AsyncConnection[Any], make_database: MakeDatabase
) -> None:
    other = make_database()
    with other.connect() as connection:
        connection.execute("begin; create table t (); prepare transaction 'somebody''s'")
        try:
            await pub.execute("set statement_timeout = '7s'")
            with pytest.raises(ServerError, match=f"'somebody''s' in database {other.name}"):
                await slot.create(pub, NAME, timeout_ms=300)
            cursor = await pub.execute("show statement_timeout")
            assert await cursor.fetchone() == ("7s",)
            assert await slot.look(pub, NAME) is None
        finally:
            connection.execute("rollback prepared 'somebody''s'")
    await slot.create(pub, NAME)


async def test_an_open_transaction_is_named(
    pub: AsyncConnection[Any], make_database: MakeDatabase
) -> None:
    with make_database().connect(autocommit=False) as writer:
        writer.execute("create table t ()")
        whose = f"pid {writer.info.backend_pid} in database {writer.info.dbname}"
        with pytest.raises(ServerError, match=whose):
            await slot.create(pub, NAME, timeout_ms=300)


async def test_a_slot_of_another_database_is_refused(
    pub: AsyncConnection[Any], make_database: MakeDatabase
) -> None:
    await slot.create(pub, NAME)
    async with await AsyncConnection.connect(make_database().dsn, autocommit=True) as other:
        with pytest.raises(ServerError, match=f"it reads database '{pub.info.dbname}'"):
            await slot.create(other, NAME)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [("'test_decoding'", "plugin test_decoding"), ("'pgoutput', false, true", "two_phase")],
)
async def test_a_slot_of_another_kind_is_refused(
    pub: AsyncConnection[Any], arguments: str, what: str
) -> None:
    await pub.execute(f"select pg_create_logical_replication_slot('{NAME}', {arguments})".encode())
    with pytest.raises(ServerError, match=what):
        await slot.create(pub, NAME)


async def test_an_invalidated_slot_says_why_and_what_to_do(pub: AsyncConnection[Any]) -> None:
    await slot.create(pub, NAME)
    try:
        # At most one segment may be kept for the slot: the next checkpoint removes the rest.
        await pub.execute("alter system set max_slot_wal_keep_size = '1MB'")
        await pub.execute("select pg_reload_conf()")
        for _ in range(3):
            await pub.execute("select pg_logical_emit_message(false, 'x', 'y', true)")
            await pub.execute("select pg_switch_wal()")
        await pub.execute("checkpoint")
    finally:
        await pub.execute("alter system reset max_slot_wal_keep_size")
        await pub.execute("select pg_reload_conf()")
    found = await slot.look(pub, NAME)
    assert found is not None
    assert found.invalidation_reason == "wal_removed"
    assert found.wal_status == "lost"
    assert found.problem is not None
    with pytest.raises(ServerError, match="reinitialise` every Subscriber"):
        await slot.create(pub, NAME)


async def test_a_role_without_the_right_is_told(
    pub: AsyncConnection[Any], fresh_database: Database
) -> None:
    await pub.execute("create role plain login password 'p'")
    try:
        dsn = fresh_database.server.dsn(fresh_database.name, "plain", "p")
        async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await slot.create(connection, NAME)
    finally:
        await pub.execute("drop role plain")


@pytest.mark.parametrize("topology", ["shop", "Søk-Øl.1", "x" * 100, ""])
def test_its_name_is_one_that_the_server_takes(topology: str) -> None:
    name = names.slot(topology, "pub")
    assert len(name) <= 63
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")
    assert name != names.slot(topology, "other")
    assert name != names.slot(topology + ".", "pub")
