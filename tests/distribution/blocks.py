"""Writes blocks of transactions into a distribution database, as the log reader does."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack
from typing import Any, NamedTuple

from psycopg import AsyncConnection

from twopc.core import CommandScanner, int4_of
from twopc.publisher.log_reader import rows

#: Type, article, hash key and text of a command.
Made = tuple[int, int, int, str]


class LoggedTransaction(NamedTuple):
    """A transaction in the log; see `CommandScanner`."""

    seqno: int
    xid: int
    time_us: int
    originator: int = 0
    marks: int = 0


def begin(scanner: CommandScanner, one: LoggedTransaction) -> None:
    """Begin a transaction."""
    scanner.next_xid = one.xid
    scanner.begin(pack("!cqqI", b"B", one.seqno, one.time_us, one.xid & 0xFFFFFFFF))
    scanner.originator, scanner.marks = one.originator, one.marks


def add(scanner: CommandScanner, commands: Sequence[Made]) -> None:
    """Add commands to the transaction in progress."""
    for kind, article, hashkey, text in commands:
        scanner.add(int4_of(article * 100 + kind), int4_of(hashkey), text.encode())


def commit(scanner: CommandScanner) -> None:
    """Complete the transaction in progress."""
    scanner.commit(bytes(26))


async def write_blocks(
    connection: AsyncConnection[Any],
    publisher: int,
    transactions: Sequence[tuple[LoggedTransaction, Sequence[Made]]],
) -> None:
    """Write transactions with their commands."""
    scanner = CommandScanner(0, 1, pauses=True)
    for transaction, made in transactions:
        begin(scanner, transaction)
        add(scanner, made)
        commit(scanner)
    async with (
        connection.cursor() as cursor,
        cursor.copy(f"copy {rows.BLOCKS} from stdin (format binary)".encode()) as copy,
    ):
        await copy.write(b"".join((rows.HEADER, *rows.blocks(publisher, scanner), rows.TRAILER)))


def moment_us(seconds: float) -> int:
    """Return a Unix time in PostgreSQL's microseconds since 2000."""
    return round((seconds - 946_684_800) * 1_000_000)
