"""Two players that run the same transaction over two servers, and their verdicts.

`Ours` is an application of this project's coordinator. `Theirs` is a careful program with the
``tpc_*`` methods of psycopg: it begins, prepares and commits at one server and then at the other,
and rolls back both after any exception. Neither depends on the expected verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from tests.grid.rig import GATE, PUBLISHER, SITES, SUBSCRIBER, Rig
from twopc.drivers import PostgresCoordinator, Transaction
from twopc.errors import TransactionError, TwopcError
from twopc.protocol import events as e
from twopc.server.polling import wait_for
from twopc.waits import link_name

Connection = AsyncConnection[Any]

#: The database of `Theirs` on each server.
PLAIN = "plain"
CHANGE = "update account set balance = balance + 1 where id = {}"

_VOTES = {
    e.VotedYes: "yes",
    e.VotedNo: "no",
    e.VotedReadOnly: "nothing to do",
    e.VoteUnknown: "unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a case."""

    publisher: str = "not asked"
    """Vote: ``yes``, ``no``, ``unknown``, ``nothing to do`` or ``not asked``."""
    subscriber: str = "not asked"
    told: str = "committed"
    """Class of the exception that the application got, or ``committed``."""
    sqlstate: str = ""
    definite: bool = True
    """Whether the application's answer is certain."""
    ends: str
    """``both changed``, ``both unchanged``, or a description of the difference."""
    wedged: bool = False
    """A connection is open, but can neither commit nor roll back."""


class Player:
    """A transaction that changes a row at both sites, and in which a case's event occurs."""

    def __init__(self, rig: Rig, after: AsyncExitStack) -> None:
        self.rig = rig
        self.after = after
        """Undone after the transaction."""
        self.row = rig.fresh_row()
        self._meanwhile: asyncio.Task[None] | None = None

    connection: Connection
    """The application's connection to the Subscriber."""

    def dsn(self, site: str) -> str:
        """Return an administrator's connection string."""
        raise NotImplementedError

    def gid(self, site: str) -> str:
        """Return the gid of a branch."""
        raise NotImplementedError

    async def execute(self, statement: str) -> Any:
        """Execute a statement at the Subscriber."""
        raise NotImplementedError

    async def change(self, statement: str) -> None:
        """Execute a statement whose change must be at both sites."""
        raise NotImplementedError

    async def pid(self, site: str) -> int:
        """Return the pid of the backend that prepares at a site."""
        raise NotImplementedError

    async def swallow(self, doing: Awaitable[Any]) -> None:
        """Await an operation that must fail, and ignore its error."""
        try:
            await doing
        except (psycopg.Error, TwopcError):
            return
        raise AssertionError("it did not fail")

    async def admin(self, site: str) -> Connection:
        """Open an administrator's connection, which is closed after the transaction."""
        connection = await AsyncConnection.connect(self.dsn(site), autocommit=True)
        self.after.push_async_callback(connection.close)
        return connection

    def meanwhile(self, interference: Awaitable[None]) -> None:
        """Run a task while the application commits."""

        async def interfere() -> None:
            await interference

        self._meanwhile = asyncio.create_task(interfere())

    async def close_gate(self, site: str) -> Connection:
        """Delay the PREPARE of transactions that change the gated tables, until the connection is closed."""
        gate = await self.admin(site)
        await gate.execute("select pg_advisory_lock(%s)", (GATE,))
        return gate

    async def waiting(self, site: str, event: str) -> int:
        """Wait until the backend that prepares waits for an event, and return its pid."""
        pid = await self.pid(site)
        query = "select pid from pg_stat_activity where pid = %s and wait_event = %s"
        await self.until(site, f"backend {pid} to wait for {event}", query, (pid, event))
        return pid

    async def until(self, site: str, what: str, query: str, params: Any = ()) -> None:
        """Wait until a query returns rows."""

        def look() -> list[Any]:
            with psycopg.connect(self.dsn(site), autocommit=True) as eyes:
                return eyes.execute(query.encode(), params).fetchall()

        await asyncio.to_thread(wait_for, look, what=what, timeout_s=20)

    async def over(self) -> None:
        """Wait for the end of the task that runs meanwhile."""
        if self._meanwhile is not None:
            await self._meanwhile

    def ends(self) -> str:
        """Describe the row and the branches at both sites."""
        balances, left = {}, []
        for site in SITES:
            with psycopg.connect(self.dsn(site), autocommit=True) as eyes:
                query = "select balance from account where id = %s"
                balances[site] = eyes.execute(query, (self.row,)).fetchall()[0][0]
                gid = self.gid(site)
                if eyes.execute(
                    "select gid from pg_prepared_xacts where gid = %s", (gid,)
                ).rowcount:
                    left.append(site)
        changed = [site for site in SITES if balances[site] != 100]
        words = {0: "both unchanged", 1: "**split**", 2: "both changed"}[len(changed)]
        names = {PUBLISHER: "the Publisher", SUBSCRIBER: "the Subscriber"}
        if len(changed) == 1:
            words += f": only {names[changed[0]]} changed"
        if left:
            words += f"; **left prepared** at {' and '.join(names[site] for site in left)}"
        return words


Do = Callable[[Player], Awaitable[None]]
"""The event of a case, between the change and the commit."""


