"""The figures of `benchmarks.merge` for sessions: their speed, and the cost of a session without changes."""

from __future__ import annotations

import time
from typing import Any

import psycopg

from benchmarks.figures import Figure, median, spread
from benchmarks.merge_tracking import FILL, TABLE
from benchmarks.native import Native, wait
from twopc.sim.merge import MergeTopology

COLUMNS = "id, a, b, c, updated_at"
CHANGE = "update {} set a = a + 1, updated_at = clock_timestamp()"
READ = f"select {COLUMNS} from item where updated_at > %s"
UPSERT = f"({COLUMNS}) values (%s, %s, %s, %s, %s) on conflict (id) do update set a = excluded.a, b = excluded.b, c = excluded.c, updated_at = excluded.updated_at"
FROM_STAGE = "update copied as t set a = s.a, b = s.b, c = s.c, updated_at = s.updated_at from stage as s where t.id = s.id"


async def speed(rows: int, rounds: int) -> list[Figure]:
    """Transfer `rows` changed rows: by download, upload, native replication and the two loops, in turns."""
    rates: dict[str, list[float]] = {}
    async with MergeTopology(subscribers=("sub",), servers="each") as topology:
        await topology.execute("pub", TABLE.format(name="item"))
        await topology.execute("pub", FILL.format(name="item", low=1, high=rows))
        await topology.execute("pub", TABLE.format(name="native"))
        await topology.execute("pub", FILL.format(name="native", low=1, high=rows))
        await topology.publish("item")
        await topology.subscribe("sub")
        for name in ("looped", "copied"):
            await topology.execute("sub", TABLE.format(name=name))
            await topology.execute("sub", f"insert into {name} select {COLUMNS} from item")
        native = Native(topology.node("pub").dsn, [topology.node("sub").dsn])
        definition = TABLE.format(name="native").partition("(")[2].removesuffix(")")
        native.replicate({"native": definition})
        wait(native.copied, "the initial copy")
        try:
            for _ in range(rounds):
                for name, seconds in (await _round(topology, native, rows)).items():
                    rates.setdefault(name, []).append(rows / seconds)
        finally:
            native.close()
        await topology.assert_converged()
        for name in ("looped", "copied"):
            # the loops have not read the rows uploaded last
            query = (
                f"select count(*) from item as i join {name} as l using (id) where i.a = l.a + 1"
            )
            assert await topology.execute("sub", query) == [(rows,)]
    return [
        _figure("merge_download_native", 0.65, rates["down"], rates["native"]),
        _figure("merge_download_loop", 0.9, rates["down"], rates["looped"]),
        _figure("merge_download_copy_loop", 0.45, rates["down"], rates["copied"]),
        _figure("merge_upload", 0.5, rates["up"], rates["native"]),
    ]


async def _round(topology: MergeTopology, native: Native, rows: int) -> dict[str, float]:
    """Return the seconds of each."""
    seconds = {}
    [(last,)] = await topology.execute("pub", "select clock_timestamp()")
    await topology.execute("pub", CHANGE.format("item"))
    began = time.perf_counter()
    assert (await topology.sync("sub")).downloaded == rows
    seconds["down"] = time.perf_counter() - began
    below = await topology.admin("sub")
    began = time.perf_counter()
    changed = await topology.execute("pub", READ, (last,))
    async with below.transaction(), below.cursor() as cursor:
        await cursor.executemany(f"insert into looped {UPSERT}".encode(), changed)
    seconds["looped"] = time.perf_counter() - began
    began = time.perf_counter()
    changed = await topology.execute("pub", READ, (last,))
    async with below.transaction(), below.cursor() as cursor:
        await cursor.execute("create temporary table stage (like copied) on commit drop")
        async with cursor.copy("copy stage from stdin") as copy:
            for row in changed:
                await copy.write_row(row)
        await cursor.execute("analyze stage")
        await cursor.execute(FROM_STAGE.encode())
    seconds["copied"] = time.perf_counter() - began
    seconds["native"] = _native_s(native, rows)
    await topology.execute("sub", CHANGE.format("item"))
    began = time.perf_counter()
    assert (await topology.sync("sub")).uploaded == rows
    seconds["up"] = time.perf_counter() - began
    await topology.sync("sub")
    return seconds


def _native_s(native: Native, rows: int) -> float:
    [below] = native.subscribers
    native.hold()
    native.publisher.execute(CHANGE.format("native").encode())
    [(value,)] = native.publisher.execute("select sum(a) from native").fetchall()
    began = time.perf_counter()
    native.let_go()
    wait(lambda: _sum(below) == value, f"{rows} rows by native replication")
    return time.perf_counter() - began


def _sum(connection: psycopg.Connection[Any]) -> Any:
    row = connection.execute("select sum(a) from native").fetchone()
    return row and row[0]


async def idle() -> list[Figure]:
    """Return the median of 50 sessions without changes."""
    times = []
    async with MergeTopology(subscribers=("sub",)) as topology:
        await topology.execute("pub", TABLE.format(name="item"))
        await topology.publish("item")
        await topology.subscribe("sub")
        for _ in range(50):
            began = time.perf_counter()
            await topology.sync("sub")
            times.append((time.perf_counter() - began) * 1e3)
    return [
        Figure(
            name="merge_idle_session",
            value=median(times),
            unit="ms",
            target=15,
            better="lower",
            detail={"sessions": spread(times)},
        )
    ]


def _figure(name: str, target: float, ours: list[float], theirs: list[float]) -> Figure:
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return Figure(
        name=name,
        value=median(ratios),
        unit="x",
        target=target,
        better="higher",
        detail={
            "rounds": spread(ratios),
            "rows/s": round(median(ours)),
            "against": round(median(theirs)),
        },
    )
