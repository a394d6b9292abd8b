"""What merge replication costs, and how fast a session is: ``python -m benchmarks.merge``.

*Tracking*: CPU of the session that changes 100,000 rows, of a merged table against the same table with its column
`rowguid` and nothing else. *Sessions*: rows a second, a download against a loop that reads what was updated since
the last time by a column `updated_at` and writes it with executemany; the upload against the download. The loop
decides about nothing, and misses deletions and what commits late. Contents are compared, or the run is void.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.figures import Figure, median, report, spread
from twopc.sim.merge import MergeTopology

TABLE = "create table {name} (id int primary key, a int, b text, c numeric, updated_at timestamptz default now())"
FILL = "insert into {name} (id, a, b, c) select i, i, 'text ' || i, i * 1.5 from generate_series({low}, {high}) as i"
LOOP = """insert into copy (id, a, b, c, updated_at) values (%s, %s, %s, %s, %s)
on conflict (id) do update set a = excluded.a, b = excluded.b, c = excluded.c, updated_at = excluded.updated_at"""


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def used_s(connection: psycopg.Connection[Any], statement: str) -> float:
    """CPU seconds of a statement at its server."""
    before = cpu_s(connection.info.backend_pid)
    connection.execute(statement.encode())
    return cpu_s(connection.info.backend_pid) - before


async def tracking(rows: int, rounds: int) -> list[Figure]:
    """The same statements on a plain table, and on merged ones."""
    ratios: dict[str, list[float]] = {}
    async with MergeTopology(subscribers=()) as topology:
        for name, level in (("plain", None), ("by_row", "row"), ("by_column", "column")):
            await topology.execute("pub", TABLE.format(name=name))
            if level is None:
                await topology.execute(
                    "pub", f"alter table {name} add rowguid uuid not null unique default uuidv7()"
                )
            else:
                await topology.publish(name, tracking=level)
        with psycopg.connect(topology.node("pub").dsn, autocommit=True) as connection:
            for turn in range(rounds):
                low, high = turn * rows + 1, (turn + 1) * rows
                spent: dict[tuple[str, str], float] = {}
                for name in ("plain", "by_row", "by_column"):
                    fill = FILL.format(name=name, low=low, high=high)
                    spent[name, "insert"] = used_s(connection, fill)
                    connection.execute(f"vacuum analyze {name}".encode())
                    change = f"update {name} set a = a + 1 where id between {low} and {high}"
                    spent[name, "update"] = used_s(connection, change)
                for figure, name, what in (
                    ("merge_track_insert", "by_row", "insert"),
                    ("merge_track_update", "by_row", "update"),
                    ("merge_track_column", "by_column", "update"),
                ):
                    ratios.setdefault(figure, []).append(spent[name, what] / spent["plain", what])
    targets = {"merge_track_insert": 2.2, "merge_track_update": 2.5, "merge_track_column": 2.9}
    return [
        Figure(
            name=name,
            value=median(values),
            unit="x CPU",
            target=targets[name],
            better="lower",
            detail={"rounds": spread(values)},
        )
        for name, values in ratios.items()
    ]


async def sessions(rows: int, rounds: int) -> list[Figure]:
    """Downloads, uploads, and the loop, in turns."""
    down, up, loop = [], [], []
    async with MergeTopology(subscribers=("sub",)) as topology:
        await topology.execute("pub", TABLE.format(name="item"))
        await topology.execute("pub", FILL.format(name="item", low=1, high=2 * rows))
        await topology.publish("item")
        await topology.subscribe("sub")
        await topology.execute("sub", TABLE.format(name="copy"))
        await topology.execute("sub", "insert into copy select id, a, b, c, updated_at from item")
        change = "update item set a = a + 1, updated_at = clock_timestamp() where id % 2 = 0"
        for _ in range(rounds):
            [(last,)] = await topology.execute("pub", "select clock_timestamp()")
            await topology.execute("pub", change)
            began = time.perf_counter()
            assert (await topology.sync("sub")).downloaded == rows
            down.append(rows / (time.perf_counter() - began))
            began = time.perf_counter()
            found = await topology.execute(
                "pub", "select id, a, b, c, updated_at from item where updated_at > %s", (last,)
            )
            below = await topology.admin("sub")
            async with below.transaction(), below.cursor() as cursor:
                await cursor.executemany(LOOP, found)
            loop.append(rows / (time.perf_counter() - began))
            await topology.execute("sub", change)
            began = time.perf_counter()
            assert (await topology.sync("sub")).uploaded == rows
            up.append(rows / (time.perf_counter() - began))
        await topology.assert_converged()
    return [
        Figure(
            name=name,
            value=median([one / other for one, other in zip(ours, theirs, strict=True)]),
            unit="x",
            target=target,
            better="higher",
            detail={"rows/s": f"{median(ours):.0f}", "against": f"{median(theirs):.0f}"},
        )
        for name, ours, theirs, target in (
            ("merge_download_loop", down, loop, 0.9),
            ("merge_upload_download", up, down, None),
        )
    ]


async def main() -> None:
    """Measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    figures = await tracking(chosen.rows, chosen.rounds)
    figures += await sessions(chosen.rows // 5, chosen.rounds)
    report("merge replication", figures)


if __name__ == "__main__":
    asyncio.run(main())
