"""A distribution database that tests fill as the log reader and the agents do."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from tests.distribution.blocks import LoggedTransaction, moment_us, write_blocks
from twopc.distributed_article import DistributedArticle
from twopc.lsn import lsn_value
from twopc.publisher import distribution

Connection = AsyncConnection[Any]


async def rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query's result."""
    return await (await connection.execute(query.encode())).fetchall()


async def register(connection: Connection, *articles: DistributedArticle) -> int:
    """Register a Publisher with these articles, and return its number."""
    number = await distribution.register_publisher(connection, "pub", database="db", slot="s")
    await distribution.put_articles(connection, number, articles)
    return number


async def store(
    connection: Connection, publisher: int, seqno: str, commands: int, age: str = "0"
) -> None:
    """Store a transaction as the log reader does."""
    cursor = await connection.execute(
        "select extract(epoch from clock_timestamp() - %s::interval)::float8", (age,)
    )
    row = await cursor.fetchone()
    assert row is not None
    text = '("1","2","00000000-0000-0000-0000-000000000001")'
    whole = LoggedTransaction(lsn_value(seqno), 1, moment_us(row[0]), 0)
    await write_blocks(connection, publisher, [(whole, [(1, 7, 1, text)] * commands)])


async def store_in_part(connection: Connection, seqno: str) -> None:
    """Change a stored transaction so that its last part seems to be missing."""
    await connection.execute(
        "with part as (update msrepl.msrepl_blocks set transactions = 0 where last_seqno = %(seqno)s) "
        "update msrepl.mspublisher_databases set open_seqno = %(seqno)s",
        {"seqno": seqno},
    )


async def store_commands(
    connection: Connection,
    publisher: int,
    seqno: str,
    *commands: tuple[int, int, str],
    originator: int | None = None,
) -> None:
    """Store a transaction committed at the beginning of 2024, with commands of type, article and text."""
    whole = LoggedTransaction(lsn_value(seqno), 1, moment_us(1_704_067_200), originator or 0)
    made = [(kind, article, 0, text) for kind, article, text in commands]
    await write_blocks(connection, publisher, [(whole, made)])
