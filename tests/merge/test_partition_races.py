"""Partitions and Subscribers that are added while applications write.

Mappings are exact, and no change is missed or applied twice.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg

from tests.merge.partitions import SHOP, assert_mapped, publish_shop
from tests.merge.races import REGIONS, races
from twopc.merge.ladder import InitialisationMethod
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

WRITERS = 16
RACES = 10_000


async def test_parents_that_move_and_children_that_come(server: EmbeddedServer, sample) -> None:
    """Mappings are exact in any order of commits, with generations closed in between."""
    async with races(server, random.Random(str(sample(range(RACES), 1)))) as drawn:
        await drawn.play(len(sample(range(RACES), 60)))


Counts = Counter[tuple[str, int]]
"""Number of changes of each customer, and of purchases of each customer."""


def write(dsn: str, number: int, begun: threading.Barrier, enough: threading.Event) -> Counts:
    """Run transactions of an application on its own customers; return the numbers of changes."""
    chance = random.Random(number)
    done: Counts = Counter()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for turn in itertools.count(1):
            key = 1000 + number * 10 + chance.randrange(10)
            buys = chance.random() < 0.1
            with connection.transaction():
                connection.execute(
                    "insert into customer values (%s, %s, '1') on conflict (id) do update set region = excluded.region,"
                    " phone = (customer.phone::int + 1)::text",
                    (key, chance.choice(REGIONS)),
                )
                if buys:
                    purchase = 10_000 + number * 1_000_000 + turn
                    connection.execute("insert into purchase values (%s, %s, 1)", (purchase, key))
            done["customer", key] += 1
            done["purchase", key] += buys
            if turn == 1:
                begun.wait()
            if enough.is_set():
                return +done
    raise AssertionError


@asynccontextmanager
async def written(topology: MergeTopology, writers: int) -> AsyncIterator[Counts]:
    """Write at the Publisher as applications; the yielded counts are complete at the end."""
    begun, enough, counts = threading.Barrier(writers + 1, timeout=60), threading.Event(), Counts()
    dsn, loop = topology.node("pub").app_dsn, asyncio.get_running_loop()
    with ThreadPoolExecutor(writers + 1) as threads:
        running = [
            loop.run_in_executor(threads, write, dsn, number, begun, enough)
            for number in range(writers)
        ]
        try:
            await loop.run_in_executor(threads, begun.wait)
            yield counts
        finally:
            enough.set()
            for each in await asyncio.gather(*running):
                counts.update(each)


async def test_a_partition_that_is_added_under_writers(server: EmbeddedServer) -> None:
    """A partition added by an administrator or a Subscriber makes none of 16 writers fail.

    No mapping is wrong.
    """
    async with MergeTopology(server=server, subscribers=("anna", "cleo")) as topology:
        await publish_shop(topology)
        await topology.subscribe("anna", host_name="north")
        async with written(topology, WRITERS):
            await topology.add_partition("east")
            await topology.subscribe("cleo", host_name="south")
            await assert_mapped(topology)
            await topology.sync("cleo")
            await topology.sync("anna")
        await topology.settle()
        await assert_mapped(topology)
        await topology.assert_converged()


async def test_a_late_subscriber_under_load(server: EmbeddedServer, tmp_path: Path) -> None:
    """A Subscriber that begins with a snapshot made under load has each change once."""
    async with MergeTopology(server=server, subscribers=("anna", "late")) as topology:
        await topology.execute("pub", SHOP)
        for table in ("customer", "purchase"):
            await topology.publish(table)
        await topology.subscribe("anna")
        async with written(topology, 4) as counts:
            await topology.snapshot(tmp_path, part_bytes=10_000)
            await topology.sync("anna")
            report = await topology.subscribe("late")
            assert report.method is InitialisationMethod.APPLY
            for _ in range(3):
                assert (await topology.sync("late")).conflicts == 0
        await topology.settle()
        for node in ("pub", "late"):
            found = await topology.execute(
                node,
                "select 'customer', id, phone::int from customer where id >= 1000 union all"
                " select 'purchase', customer, count(*) from purchase where id > 10000 group by 2",
            )
            assert {(table, key): number for table, key, number in found} == counts
        await topology.assert_converged()
