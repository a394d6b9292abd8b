"""A topology under test, on the event loop that serves it: its sessions, tables and history.

Independent of threads and pytest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import psycopg
from psycopg import conninfo, sql

from twopc.errors import ConfigurationError
from twopc.names import PREFIX, VERSION_COLUMN
from twopc.sim.checkers.atomic import atomic
from twopc.sim.report.history import HistoryRecord
from twopc.sim.sessions.local import result_of
from twopc.sim.sessions.results import Rows
from twopc.sim.sessions.servers import PublisherSession, SubscriberSession
from twopc.sim.sessions.waits import LOOK_EVERY_S, ObservedClient, Observer
from twopc.sim.testing import bench_tables
from twopc.sim.testing.addresses import NodeAddress
from twopc.sim.testing.live import LiveSession, refused_as_psycopg
from twopc.sim.testing.recording import Recorder
from twopc.sim.testing.surroundings import Surroundings
from twopc.sim.topology import Topology

#: Time allowed for finishing the branches of transactions that have ended.
_FINISH_S = 1.0
#: The same for branches that a resolver finishes.
_RESOLVE_S = 30.0

_HAS_MARKERS = "select to_regclass('msrepl.branch_marker') is not null"
_MARKERS = """
select jsonb_build_object('gid', gid, 'participants', participants, 'fence', fence,
                          'sent', calls > 0 or pending is not null)
