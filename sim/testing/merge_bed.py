"""A topology that merges, under test, on the event loop that serves it.

It must not know threads, nor pytest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from twopc.drivers.merge.engine import MergeReport
from twopc.drivers.merge.tracking import StoredMergeArticle, stored_articles
from twopc.drivers.points import MERGE_POINTS
from twopc.errors import ConfigurationError
from twopc.sim.merge import MergeTopology
from twopc.sim.merge.conflicts import MergeConflict
from twopc.sim.merge.knowledge import unknown_changes
from twopc.sim.sessions.merge import MergeLocalSession
from twopc.sim.sessions.results import Rows
from twopc.sim.sessions.waits import Observer
from twopc.sim.testing import bench_tables
from twopc.sim.testing.addresses import NodeAddress
from twopc.sim.testing.bench_tables import Load
from twopc.sim.testing.live import LiveSession, refused_as_psycopg
from twopc.sim.testing.recording import Recorder
from twopc.sim.testing.surroundings import Surroundings
from twopc.sim.topology.nodes import AnyServer

#: Tables that can be merged.
_TABLES = """
select n.nspname, c.relname
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where c.relkind = 'r' and c.relpersistence = 'p'
  and n.nspname not in ('information_schema', 'msrepl') and n.nspname !~ '^pg_'
  and c.relname not in ('alembic_version', 'django_migrations')
  and exists (select from pg_index as i where i.indrelid = c.oid and i.indisprimary)
