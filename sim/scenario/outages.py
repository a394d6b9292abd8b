"""Outages of nodes: the node's database allows no connections, and its existing ones are terminated.

Other databases of the server are not affected. The administrator's connections, which inspect and settle, are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.topology import Topology

#: A database of every server: connections to the current database cannot be disallowed.
_MAINTENANCE_DATABASE = "postgres"
_END_ALL = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = %s and usename <> current_user
"""


async def cut(topology: Topology | MergeTopology, node: str) -> None:
    """Disallow connections to a node, and terminate the existing sessions, including walsenders. Idempotent."""
    await topology.admin(node)  # it must be connected before connections are disallowed
    await _allow(topology, node, allowed=False)


async def restore(topology: Topology | MergeTopology, node: str) -> None:
    """Allow connections to a node again. Idempotent."""
    await _allow(topology, node, allowed=True)


async def _allow(topology: Topology | MergeTopology, name: str, *, allowed: bool) -> None:
    node = topology.node(name)
    change = sql.SQL("alter database {} with allow_connections {}").format(
        sql.Identifier(node.database), sql.Literal(allowed)
    )
    dsn = node.server.superuser_dsn(_MAINTENANCE_DATABASE)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(change)
        if not allowed:
            await connection.execute(_END_ALL, (node.database,))
