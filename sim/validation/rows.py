"""Checksums of rows, read from either end, and the merging of both ends' rows by key.

Independent of moments and of transactions in progress.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from psycopg import AsyncConnection

from twopc.propagation import record_values
from twopc.sql.checksum import ChecksumTexts
from twopc.validation import Key, parse_key

Connection = AsyncConnection[Any]


async def buckets(
    connection: Connection, texts: ChecksumTexts, parameters: Sequence[Any]
) -> dict[int, tuple[int, int]]:
    """Return the number of rows and the checksum of each bucket."""
    cursor = await connection.execute(texts.buckets(), parameters)
    return {bucket: (rows, checksum) for bucket, rows, checksum in await cursor.fetchall()}


async def by_key(
    connection: Connection, texts: ChecksumTexts, parameters: Sequence[Any]
) -> dict[Key, int]:
    """Return the checksums of the rows with the given keys."""
    cursor = await connection.execute(texts.rows_by_key(), parameters)
    return {parse_key(key): checksum for key, checksum in await cursor.fetchall()}


async def values_by_key(
    connection: Connection, texts: ChecksumTexts, parameters: Sequence[Any]
) -> dict[Key, tuple[int, list[str | None]]]:
    """Return the checksums and the values of the rows with the given keys."""
    cursor = await connection.execute(texts.rows_by_key(values=True), parameters)
    return {
        parse_key(key): (
            checksum,
            [None if value is None else value.decode() for value in record_values(row.encode())],
        )
        for key, checksum, row in await cursor.fetchall()
    }


async def rows_of(
    connection: Connection, texts: ChecksumTexts, parameters: Sequence[Any]
) -> AsyncIterator[tuple[int, int, str]]:
    """Yield key's hash, row's hash and key of each row, fetched in blocks."""
    async with connection.cursor(name="msrepl_rows") as cursor:
        cursor.itersize = 5000
        await cursor.execute(texts.rows(), parameters)
        async for row in cursor:
            yield row


async def merged_rows(
    there: AsyncIterator[tuple[int, int, str]], here: AsyncIterator[tuple[int, int, str]]
) -> AsyncIterator[tuple[Key, int | None, int | None]]:
    """Yield every key of either end with the checksums of its rows; both inputs are in the same order."""
    left, right = await anext(there, None), await anext(here, None)
    while left is not None or right is not None:
        at_left = None if left is None else (left[0], left[2])
        at_right = None if right is None else (right[0], right[2])
        first = min(place for place in (at_left, at_right) if place is not None)
        expected = left[1] if left is not None and at_left == first else None
        actual = right[1] if right is not None and at_right == first else None
        yield parse_key(first[1]), expected, actual
        if at_left == first:
            left = await anext(there, None)
        if at_right == first:
            right = await anext(here, None)
