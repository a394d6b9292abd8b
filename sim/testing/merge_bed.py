"""A topology of merge replication under test, on the event loop that serves it.

Independent of threads and pytest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from twopc.drivers.merge.engine import MergeReport
from twopc.drivers.merge.tracking import StoredMergeArticle, stored_articles
from twopc.drivers.points import MERGE_POINTS
from twopc.errors import ConfigurationError
from twopc.sim.merge import MergeTopology
from twopc.sim.merge.conflicts import MergeConflict
from twopc.sim.merge.knowledge import unknown_changes
from twopc.sim.sessions.local import result_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """The properties of a topology of merge replication that a test requests."""

    tree: Mapping[str, Sequence[str]]
    """Subscribers of each node that publishes."""
    subscribers: Mapping[str, Mapping[str, Any]]
    """Options of `MergeTopology.subscribe`, by Subscriber."""
    load: tuple[Load, ...] = ()
    publish: Mapping[str, Mapping[str, Any]] | None = None
    """Options of `MergeTopology.publish`, by table; None: every table that has a primary key."""
    tracking: str = "row"
    """Tracking of tables whose options do not set it."""
    lock_timeout_ms: int = 5_000


class _Interruption(Exception):  # noqa: N818 # not an error: the test has requested it
    """Ends a merge session as if the agent's process had been killed."""


