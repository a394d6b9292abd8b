"""Tests of replaying the transactions of one real topology on another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pyspark.sql import SparkSession

from tests.spark.replay.recorded import RecordedBank, agents_elsewhere, distributed, make_bank
from twopc.sim.replay.lanes import Sync
from twopc.sim.replay.topology import ledger
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.replay.archive import PostgresOptions, onto_postgres
from twopc.sim.topology import Topology

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

MakeTopology = Callable[..., Awaitable[Topology]]


async def test_transactions_that_share_rows_keep_their_order(
    recorded_bank: RecordedBank, make_topology: MakeTopology, spark: SparkSession
) -> None:
    """Transactions that share rows keep their order, although two tasks run concurrently."""
    recorded, archive = recorded_bank, recorded_bank.archive
    with pytest.raises(PipelineError, match="pub is the Publisher that was recorded"):
        everything = {**recorded.nodes, "distribution": recorded.distribution}
        await asyncio.to_thread(onto_postgres, archive, spark, everything, PostgresOptions())

    target = await make_topology(subscribers=("north", "south"))
    await make_bank(target)
    await agents_elsewhere(target)  # the replay does not run agents
    options = PostgresOptions()
    report = await asyncio.to_thread(onto_postgres, archive, spark, distributed(target), options)
    assert report.shown(10) == []
    assert report.classes == {"rowcount": 0, "outcome": 0, "error": 0, "state": 0}
    assert report.counts == {"transactions": 25, "replayed": 25, "found": 0}
    assert report.figures == {"largest_unit_share": 0.52}
    assert "  skew: the largest unit had 13 of 25 transactions (52%)" in report.lines(limit=0)
    query = "select id, owner, amount from account order by id"
    meant = recorded.rows("pub", query)
    assert await target.execute("south", query) == meant
    assert await target.execute("pub", "select to_regnamespace('twopc_replay')") == [(None,)]

    # without order and delivery, resumed after the first transaction
    other = await make_topology(subscribers=("north", "south"))
    await make_bank(other)
    await other.stop_agents()
    await ledger(other, ("pub", *other.subscribers), there=True)
    noted = "insert into twopc_replay.done select 'r', %s"
    (first,) = archive.transactions(spark).where("commands > 0").orderBy("seqno").limit(1).collect()
    await other.execute("north", noted, (first["seqno"],))
    options = PostgresOptions(sync=Sync.off, resume="r", speed=1000)
    report = await asyncio.to_thread(onto_postgres, archive, spark, distributed(other), options)
    assert report.counts["transactions"] == 25
    assert report.counts["found"] == 1
    assert report.classes["outcome"] >= 1
    # the second Subscriber to change row 1 lacks the first one's change
    refused = [each["actual"] for each in report.shown(1000) if each["class"] == "outcome"]
    assert any(each.startswith("rejected: version_mismatch") for each in refused)
    # The final rows depend on the random order; every row that differs is reported, at each node.
    differ = [
        str(key)
        for node in ("pub", *other.subscribers)
        for key in {row[0] for row in set(meant) ^ set(await other.execute(node, query))}
    ]
    named = [
        each["key"]
        for each in report.shown(1000)
        if (each["class"], each["article"]) == ("state", "account")
    ]
    assert sorted(named) == sorted([key] for key in differ)
    assert report.pace["lag_p99_s"] >= report.pace["lag_p50_s"] >= 0
