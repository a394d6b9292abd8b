"""A bank with one server per node, so that a test can kill one server without the others."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from tests.drivers.bank import PUB, SUB, Bank
from tests.fix_link import until
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology

LOG = "distribution"
NODES = (PUB, SUB, LOG)


class ApartBank(Bank):
    """A bank on three servers."""

    servers: dict[str, EmbeddedServer]

    async def kill(self, node: str) -> None:
        """Send SIGKILL to a node's server and all its processes."""
        await asyncio.to_thread(self.servers[node].kill)

    async def restart(self, node: str) -> None:
        """Start a node's server again; it replays its WAL and restores prepared transactions."""
        await asyncio.to_thread(self.servers[node].restart)

    async def restart_all(self) -> None:
        """Start every server that is down."""
        for node, server in self.servers.items():
            if not server.is_running():
                await self.restart(node)

    async def kill_backend(self, node: str) -> None:
        """Send SIGKILL to one backend of a node's server; return when the server has recovered."""
        dsn = self.topology.node(node).dsn
        connection = psycopg.connect(dsn, autocommit=True)
        os.kill(connection.info.backend_pid, signal.SIGKILL)

        def is_down() -> bool:
            try:
                connection.execute("select 1")
            except psycopg.OperationalError:
                return True
            return False

        def is_up() -> bool:
            try:
                psycopg.connect(dsn).close()
            except psycopg.OperationalError:
                return False
            return True

        await until(is_down, "the backend to be gone")
        connection.close()
        await until(is_up, "the server to have recovered")


@contextmanager
def apart(**options: str) -> Iterator[ApartBank]:
    """Make a bank on three servers, which stop at the end of the block."""
    with ExitStack() as stack:
        servers = {node: stack.enter_context(EmbeddedServer.start()) for node in NODES}
        for node, server in servers.items():
            server.create_database(node)
        topology = Topology(
            subscribers=(SUB,),
            dsns={node: server.dsn(node) for node, server in servers.items()},
            lock_timeout_ms=1000,
            name="apart",
            keep=True,  # the servers are removed with their databases
        )

        async def make() -> ApartBank:
            await topology.__aenter__()
            made = await ApartBank.open(topology, **options)
            await made.let_go()
            return made

        bank = asyncio.run(make())
        bank.servers = servers
        yield bank
