"""A real topology with transactions, and its archive.

`recorded_bank` of `tests.fix_spark` is created once: a test that changes its topology restores it,
and a test that writes to its archive copies the folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from anyio.from_thread import start_blocking_portal
from pyspark.sql import SparkSession

from twopc.publisher.log_reader.wal import LOG_READERS
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim.spark.archive import Archive, load, writer
from twopc.sim.spark.source.facts import facts
from twopc.sim.topology import Topology


async def execute(topology: Topology, node: str, *statements: str) -> None:
    """Execute one transaction at a node."""
    if node == topology.publisher:
        await topology.execute(node, "; ".join(["begin", *statements, "commit"]))
        return
    async with topology.transaction(node) as transaction:
        for statement in statements:
            await transaction.execute(statement)


async def accumulated(topology: Topology, spark: SparkSession, folder: Path) -> Archive:
    """Deliver and archive everything that was committed at the Publisher; return the archive."""
    await topology.sync()
    wanted = load.LoadRequest(
        dsn=topology.node(topology.distribution).dsn,
        publisher_dsn=topology.node(topology.publisher).dsn,
        partitions=2,
    )

    def work() -> Archive:
        with writer(load.opened(folder, wanted)) as held:
            return load.accumulate(held, spark, wanted, lambda *_: None)

    return await asyncio.to_thread(work)


def nodes(topology: Topology) -> dict[str, str]:
    """Return names and connection strings of Publisher and Subscribers."""
    return {name: topology.node(name).dsn for name in (topology.publisher, *topology.subscribers)}


def distributed(topology: Topology) -> dict[str, str]:
    """Return the same with the distribution database."""
    return {**nodes(topology), topology.distribution: topology.node(topology.distribution).dsn}


async def agents_elsewhere(topology: Topology) -> None:
    """Run agents in this process, in place of another one; return once the log is being read."""
    await topology.start_agents()
    slot = await topology.registration.slot()
    with psycopg.connect(topology.node(topology.publisher).dsn, autocommit=True) as eyes:
        await asyncio.to_thread(
            wait_for,
            lambda: eyes.execute(LOG_READERS, (slot,)).fetchone() is not None,
            what="the log to be read",
            timeout_s=60,
        )


# -- shared ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBank:
    """A topology with accounts and notes, which still runs, and its archive."""

    nodes: dict[str, str]
    """Names and connection strings of Publisher and Subscribers."""
    distribution: str
    archive: Archive
    middle: int
    """A position between transactions."""
    accounts: Sequence[tuple[Any, ...]]
    """The Publisher's accounts at that position."""

    def rows(self, node: str, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query at a node."""
        with psycopg.connect(self.nodes[node]) as connection:
            return connection.execute(query.encode()).fetchall()

    def as_agent(self, node: str, *statements: str) -> None:
        """Change rows without firing triggers, in one transaction."""
        with psycopg.connect(self.nodes[node]) as connection:
            connection.execute("set local session_replication_role = replica")
            for each in statements:
                connection.execute(each.encode())


async def make_bank(topology: Topology) -> None:
    """Create and publish twenty accounts and an empty table of notes, with two Subscribers."""
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
    await topology.sync()


async def _record(topology: Topology, spark: SparkSession, folder: Path) -> RecordedBank:
    """Run 25 transactions after the bases: 13 share row 1, directly or indirectly, and 9 share row 9."""
    await make_bank(topology)
    await accumulated(topology, spark, folder)
    for step in range(3):
        for node in ("north", "south", "pub"):
            transfer = f"update account set amount = amount + {step + 1} where id ="
            await execute(topology, node, f"{transfer} 1", f"{transfer} {step + 3}")
            await execute(topology, node, f"{transfer} 9")
            await topology.sync()
    await execute(topology, "north", "update account set owner = null, amount = 0.5 where id = 3")
    await execute(
        topology,
        "pub",
        "delete from account where id = 4",
        "insert into note values (1, 'a \"b\", \\c')",
    )
    await execute(topology, "south", "update account set amount = -amount where id > 15")
    accounts = await topology.execute("pub", "select * from account")
    await topology.sync()
    middle = facts(topology.node(topology.distribution).dsn).read_to
    await execute(
        topology,
        "north",
        "delete from account where id = 2",
        "insert into account values (22, null, 0)",
    )
    await execute(topology, "south", "update account set id = 21 where id = 10")
    await execute(topology, "pub", "update account set id = id + 100 where id in (1, 3)")
    await execute(
        topology,
        "north",
        "insert into note values (2, null)",
        "update note set said = 'x' where id = 1",
    )
    return RecordedBank(
        nodes=nodes(topology),
        distribution=topology.node(topology.distribution).dsn,
        archive=await accumulated(topology, spark, folder),
        middle=middle,
        accounts=accounts,
    )


@contextmanager
def recorded(server: EmbeddedServer, spark: SparkSession, folder: Path) -> Iterator[RecordedBank]:
    """Record the bank on a separate event loop, since it outlives those of tests."""
    with start_blocking_portal("asyncio") as portal:
        stack = AsyncExitStack()

        async def make() -> RecordedBank:
            made = Topology(server=server, subscribers=("north", "south"))
            return await _record(await stack.enter_async_context(made), spark, folder)

        try:
            yield portal.call(make)
        finally:
            portal.call(stack.aclose)
