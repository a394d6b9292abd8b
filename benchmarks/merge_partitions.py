"""The figures of `benchmarks.merge` for filtered publications: sessions, closing, and a new partition."""

from __future__ import annotations

import asyncio
import itertools
import random
import time

from benchmarks.figures import Figure, median, spread
from twopc.sim.merge import MergeTopology
from twopc.together import together

PARTITIONS = 10
WRITERS = 16
#: Number of commits before the partition is added.
COMMITS_BEFORE = 2_000
TABLE = """
create table customer (id int primary key, region text not null, a int not null, b text not null);
insert into customer
select n, 'r' || n % {partitions}, n, repeat('x', 20) from generate_series(1, {rows}) as n;
"""
CHANGE = "update customer set a = a + 1"


async def sessions(rows: int, rounds: int) -> list[Figure]:
    """Change all rows; compare a session of one of ten partitions with one of all, which close in turns."""
    seconds: dict[str, list[float]] = {"one": [], "all": []}
    async with MergeTopology(subscribers=("one", "all")) as topology:
        await topology.execute("pub", TABLE.format(partitions=PARTITIONS, rows=rows))
        await topology.publish(
            "customer",
            row_filter="region = msrepl.host_name() or msrepl.host_name() = 'all'",
        )
        await topology.subscribe("one", host_name="r1")
        await topology.subscribe("all", host_name="all")
        for order in itertools.islice(
            itertools.cycle((("one", "all"), ("all", "one"))), 2 * rounds
        ):
            await topology.execute("pub", CHANGE)
            for name in order:
                began = time.perf_counter()
                report = await topology.sync(name)
                seconds[name].append(time.perf_counter() - began)
                assert report.downloaded == (rows if name == "all" else rows // PARTITIONS)
        await topology.assert_converged()
    one, everything = (
        [a + b for a, b in zip(s[::2], s[1::2], strict=True)] for s in seconds.values()
    )
    ratios = [a / b for a, b in zip(one, everything, strict=True)]
    return [
        Figure(
            name="merge_partition",
            value=median(ratios),
            unit="x",
            target=0.2,
            better="lower",
            detail={"rounds": spread(ratios), "all_s": round(median(seconds["all"]), 2)},
        )
    ]


async def closing(rows: int, rounds: int) -> list[Figure]:
    """Measure a close after every row was changed within its partition, then adding a partition under writers."""
    times = []
    async with MergeTopology(subscribers=("sub",)) as topology:
        await topology.execute("pub", TABLE.format(partitions=PARTITIONS, rows=rows))
        await topology.publish("customer", row_filter="region = msrepl.host_name()")
        for number in range(PARTITIONS):
            await topology.add_partition(f"r{number}")
        for _ in range(rounds):
            await topology.execute("pub", CHANGE)
            await topology.execute("pub", "begin isolation level repeatable read")
            await topology.execute(
                "pub", "lock table msrepl.msmerge_genhistory in share row exclusive mode"
            )
            began = time.perf_counter()
            await topology.execute("pub", "select msrepl.merge_close()")
            times.append((time.perf_counter() - began) / rows * 1e6)
            await topology.execute("pub", "commit")
        waits = await _waits(topology, rows)
    return [
        Figure(
            name="merge_evaluate",
            value=median(times),
            unit="us/row",
            target=5,
            better="lower",
            detail={"rounds": spread(times), "partitions": PARTITIONS},
        ),
        Figure(
            name="merge_new_partition",
            value=waits["during"],
            unit="ms",
            target=20,
            better="lower",
            detail={"before": round(waits["before"], 1), "add_ms": round(waits["add"])},
        ),
    ]


async def _waits(topology: MergeTopology, rows: int) -> dict[str, float]:
    """Return the longest commit of many writers: at first, and while rows come into a new partition."""
    await topology.execute("pub", f"update customer set region = 'new' where id <= {rows // 2}")
    longest = {"before": 0.0, "during": 0.0}
    phase = "before"
    commits = itertools.count(1)
    warm, stop = asyncio.Event(), asyncio.Event()

    async def write(number: int) -> None:
        chance = random.Random(number)
        async with await topology.node("pub").connect() as connection:
            while not stop.is_set():
                began = time.perf_counter()
                at = phase
                await connection.execute(
                    "update customer set a = a + 1 where id = %s", (chance.randint(1, rows),)
                )
                longest[at] = max(longest[at], (time.perf_counter() - began) * 1e3)
                if next(commits) >= COMMITS_BEFORE:
                    warm.set()

    async def add() -> None:
        nonlocal phase
        await warm.wait()
        phase = "during"
        began = time.perf_counter()
        await topology.add_partition("new")
        longest["add"] = (time.perf_counter() - began) * 1e3
        stop.set()

    await together(add(), *(write(number) for number in range(WRITERS)))
    assert await topology.check_partitions() == []
    return longest
