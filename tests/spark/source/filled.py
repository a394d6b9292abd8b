"""A distribution database for tests, filled like the log reader does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import AsyncConnection

from tests.distribution.blocks import LoggedTransaction, Made, moment_us, write_blocks
from tests.distribution.made import article, columns
from tests.fix_server import Database
from twopc.publisher import distribution
from twopc.publisher.log_reader.rows import BLOCK_COMMANDS

#: Separate roles, because roles belong to the whole server.
LOGREADER, AGENT = "spark_logreader", "spark_agent"
#: In seconds since 1970.
TIME = 1_767_225_600
TEXT = '("1","ö ""quoted"" \\\\ ","00000000-0000-0000-0000-000000000001")'
LARGE = BLOCK_COMMANDS * 2 + 10


def made(seqno: int, *commands: Made, originator: int = 0) -> tuple[LoggedTransaction, list[Made]]:
    """Return a transaction."""
    whole = LoggedTransaction(seqno, seqno + 1000, moment_us(TIME + seqno % 1000), originator, 1)
    return whole, list(commands)


#: Blocks: two transactions; one transaction too large for a block; three, the last of two articles.
BLOCKS: Sequence[Sequence[tuple[LoggedTransaction, list[Made]]]] = (
    (made(16, (1, 7, 3, TEXT)), made(32, (2, 7, 4, TEXT), (3, 8, 5, "()"))),
    (made(48, *[(1, 7, 1, TEXT)] * LARGE),),
    (
        made(64, (1, 8, 0, TEXT)),
        made(80, (1, 7, 0, TEXT)),
        made(96, (1, 7, 0, TEXT), (1, 8, 0, TEXT)),
    ),
)


async def _fill(dsn: str) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        for role in (LOGREADER, AGENT):
            await connection.execute(f"create role {role}".encode())
        await distribution.install(connection, LOGREADER, AGENT)
        number = await distribution.register_publisher(connection, "pub", database="db", slot="s")
        await distribution.put_articles(
            connection, number, [article(*columns(3)), article(*columns(2), number=8, table="u")]
        )
        for subscriber in ("north", "south"):
            await distribution.add_originator(
                connection, number, subscriber, database=subscriber, link_role=f"{subscriber}_link"
            )
        await distribution.add_subscription(
            connection, number, 7, "north", originator_id=1, subscription_seqno="0/0"
        )
        for block in BLOCKS:
            await write_blocks(connection, number, block)
        await connection.execute("update msrepl.mspublisher_databases set read_to = '0/60'")


async def _forget(dsn: str) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        found = await connection.execute(
            "select rolname from pg_roles where rolname in (%s, %s)", (LOGREADER, AGENT)
        )
        for (role,) in await found.fetchall():
            await connection.execute(f"drop owned by {role}".encode())
            await connection.execute(f"drop role {role}".encode())


@contextmanager
def filled(database: Database) -> Iterator[str]:
    """Fill the database, and yield its connection string; drop the roles in any case."""
    try:
        asyncio.run(_fill(database.dsn))
        yield database.dsn
    finally:
        asyncio.run(_forget(database.dsn))


async def _store(dsn: str, blocks: Sequence[Sequence[Any]]) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        for block in blocks:
            await write_blocks(connection, 1, block)
            await connection.execute(
                "update msrepl.mspublisher_databases set read_to = '0/0'::pg_lsn + %s::numeric",
                (block[-1][0].seqno,),
            )


def store(dsn: str, *transactions: tuple[LoggedTransaction, list[Made]]) -> None:
    """Store further transactions, each in its own block."""
    asyncio.run(_store(dsn, [[each] for each in transactions]))
