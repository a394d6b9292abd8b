"""Let any client of a Subscriber change subscribed tables: its own COMMIT prepares the Publisher's branch and
decides.

Knows nothing of who finishes that branch (`twopc.drivers.resolver`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, errors

from twopc import names
from twopc.errors import LockTimeoutError, SubscriptionError

__all__ = ["CHANNEL", "AnyClient", "allow", "any_client_of", "check_subscribed", "forbid"]

Connection = AsyncConnection[Any]

#: On which a Subscriber tells of branches that its clients have decided: their gids there.
CHANNEL = "msrepl_any_client"

_AT_WORK = """
select distinct l.pid, coalesce(nullif(a.application_name, ''), a.usename::text)
from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
where l.relation = 'msrepl.any_client'::regclass and l.granted and l.pid <> pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
order by 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyClient:
    """In whose name the transactions of a Subscriber's clients become global ones."""

    coordinator: str
    epoch: int

    @property
    def prefix(self) -> str:
        """How their gids begin."""
        return f"{names.PREFIX}:{self.coordinator}:{self.epoch}:"


async def allow(connection: Connection, any_client: AnyClient) -> AnyClient:
    """Let any client in from now on. Harmless if it is.

    Args:
        any_client: the epoch must be this Subscriber's alone, of the variant ``last_agent``.

    Returns:
        In whose name; another's if somebody was quicker.

    Raises:
        SubscriptionError: the database subscribes to nothing.
    """
    async with connection.transaction():
        await check_subscribed(connection)
        await connection.execute(
            """
            insert into msrepl.any_client (coordinator, epoch) values (%s, %s)
            on conflict (only_one) do nothing
            """,
            (any_client.coordinator, any_client.epoch),
        )
        return await any_client_of(connection) or any_client


async def forbid(connection: Connection, *, timeout_ms: int = 10_000) -> AnyClient | None:
    """Let only a coordinator's transactions change subscribed tables from now on.

    Transactions that have changed something already are waited for, and new ones wait meanwhile. Those that
    have committed may still be prepared at the Publisher: who finishes them must go on until nothing is.

    Returns:
        In whose name they were; None if it was forbidden already.

    Raises:
        LockTimeoutError: a client's transaction (its session is named) does not end; nothing was changed.
        SubscriptionError: the database subscribes to nothing.
    """
    try:
        async with connection.transaction():
            await check_subscribed(connection)
            await connection.execute(
                "select set_config('lock_timeout', %s, true)", (f"{timeout_ms}ms",)
            )
            # each of them has looked into it, and is in that lock's way until it ends
            await connection.execute("lock table msrepl.any_client in access exclusive mode")
            before = await any_client_of(connection)
            await connection.execute("delete from msrepl.any_client")
            return before
    except errors.LockNotAvailable as error:
        cursor = await connection.execute(_AT_WORK)
        who = ", ".join(f"{pid} ({name})" for pid, name in await cursor.fetchall())
        raise LockTimeoutError(
            f"clients of {connection.info.dbname!r} are still at work, and any client may go on: end the "
            f"transactions of {who or 'those that had one open'} and try again",
            sqlstate=error.sqlstate or "",
        ) from error


async def any_client_of(connection: Connection) -> AnyClient | None:
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
            f"database {connection.info.dbname!r} has no subscription with immediate updating: `twopc subscribe` it first"
        )
