"""Let any client of a Subscriber change subscribed tables: its own COMMIT prepares the Publisher's branch.

That COMMIT is also the decision. The module does not know the process that finishes the branch
(`twopc.drivers.resolver`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, errors

from twopc import names
from twopc.errors import LockTimeoutError, SubscriptionError

__all__ = ["CHANNEL", "AnyClient", "allow", "any_client_of", "check_subscribed", "forbid"]

Connection = AsyncConnection[Any]

#: Channel on which a Subscriber announces the gids of branches that its clients have decided.
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
    """Coordinator and epoch under which the transactions of a Subscriber's clients become global transactions."""

    coordinator: str
    epoch: int

    @property
    def prefix(self) -> str:
        """Prefix of the transactions' gids."""
        return f"{names.PREFIX}:{self.coordinator}:{self.epoch}:"


async def allow(connection: Connection, any_client: AnyClient) -> AnyClient:
    """Let any client write from now on; does nothing if this is allowed already.

    Args:
        any_client: its epoch must be used by this Subscriber only, and be of the variant ``last_agent``.

    Returns:
        The coordinator and epoch in effect: those of another call if it came first.

    Raises:
        SubscriptionError: the database has no subscription with immediate updating.
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

    Wait for transactions that have changed subscribed tables already; new ones wait meanwhile. Committed ones may
    still be prepared at the Publisher: the resolver must run until all of these are finished.

    Returns:
        The coordinator and epoch that were in effect; None if any client was forbidden already.

    Raises:
        LockTimeoutError: a client's transaction (its session is named) does not end; nothing was changed.
        SubscriptionError: the database has no subscription with immediate updating.
    """
    try:
        async with connection.transaction():
            await check_subscribed(connection)
            await connection.execute(
                "select set_config('lock_timeout', %s, true)", (f"{timeout_ms}ms",)
            )
            # each of these transactions has read the table, and holds a conflicting lock until its end
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
    """Return the coordinator and epoch under which any client may write; None if it may not."""
    cursor = await connection.execute("select coordinator, epoch from msrepl.any_client")
    row = await cursor.fetchone()
    return None if row is None else AnyClient(coordinator=row[0], epoch=row[1])


async def check_subscribed(connection: Connection) -> None:
    """Check that the database has a subscription with immediate updating.

    Raises:
        SubscriptionError: the database has none.
    """
    cursor = await connection.execute("select to_regclass('msrepl.any_client') is not null")
    if await cursor.fetchone() != (True,):
        raise SubscriptionError(
            f"database {connection.info.dbname!r} has no subscription with immediate updating: `twopc subscribe` it first"
        )
