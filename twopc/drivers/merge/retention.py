"""Retention of the metadata of changed rows in a database, and its clean-up.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

from twopc.errors import ConfigurationError
from twopc.merge.retention import RETENTION_DAYS
from twopc.sql import path

Connection = AsyncConnection[Any]

#: Expired subscriptions that lack generations whose metadata was removed since.
_LEFT_BEHIND = """
select s.subscriber_server from msrepl.sysmergesubscriptions as s, msrepl.msmerge_replica as r
where s.login is not null and not s.is_publisher and s.sentgen < r.cleaned order by 1
"""
#: All columns with times that a node has recorded.
_DATES = (
    ("msmerge_genhistory", "coldate"),
    ("sysmergesubscriptions", "last_sync_date"),
    ("sysmergesubscriptions", "subscribed_at"),
    ("msmerge_conflicts_info", "msrepl_create_time"),
    ("msmerge_sessions", "start_time"),
    ("msmerge_sessions", "end_time"),
)


async def read_retention(connection: Connection) -> int:
    """Return the retention of this node's publication, in days; 0 for ever."""
    cursor = await connection.execute("select min(retention) from msrepl.sysmergepublications")
    [(days,)] = await cursor.fetchall()
    return RETENTION_DAYS if days is None else int(days)


async def set_retention(connection: Connection, days: int) -> str | None:
    """Set the retention of this node's publication.

    Args:
        days: number of days; with 0, metadata is kept for ever, and no subscription expires.

    Returns:
        A warning for the administrator, if there is one.

    Raises:
        ConfigurationError: the number is negative; or it is raised, and an expired subscription would seem active
            again although the metadata that it needs was removed.
    """
    if days < 0:
        raise ConfigurationError(f"retention of {days} days: use 0, for ever, or more")
    async with connection.transaction():
        before = await read_retention(connection)
        cursor = await connection.execute(_LEFT_BEHIND)
        left_behind = [name for (name,) in await cursor.fetchall()]
        if left_behind and before and (days == 0 or days > before):
            raise ConfigurationError(
                f"the retention cannot be raised from {before} days: what {', '.join(left_behind)} would need was "
                "removed already: reinitialise or unsubscribe them first"
            )
        await connection.execute("update msrepl.sysmergepublications set retention = %s", (days,))
    if days == 0:
        return (
            "no subscription expires now, and metadata of changed rows is kept for ever: it grows with every "
            "row that is ever changed, and one Subscriber that stays away keeps it all"
        )
    return None


async def clean_up(connection: Connection) -> int:
    """Remove metadata that no node needs any more, as each session does; return the number of rows concerned.

    A Subscriber removes metadata that its Publisher had removed by the last session.
    """
    cursor = await connection.execute("select msrepl.merge_clean_up()")
    [(count,)] = await cursor.fetchall()
    return int(count)


async def age(connection: Connection, days: float) -> None:
    """Shift all times that a node has recorded back by a number of days. For tests and lessons."""
    async with connection.transaction():
        await connection.execute(path.SET_LOCAL)
        for table, column in _DATES:
            await connection.execute(
                sql.SQL("update {} set {column} = {column} - make_interval(secs => %s)").format(
                    sql.Identifier("msrepl", table), column=sql.Identifier(column)
                ),
                (days * 86_400,),
            )
