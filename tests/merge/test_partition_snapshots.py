"""Snapshots of partitions in files: their rows, who may have one made, and who shares it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fix_merge import converge
from tests.merge.partitions import assert_mapped, publish_shop
from twopc.errors import ConfigurationError, MergeError
from twopc.merge.ladder import InitialisationMethod
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology


async def test_a_partition_each(server: EmbeddedServer, tmp_path: Path) -> None:
    """A folder has the rows of its partition only, and its place does not depend on host names."""
    async with MergeTopology(server=server, subscribers=("anna", "ben", "cleo")) as topology:
        await publish_shop(topology)
        tables = await topology.snapshot(tmp_path)
        assert (tables.rows, tables.generation) == (0, None)
        north = await topology.snapshot(tmp_path, host_name="north")
        assert north.rows == 3 + 1
        odd = await topology.snapshot(tmp_path, host_name="../../x")
        assert Path(odd.location).parent == Path(north.location).parent == Path(tables.location)
        await topology.execute("pub", "update customer set region = 'south' where id = 1")
        assert (await topology.subscribe("anna", host_name="north")).location == north.location
        assert await topology.execute("anna", "select id from purchase") == [(1,)]
        with pytest.raises(MergeError, match=r"'north', and cleo has 'south': name"):
            await topology.subscribe("cleo", host_name="south", snapshot_location=north.location)
        with pytest.raises(MergeError, match=r"has no rows.*20631"):
            await topology.subscribe("cleo", host_name="south", snapshot_location=tables.location)
        with pytest.raises(ConfigurationError, match=r"host_name is missing.*20698"):
            await topology.snapshot(tmp_path, login="cleo")
        report = await topology.subscribe("cleo", host_name="south")
        assert report.method is InitialisationMethod.SELECT
        await converge(topology)
        assert await topology.execute("anna", "select id from purchase") == []


@pytest.mark.parametrize("may_start", [True, False], ids=["on demand", "by an administrator"])
async def test_a_snapshot_that_describes_a_former_table(
    server: EmbeddedServer, tmp_path: Path, may_start: bool
) -> None:
    """A Subscriber that may start snapshots gets a new one.

    For any other Subscriber the message names the remedy, which works.
    """
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        await publish_shop(topology)
        await topology.let_subscribers_start_snapshots(may_start)
        await topology.snapshot(tmp_path)
        await topology.snapshot(tmp_path, host_name="north")
        await topology.execute("pub", "alter table purchase alter column total set default 7")
        if not may_start:
            outdated = r"table purchase was altered since.*: run the Snapshot Agent again \(20655\)"
            with pytest.raises(MergeError, match=outdated):
                await topology.subscribe("anna", host_name="north")
            assert not await topology.merges("anna")
            await topology.snapshot(host_name="north")
        report = await topology.subscribe("anna", host_name="north")
        assert (report.method is InitialisationMethod.GENERATE) == may_start
        shared = await topology.subscribe("ben", host_name="north")
        assert shared.method is InitialisationMethod.APPLY
        await topology.execute("anna", "insert into purchase (id, customer) values (7, 1)")
        await topology.settle()
        assert await topology.execute("ben", "select total from purchase where id = 7") == [(7,)]
        await topology.assert_converged()


async def test_snapshots_that_subscribers_start(server: EmbeddedServer, tmp_path: Path) -> None:
    """A snapshot is made for the first Subscriber of a partition, and the second one shares it."""
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        await publish_shop(topology)
        await topology.let_subscribers_start_snapshots()
        with pytest.raises(MergeError, match=r"no folder is known for it.*20631"):
            await topology.subscribe("anna", host_name="north")
        await topology.snapshot(tmp_path)
        first = await topology.subscribe("anna", host_name="north")
        second = await topology.subscribe("ben", host_name="north")
        assert (first.method, second.method) == (
            InitialisationMethod.GENERATE,
            InitialisationMethod.APPLY,
        )
        assert first.location == second.location
        await converge(topology)


@pytest.mark.parametrize("former", ["subscriber", "partition", "article", "snapshot"])
async def test_a_table_published_while_its_partition_exists(
    server: EmbeddedServer, tmp_path: Path, former: str
) -> None:
    """The rows of a filtered table reach a partition that was there before the table was published."""
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        for table in ("customer", "visit"):
            await topology.execute("pub", f"create table {table} (id int primary key, region text)")
            await topology.execute("pub", f"insert into {table} values (1, 'anna'), (2, 'other')")
        host = "region = msrepl.host_name()"
        await topology.publish("customer", row_filter=host)
        if former == "partition":
            await topology.add_partition("anna")
        elif former == "snapshot":
            await topology.snapshot(tmp_path, host_name="anna")
        else:
            await topology.subscribe("anna")
            await topology.unsubscribe("anna")
            await topology.execute("anna", "drop table customer")
        if former == "article":
            await topology.unpublish("customer")
            await topology.publish("customer", row_filter=host)
        await topology.publish("visit", row_filter=host)
        if former == "snapshot":  # the former one is outdated
            await topology.snapshot(tmp_path, host_name="anna")
        await topology.subscribe("anna")
        for table in ("customer", "visit"):
            assert await topology.execute("anna", f"select id from {table}") == [(1,)]
        await assert_mapped(topology)
        await converge(topology)
