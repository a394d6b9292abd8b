"""What an archive says of the rows of a real topology, at its end and before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.replay.recorded import accumulated, execute, nodes, rows
from twopc.sim.spark.replay import onto_rows
from twopc.sim.spark.replay.rows import NothingError
from twopc.sim.spark.source.facts import facts
from twopc.sim.topology import Topology

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


async def test_time_travel_against_real_tables(
    make_topology: Callable[..., Awaitable[Topology]], spark: SparkSession, tmp_path: Path
) -> None:
    topology = await make_topology(subscribers=("north", "south"))
    for statement in (
        "create table account (id int primary key, owner text, amount numeric(12, 2) not null)",
        "create table note (id int primary key, said text)",
        "insert into account select n, 'o' || n, n * 1.10 from generate_series(1, 20) n",
    ):
        await topology.execute("pub", statement)
    await topology.publish("account", propagate={"upd": "XCALL"})
    await topology.publish("note")
    for name in topology.subscribers:
        await topology.subscribe(name)
    archive = await accumulated(topology, spark, tmp_path / "archive")
    assert archive.manifest.base
    await execute(topology, "north", "update account set owner = null, amount = 0.5 where id = 3")
    await execute(
        topology,
        "pub",
        "delete from account where id = 4",
        "insert into note values (1, 'a \"b\", \\c')",
    )
    await execute(topology, "south", "update account set amount = -amount where id > 15")
    middle = await rows(topology, "pub", "account")
    await topology.sync()
    then = facts(topology.node(topology.distribution).dsn).read_to
    await execute(topology, "pub", "update account set id = id + 100 where id < 4")
    await execute(
        topology,
        "north",
        "insert into note values (2, null)",
        "update note set said = 'x' where id = 1",
    )
    archive = await accumulated(topology, spark, tmp_path / "archive")

    folder = tmp_path / "out"
    report = await asyncio.to_thread(
        onto_rows, archive, spark, upto=then, articles=["account"], out=folder
    )
    assert report.total == 0
    read = spark.read.parquet(str(folder / "rows")).collect()
    assert {tuple(row.key): row["values"] for row in read} == {
        (str(row[0]),): [None if each is None else str(each) for each in row] for row in middle
    }

    await topology.execute(
        "south",
        "begin; set local session_replication_role = replica;"
        " update account set amount = 7 where id = 10; delete from note where id = 2; commit",
    )
    report = await asyncio.to_thread(onto_rows, archive, spark, against=nodes(topology))
    first, second = report.shown(10)
    assert (first["article"], first["key"]) == ("account", ["10"])
    assert (first["expected"], first["actual"]) == ("amount '11.00'", "amount '7.00' at south")
    assert (second["article"], second["key"], second["actual"]) == (
        "note",
        ["2"],
        "no row at south",
    )
    assert second["expected"].startswith("id '2', said NULL, msrepl_tran_version '")
    assert report.classes == {"state": 2}
    only_south = {"south": nodes(topology)["south"]}
    with pytest.raises(NothingError, match="no article 'acount'"):
        onto_rows(archive, spark, articles=["acount"])
    with pytest.raises(NothingError, match="no node 'west'"):
        onto_rows(archive, spark, against={"west": only_south["south"]})
