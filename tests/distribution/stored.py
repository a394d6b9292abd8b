"""A distribution database, filled by hand as the log reader and the agents fill it."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from publisher import distribution
from twopc.distributed import DistributedArticle

Connection = AsyncConnection[Any]


async def rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    """Look."""
    return await (await connection.execute(query.encode())).fetchall()


async def register(connection: Connection, *articles: DistributedArticle) -> int:
    """A Publisher with these articles."""
    number = await distribution.register_publisher(connection, "pub", database="db", slot="s")
    await distribution.put_articles(connection, number, articles)
    return number


async def store(
    connection: Connection, publisher: int, seqno: str, commands: int, age: str = "0"
) -> None:
    """A transaction as the log reader stores it."""
    await connection.execute(
        """
        insert into msrepl.msrepl_transactions
            (publisher_database_id, xact_seqno, xact_id, entry_time, commands)
        values (%s, %s, '1', clock_timestamp() - %s::interval, %s)
        """,
        (publisher, seqno, age, commands),
    )
    await connection.execute(
        """
        insert into msrepl.msrepl_commands
            (publisher_database_id, xact_seqno, command_id, article_id, type, hashkey, command)
        select %s, %s, n, 7, 1, 1, '("1","2","00000000-0000-0000-0000-000000000001")'
        from generate_series(1, %s) as n
        """,
        (publisher, seqno, commands),
    )


async def store_command(
    connection: Connection,
    publisher: int,
    seqno: str,
    command_id: int,
    command: str,
    *,
    kind: int,
    article: int = 7,
    originator: int | None = None,
) -> None:
    """One command of a transaction that is there or not."""
    await connection.execute(
        """
        insert into msrepl.msrepl_transactions
            (publisher_database_id, xact_seqno, xact_id, entry_time, originator_id, commands)
        values (%s, %s, '1', '2024-01-01 00:00+00', %s, 1)
        on conflict (publisher_database_id, xact_seqno) do update set commands = msrepl_transactions.commands + 1
        """,
        (publisher, seqno, originator),
    )
    await connection.execute(
        """
        insert into msrepl.msrepl_commands
            (publisher_database_id, xact_seqno, command_id, article_id, type, originator_id, command)
        values (%s, %s, %s, %s, %s, %s, %s)
        """,
        (publisher, seqno, command_id, article, kind, originator, command),
    )
