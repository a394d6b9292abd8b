"""Fixtures of the propagation tests: a Subscriber's database and an agent's session in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fix_server import Database
from tests.propagation.here import AGENT, Here


@pytest.fixture
async def here(fresh_database: Database) -> AsyncIterator[Here]:
    """Yield a Subscriber without articles."""
    made = Here(fresh_database)
    await made.open()
    try:
        yield made
    finally:
        await made.close()
        with fresh_database.connect() as admin:
            admin.execute(f"drop owned by {AGENT} cascade")
