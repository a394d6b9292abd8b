"""A database with merged tables, for tests of tracking alone: no topology, no agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection

from tests.fix_server import Database
from twopc.drivers.merge import tracking
from twopc.publisher.merge import publication

Rows = list[tuple[Any, ...]]


class TrackedDatabase:
    """An administrator's connection to a database, and queries of its metadata."""

    def __init__(self, database: Database, connection: AsyncConnection[Any]) -> None:
        self.database = database
        self.connection = connection

    async def run(self, *statements: str) -> Rows:
        """Execute statements, each in its own transaction, and return the rows of the last one."""
        rows: Rows = []
        for statement in statements:
            cursor = await self.connection.execute(statement.encode())
            rows = await cursor.fetchall() if cursor.description else []
        return rows

    async def publish(self, table: str, **options: Any) -> None:
        """Publish a table, given by its name or by schema and name."""
        schema, _, name = table.rpartition(".")
        await publication.publish(self.connection, schema or "public", name, **options)

    async def close(self) -> tuple[int, int]:
        """Close a generation as an agent does; return the newest one before and after."""
        [(before,)] = await self.run("select max(generation) from msrepl.msmerge_genhistory")
        async with self.connection.transaction():
            await self.connection.execute("set transaction isolation level repeatable read")
            await self.connection.execute(
                "lock table msrepl.msmerge_genhistory in share row exclusive mode"
            )
            cursor = await self.connection.execute("select generation from msrepl.merge_close()")
            row = await cursor.fetchone()
        assert row is not None
        return before, row[0]

    async def versions(self, table: str) -> Rows:
        """Return key `id`, tombstone flag, own and highest version of each row with metadata."""
        return await self.run(
            f"select coalesce(t.id::text, 'gone'), m.gone, m.own, m.top"
            f" from msrepl.msmerge_metadata as m left join {table} as t on t.rowguid = m.rowguid order by 1"
        )


@asynccontextmanager
async def tracked(database: Database, *statements: str) -> AsyncIterator[TrackedDatabase]:
    """Yield a database with merge replication and some tables, none of them published yet."""
    async with await AsyncConnection.connect(database.dsn, autocommit=True) as connection:
        made = TrackedDatabase(database, connection)
        await made.run(*statements)
        await tracking.install(connection)
        yield made
    async with await AsyncConnection.connect(database.dsn, autocommit=True) as connection:
        made = TrackedDatabase(database, connection)
        owner = tracking.owner_role(database.name)
        found = await made.run(f"select 1 from pg_roles where rolname = '{owner}'")
        if found:
            await made.run(
                "drop schema if exists msrepl cascade",
                f"drop owned by {owner}",
                f"drop role {owner}",
            )
