"""Random histories of a filtered publication on servers: rows move, sessions are interrupted."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.merge.histories import PLACES, CutError
from tests.merge.partitions import assert_mapped, publish_shop
from twopc.drivers.points import Points
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

HOSTS = {"anna": "north", "ben": "north", "cleo": "south"}


class ShopHistory:
    """Customers in regions, their purchases and the lines of these, changed at every node."""

    def __init__(self, topology: MergeTopology, chance: random.Random, *, deletes: bool) -> None:
        self._topology = topology
        self._chance = chance
        self._deletes = deletes
        self._numbers = itertools.count(100)

    async def write(self) -> None:
        """Execute a random transaction at a random node, on a customer or on rows below one."""
        node = self._chance.choice(("pub", *HOSTS))
        number = next(self._numbers)
        region = self._chance.choice(("north", "south", "east"))
        changes = [
            *[f"update customer set region = '{region}' where id = {{customer}}"] * 3,
            f"update customer set phone = '{number}' where id = {{customer}}",
            f"insert into customer values ({number}, '{region}', '1')",
            *[f"insert into purchase select {number}, id, 1 from customer where id = {{customer}}"]
            * 2,
            f"insert into line select {number}, id, 1 from purchase where id = {{purchase}}",
            f"update purchase set total = {number} where id = {{purchase}}",
            "update purchase set customer = {customer} where id = {purchase}",
            f"update line set count = {number} where id = {{line}}",
            "delete from line where id = {line}",
        ]
        deletions = [
            "delete from purchase where id = {purchase}",
            "begin; delete from line where purchase in (select id from purchase where customer = {customer});"
            " delete from purchase where customer = {customer}; delete from customer where id = {customer}; commit",
        ]
        statement = self._chance.choice([*changes, *deletions] if self._deletes else changes)
        keys = {}
        for table in ("customer", "purchase", "line"):
            ids = await self._topology.execute(node, f"select id from {table} order by id")
            keys[table] = self._chance.choice(ids)[0] if ids else 0
        await self._topology.execute(node, statement.format(**keys))

    async def session(self) -> None:
        """Run a session that may be interrupted, with writes of applications during it."""
        subscriber = self._chance.choice(sorted(HOSTS))
        points = self._topology.points

        async def write(_: str) -> None:
            await self.write()

        def stop(_: str) -> None:
            raise CutError

        for place in PLACES:
            if self._chance.random() < 0.15:
                points.arm(f"{place}({subscriber})", write)
        if self._chance.random() < 0.3:
            points.arm(f"{self._chance.choice(PLACES)}({subscriber})", stop)
        try:
            await self._topology.sync(subscriber)
        except CutError:
            pass
        finally:
            points.disarm()

    async def play(self, steps: int) -> None:
        """Play a number of writes and sessions, and then sessions until nothing is transferred."""
        for _ in range(steps):
            await (self.session() if self._chance.random() < 0.3 else self.write())
        await self._topology.settle()


@pytest.mark.parametrize(
    ("has_keys", "precomputed"),
    [(True, True), (True, False), (False, False)],
    ids=["precomputed", "evaluated", "no-keys"],
)
async def test_whoever_belongs_has_the_row(
    server: EmbeddedServer, has_keys: bool, precomputed: bool
) -> None:
    """In the end every Subscriber has the rows of its partition, and no others.

    With foreign keys no parent is deleted: a child that another node inserts at the same time would
    fail in every session.
    """
    for seed in range(3):
        async with MergeTopology(
            server=server, subscribers=sorted(HOSTS), points=Points()
        ) as topology:
            await publish_shop(topology, precomputed=precomputed, has_keys=has_keys)
            for name, host in HOSTS.items():
                await topology.subscribe(name, host_name=host)
            chance = random.Random(f"{seed} {precomputed} {has_keys}")
            await ShopHistory(topology, chance, deletes=not has_keys).play(40)
            await assert_mapped(topology)
            await topology.assert_converged()
