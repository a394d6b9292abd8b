"""Events of a transaction between its change and its commit, caused by the application or by others.

They are shared by both players of `tests.crash.voting`, and must not depend on the
expected outcome.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
from psycopg import sql

from tests.crash.voting import ApplicationError, Do, Player
from tests.grid.rig import GATE, PUBLISHER, SUBSCRIBER


def here(*statements: str) -> Do:
    """Execute statements at the Subscriber; ``{}`` is the row."""

    async def do(player: Player) -> None:
        for statement in statements:
            await player.execute(statement.format(player.row))

    return do


def both(*statements: str) -> Do:
    """Execute statements whose changes must be at both sites."""

    async def do(player: Player) -> None:
        for statement in statements:
            await player.change(statement.format(player.row))

    return do


def swallowed(statement: str) -> Do:
    """Execute a statement that fails at the Subscriber, and ignore its error."""

    async def do(player: Player) -> None:
        await player.swallow(player.execute(statement))

    return do


async def swallowed_in_a_pipeline(player: Player) -> None:
    with suppress(psycopg.Error):
        async with player.connection.pipeline():
            await player.connection.execute("select 1 / 0")
            await player.connection.execute("select 1")


async def taken_back(player: Player) -> None:
    await player.execute("savepoint a")
    await player.swallow(player.execute("select 1 / 0"))
    await player.execute("rollback to savepoint a")


async def swallowed_40001(player: Player) -> None:
    await player.execute("select count(*) from account")  # takes the snapshot
    other = await player.admin(SUBSCRIBER)
    query = "update account set balance = balance where id = %s"
    await other.execute("set session_replication_role = replica")
    await other.execute(query, (player.row + 1,))
    await player.swallow(player.execute(f"delete from account where id = {player.row + 1}"))


async def write_skew(player: Player) -> None:
    other = await player.admin(SUBSCRIBER)
    await other.execute("begin isolation level serializable")
    await other.execute("select count(*) from only_here")
    await player.execute("select count(*) from parent_here")
    await other.execute("insert into parent_here values (%s)", (player.row,))
    await player.execute(f"insert into only_here values ({player.row})")
    await other.execute("commit")


async def refused_by_the_publisher(player: Player) -> None:
    """Insert a badge that exists at the Publisher, and ignore the error."""
    await player.swallow(player.change("insert into badge values (0, 1)"))


async def breaks(player: Player) -> None:
    raise ApplicationError("in the middle")


async def far_away(player: Player) -> None:
    await player.execute("select count(*) from far_account")


# -- gids and slots --------------------------------------------------------------------------------


def gid_taken(site: str) -> Do:
    """Take the branch's gid in another database of the server: gids are unique in the whole server."""

    async def do(player: Player) -> None:
        player.rig.plant(site, player.gid(site), database="postgres")
        player.after.push_async_callback(_roll_back_at, player, site, player.gid(site))

    return do


async def _roll_back_at(player: Player, site: str, gid: str) -> None:
    dsn = player.rig.servers[site].superuser_dsn("postgres")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin:
        await admin.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))


async def _open_gate(player: Player) -> None:
    dsn = player.dsn(SUBSCRIBER)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as admin:
        await admin.execute("rollback prepared 'gate'")


def slots_taken(site: str) -> Do:
    """Take all slots for prepared transactions."""

    async def do(player: Player) -> None:
        slot = 0
        with suppress(psycopg.errors.OutOfMemory):
            while True:
                gid = f"taken {slot}"
                player.rig.plant(site, gid, database="postgres")
                player.after.push_async_callback(_roll_back_at, player, site, gid)
                slot += 1

    return do


# -- during PREPARE --------------------------------------------------------------------------------

_GATED = {
    SUBSCRIBER: "insert into gated_here values ({})",
    PUBLISHER: "insert into gated values ({})",
}


def at_the_gate(site: str, what: str) -> Do:
    """Make PREPARE wait in a deferred trigger, then cancel or terminate its backend."""

    async def do(player: Player) -> None:
        gate = await player.close_gate(site)
        await (player.change if site == PUBLISHER else player.execute)(
            _GATED[site].format(player.row)
        )

        async def interfere() -> None:
            pid = await player.waiting(site, "advisory")
            await gate.execute(f"select {what}({pid})".encode())
            await gate.execute("select pg_advisory_unlock_all()")

        player.meanwhile(interfere())

    return do