from msrepl.branch_marker order by gid
"""
_PREPARED = "select database, gid from pg_prepared_xacts where database = any (%s) order by 1, 2"
#: A session that released a savepoint instead of committing, in a transaction that is still open.
_OUTER = """
select pid, coalesce(nullif(application_name, ''), usename) from pg_stat_activity
where datname = current_database() and state = 'idle in transaction' and query ~* '^\\s*release\\s+savepoint'
order by pid limit 1
"""


class Bed:
    """The topology of one test."""

    def __init__(
        self,
        topology: Topology,
        test: str,
        *,
        timeout_s: float,
        open_to_all: Sequence[str] = (),
    ) -> None:
        self.topology = topology
        self._nodes = (topology.publisher, *topology.subscribers)
        self.test = test
        self._open_to_all = tuple(open_to_all)
        """Subscribers at which any client may write, as soon as they subscribe."""
        self.is_spoiled = False
        """Whether the topology must not be reused: a branch was rolled back manually, or faults were used."""
        self.order = ""
        """The order of functions that is being played."""
        self.recorder = Recorder(test, self._nodes)
        self.surroundings = Surroundings(
            Observer({name: topology.node(name).dsn for name in self._nodes}),
            self.recorder,
            timeout_s=timeout_s,
        )

    async def close(self) -> list[str]:
        """End every session, then roll back what is still prepared; return descriptions of it."""
        faults = self.surroundings.faults
        left: list[str] = []

        async def roll_back() -> None:
            left.extend(await self.roll_back_left())

        async with AsyncExitStack() as stack:  # all callbacks run, even if one raises
            stack.push_async_callback(self.surroundings.observer.close)
            stack.push_async_callback(roll_back)
            if faults is not None:
                stack.push_async_callback(faults.close)
            stack.push_async_callback(self.surroundings.leave)
            if faults is not None:
                await faults.heal()  # a session that waits because of a fault cannot be ended
        return left

    async def close_sessions(self) -> None:
        """End every session, before another order begins."""
        await self.surroundings.leave()
        self.surroundings.watched.clear()
        await self.at_rest()

    def begin_order(self, order: str) -> None:
        """Clear the history and set the order that is played; empty: none is, and the history is kept."""
        if order:
            self.recorder.clear()
        self.order = order

    # -- sessions ----------------------------------------------------------------------------------

    async def session(self, node: str, name: str, isolation: str | None) -> LiveSession:
        """Open a new session at a node."""
        self._known(node)
        name = self.surroundings.free_name(name, node)
        is_publisher = node == self.topology.publisher
        kind = PublisherSession if is_publisher else SubscriberSession
        observer = self.surroundings.observer
        session = kind(self.topology, node, observer, name=name, refusal=refused_as_psycopg)
        return LiveSession(
            self.surroundings, name, session, isolation, is_coordinated=not is_publisher
        )

    def _known(self, node: str) -> None:
        __tracebackhide__ = True
        if node not in self._nodes:
            raise ConfigurationError(f"no node {node!r}; nodes are {', '.join(self._nodes)}")

    async def watch(self, node: str, application_name: str) -> ObservedClient:
        """Observe a session of the application, identified by its `application_name`."""
        self._known(node)
        client = ObservedClient(name=application_name, node=node, application_name=application_name)
        self.surroundings.watched[application_name] = client
        return client

    async def watched_blocked_by(
        self, client: ObservedClient, other: str, is_over: Callable[[], bool]
    ) -> tuple[bool, str]:
        """Return whether an observed session waits for `other`, and for which session it waits."""
        waiting = await self.surroundings.until_blocked(
            lambda: client, is_over, f"the application {client.name!r}"
        )
        if waiting is None:
            return False, ""
        return other in waiting.holders, waiting.holder

    # -- tables ------------------------------------------------------------------------------------

    async def create(self, texts: Sequence[str], publish: Sequence[str] | None) -> None:
        """Run SQL at the Publisher, publish the tables and deliver them to every Subscriber."""
        await bench_tables.statements(self.topology, *texts)
        await bench_tables.publish_all(self.topology, publish or None)
        await bench_tables.open_to_all(self.topology, self._open_to_all)

    async def rows(self, node: str, table: str) -> Rows:
        """Return a table's rows at a node by key, without their row versions."""
        self._known(node)
        return await bench_tables.rows_by_key(self.topology, node, table, hidden=VERSION_COLUMN)

    async def look(self, node: str, query: str, params: Any) -> Rows:
        """Return the rows of a query, run as the node's administrator."""
        self._known(node)
        connection = await self.topology.admin(node)
        result = await result_of(await connection.execute(query.encode(), params))
        return Rows(result.rows, where=f"query at {node}")

    def dsn(self, node: str, application_name: str) -> str:
        """Return the application's connection string to a node."""
        __tracebackhide__ = True
        self._known(node)
        dsn = self.topology.node(node).app_dsn
        return conninfo.make_conninfo(dsn, application_name=application_name or "twopc test")

    def address(self, node: str, application_name: str) -> NodeAddress:
        """Return the application's address of a node."""
        __tracebackhide__ = True
        self._known(node)
        there = self.topology.node(node)
        return NodeAddress.of_application(there, application_name=application_name)

    # -- bringing to rest --------------------------------------------------------------------------

    async def sync(self, subscribers: Sequence[str]) -> None:
        """Deliver to Subscribers (none: all) everything that is committed."""
        await self.refuse_outer_transactions()
        await self.topology.sync(*subscribers)
        await self._note_deliveries()

    async def settle(self) -> None:
        """Heal faults, wait until no branch is prepared, and deliver everything."""
        await self.refuse_outer_transactions()
        await self.heal()
        await self.topology.settle()
        if self.surroundings.faults is not None:
            await self.topology.stop_coordinator()  # settling has opened one in this process
        await self._note_deliveries()

    # -- faults ------------------------------------------------------------------------------------

    async def fault(self, text: Mapping[str, Any]) -> str:
        """Inject a fault; see `twopc.sim.testing.faults.TestFaults.add`."""
        __tracebackhide__ = True
        surroundings = self.surroundings
        if surroundings.faults is None:
            await self._stop_coordinator()
            from twopc.sim.testing.faults import TestFaults  # few tests need it

            surroundings.faults = TestFaults(
                self.topology, surroundings.observer, timeout_s=surroundings.timeout_s
            )
            self.is_spoiled = True  # the topology is not reused
        return await surroundings.faults.add(text)

    async def _stop_coordinator(self) -> None:
        """Stop the coordinator of this process, which would otherwise recover in parallel with the one that faults
        strike.

        Raises:
            ConfigurationError: a session's transaction is open in it.
        """
        for session in self.surroundings.sessions.values():
            if session.is_open and session.node != self.topology.publisher:
                raise ConfigurationError(
                    f"session {session.name} has begun a transaction before the first fault was named, and no "
                    "fault reaches it: name the fault before, or commit or roll back first"
                )
        await self.topology.stop_coordinator()

    async def heal(self) -> None:
        """Heal all faults that have struck."""
        if self.surroundings.faults is not None:
            await self.surroundings.faults.heal()
            self.surroundings.faults.note(self.recorder.write)

    async def _note_deliveries(self) -> None:
        if not await self.topology.registration.has_subscriptions():
            return
        for each in await self.topology.inspect.take_deliveries():
            self.recorder.write(**each.record())

    async def refuse_outer_transactions(self) -> None:
        """Refuse to continue if an application rolls back an outer transaction at the end of the test.

        Raises:
            ConfigurationError: a session has released a savepoint, and its transaction is still open.
        """
        for node in self._nodes:
            rows = await self.topology.execute(node, _OUTER)
            if rows:
                pid, who = rows[0]
                raise ConfigurationError(
                    f"2PC commits for real: use the twopc fixture's own databases. Session {pid} ({who}) at "
                    f"{node} has released a savepoint and keeps its outer transaction open, as fixtures of "
                    "SQLAlchemy and Django do that roll back after each test: no other session sees what it "
                    "'committed'. Let the application commit; the databases are put back to what they were"
                )

    # -- what must hold ----------------------------------------------------------------------------

    async def assert_converged(self, tables: Sequence[str]) -> None:
        """Check that every Subscriber holds the Publisher's rows."""
        await self.refuse_outer_transactions()
        await self.topology.assert_converged(*tables)

    async def assert_atomic(self) -> None:
        """Check that every global transaction of this test took effect at all sites or at none."""
        await self.at_rest()
        records = [*self.records]
        for node in self._nodes:
            rows = await self.topology.execute(node, _HAS_MARKERS)
            if rows[0][0]:
                data = {"markers": [row[0] for row in await self.topology.execute(node, _MARKERS)]}
                records.append(HistoryRecord(seq=0, t_us=0, kind="markers", node=node, data=data))
        broken = atomic(records)
        if broken:
            raise AssertionError("not atomic:\n  " + "\n  ".join(broken))

    async def assert_nothing_in_doubt(self) -> None:
        """Check that no branch is prepared at any node, once branches that are being finished are."""
        left = await self.at_rest()
        if left:
            raise AssertionError(
                "in doubt:\n  " + "\n  ".join(f"{gid} is prepared at {node}" for node, gid in left)
            )

    async def cut_off(self) -> None:
        """Terminate every session of the application's role at every node."""
        for node in self._nodes:
            await self.topology.execute(
                node,
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and usename = %s",
                (self.topology.node(node).app_role,),
            )

    async def at_rest(self) -> list[tuple[str, str]]:
        """Wait until the branches that are being finished are; return node and gid of those that stay prepared."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        own = f"{PREFIX}:{self.topology.name}"
        # gids of any client contain the Subscriber's name as well
        resolved = tuple(f"{own}.{name}:" for name in self.topology.any_client.resolvers)
        while True:
            left = await self._prepared()
            passed = loop.time() - began
            finishing = any(
                passed < (_RESOLVE_S if gid.startswith(resolved) else _FINISH_S)
                for _, gid in left
                if gid.startswith((f"{own}:", f"{own}."))
            )
            if not finishing:
                return left
            await asyncio.wait({loop.create_future()}, timeout=LOOK_EVERY_S)

    async def _prepared(self) -> list[tuple[str, str]]:
        """Return node and gid of each prepared transaction; all nodes are on one server, whose view shows all."""
        node_of = {self.topology.node(name).database: name for name in self._nodes}
        rows = await self.topology.execute(self.topology.publisher, _PREPARED, (list(node_of),))
        return [(node_of[database], str(gid)) for database, gid in rows]

    async def roll_back_left(self) -> list[str]:
        """Roll back what stays prepared; return descriptions of it.

        The topology must not be reused then: a client may assume that such a transaction was committed.
        """
        prepared = await self.at_rest()
        for node, gid in prepared:
            text = sql.SQL("rollback prepared {}").format(sql.Literal(gid))
            # it was finished meanwhile, or is being finished
            with suppress(
                psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState
            ):
                await self.topology.execute(node, text.as_string(None))
        self.is_spoiled = self.is_spoiled or bool(prepared)
        return [f"{gid} at {node}" for node, gid in prepared]

    @property
    def records(self) -> list[HistoryRecord]:
        """Records of the test so far."""
        return self.recorder.records
