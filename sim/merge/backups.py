"""Backups of a node's database as its server's files have it, for tests and scenarios.

The copy lies beside the database on the same server. It is put back under the same identity: transaction ids and the
database's own go on to mean what they meant, as after a restore of the whole server from a base backup.
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

#: A database that every server has: nobody can replace the one that he is in.
_ELSEWHERE = "postgres"
_OID = "select oid from pg_database where datname = %s"
_MERGES = "select to_regclass('msrepl.sysmergearticles') is not null"
_END_ALL = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s"


async def back_up(node: Node) -> None:
    """Keep what a node holds, in place of what was kept before. Whoever is connected there is cut off.

    Raises:
        ConfigurationError: the database was there before the topology.
    """
    _refuse_others(node)
    kept = _kept(node)
    await drop_backup(node)
    async with _alone(node) as connection:
        await connection.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(kept), sql.Identifier(node.database)
            )
        )


async def restore_backup(node: Node) -> None:
    """Put a node back to what `back_up` has kept, which stays. Whoever is connected there is cut off.

    Raises:
        ConfigurationError: nothing was kept, or the database was there before the topology.
    """
    _refuse_others(node)
    was_kept = await in_thread(_let_go, node)
    async with _alone(node) as connection:
        [oid] = await (await connection.execute(_OID, (node.database,))).fetchone() or (0,)
        here = sql.Identifier(node.database)
        await connection.execute(sql.SQL("drop database {} with (force)").format(here))
        await connection.execute(
            sql.SQL("create database {} template {} oid {}").format(
                here, sql.Identifier(_kept(node)), sql.Literal(oid)
            )
        )
    if was_kept:  # a copy of a database has not what keeps it
        async with await node.connect() as connection, connection.transaction():
            if await (await connection.execute(_MERGES)).fetchone() == (True,):
                await publication.keep(connection)


async def drop_backup(node: Node) -> None:
    """Throw away what was kept; harmless if nothing was."""
    await in_thread(node.server.drop_database, _kept(node))


def _let_go(node: Node) -> bool:
    """Let a database be dropped of which there is a backup; whether something kept it."""
    with psycopg.connect(node.server.superuser_dsn(_ELSEWHERE), autocommit=True) as admin:
        if not admin.execute(_OID, (_kept(node),)).rowcount:
            raise ConfigurationError(f"{node.name} has no backup: `back_up` it first")
        return let_go(admin, node.database, node.server.superuser_dsn(node.database))


def _kept(node: Node) -> str:
    return names.bounded(f"{node.database}_backup")


def _refuse_others(node: Node) -> None:
    if not node.embedded:
        raise ConfigurationError(
            f"{node.name}: its database was there already: back it up and restore it as your server does, and tell "
            f"`twopc merge rewound {node.name}`"
        )


@asynccontextmanager
async def _alone(node: Node) -> AsyncIterator[Connection]:
    """A connection to another database of the server; connections to the node's database are refused meanwhile."""
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
