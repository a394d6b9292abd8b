"""Backups of a node's database at the level of its files, for tests and scenarios.

The copy is another database of the same server. It is restored under the same OID: transaction IDs and the OID keep
their meaning, as after a restore of the whole server from a base backup.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.errors import ConfigurationError
from twopc.publisher.merge import publication
from twopc.server.databases import let_go
from twopc.sim.topology.nodes import Node, in_thread

Connection = AsyncConnection[Any]

#: A database that every server has; a session cannot replace the database that it is connected to.
_ELSEWHERE = "postgres"
_OID = "select oid from pg_database where datname = %s"
_MERGES = "select to_regclass('msrepl.sysmergearticles') is not null"
_END_ALL = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s"


async def back_up(node: Node) -> None:
    """Back up a node, replacing an earlier backup. Sessions connected to it are terminated.

    Raises:
        ConfigurationError: the database existed before the topology.
    """
    _refuse_others(node)
    kept = _backup_name(node)
    await drop_backup(node)
    async with _exclusively(node) as connection:
        await connection.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(kept), sql.Identifier(node.database)
            )
        )


async def restore_backup(node: Node) -> None:
    """Restore a node from its backup, which is kept. Sessions connected to it are terminated.

    Raises:
        ConfigurationError: there is no backup, or the database existed before the topology.
    """
    _refuse_others(node)
    was_kept = await in_thread(_unprotect, node)
    async with _exclusively(node) as connection:
        [oid] = await (await connection.execute(_OID, (node.database,))).fetchone() or (0,)
        here = sql.Identifier(node.database)
        await connection.execute(sql.SQL("drop database {} with (force)").format(here))
        await connection.execute(
            sql.SQL("create database {} template {} oid {}").format(
                here, sql.Identifier(_backup_name(node)), sql.Literal(oid)
            )
        )
    if was_kept:  # the copy lacks the protection from being dropped
        async with await node.connect() as connection, connection.transaction():
            if await (await connection.execute(_MERGES)).fetchone() == (True,):
                await publication.keep(connection)


async def drop_backup(node: Node) -> None:
    """Drop a node's backup; no effect without one."""
    await in_thread(node.server.drop_database, _backup_name(node))


def _unprotect(node: Node) -> bool:
    """Remove the protection of a backed-up database from being dropped; return whether there was one."""
    with psycopg.connect(node.server.superuser_dsn(_ELSEWHERE), autocommit=True) as admin:
        if not admin.execute(_OID, (_backup_name(node),)).rowcount:
            raise ConfigurationError(f"{node.name} has no backup: `back_up` it first")
        return let_go(admin, node.database, node.server.superuser_dsn(node.database))


def _backup_name(node: Node) -> str:
    return names.bounded(f"{node.database}_backup")


def _refuse_others(node: Node) -> None:
    if not node.embedded:
        raise ConfigurationError(
            f"{node.name}: its database was there already: back it up and restore it as your server does, and tell "
            f"`twopc merge rewound {node.name}`"
        )


@asynccontextmanager
async def _exclusively(node: Node) -> AsyncIterator[Connection]:
    """Yield a connection to another database of the server, and refuse connections to the node's database
    meanwhile.
    """
    allow = sql.SQL("alter database {} with allow_connections {}")
    here = sql.Identifier(node.database)
    dsn = node.server.superuser_dsn(_ELSEWHERE)
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(allow.format(here, sql.Literal(False)))
        try:
            await connection.execute(_END_ALL, (node.database,))
            yield connection
        finally:
            await connection.execute(allow.format(here, sql.Literal(True)))