class Ours(Player):
    """An application of the coordinator."""

    transaction: Transaction

    def dsn(self, site: str) -> str:
        return self.rig.node(site).dsn

    def gid(self, site: str) -> str:
        return f"{self.transaction.gid}:{site}"

    @property
    def connection(self) -> Connection:  # type: ignore[override]
        """The application's connection to the Subscriber."""
        return self.transaction.session.connection

    async def execute(self, statement: str) -> Any:
        return await self.transaction.execute(statement)

    async def change(self, statement: str) -> None:
        await self.transaction.execute(statement)

    async def pid(self, site: str) -> int:
        if site == SUBSCRIBER:
            return self.transaction.pid
        query = "select pid from pg_stat_activity where application_name = %s"
        name = link_name(SUBSCRIBER, self.transaction.pid)
        return int(self.rig.fetch(PUBLISHER, query, (name,))[0][0])

    async def play(
        self,
        coordinator: PostgresCoordinator,
        do: Do,
        trace: list[tuple[str, Any]],
        *,
        changes: bool = True,
        **options: Any,
    ) -> Verdict:
        """Run the transaction; `trace` collects what the coordinator observes."""
        told, sqlstate, definite = "committed", "", True
        transaction = coordinator.transaction(SUBSCRIBER, **options)
        self.transaction = transaction
        try:
            async with transaction:
                if changes:
                    await self.change(CHANGE.format(self.row))
                await do(self)
        except TransactionError as error:
            told, sqlstate, definite = type(error).__name__, error.sqlstate, error.definite
        except (psycopg.Error, TwopcError, ApplicationError) as error:
            told, sqlstate = type(error).__name__, getattr(error, "sqlstate", None) or ""
            definite = getattr(error, "definite", True)
        await self.over()
        await self.after.aclose()
        await coordinator.recover()
        votes = {
            what.participant: _VOTES[type(what)]
            for gid, what in trace
            if gid == transaction.gid and type(what) in _VOTES
        }
        return Verdict(
            publisher=votes.get(PUBLISHER, "not asked"),
            subscriber=votes.get(SUBSCRIBER, "not asked"),
            told=told,
            sqlstate=sqlstate,
            definite=definite,
            ends=await asyncio.to_thread(self.ends),
        )


class Theirs(Player):
    """A program that uses psycopg's ``tpc_*`` methods, on tables without triggers."""

    there: Connection

    def __init__(self, rig: Rig, after: AsyncExitStack) -> None:
        super().__init__(rig, after)
        self._votes: dict[str, str] = {}
        self._wedged = False
        self._xids = {site: psycopg.Xid.from_parts(1, f"row {self.row}", site) for site in SITES}

    def dsn(self, site: str) -> str:
        return self.rig.servers[site].superuser_dsn(PLAIN)

    def gid(self, site: str) -> str:
        return str(self._xids[site])

    async def execute(self, statement: str) -> Any:
        return await self.connection.execute(statement.encode())

    async def change(self, statement: str) -> None:
        await self.there.execute(statement.encode())
        await self.connection.execute(statement.encode())

    async def pid(self, site: str) -> int:
        return (self.there if site == PUBLISHER else self.connection).info.backend_pid

    async def play(self, do: Do, *, changes: bool = True, isolation: str = "") -> Verdict:
        """Run the transaction in the usual loop."""
        self.there = await AsyncConnection.connect(self.dsn(PUBLISHER))
        self.connection = await AsyncConnection.connect(self.dsn(SUBSCRIBER))
        told, sqlstate = "committed", ""
        try:
            await self._transact(do, changes, isolation)
        except (psycopg.Error, ApplicationError) as error:
            told, sqlstate = type(error).__name__, getattr(error, "sqlstate", None) or ""
        await self.over()
        await self.after.aclose()
        for connection in (self.there, self.connection):
            await connection.close()
        verdict = Verdict(
            publisher=self._votes.get(PUBLISHER, "not asked"),
            subscriber=self._votes.get(SUBSCRIBER, "not asked"),
            told=told,
            sqlstate=sqlstate,
            ends=await asyncio.to_thread(self._settled_ends),
            wedged=self._wedged,
        )
        await asyncio.to_thread(self._clean_up)
        return verdict

    async def _transact(self, do: Do, changes: bool, isolation: str) -> None:
        branches = {PUBLISHER: self.there, SUBSCRIBER: self.connection}
        try:
            for site, connection in branches.items():
                await connection.tpc_begin(self._xids[site])
                if isolation:
                    await connection.execute(
                        f"set transaction isolation level {isolation}".encode()
                    )
            if changes:
                await self.change(CHANGE.format(self.row))
            await do(self)
            for site, connection in branches.items():
                self._votes[site] = "no"
                await connection.tpc_prepare()
                self._votes[site] = "yes"
        except BaseException:
            for connection in branches.values():
                with suppress(psycopg.Error):
                    await connection.tpc_rollback()
                self._wedged = self._wedged or await _is_wedged(connection)
            raise
        for connection in branches.values():
            await connection.tpc_commit()

    def _settled_ends(self) -> str:
        """Describe the row and the branches after the sessions, which may still be active, have ended."""
        for site in SITES:
            wait_for(
                partial(self._is_alone, site), what=f"the sessions at {site} to end", timeout_s=20
            )
        return self.ends()

    def _is_alone(self, site: str) -> bool:
        query = "select pid from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
        return self.rig.try_fetch(site, query, (PLAIN,)) == []

    def _clean_up(self) -> None:
        for site in SITES:
            with psycopg.connect(self.dsn(site), autocommit=True) as admin:
                query = "select gid from pg_prepared_xacts where database = current_database()"
                for (gid,) in admin.execute(query).fetchall():
                    admin.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))


async def _is_wedged(connection: Connection) -> bool:
    """Return whether a rollback fails, as a pool would execute it, although the connection is open."""
    try:
        await connection.rollback()
    except psycopg.Error:
        return not connection.closed
    return False


class ApplicationError(Exception):
    """An application's own exception, during its transaction."""
