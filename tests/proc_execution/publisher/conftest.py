"""A Publisher whose routines are published, with a table and call markers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fix_server import MakeDatabase
from tests.proc_execution.publisher.home import Home


@pytest.fixture
async def home(make_database: MakeDatabase) -> AsyncIterator[Home]:
    """A Publisher with the published table ``emp``, of three rows."""
    made = await Home.open(make_database().dsn)
    yield made
    await made.close()
