"""Fixtures for the PostgreSQL driver."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from sim.topology import Topology
from tests.drivers.bank import Bank


@pytest.fixture
async def bank(make_topology: Callable[..., Awaitable[Topology]]) -> Bank:
    """A Publisher and one Subscriber with accounts, on the worker's server."""
    return await Bank.open(await make_topology(subscribers=("sub1",)))
