"""Writes blocks of transactions into a distribution database, as the log reader does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from twopc.publisher.log_reader import rows
from twopc.publisher.log_reader.rows import CommandColumns, LoggedTransaction, TransactionColumns

#: Type, article, hash key and text of a command.
Made = tuple[int, int, int, str]


async def write_blocks(
    connection: AsyncConnection[Any],
    publisher: int,
    transactions: Sequence[tuple[LoggedTransaction, Sequence[Made]]],
) -> None:
    """Write transactions with their commands; counts and lengths are computed here."""
    commands, whole = CommandColumns(), TransactionColumns()
    for transaction, made in transactions:
        length = 0
        for kind, article, hashkey, text in made:
            raw = text.encode()
            length += len(raw)
            commands.add(article * 100 + kind, hashkey, raw)
        whole.add(transaction._replace(commands=len(made), length=length))
    async with (
        connection.cursor() as cursor,
        cursor.copy(f"copy {rows.BLOCKS} from stdin (format binary)".encode()) as copy,
    ):
        await copy.write(
            b"".join((rows.HEADER, *rows.blocks(publisher, whole, commands), rows.TRAILER))
        )


def moment_us(seconds: float) -> int:
    """Return a Unix time in PostgreSQL's microseconds since 2000."""
    return round((seconds - 946_684_800) * 1_000_000)
