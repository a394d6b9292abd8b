"""Transactions of one real topology, carried out on another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.replay.recorded import accumulated, agents_elsewhere, distributed, execute
from twopc.sim.replay.lanes import Sync
from twopc.sim.replay.topology import ledger
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.replay.archive import PostgresOptions, onto_postgres
from twopc.sim.topology import Topology

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MakeTopology = Callable[..., Awaitable[Topology]]


async def bank(make_topology: MakeTopology) -> Topology:
    """Ten accounts, and two Subscribers that have them."""
    topology = await make_topology(subscribers=("north", "south"))
    await topology.execute("pub", "create table account (id int primary key, amount numeric(8, 2))")
    await topology.execute("pub", "insert into account select n, 10 from generate_series(1, 10) n")
    await topology.publish("account")
    for name in topology.subscribers:
        await topology.subscribe(name)
    await topology.sync()
    return topology


async def test_transactions_that_share_rows_keep_their_order(
    make_topology: MakeTopology, spark: SparkSession, tmp_path: Path
) -> None:
    """Whoever writes a row has what others wrote to it, although two tasks work at once."""
    recorded = await bank(make_topology)
    await accumulated(recorded, spark, tmp_path / "archive")
    for step in range(3):
        for node in ("north", "south", "pub"):
            transfer = f"update account set amount = amount + {step + 1} where id ="
            await execute(recorded, node, f"{transfer} 1", f"{transfer} {step + 3}")
            await execute(recorded, node, f"{transfer} 9")
            await recorded.sync()
    await execute(
        recorded,
        "north",
        "delete from account where id = 2",
        "insert into account values (20, null)",
    )
    await execute(recorded, "south", "update account set id = 21 where id = 10")
    archive = await accumulated(recorded, spark, tmp_path / "archive")

    with pytest.raises(PipelineError, match="pub is the Publisher that was recorded"):
        await asyncio.to_thread(
            onto_postgres, archive, spark, distributed(recorded), PostgresOptions()
        )

    target = await bank(make_topology)
    await agents_elsewhere(target)  # they run elsewhere, for whoever replays
    options = PostgresOptions()
    report = await asyncio.to_thread(onto_postgres, archive, spark, distributed(target), options)
    assert report.shown(10) == []
    assert report.classes == {"rowcount": 0, "outcome": 0, "error": 0, "state": 0}
    assert report.counts == {"transactions": 20, "replayed": 20, "found": 0}
    # row 1 is in nine transactions, row 9 in nine others
    assert report.figures == {"largest_unit_share": 0.45}
    assert "  skew: the largest unit had 9 of 20 transactions (45%)" in report.lines(limit=0)
    query = "select id, amount from account order by id"
    assert await target.execute("south", query) == await recorded.execute("south", query)
    assert await target.execute("pub", "select to_regnamespace('twopc_replay')") == [(None,)]

    # without order and delivery, going on with one of which the first transaction is done
    other = await bank(make_topology)
    await other.stop_agents()
    await ledger(other, ("pub", *other.subscribers), there=True)
    noted = "insert into twopc_replay.done select 'r', %s"
    (first,) = archive.transactions(spark).where("commands > 0").orderBy("seqno").limit(1).collect()
    await other.execute("north", noted, (first["seqno"],))
    options = PostgresOptions(sync=Sync.off, resume="r", speed=1000)
    report = await asyncio.to_thread(onto_postgres, archive, spark, distributed(other), options)
    assert report.counts["transactions"] == 20
    assert report.counts["found"] == 1
    assert report.classes["outcome"] >= 1
    # of both Subscribers, whichever comes second to row 1 has not got what the first one wrote
    refused = [each["actual"] for each in report.shown(100) if each["class"] == "outcome"]
    assert any(each.startswith("rejected: version_mismatch") for each in refused)
    # which rows come out otherwise depends on the order that was drawn: those that do are named, at each node
    meant = set(await recorded.execute("pub", query))
    differ = [
        str(key)
        for node in ("pub", *other.subscribers)
        for key in {row[0] for row in meant ^ set(await other.execute(node, query))}
    ]
    named = [each["key"] for each in report.shown(100) if each["class"] == "state"]
    assert sorted(named) == sorted([key] for key in differ)
    assert report.pace["lag_p99_s"] >= report.pace["lag_p50_s"] >= 0
