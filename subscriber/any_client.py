"""Let any client of a Subscriber change subscribed tables: its own COMMIT prepares the Publisher's branch and
decides.

Knows nothing of who finishes that branch (`twopc.drivers.resolver`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from twopc import names
from twopc.errors import SubscriptionError

__all__ = ["CHANNEL", "AnyClient", "allow", "check_subscribed", "forbid", "found"]

Connection = AsyncConnection[Any]

#: On which a Subscriber tells of branches that its clients have decided: their gids there.
CHANNEL = "msrepl_any_client"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyClient:
    """In whose name the transactions of a Subscriber's clients become global ones."""

    coordinator: str
    epoch: int

    @property
    def prefix(self) -> str:
        """How their gids begin."""
        return f"{names.PREFIX}:{self.coordinator}:{self.epoch}:"


async def allow(connection: Connection, any_client: AnyClient) -> None:
    """Let any client in from now on. Harmless if it is.

    Args:
        any_client: the epoch must be this Subscriber's alone, of the variant ``last_agent``.

    Raises:
        SubscriptionError: the database subscribes to nothing.
    """
    async with connection.transaction():
        await check_subscribed(connection)
        await connection.execute(
            """
            insert into msrepl.any_client (coordinator, epoch) values (%s, %s)
            on conflict (only_one) do update set coordinator = excluded.coordinator, epoch = excluded.epoch
            """,
            (any_client.coordinator, any_client.epoch),
        )


async def forbid(connection: Connection) -> AnyClient | None:
    """Let only a coordinator's transactions change subscribed tables from now on.

    Transactions that have changed something already may commit: who finishes them must go on until nothing
    is prepared.

    Returns:
        In whose name they were; None if it was forbidden already.
    """
    async with connection.transaction():
        await check_subscribed(connection)
        before = await found(connection)
        await connection.execute("delete from msrepl.any_client")
        return before


async def found(connection: Connection) -> AnyClient | None:
    """In whose name any client may write; None: it may not."""
    cursor = await connection.execute("select coordinator, epoch from msrepl.any_client")
    row = await cursor.fetchone()
    return None if row is None else AnyClient(coordinator=row[0], epoch=row[1])


async def check_subscribed(connection: Connection) -> None:
    """Refuse a database that subscribes to nothing.

    Raises:
        SubscriptionError: it does not.
    """
    cursor = await connection.execute("select to_regclass('msrepl.any_client') is not null")
    if await cursor.fetchone() != (True,):
        raise SubscriptionError(
            f"database {connection.info.dbname!r} has no subscription with immediate updating: subscribe it first"
        )
