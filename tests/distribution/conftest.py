"""Fixtures: a published database with a slot, and a distribution database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.distribution.logged import Logged
from tests.fix_server import MakeDatabase
from twopc.publisher import distribution


@pytest.fixture
async def logged(make_database: MakeDatabase) -> AsyncIterator[Logged]:
    """A database that publishes, and its log."""
    here = await Logged.open(make_database().dsn)
    yield here
    await here.close()


LOGREADER, AGENT = "test_logreader", "test_agent"


@pytest.fixture
async def stored(make_database: MakeDatabase) -> AsyncIterator[AsyncConnection[Any]]:
    """An administrator's connection to a distribution database."""
    async with await AsyncConnection.connect(make_database().dsn, autocommit=True) as connection:
        for role in (LOGREADER, AGENT):
            await connection.execute(f"create role {role}".encode())
        await distribution.install(connection, LOGREADER, AGENT)
        yield connection
        for role in (LOGREADER, AGENT):
            await connection.execute(f"drop owned by {role}".encode())
            await connection.execute(f"drop role {role}".encode())
