"""Fixtures for the log reader's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fix_server import MakeDatabase
from tests.log_reader.rig import Rig, rig


@pytest.fixture
async def both(make_database: MakeDatabase) -> AsyncIterator[Rig]:
    """A Publisher with the table ``item``, and a separate distribution database."""
    async with rig(make_database(), make_database()) as made:
        await made.pub.execute("create table item (id int primary key, name text, price numeric)")
        await made.publish("item")
        yield made
