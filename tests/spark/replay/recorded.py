"""A real topology on which something happened, and the archive of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

from twopc.publisher.log_reader.wal import LOG_READERS
from twopc.server.waiting import wait_for
from twopc.sim.spark.archive import Archive, load, writer
from twopc.sim.topology import Topology


async def execute(topology: Topology, node: str, *statements: str) -> None:
    """One transaction at a node."""
    if node == topology.publisher:
        await topology.execute(node, "; ".join(["begin", *statements, "commit"]))
        return
    async with topology.transaction(node) as transaction:
        for statement in statements:
            await transaction.execute(statement)


async def accumulated(topology: Topology, spark: SparkSession, folder: Path) -> Archive:
    """Everything that was committed at the Publisher, delivered and archived."""
    await topology.sync()
    wanted = load.Wanted(
        dsn=topology.node(topology.distribution).dsn,
        publisher_dsn=topology.node(topology.publisher).dsn,
        partitions=2,
    )

    def work() -> Archive:
        with writer(load.opened(folder, wanted)) as held:
            return load.accumulate(held, spark, wanted, lambda *_: None)

    return await asyncio.to_thread(work)


def nodes(topology: Topology) -> dict[str, str]:
    """Names and connection strings of Publisher and Subscribers."""
    return {name: topology.node(name).dsn for name in (topology.publisher, *topology.subscribers)}


def distributed(topology: Topology) -> dict[str, str]:
    """With the distribution database."""
    return {**nodes(topology), topology.distribution: topology.node(topology.distribution).dsn}


async def rows(topology: Topology, node: str, table: str) -> list[tuple[Any, ...]]:
    """All columns as text, in the order of the key."""
    return await topology.execute(node, f"select * from {table} order by id")


async def agents_elsewhere(topology: Topology) -> None:
    """Let agents run in this process, as if it were another one; returns once the log is being read."""
    await topology.start_agents()
    slot = await topology.registration.slot()
    with psycopg.connect(topology.node(topology.publisher).dsn, autocommit=True) as eyes:
        await asyncio.to_thread(
            wait_for,
            lambda: eyes.execute(LOG_READERS, (slot,)).fetchone() is not None,
            what="the log to be read",
            timeout_s=60,
        )