order by c.oid
"""
_KEY = """
select a.attname from pg_index as i join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
where i.indrelid = to_regclass(%s) and i.indisprimary order by array_position(i.indkey, a.attnum)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What a topology that merges shall be like."""

    tree: Mapping[str, Sequence[str]]
    """For each node that publishes its Subscribers."""
    subscribers: Mapping[str, Mapping[str, Any]]
    """Options of `MergeTopology.subscribe`, by name."""
    load: tuple[Load, ...] = ()
    publish: Mapping[str, Mapping[str, Any]] | None = None
    """Tables, each with options of `MergeTopology.publish`; None: every table that has a primary key."""
    tracking: str = "row"
    """Of tables for which nothing else is said."""
    lock_timeout_ms: int = 5_000


class _Interruption(Exception):  # noqa: N818 # it is no error: somebody has asked for it
    """The process of the agent is gone."""


class MergeBed:
    """One test's topology; its methods are awaited on the event loop on which it was made."""

    def __init__(
        self, requested: MergeRequest, server: AnyServer, test: str, *, timeout_s: float = 30
    ) -> None:
        self._requested = requested
        self._server = server
        self._test = test
        self._timeout_s = timeout_s
        self._clients: dict[str, psycopg.AsyncConnection[Any]] = {}
        self.topology: MergeTopology
        """What is under test; there is none before `renew`."""
        self.surroundings: Surroundings
        """What its sessions share; likewise."""

    async def renew(self, name: str) -> None:
        """Make databases and tables, publish and subscribe; those that there were are dropped.

        Args:
            name: of the new topology.

        Raises:
            ConfigurationError: something cannot be made; nothing is left behind.
        """
        await self.close()
        requested = self._requested
        self.topology = topology = MergeTopology(
            name=name,
            server=self._server,
            tree=requested.tree,
            lock_timeout_ms=requested.lock_timeout_ms,
        )
        await topology.__aenter__()
        try:
            await bench_tables.make(topology, requested.load)
            tables = requested.publish
            if tables is None:
                rows = await topology.execute(topology.publisher, _TABLES)
                tables = {f"{schema}.{table}": {} for schema, table in rows}
            for each, options in tables.items():
                schema, table = bench_tables.split(each)
                await topology.publish(
                    table, schema=schema, **{"tracking": requested.tracking, **options}
                )
            for subscriber in topology.subscribers:
                await topology.subscribe(subscriber, **requested.subscribers.get(subscriber, {}))
        except BaseException:
            await topology.close()
            raise
        self.surroundings = Surroundings(
            Observer({name: topology.node(name).dsn for name in self.nodes}),
            Recorder(self._test, self.nodes),
            timeout_s=self._timeout_s,
        )

    async def close(self) -> None:
        """Leave every node, and drop what was made; idempotent."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()
        if hasattr(self, "surroundings"):
            await self.surroundings.leave()
            await self.surroundings.observer.close()
        if hasattr(self, "topology"):
            await self.topology.close()

    # -- nodes -------------------------------------------------------------------------------------

    @property
    def publisher(self) -> str:
        """The Publisher's name."""
        return self.topology.publisher

    @property
    def subscribers(self) -> tuple[str, ...]:
        """The Subscribers' names."""
        return self.topology.subscribers

    @property
    def nodes(self) -> tuple[str, ...]:
        """All names, the Publisher's first."""
        return (self.publisher, *self.subscribers)

    async def session(
        self, node: str, *, name: str = "", isolation: str | None = None
    ) -> LiveSession:
        """A new session of the application at a node; its transactions are local.

        Args:
            name: by which waits and the history call it; empty: its node's.
            isolation: ``read committed``, ``repeatable read`` or ``serializable``.
        """
        self.topology.node(node)
        surroundings = self.surroundings
        name = surroundings.free_name(name, node)
        session = MergeLocalSession(
            self.topology, node, surroundings.observer, refusal=refused_as_psycopg
        )
        made = LiveSession(surroundings, name, session, isolation, is_coordinated=False)
        surroundings.sessions[name] = made
        return made

    async def execute(self, node: str, query: Any, params: Any = None) -> Rows:
        """A statement of the application at a node, committed at once; its rows."""
        client = self._clients.get(node)
        if client is None or client.closed:
            dsn = self.topology.node(node).app_dsn
            client = self._clients[node] = await psycopg.AsyncConnection.connect(
                dsn, autocommit=True, application_name=f"twopc test at {node}"
            )
        async with client.cursor() as cursor:
            await cursor.execute(query, params)
            columns = [column.name for column in cursor.description or ()]
            rows = await cursor.fetchall() if cursor.description else []
        return Rows(
            (dict(zip(columns, row, strict=True)) for row in rows), where=f"query at {node}"
        )

    async def rows(self, node: str, table: str) -> Rows:
        """A table's rows at a node by key, without the column by which merge replication knows them."""
        schema, name = bench_tables.split(table)
        where = sql.Identifier(schema, name)
        connection = await self.topology.admin(node)
        keys = await self.topology.execute(node, _KEY, (where.as_string(connection),))
        order = sql.SQL(", ").join([sql.Identifier(key) for (key,) in keys])
        stored = await self._article(table)
        async with connection.cursor() as cursor:
            await cursor.execute(sql.SQL("select * from {} order by {}").format(where, order))
            columns = [column.name for column in cursor.description or ()]
            rows = [dict(zip(columns, row, strict=True)) for row in await cursor.fetchall()]
        hidden = stored.rowguid if stored.added_rowguid else None
        return Rows(
            ({name: value for name, value in row.items() if name != hidden} for row in rows),
            where=f"{table} at {node}",
        )

    async def _article(self, table: str) -> StoredMergeArticle:
        schema, name = bench_tables.split(table)
        for stored in await stored_articles(await self.topology.admin(self.publisher)):
            if (stored.source_schema, stored.source_object) == (schema, name):
                return stored
        raise ConfigurationError(f"table {table} is not merged")

    def dsn(self, node: str, *, application_name: str = "") -> str:
        """The application's connection string to a node; for another process, too."""
        return self._address(node, application_name).dsn

    def url(self, node: str, driver: str = "psycopg", *, application_name: str = "") -> str:
        """The same as SQLAlchemy writes it; see `twopc.sim.testing.blocking_bench.TestTopology.url`."""
        return self._address(node, application_name).url(driver)

    def _address(self, node: str, application_name: str) -> NodeAddress:
        there = self.topology.node(node)
        return NodeAddress.of_application(there, application_name=application_name)

    # -- backups -----------------------------------------------------------------------------------

    async def back_up(self, node: str) -> None:
        """Keep what a node holds, in place of what was kept before. Sessions there connect anew afterwards.

        Raises:
            ConfigurationError: one of them has a transaction open.
        """
        async with self._left(node):
            await self.topology.back_up(node)

    async def restore_backup(self, node: str) -> None:
        """Put a node back to what it was when it was backed up. The next merge session notices.

        Raises:
            ConfigurationError: it was not backed up, or a session there has a transaction open.
        """
        async with self._left(node):
            await self.topology.restore_backup(node)

    @asynccontextmanager
    async def _left(self, node: str) -> AsyncIterator[None]:
        """Within the block nobody is connected to a node."""
        there = self.topology.node(node)
        for session in self.surroundings.sessions.values():
            if session.node == node:
                await session.disconnect()
        if (client := self._clients.pop(node, None)) is not None:
            await client.close()
        observer = self.surroundings.observer
        await observer.leave(node)
        try:
            yield
        finally:
            await observer.return_to(node, there.dsn)

    # -- merge sessions ----------------------------------------------------------------------------

    async def sync(self, subscriber: str) -> MergeReport:
        """One session with a Subscriber; what it has done.

        Raises:
            MergeError: it could not be finished; the next continues.
        """
        return await self.topology.sync(subscriber)

    async def interrupted(self, subscriber: str, *, at: str, nth: int = 1) -> None:
        """A session that is cut off, as if its process were killed; nothing that it has not committed is done.

        Args:
            at: the protocol point, as ``merge.upload_applied``.
            nth: at which of the arrivals.

        Raises:
            ConfigurationError: there is no such point.
            AssertionError: the session has ended before it came there.
        """
        if not await self.sync_until(subscriber, at=at, nth=nth):
            raise AssertionError(f"the session of {subscriber} has ended without coming to {at}")

    async def sync_until(self, subscriber: str, *, at: str, nth: int = 1) -> bool:
        """As `interrupted`; False: the session has ended before it came there."""
        known = [each.removesuffix("(node)") for each in MERGE_POINTS]
        if at not in known:
            raise ConfigurationError(f"no point {at!r} of a session; there are: {', '.join(known)}")

        def strike(_: str) -> None:
            raise _Interruption

        point = f"{at}({subscriber})"
        self.topology.points.arm(point, strike, nth=nth)
        try:
            await self.topology.sync(subscriber)
        except _Interruption:
            return True
        finally:
            self.topology.points.disarm(point)
        return False

    async def rounds(self, rounds_max: int = 10) -> int:
        """Sessions with every Subscriber until a round brings nothing; how many rounds brought something.

        Raises:
            ConfigurationError: it is not over after `rounds_max` rounds.
        """
        return await self.topology.settle(rounds_max) - 1

    async def conflicts(self, table: str | None = None) -> list[MergeConflict]:
        """Conflicts and failed changes that the Publisher has recorded, oldest first; of all tables, or one."""
        return await self.topology.conflicts(table)

    # -- what must hold ----------------------------------------------------------------------------

    async def assert_converged(self) -> None:
        """Every Subscriber holds the Publisher's rows.

        Raises:
            AssertionError: names the table, the node and the rows that differ.
        """
        for stored in await stored_articles(await self.topology.admin(self.publisher)):
            table = f"{stored.source_schema}.{stored.source_object}"
            held = await self.rows(self.publisher, table)
            for subscriber in self.subscribers:
                assert await self.rows(subscriber, table) == held, (
                    f"{table} at {subscriber} is not what it is at {self.publisher}"
                )
        await self.topology.assert_converged()  # the values of rowguid as well

    async def assert_nothing_lost(self) -> None:
        """Every change of a node is known at the Publisher, or recorded there as one that failed.

        Raises:
            AssertionError: names the node, the table and the row of each that is not.
        """
        lost = await unknown_changes(
            {name: await self.topology.admin(name) for name in self.nodes}, self.publisher
        )
        assert not lost, f"{self.publisher} does not know:\n  " + "\n  ".join(lost)