class MergeBed:
    """The topology of one test; its methods are awaited on the event loop on which it was created."""

    def __init__(
        self, requested: MergeRequest, server: AnyServer, test: str, *, timeout_s: float = 30
    ) -> None:
        self._requested = requested
        self._server = server
        self._test = test
        self._timeout_s = timeout_s
        self._clients: dict[str, psycopg.AsyncConnection[Any]] = {}
        self.order = ""
        """Always empty: orders of functions are played with transactional replication only."""
        self.topology: MergeTopology
        """The topology under test; not set before `renew`."""
        self.surroundings: Surroundings
        """State that the sessions share; not set before `renew`."""

    async def renew(self, name: str) -> None:
        """Create databases and tables, publish and subscribe; drop the previous ones.

        Args:
            name: of the new topology.

        Raises:
            ConfigurationError: the topology cannot be created; nothing is left behind.
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
        """Disconnect from every node, and drop the topology; idempotent."""
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
        """The names of all nodes, the Publisher first."""
        return (self.publisher, *self.subscribers)

    async def session(
        self, node: str, *, name: str = "", isolation: str | None = None
    ) -> LiveSession:
        """Open a new session of the application at a node; its transactions are local.

        Args:
            name: name of the session in waits and in the history; empty: its node's.
            isolation: ``read committed``, ``repeatable read`` or ``serializable``.
        """
        self.topology.node(node)
        surroundings = self.surroundings
        name = surroundings.free_name(name, node)
        session = MergeLocalSession(
            self.topology, node, surroundings.observer, refusal=refused_as_psycopg
        )
        return LiveSession(surroundings, name, session, isolation, is_coordinated=False)

    async def execute(self, node: str, query: Any, params: Any = None) -> Rows:
        """Run a statement of the application at a node, committed at once; return its rows."""
        client = self._clients.get(node)
        if client is None or client.closed:
            dsn = self.topology.node(node).app_dsn
            client = self._clients[node] = await psycopg.AsyncConnection.connect(
                dsn, autocommit=True, application_name=f"twopc test at {node}"
            )
        result = await result_of(await client.execute(query, params))
        return Rows(result.rows, where=f"query at {node}")

    async def rows(self, node: str, table: str) -> Rows:
        """Return a table's rows at a node by key, without the rowguid column if merge replication has added it."""
        stored = await self._article(table)
        hidden = stored.rowguid if stored.added_rowguid else None
        return await bench_tables.rows_by_key(self.topology, node, table, hidden=hidden)

    async def _article(self, table: str) -> StoredMergeArticle:
        schema, name = bench_tables.split(table)
        for stored in await stored_articles(await self.topology.admin(self.publisher)):
            if (stored.source_schema, stored.source_object) == (schema, name):
                return stored
        raise ConfigurationError(f"table {table} is not merged")

    def dsn(self, node: str, *, application_name: str = "") -> str:
        """Return the application's connection string to a node; valid in other processes, too."""
        return self._address(node, application_name).dsn

    def url(self, node: str, driver: str = "psycopg", *, application_name: str = "") -> str:
        """Return the application's SQLAlchemy URL of a node; see
        `twopc.sim.testing.blocking_bench.TestTopology.url`.
        """
        return self._address(node, application_name).url(driver)

    def _address(self, node: str, application_name: str) -> NodeAddress:
        there = self.topology.node(node)
        return NodeAddress.of_application(there, application_name=application_name)

    # -- backups -----------------------------------------------------------------------------------

    async def back_up(self, node: str) -> None:
        """Back up a node, replacing an earlier backup. Sessions at the node reconnect afterwards.

        Raises:
            ConfigurationError: a session at the node has a transaction open.
        """
        async with self._left(node):
            await self.topology.back_up(node)

    async def restore_backup(self, node: str) -> None:
        """Restore a node from its backup. The next merge session detects this.

        Raises:
            ConfigurationError: the node was not backed up, or a session at the node has a transaction open.
        """
        async with self._left(node):
            await self.topology.restore_backup(node)

    @asynccontextmanager
    async def _left(self, node: str) -> AsyncIterator[None]:
        """Close all connections to a node for the duration of the block."""
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
        """Run one merge session with a Subscriber; return its report.

        Raises:
            MergeError: the session could not be finished; the next one continues.
        """
        return await self.topology.sync(subscriber)

    async def interrupted(self, subscriber: str, *, at: str, nth: int = 1) -> None:
        """Run a merge session that is interrupted as if its process were killed; uncommitted work is lost.

        Args:
            at: the protocol point, as ``merge.upload_applied``.
            nth: at which of the arrivals.

        Raises:
            ConfigurationError: there is no such point.
            AssertionError: the session has ended before it reached the point.
        """
        if not await self.sync_until(subscriber, at=at, nth=nth):
            raise AssertionError(f"the session of {subscriber} has ended without coming to {at}")

    async def sync_until(self, subscriber: str, *, at: str, nth: int = 1) -> bool:
        """Run a merge session as `interrupted` does; return False if it has ended before it reached the point."""
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
        """Run sessions with every Subscriber until a round changes nothing; return the number of rounds before
        that.

        Raises:
            ConfigurationError: the last of `rounds_max` rounds still changed something.
        """
        return await self.topology.settle(rounds_max) - 1

    async def conflicts(self, table: str | None = None) -> list[MergeConflict]:
        """Return the conflicts and failed changes that the Publisher has recorded, oldest first; of all tables, or
        one.
        """
        return await self.topology.conflicts(table)

    # -- what must hold ----------------------------------------------------------------------------

    async def assert_converged(self) -> None:
        """Check that every Subscriber holds the Publisher's rows.

        Raises:
            AssertionError: names the table and the node whose rows differ.
        """
        for stored in await stored_articles(await self.topology.admin(self.publisher)):
            table = f"{stored.source_schema}.{stored.source_object}"
            held = await self.rows(self.publisher, table)
            for subscriber in self.subscribers:
                assert await self.rows(subscriber, table) == held, (
                    f"{table} at {subscriber} is not what it is at {self.publisher}"
                )
        await self.topology.assert_converged()  # compares rowguid as well

    async def assert_nothing_lost(self) -> None:
        """Check that the Publisher has every change of a node, or has recorded it as failed.

        Raises:
            AssertionError: names node, table and row of each lost change.
        """
        lost = await unknown_changes(
            {name: await self.topology.admin(name) for name in self.nodes}, self.publisher
        )
        assert not lost, f"{self.publisher} does not know:\n  " + "\n  ".join(lost)


def request_of(options: Mapping[str, Any], template: Any) -> MergeRequest:
    """Return the request that the options of a mark describe.

    Raises:
        ConfigurationError: an option is unknown or invalid.
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
    """Return names with options, from a number of Subscribers, names, or names with options."""
    if isinstance(given, Mapping):
        return given
    if isinstance(given, int):
        given = [f"sub{number}" for number in range(1, given + 1)]
    if isinstance(given, str):
        given = [given]
    return {name: {} for name in given}
