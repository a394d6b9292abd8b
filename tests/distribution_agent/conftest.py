"""Fixtures of the distribution agent's tests: a distribution database and a Subscriber."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.distribution_agent.ends import Ends
from tests.fix_server import MakeDatabase


@pytest.fixture
async def ends(make_database: MakeDatabase) -> AsyncIterator[Ends]:
    """Return both databases, without articles."""
    made = Ends(distribution=make_database(), subscriber=make_database())
    await made.open()
    try:
        yield made
    finally:
        await made.close()
