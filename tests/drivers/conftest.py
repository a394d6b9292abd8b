"""Fixtures for the PostgreSQL driver.

Making a topology takes longer than a test, so the tests of a module share one. Each test has its
own coordinator, and starts with the accounts reset.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.drivers.bank import Bank
from tests.drivers.crashing import Crashing
from tests.drivers.place import Place
from tests.drivers.place import place as place
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology


@pytest.fixture(scope="module")
def shared_bank(server: EmbeddedServer, request: pytest.FixtureRequest) -> Iterator[Bank]:
    """A Publisher and one Subscriber (or ``SUBSCRIBERS``) with accounts, on the worker's server.

    A module's ``BEFORE_PUBLISHING`` and ``AT_SUBSCRIBER`` are executed there, and the tables in
    ``PUBLISH`` are published.
    """
    subscribers = getattr(request.module, "SUBSCRIBERS", ("sub1",))
    topology = Topology(server=server, subscribers=subscribers, lock_timeout_ms=500)

    async def make() -> Bank:
        await topology.__aenter__()
        made = await Bank.open(
            topology,
            before_publishing=getattr(request.module, "BEFORE_PUBLISHING", ""),
            publish=getattr(request.module, "PUBLISH", ()),
            at_subscriber=getattr(request.module, "AT_SUBSCRIBER", ""),
        )
        await made.let_go()
        return made

    yield asyncio.run(make())
    asyncio.run(topology.close())


@pytest.fixture
async def bank(shared_bank: Bank) -> AsyncIterator[Bank]:
    """The module's bank, reset before the test; the test must leave nothing prepared."""
    await shared_bank.reset()
    yield shared_bank
    assert await shared_bank.prepared() == []


@pytest.fixture
def epoch(place: Place) -> int:
    """The number of an epoch of coordinator ``c`` that has ended."""
    return place.epoch()


@pytest.fixture(scope="module")
def crashing() -> Iterator[Crashing]:
    """A program that runs coordinators which can be killed."""
    made = Crashing()
    yield made
    made.close()
