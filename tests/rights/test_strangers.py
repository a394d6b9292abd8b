"""Settings that any role can change do not affect other sessions, and make no copies differ."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.rights.table import READING, UPDATING, one_of_everything
from twopc.errors import TwopcError
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim.topology import Topology

_SQL = Path(__file__).parents[2]
_SETTING = re.compile(r"'(msrepl\.[a-z_]+)', true\)|set_config\('(msrepl\.[a-z_]+)'")
_VALUES = ("", "(0,0)", "3;", "yes", "x'; select 1; --")
_PREPARED = (
    "select gid from pg_prepared_xacts where database = current_database() and gid like 'twopc:%'"
)
UPDATE = "update account set balance = balance + 1 where id = 1"
INSERT = "insert into entry (account, amount) values (1, 1)"


def settings() -> list[str]:
    """Return every setting of ours that a routine reads or sets."""
    found: set[str] = set()
    for folder in ("publisher", "subscriber", "twopc"):
        for path in (_SQL / folder).rglob("*.*"):
            if path.suffix in (".sql", ".py"):
                for pair in _SETTING.findall(path.read_text(encoding="utf-8")):
                    found |= {name for name in pair if name}
    return sorted(found)


@pytest.fixture
async def topology(server: EmbeddedServer) -> AsyncIterator[Topology]:
    async with one_of_everything(server) as made:
        yield made


async def works(topology: Topology) -> None:
    """Assert that a coordinator, any client, recovery and agents still work, and that all copies agree."""
    await agree(topology)
    await topology.run(UPDATING, UPDATE)
    async with await AsyncConnection.connect(
        topology.node(UPDATING).app_dsn, autocommit=True
    ) as client:
        await client.execute(UPDATE)
    await topology.recover()
    await agree(topology)


async def agree(topology: Topology) -> None:
    """Assert that no branch of ours is left prepared, and that all nodes hold the same rows and row versions."""
    for node in ("pub", UPDATING):
        with psycopg.connect(topology.node(node).dsn, autocommit=True) as connection:
            await asyncio.to_thread(  # the resolver runs in this loop
                wait_for,
                lambda connection=connection: not connection.execute(_PREPARED).fetchall(),
                what=f"branches at {node} to be finished",
                timeout_s=30,
            )
    await topology.sync()
    for table in ("account", "entry"):
        query = f"select t::text from {table} as t order by id"
        rows = [await topology.execute(node, query) for node in ("pub", UPDATING, READING)]
        assert rows[0] == rows[1] == rows[2], table


@pytest.mark.sample(4)
@pytest.mark.parametrize("setting", settings())
async def test_settings_of_ours(topology: Topology, setting: str) -> None:
    """A session that changes a setting, before or within a transaction, gets an error or the normal result."""
    for value in _VALUES:
        change = f"select set_config('{setting}', $${value}$$, false)"
        for node in (UPDATING, "pub"):
            dsn = topology.node(node).app_dsn
            for statements in (
                [change, UPDATE, INSERT],
                ["begin", UPDATE, change, UPDATE, INSERT, "commit"],
                ["begin", change, INSERT, "savepoint a", UPDATE, "rollback to a", UPDATE, "commit"],
                ["begin", UPDATE, change, "commit"],
            ):
                async with await AsyncConnection.connect(dsn, autocommit=True) as client:
                    with suppress(psycopg.Error):
                        for statement in statements:
                            await client.execute(statement.encode())
            with suppress(TwopcError, psycopg.Error):
                async with topology.transaction(UPDATING) as transaction:
                    await transaction.execute(UPDATE)
                    await transaction.execute(change)
                    await transaction.execute(INSERT)
    await works(topology)