def request_of(options: Mapping[str, Any], template: Any) -> MergeRequest:
    """What a mark asks for.

    Raises:
        ConfigurationError: an option is not known, or not possible.
    """
    known = ("subscribers", "tree", "load", "publish", "tracking", "lock_timeout_ms")
    for name in options:
        if name not in known:
            raise ConfigurationError(f"no option {name!r}; options are {', '.join(known)}")
    loads = options.get("load", template)
    publish = options.get("publish")
    subscribers = _named(options.get("subscribers", {} if "tree" in options else 2))
    tree: Mapping[str, Sequence[str]] = options.get("tree", {"pub": tuple(subscribers)})
    below = [name for each in tree.values() for name in each]
    for name in subscribers:
        if name not in below:
            raise ConfigurationError(f"{name!r} is no Subscriber; they are {', '.join(below)}")
    return MergeRequest(
        tree=tree,
        subscribers=subscribers,
        load=tuple(loads) if isinstance(loads, list | tuple) else (loads,),
        publish=None if publish is None else _named(publish),
        tracking=options.get("tracking", "row"),
        lock_timeout_ms=options.get("lock_timeout_ms", 5_000),
    )


def _named(
    given: int | Sequence[str] | Mapping[str, Mapping[str, Any]],
) -> Mapping[str, Mapping[str, Any]]:
    """A number of Subscribers, names, or names with options."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, int):
        given = [f"sub{number}" for number in range(1, given + 1)]
    if isinstance(given, str):
        given = [given]
    return {name: {} for name in given}
