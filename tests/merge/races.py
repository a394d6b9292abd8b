"""Random races of transactions that move parents or add children, while generations are closed."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection

from tests.merge.partitions import assert_mapped, publish_shop
from twopc.drivers.merge import neighbours
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

REGIONS = ("north", "south", "east")
_CUSTOMERS = 4
_WRITERS = 3
_ROWS_MAX = 60
_KEEP = 3
"""Number of rows of each table that are kept when there are too many."""


class Races:
    """Concurrent transactions at one Publisher.

    Args:
        writers: one connection for each transaction.
        closer: the connection that closes generations.
    """

    def __init__(
        self,
        topology: MergeTopology,
        writers: list[AsyncConnection],
        closer: AsyncConnection,
        chance: random.Random,
    ) -> None:
        self._topology = topology
        self._writers = writers
        self._closer = closer
        self._chance = chance
        self._next = 100

    async def play(self, count: int) -> None:
        """Play races; after each one, assert that the mappings agree with the filters."""
        for _ in range(count):
            await self._race()
            await assert_mapped(self._topology)

    async def _race(self) -> None:
        """Interleave two or three transactions at random, and close generations in between."""
        chance = self._chance
        purchases = await self._ids("purchase")
        if len(purchases) > _ROWS_MAX:
            await self._closer.execute(
                f"delete from line where id > {_KEEP}; delete from purchase where id > {_KEEP}".encode()
            )
            purchases = await self._ids("purchase")
        free = {
            "customer": set(range(1, _CUSTOMERS)),
            "purchase": {*purchases},
            "line": {*await self._ids("line")},
        }
        steps = []
        for number in range(chance.choice((2, 2, 3))):
            statements = [self._statement(free) for _ in range(chance.choice((1, 2)))]
            end = chance.choice(("commit", "commit", "commit", "rollback"))
            steps.append([(number, text) for text in ("begin", *statements, end)])
        while any(steps):
            if chance.random() < 0.3:
                await self._close()
                continue
            number, text = chance.choice([each for each in steps if each]).pop(0)
            await self._writers[number].execute(text.encode())

    def _statement(self, free: dict[str, set[int]]) -> str:
        """Return a statement that uses only rows which no other transaction has locked.

        It moves a parent, gives one a child, or deletes a line.
        """
        chance, number = self._chance, self._next
        self._next += 1
        customer = chance.randrange(1, _CUSTOMERS)
        purchase = chance.choice((1, 2, 3))
        kinds: list[tuple[str, str]] = [
            (f"insert into purchase values ({number}, {customer}, 1)", ""),
            (f"insert into line values ({number}, {purchase}, 1)", ""),
            *[(f"update customer set region = '{chance.choice(REGIONS)}'", "customer")] * 3,
            (f"update purchase set customer = {customer}", "purchase"),
            (f"update line set purchase = {purchase}", "line"),
            ("delete from line", "line"),
        ]
        statement, table = chance.choice([kind for kind in kinds if free.get(kind[1], True)])
        if not table:
            return statement
        row = chance.choice(sorted(free[table]))
        free[table].discard(row)
        return f"{statement} where id = {row}"

    async def _ids(self, table: str) -> list[int]:
        cursor = await self._closer.execute(f"select id from {table} order by id".encode())
        return [number for (number,) in await cursor.fetchall()]

    async def _close(self) -> None:
        async with self._closer.transaction():
            await self._closer.execute("set transaction isolation level repeatable read")
            await neighbours.close_generation(self._closer)


@asynccontextmanager
async def races(server: EmbeddedServer, chance: random.Random) -> AsyncIterator[Races]:
    """Yield the races of a shop with three partitions and no Subscribers."""
    async with MergeTopology(server=server, subscribers=()) as topology:
        await publish_shop(topology)
        for region in REGIONS:
            await topology.add_partition(region)
        node = topology.node("pub")
        opened = [await node.connect() for _ in range(_WRITERS + 1)]
        try:
            yield Races(topology, opened[1:], opened[0], chance)
        finally:
            for connection in opened:
                await connection.close()
