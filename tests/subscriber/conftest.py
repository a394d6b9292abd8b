"""The pair that most tests of a Subscriber's triggers and link need."""

from __future__ import annotations

import pytest

from tests.fix_topology import ACCOUNT, ROWS, MakePair, Pair


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    """Five accounts with a balance of 100 each at both ends."""
    return await make_pair(ACCOUNT, ROWS, publish=["account"])
