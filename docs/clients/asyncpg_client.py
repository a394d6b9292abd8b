"""asyncpg against a Subscriber; it prepares its statements by itself. Where to connect is in PGHOST and the like."""

from __future__ import annotations

import asyncio
import sys

import asyncpg


async def transfer(connection: asyncpg.Connection, amount: int) -> None:
    """A whole transaction: what it decides on is read in it, so that it can be run again."""
    async with connection.transaction():
        if await connection.fetchval("select balance from account where id = $1", 1) < amount:
            raise ValueError("not enough money")
        await connection.executemany(
            "update account set balance = balance + $1 where id = $2", [(-amount, 1), (amount, 2)]
        )
        await connection.execute("insert into entry (account, amount) values (1, $1)", -amount)


async def main() -> None:
    """Transfer, and try again after a conflict."""
    connection = await asyncpg.connect(
        statement_cache_size=0
    )  # 0: for a pooler in transaction mode
    try:
        for attempt in range(1, 11):
            try:
                await transfer(connection, 10)
            except asyncpg.SerializationError as error:  # 40001
                print(f"attempt {attempt}: {error.sqlstate} {error.detail}", flush=True)
                await asyncio.sleep(0.05 * 2**attempt)  # until the Subscriber has got what it lacks
            else:
                print("transferred")
                return
    finally:
        await connection.close()
    sys.exit("gave up")


if __name__ == "__main__":
    asyncio.run(main())