def lock_timeout() -> Do:
    """Make PREPARE wait for a lock until its lock timeout; the gate stays closed."""

    async def do(player: Player) -> None:
        await player.close_gate(SUBSCRIBER)
        await player.execute(_GATED[SUBSCRIBER].format(player.row))
        await player.execute("set local lock_timeout = '200ms'")

    return do


def statement_timeout() -> Do:
    """Make PREPARE take longer than the statement timeout, which PostgreSQL disables before deferred triggers run."""

    async def do(player: Player) -> None:
        gate = await player.close_gate(SUBSCRIBER)
        await player.execute(_GATED[SUBSCRIBER].format(player.row))
        await player.execute("set local statement_timeout = '50ms'")

        async def interfere() -> None:
            await player.waiting(SUBSCRIBER, "advisory")
            await gate.execute("select pg_sleep(0.2)")  # this delay is the subject of the case
            await gate.execute("select pg_advisory_unlock_all()")

        player.meanwhile(interfere())

    return do


async def idle_too_long(player: Player) -> None:
    """Leave the transaction idle until the server terminates the session."""
    pid = await player.pid(SUBSCRIBER)
    await player.execute("set local idle_in_transaction_session_timeout = '20ms'")
    query = "select 1 where not exists (select from pg_stat_activity where pid = %s)"
    await player.until(SUBSCRIBER, f"backend {pid} to end", query, (pid,))


def transaction_timeout() -> Do:
    """Make PREPARE take longer than the transaction timeout; the gate stays closed."""

    async def do(player: Player) -> None:
        await player.close_gate(SUBSCRIBER)
        await player.execute(_GATED[SUBSCRIBER].format(player.row))
        await player.execute("set local transaction_timeout = '300ms'")

    return do


def server_ended(how: str) -> Do:
    """Shut down or kill the Subscriber's server while PREPARE waits, and restart it."""

    async def do(player: Player) -> None:
        # A prepared transaction holds the gate: a session that is shut down would open it, perhaps
        # before the waiting backend is shut down.
        gate = await player.admin(SUBSCRIBER)
        await gate.execute(
            f"begin; select pg_advisory_xact_lock({GATE}); prepare transaction 'gate'"
        )
        player.after.push_async_callback(_open_gate, player)
        await player.execute(_GATED[SUBSCRIBER].format(player.row))
        server = player.rig.servers[SUBSCRIBER]

        async def interfere() -> None:
            await player.waiting(SUBSCRIBER, "advisory")
            if how == "killed":
                await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.restart)

        player.meanwhile(interfere())

    return do


async def committed_locally(player: Player) -> None:
    """Name a synchronous standby that does not exist, and cancel the wait for it."""
    admin = await player.admin(SUBSCRIBER)
    await admin.execute("alter system set synchronous_standby_names = 'nobody'")
    await admin.execute("select pg_reload_conf()")
    # The checkpointer publishes whether any commit waits; it is the last to read the setting.
    await player.until(
        SUBSCRIBER,
        "the setting to be there",
        "select name from pg_settings where name = 'synchronous_standby_names' and setting = 'nobody'",
    )
    # It rereads its settings between two checkpoints, so certainly before the end of the second.
    await admin.execute("checkpoint")
    await admin.execute("checkpoint")

    async def interfere() -> None:
        pid = await player.waiting(SUBSCRIBER, "SyncRep")
        await admin.execute("alter system reset synchronous_standby_names")
        await admin.execute(f"select pg_cancel_backend({pid})".encode())
        # Reset the setting only now: a backend that is released before it processes the
        # cancellation would not be interrupted. This also releases the next wait, for a rollback or
        # a commit.
        query = (
            "select 1 where not exists (select from pg_stat_activity where pid = %s"
            " and state = 'active' and query ilike '%%prepare transaction%%')"
        )
        await player.until(SUBSCRIBER, f"backend {pid} to answer PREPARE", query, (pid,))
        await admin.execute("select pg_reload_conf()")

    player.meanwhile(interfere())
