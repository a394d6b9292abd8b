"""The figures of `benchmarks.merge` for snapshots in files: the speed of applying one, and files sent again."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, median, spread
from benchmarks.merge_tracking import FILL, TABLE
from benchmarks.native import Native, wait
from twopc.merge.ladder import InitialisationMethod
from twopc.sim.merge import MergeTopology

PARTITIONS = 10
DROP = "drop table if exists item, native, customer"
SHOP = """
create table customer (id int primary key, region text not null, a int not null, b text not null);
insert into customer
select n, 'r' || n % {partitions}, n, repeat('x', 20) from generate_series(1, {rows}) as n;
"""


class CutError(Exception):
    """The end of the delivering process at a protocol point."""


async def apply(rows: int, rounds: int) -> list[Figure]:
    """Compare initialisation from files, in text and binary, with native table synchronisation, in turns."""
    rates: dict[str, list[float]] = {}
    async with MergeTopology(subscribers=("sub",), servers="each") as topology:
        for name in ("item", "native"):
            await topology.execute("pub", TABLE.format(name=name))
            await topology.execute("pub", FILL.format(name=name, low=1, high=rows))
        await topology.publish("item")
        columns = TABLE.format(name="native").partition("(")[2].removesuffix(")")
        with tempfile.TemporaryDirectory() as folder:
            made = {
                data_format: (
                    await topology.snapshot(Path(folder) / data_format, data_format=data_format)
                ).location
                for data_format in ("text", "binary")
            }
            for _ in range(rounds):
                for data_format, location in made.items():
                    began = time.perf_counter()
                    await topology.subscribe("sub", snapshot_location=location)
                    rates.setdefault(data_format, []).append(rows / (time.perf_counter() - began))
                    assert await topology.execute("sub", "select count(*) from item") == [(rows,)]
                    await topology.unsubscribe("sub")
                    await topology.execute("sub", DROP)
                native = Native(topology.node("pub").dsn, [topology.node("sub").dsn])
                try:
                    began = time.perf_counter()
                    await asyncio.to_thread(native.replicate, {"native": columns})
                    await asyncio.to_thread(wait, native.copied, "the initial copy")
                    rates.setdefault("native", []).append(rows / (time.perf_counter() - began))
                finally:
                    native.close()
                await topology.execute("sub", DROP)
    return [
        _against(f"merge_snapshot_apply_{name}", target, rates[name], rates["native"])
        for name, target in (("text", 0.8), ("binary", 1.2))
    ]


async def resume(rows: int) -> list[Figure]:
    """Interrupt a delivery after each of its files; return how many are sent twice."""
    sent = 0

    def cut(_: str) -> None:
        raise CutError

    async with MergeTopology(subscribers=("sub",)) as topology:
        await topology.execute("pub", TABLE.format(name="item"))
        await topology.execute("pub", FILL.format(name="item", low=1, high=rows))
        await topology.publish("item")
        with tempfile.TemporaryDirectory() as folder:
            report = await topology.snapshot(folder, part_bytes=2**20)
            for _ in range(report.files):
                topology.points.arm("merge_delivery.file_loaded(sub)", cut)
                try:
                    await topology.subscribe("sub")
                except CutError:
                    sent += 1
                    topology.points.disarm()
            topology.points.disarm()
            last = await topology.subscribe("sub")
            assert last.kept == report.files
        await topology.assert_converged()
    return [
        Figure(
            name="merge_resume",
            value=sent + last.files - report.files,
            unit="files sent again",
            target=0,
            better="lower",
            detail={"files": report.files, "cut": sent},
        )
    ]


async def on_demand(rows: int, rounds: int) -> list[Figure]:
    """Compare the initialisation of one of ten partitions from existing files with SELECT and INSERT row by row."""
    seconds: dict[str, list[float]] = {"select": [], "files": [], "made": [], "rows": []}
    async with MergeTopology(subscribers=("sub",)) as topology:
        await topology.execute("pub", SHOP.format(partitions=PARTITIONS, rows=rows))
        await topology.publish("customer", row_filter="region = msrepl.host_name()")
        expected = [(rows // PARTITIONS,)]

        async def once(name: str, method: InitialisationMethod) -> None:
            began = time.perf_counter()
            report = await topology.subscribe("sub", host_name="r1")
            seconds[name].append(time.perf_counter() - began)
            assert report.method is method
            assert await topology.execute("sub", "select count(*) from customer") == expected
            await topology.unsubscribe("sub")
            await topology.execute("sub", DROP)

        for _ in range(rounds):
            await topology.execute("pub", "delete from msrepl.msmerge_dynamic_snapshots")
            await once("select", InitialisationMethod.SELECT)
            seconds["rows"].append(await _row_by_row(topology))
            with tempfile.TemporaryDirectory() as folder:
                await topology.snapshot(folder)
                await topology.let_subscribers_start_snapshots()
                await once("made", InitialisationMethod.GENERATE)
                await once("files", InitialisationMethod.APPLY)
                await topology.let_subscribers_start_snapshots(False)
    return [
        _against(
            "merge_on_demand",
            2.5,
            [1 / each for each in seconds["files"]],
            [1 / each for each in seconds["rows"]],
            {name: round(median(each), 2) for name, each in seconds.items()},
        )
    ]


async def _row_by_row(topology: MergeTopology) -> float:
    """Return the seconds to copy the same rows by SELECT and one INSERT each, in one transaction."""
    below = await topology.admin("sub")
    began = time.perf_counter()
    await topology.execute("sub", SHOP.partition(";")[0])
    rows = await topology.execute(
        "pub", "select id, region, a, b from customer where region = 'r1'"
    )
    async with below.transaction(), below.cursor() as cursor:
        for row in rows:
            await cursor.execute("insert into customer values (%s, %s, %s, %s)", row)
    seconds = time.perf_counter() - began
    await topology.execute("sub", DROP)
    return seconds


def _against(
    name: str,
    target: float,
    ours: list[float],
    theirs: list[float],
    detail: dict[str, float] | None = None,
) -> Figure:
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return Figure(
        name=name,
        value=median(ratios),
        unit="x",
        target=target,
        better="higher",
        detail={
            "rounds": spread(ratios),
            **(detail or {"rows/s": round(median(ours)), "against": round(median(theirs))}),
        },
    )
