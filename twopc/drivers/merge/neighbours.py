"""Neighbours of a node: the rows of ``sysmergesubscriptions``, and the role of the agent for each neighbour.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.drivers.merge.tracking import stored_articles
from twopc.merge.marks import Generation
from twopc.sql.merge_session_texts import AGENT_FUNCTIONS, ASK_ARGUMENTS
from twopc.sql.passwords import verifier
from twopc.sql.render import compose

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeNeighbour:
    """A neighbour of a node, as the node records it."""

    name: str
    replica: int
    is_publisher: bool
    """Whether the neighbour is the Publisher of the two."""
    is_server: bool = False
    """Whether the neighbour has a server subscription, with a priority of its own."""
    priority: float = 0.0
    received: Generation | None = None
    """The neighbour's generation with which the node begins."""
    sent: Generation | None = None
    """The node's generation with which the neighbour begins."""
    partition: int | None = None
    """A Subscriber's partition, if the publication is filtered."""


def agent_role(database: str, neighbour: str) -> str:
    """Return the role with which an agent works in a database for one neighbour."""
    return names.role("merge", database, neighbour)


async def name_self(connection: Connection, name: str, *, priority: float | None = 100) -> int:
    """Record a node's own name in its database, and return its replica. Idempotent.

    Args:
        priority: priority of its own changes; None if it has a client subscription.
    """
    await connection.execute(
        "insert into msrepl.sysmergesubscriptions (subscriber_server, replnickname, is_self, subscriber_type, priority)"
        " select %s, r.replica, true, %s, %s from msrepl.msmerge_replica as r"
        " on conflict (subscriber_server) do nothing",
        (name, 2 if priority is None else 1, priority or 0),
    )
    cursor = await connection.execute("select replica from msrepl.msmerge_replica")
    [(replica,)] = await cursor.fetchall()
    return int(replica)


async def make_agent(connection: Connection, neighbour: str, password: str) -> None:
    """Create the role of the agent that works here for a neighbour; an existing role gets the password.

    Runs in transactions of its own: the right to set a parameter is one row for all databases of a server, so a
    transaction in another database would have to wait.
    """
    role = agent_role(connection.info.dbname, neighbour)
    roles = await connection.execute("select from pg_roles where rolname = %s", (role,))
    verb = sql.SQL("alter" if roles.rowcount else "create")
    await connection.execute(
        sql.SQL("{} role {} login password {}").format(
            verb, sql.Identifier(role), verifier(connection, role, password)
        )
    )
    await connection.execute(compose("twopc", "grant_replica", role=sql.Identifier(role)))


async def admit(connection: Connection, neighbour: MergeNeighbour) -> None:
    """Record a neighbour, and grant its agent the rights that it needs here."""
    role = agent_role(connection.info.dbname, neighbour.name)
    name = sql.Identifier(role)
    await connection.execute(compose("twopc", "merge_agent_rights", agent=name))
    for stored in await stored_articles(connection):
        asks = {"ask": ASK_ARGUMENTS} if stored.asks_sql and not neighbour.is_publisher else {}
        for what, arguments in {**AGENT_FUNCTIONS, **asks}.items():
            await connection.execute(
                sql.SQL("grant execute on function {}({}) to {}").format(
                    sql.Identifier(names.SCHEMA, names.merge_object(what, stored.artid)),
                    sql.SQL(arguments),
                    name,
                )
            )
    sent, received = neighbour.sent, neighbour.received
    await connection.execute(
        "insert into msrepl.sysmergesubscriptions (subscriber_server, replnickname, is_publisher, login,"
        " subscriber_type, priority, sentgen, sentguid, recgen, recguid, partition_id)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            neighbour.name,
            neighbour.replica,
            neighbour.is_publisher,
            role,
            1 if neighbour.is_server else 2,
            neighbour.priority,
            sent.number if sent else 0,
            sent.guid if sent else None,
            received.number if received else 0,
            received.guid if received else None,
            neighbour.partition,
        ),
    )


async def dismiss(connection: Connection, name: str) -> None:
    """Remove a neighbour, and drop the role of its agent; no effect if the neighbour is unknown."""
    await connection.execute(
        "delete from msrepl.sysmergesubscriptions where subscriber_server = %s and not is_self",
        (name,),
    )
    await drop_agent(connection, name)


async def drop_agent(connection: Connection, neighbour: str) -> None:
    """Drop the role of the agent that works here for a neighbour; no effect if the role does not exist.

    A role with rights in another database, which is a copy of this one, stays, and can no longer log in.
    """
    role = agent_role(connection.info.dbname, neighbour)
    roles = await connection.execute("select from pg_roles where rolname = %s", (role,))
    if roles.rowcount:
        await connection.execute(compose("twopc", "drop_rights", role=sql.Identifier(role)))
        try:
            async with connection.transaction():
                await connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
        except psycopg.errors.DependentObjectsStillExist:
            text = sql.SQL("alter role {} nologin password null")
            await connection.execute(text.format(sql.Identifier(role)))


async def publisher_name(connection: Connection) -> str | None:
    """Return the node to which this one subscribes; None if it does not subscribe, or is being initialised."""
    [(exists,)] = await (
        await connection.execute("select to_regclass('msrepl.sysmergesubscriptions') is not null")
    ).fetchall()
    if not exists:
        return None
    cursor = await connection.execute(
        "select subscriber_server from msrepl.sysmergesubscriptions where is_publisher and status = 1"
    )
    row = await cursor.fetchone()
    return None if row is None else str(row[0])


async def subscriber_names(connection: Connection) -> list[str]:
    """Return the Subscribers of this node, by name, without those whose subscription was dropped."""
    cursor = await connection.execute(
        "select subscriber_server from msrepl.sysmergesubscriptions"
        " where login is not null and not is_publisher and status = 1 order by 1"
    )
    return [name for (name,) in await cursor.fetchall()]


async def agent_processes(connection: Connection, neighbour: str) -> list[int]:
    """Return the pids of the backends that work here as the agent for a neighbour."""
    role = agent_role(connection.info.dbname, neighbour)
    cursor = await connection.execute(
        "select pid from pg_stat_activity where usename = %s order by pid", (role,)
    )
    return [pid for (pid,) in await cursor.fetchall()]


async def close_generation(connection: Connection) -> Generation:
    """Close a generation in a transaction in which only REPEATABLE READ was set; see ``merge_close``."""
    await connection.execute("lock table msrepl.msmerge_genhistory in share row exclusive mode")
    cursor = await connection.execute("select * from msrepl.merge_close()")
    [(number, guid)] = await cursor.fetchall()
    return Generation(number=number, guid=guid)
