"""A node that refuses everybody: its database takes no connections, and those that it had are ended.

The server goes on, so whoever else has a database there notices nothing. The administrator's connections,
through which is looked and settled, stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.topology import Topology

#: A database that every server has: nobody can shut the door of the one that he is in.
_ELSEWHERE = "postgres"
_END_ALL = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = %s and usename <> current_user
"""


async def cut(topology: Topology | MergeTopology, node: str) -> None:
    """Let nobody in any more, and end the sessions that are there, streaming ones too. Idempotent."""
    await topology.admin(node)  # it must be in before the door is shut
    await _allow(topology, node, allowed=False)


async def restore(topology: Topology | MergeTopology, node: str) -> None:
    """Let everybody in again. Idempotent."""
    await _allow(topology, node, allowed=True)


async def _allow(topology: Topology | MergeTopology, name: str, *, allowed: bool) -> None:
    node = topology.node(name)
    change = sql.SQL("alter database {} with allow_connections {}").format(
        sql.Identifier(node.database), sql.Literal(allowed)
    )
    dsn = node.server.superuser_dsn(_ELSEWHERE)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(change)
        if not allowed:
            await connection.execute(_END_ALL, (node.database,))
