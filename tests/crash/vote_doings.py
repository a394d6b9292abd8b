"""What an application, or somebody else, does to a transaction between its change and its commit.

Written once for both players of `tests.crash.voting`. It must not know how it should end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
from psycopg import sql

from tests.crash.voting import ApplicationError, Do, Player
from tests.grid.rig import GATE, PUBLISHER, SUBSCRIBER


def here(*statements: str) -> Do:
    """Statements at the Subscriber; ``{}`` is the row."""

    async def do(player: Player) -> None:
        for statement in statements:
            await player.execute(statement.format(player.row))

    return do


def both(*statements: str) -> Do:
    """Statements whose changes are to be at both sites."""

    async def do(player: Player) -> None:
        for statement in statements:
            await player.change(statement.format(player.row))

    return do


def swallowed(statement: str) -> Do:
    """A statement fails at the Subscriber, and nobody cares."""

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
    """A badge that is at the Publisher already, in a transaction that goes on."""
    await player.swallow(player.change("insert into badge values (0, 1)"))


async def breaks(player: Player) -> None:
    raise ApplicationError("in the middle")


async def far_away(player: Player) -> None:
    await player.execute("select count(*) from far_account")


# -- gids and slots --------------------------------------------------------------------------------


def gid_taken(site: str) -> Do:
    """In another database of the server: gids are unique in all of it."""

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
    """By others, all that there are."""

    async def do(player: Player) -> None:
        slot = 0
        with suppress(psycopg.errors.OutOfMemory):
            while True:
                gid = f"taken {slot}"
                player.rig.plant(site, gid, database="postgres")
                player.after.push_async_callback(_roll_back_at, player, site, gid)
                slot += 1

    return do


# -- while it prepares -----------------------------------------------------------------------------

_GATED = {
    SUBSCRIBER: "insert into gated_here values ({})",
    PUBLISHER: "insert into gated values ({})",
}


def at_the_gate(site: str, what: str) -> Do:
    """PREPARE waits in a deferred trigger, and then its backend is ended or cancelled."""

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
    """PREPARE waits for a lock for longer than it may; nobody opens the gate."""

    async def do(player: Player) -> None:
        await player.close_gate(SUBSCRIBER)
        await player.execute(_GATED[SUBSCRIBER].format(player.row))
        await player.execute("set local lock_timeout = '200ms'")

    return do


def statement_timeout() -> Do:
    """PREPARE takes longer than a statement may: PostgreSQL ends that timer before deferred triggers run."""

    async def do(player: Player) -> None:
        gate = await player.close_gate(SUBSCRIBER)
        await player.execute(_GATED[SUBSCRIBER].format(player.row))
        await player.execute("set local statement_timeout = '50ms'")

        async def interfere() -> None:
            await player.waiting(SUBSCRIBER, "advisory")
            await gate.execute("select pg_sleep(0.2)")  # the time itself is what is tried here
            await gate.execute("select pg_advisory_unlock_all()")

        player.meanwhile(interfere())

    return do


async def idle_too_long(player: Player) -> None:
    """The session is ended because its transaction lies idle."""
    pid = await player.pid(SUBSCRIBER)
    await player.execute("set local idle_in_transaction_session_timeout = '20ms'")
    query = "select 1 where not exists (select from pg_stat_activity where pid = %s)"
    await player.until(SUBSCRIBER, f"backend {pid} to end", query, (pid,))


def transaction_timeout() -> Do:
    """PREPARE takes longer than the whole transaction may; nobody opens the gate."""

    async def do(player: Player) -> None:
        await player.close_gate(SUBSCRIBER)
        await player.execute(_GATED[SUBSCRIBER].format(player.row))
        await player.execute("set local transaction_timeout = '300ms'")

    return do


def server_ended(how: str) -> Do:
    """The Subscriber's server is shut down, or killed, while PREPARE waits; it comes up again."""

    async def do(player: Player) -> None:
        # Held by a prepared transaction: a session that is told to end opens the gate, perhaps before the
        # one that waits is told to.
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
    """A synchronous standby is named that is not there, and the wait for it is cut short."""
    admin = await player.admin(SUBSCRIBER)
    await admin.execute("alter system set synchronous_standby_names = 'nobody'")
    await admin.execute("select pg_reload_conf()")
    # The checkpointer says for all whether anybody waits; it is the last to have read the setting.
    await player.until(
        SUBSCRIBER,
        "the setting to be there",
        "select name from pg_settings where name = 'synchronous_standby_names' and setting = 'nobody'",
    )
    # It reads its settings anew between two checkpoints: after the second it surely has.
    await admin.execute("checkpoint")
    await admin.execute("checkpoint")

    async def interfere() -> None:
        pid = await player.waiting(SUBSCRIBER, "SyncRep")
        await admin.execute("alter system reset synchronous_standby_names")
        await admin.execute(f"select pg_cancel_backend({pid})".encode())
        # Only now may the setting go: a backend that is released before it has looked at its
        # cancellation was not cut short. What waits next, to roll back or to commit, is let go by this.
        query = (
            "select 1 where not exists (select from pg_stat_activity where pid = %s"
            " and state = 'active' and query ilike '%%prepare transaction%%')"
        )
        await player.until(SUBSCRIBER, f"backend {pid} to answer PREPARE", query, (pid,))
        await admin.execute("select pg_reload_conf()")

    player.meanwhile(interfere())
