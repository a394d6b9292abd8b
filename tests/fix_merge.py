"""Fixtures that give tests a merge topology of a Publisher and Subscribers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

CUSTOMER = (
    "create table customer (id int primary key, phone text, credit int check (credit >= 0));"
    " create table purchase (id int primary key, customer int not null references customer, code text unique);"
    " insert into customer values (1, '1', 10), (2, '1', 10); insert into purchase values (1, 1, 'a')"
)


@pytest.fixture
async def merge_shop(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """A shop with Subscribers Anna and Ben; customers are tracked by column, purchases by row."""
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        await topology.execute("pub", CUSTOMER)
        await topology.publish("customer", tracking="column")
        await topology.publish("purchase")
        await topology.subscribe("anna")
        await topology.subscribe("ben")
        yield topology


async def customer(topology: MergeTopology, node: str, number: int = 1) -> tuple[str, int]:
    """Return the phone and the credit of a customer."""
    [row] = await topology.execute(
        node, "select phone, credit from customer where id = %s", (number,)
    )
    return row[0], row[1]


class CutError(Exception):
    """The agent has crashed."""


@contextmanager
def cut_off(topology: MergeTopology, point: str, nth: int = 1) -> Iterator[None]:
    """Crash the agent that the block runs when it reaches a point the nth time."""

    def cut(_: str) -> None:
        raise CutError

    topology.points.arm(point, cut, nth=nth)
    with pytest.raises(CutError):
        yield


async def converge(topology: MergeTopology) -> None:
    """Run sessions until nothing is left to transfer, and assert that all nodes have the same rows."""
    await topology.settle()
    await topology.assert_converged()
