"""Fixtures that give tests a connected Publisher and Subscribers, without a coordinator.

`Pair` executes the coordinator's statements itself, so that triggers and procedures are tested alone.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.by_hand import ByHand
from twopc.errors import TwopcError
from twopc.names import GlobalId
from twopc.publisher.publication import owner_role
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim.merge import MergeTopology
from twopc.sim.topology import Topology
from twopc.sim.topology.checkpoint import Checkpoint, checkpoint, rewind
from twopc.waits import link_name

_sequence = itertools.count(1)

ACCOUNT = "create table account (id int primary key, balance int not null)"
ROWS = "insert into account select g, 100 from generate_series(1, 5) as g"
BALANCES = "select id, balance from account order by id"


class Pair:
    """The Publisher and one Subscriber, with an application connected to the Subscriber."""

    def __init__(self, topology: Topology, subscriber: str) -> None:
        self.topology = topology
        self.subscriber = subscriber
        self.publisher = topology.publisher
        self.gid = ""
        self.app: AsyncConnection[Any]
        self.coordinator = ByHand(topology.name)

    async def open(self) -> None:
        """Connect the application as its own role."""
        await self.topology.execute(self.subscriber, self.coordinator.introduction)
        dsn = self.topology.node(self.subscriber).app_dsn
        self.app = await AsyncConnection.connect(dsn, autocommit=True)

    async def begin(self, *, shipping: str = "eager", isolation: str = "read committed") -> str:
        """Begin a global transaction on the application's connection, and return its id."""
        self.gid = str(GlobalId(coordinator=self.topology.name, epoch=1, sequence=next(_sequence)))
        await self.app.execute(
            f"begin isolation level {isolation}; {self.coordinator.naming(self.gid, self.app.info.backend_pid)};"
            f" set local msrepl.shipping = '{shipping}'"
        )
        return self.gid

    def vote(self) -> str:
        """Return the statement that requests the Publisher's vote."""
        return self.coordinator.vote(self.gid, self.app.info.backend_pid, self.subscriber)

    async def execute(self, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Execute one statement of the application."""
        cursor = await self.app.execute(statement, params)
        return await cursor.fetchall() if cursor.description else []

    async def prepare(self) -> int:
        """Prepare both branches, and return how many calls were sent to the Publisher."""
        cursor = await self.app.execute(self.vote())
        row = await cursor.fetchone()
        assert row is not None
        tag = await self.app.execute(f"prepare transaction '{self.gid}:{self.subscriber}'")
        assert tag.statusmessage == "PREPARE TRANSACTION"
        return int(row[0])

    async def finish(self, calls: int, verb: str = "commit") -> None:
        """Commit or roll back both prepared branches."""
        if calls:
            await self.topology.execute(
                self.publisher, f"{verb} prepared '{self.gid}:{self.publisher}'"
            )
        await self.app.execute(f"{verb} prepared '{self.gid}:{self.subscriber}'")

    async def commit(self) -> int:
        """Prepare and commit both branches, and return how many calls were sent."""
        calls = await self.prepare()
        await self.finish(calls)
        return calls

    async def rollback(self) -> None:
        """Roll the open transaction back at both nodes."""
        await self.app.execute("rollback")
        await self.app.execute("select msrepl.reset_link()")
        gid = f"{self.gid}:{self.publisher}"
        query = f"select from pg_prepared_xacts where gid = '{gid}'"
        connection = await self.topology.admin(self.publisher)
        if (await connection.execute(query)).rowcount:
            await connection.execute(f"rollback prepared '{gid}'")

    async def run(self, *statements: str, **options: Any) -> int:
        """Execute one global transaction, and return how many calls it took; roll back on an error."""
        await self.begin(**options)
        try:
            for statement in statements:
                await self.app.execute(statement)
            return await self.commit()
        except BaseException:
            await self.rollback()
            raise

    async def fails(self, statement: str, params: Any = None) -> psycopg.Error:
        """Execute a statement of the open transaction that must fail, and return the error."""
        with pytest.raises(psycopg.Error) as caught:
            await self.app.execute(statement.encode(), params)
        return caught.value

    async def refused(self, *statements: str, **options: Any) -> psycopg.Error:
        """Execute a global transaction that must fail, and return the error."""
        with pytest.raises(psycopg.Error) as caught:
            await self.run(*statements, **options)
        return caught.value

    async def rows(self, query: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Return the rows of a query at the Publisher and at the Subscriber."""
        return (
            await self.topology.execute(self.publisher, query),
            await self.topology.execute(self.subscriber, query),
        )

    async def same(self, table: str) -> list[tuple[Any, ...]]:
        """Assert that both nodes have the same rows as text, and return them."""
        query = f"select t::text from {table} as t order by 1"
        there, here = await self.rows(query)
        assert there == here
        return there

    async def equal(self, *tables: str, after: str = "") -> None:
        """Assert that both nodes have the same rows in every table.

        Args:
            after: what was done before, for the message.
        """
        for table in tables:
            query = f"select t::text from {table} as t order by 1"
            there, here = await self.rows(query)
            assert there == here, f"{table} differs after: {after}"

    async def save(self, *tables: str) -> None:
        """Keep a copy of the tables at both nodes for `restore`."""
        for node in (self.publisher, self.subscriber):
            for table in tables:
                await self.topology.execute(node, f"create table saved_{table} as table {table}")

    async def restore(self, *tables: str) -> None:
        """Restore the tables as they were at `save`, parents first, without firing triggers."""
        for node in (self.publisher, self.subscriber):
            owner = owner_role(self.topology.node(node).database)
            texts = ["begin", "set local session_replication_role = replica"]
            # rows that the owner writes keep their versions
            texts += [f"grant pg_read_all_data, pg_write_all_data to {owner}"]
            texts += [f"set local role {owner}"]
            texts += [f"delete from {table}" for table in tables]
            texts += [f"insert into {table} table saved_{table}" for table in tables]
            texts += ["reset role", f"revoke pg_read_all_data, pg_write_all_data from {owner}"]
            await self.topology.execute(node, "; ".join([*texts, "commit"]))

    async def waiting_link(self) -> None:
        """Wait until a call of the application's session waits for a lock at the Publisher."""
        query = """
            select from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'
        """
        name = link_name(self.subscriber, self.app.info.backend_pid)
        with psycopg.connect(self.topology.node(self.publisher).dsn, autocommit=True) as eyes:
            await asyncio.to_thread(
                wait_for,
                lambda: eyes.execute(query, (name,)).rowcount,
                what="the link to wait for a lock",
                timeout_s=60,
            )


#: Options of topologies that can be rewound for the next test.
KEPT_OPTIONS = {"lock_timeout_ms", "distribute"}

MakePair = Callable[..., Awaitable[Pair]]
MakeTopology = Callable[..., Awaitable[Topology]]


async def share(
    topology: Topology | MergeTopology, table: str, *statements: str, **options: Any
) -> None:
    """Execute statements at the Publisher, publish a table with options, and let every Subscriber subscribe."""
    for statement in statements:
        await topology.execute(topology.publisher, statement)
    await topology.publish(table, **options)
    for name in topology.subscribers:
        await topology.subscribe(name)


@pytest.fixture
async def make_topology(
    server: EmbeddedServer,
) -> AsyncIterator[Callable[..., Awaitable[Topology]]]:
    """Return a function that makes topologies on the worker's server, dropped after the test."""
    async with AsyncExitStack() as stack:

        async def make(**options: Any) -> Topology:
            return await stack.enter_async_context(Topology(server=server, **options))

        yield make


class KeptPairs:
    """Topologies that tests of a module make with equal arguments: rewound after one test, for the next.

    One is dropped if it is made for the first time, or if it cannot be rewound since more than rows has changed.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._changed: set[str] = set()
        """Arguments of topologies that could not be rewound, since the module's tests change definitions."""
        self._free: dict[str, list[tuple[Topology, Checkpoint]]] = {}

    async def take(
        self, way: str, make: Callable[[], Awaitable[Topology]]
    ) -> tuple[Topology, Checkpoint | None]:
        """Return a topology in its initial state, and the checkpoint to which `give_back` rewinds it."""
        if free := self._free.get(way):
            before, kept = free.pop()
            return _connected_anew(before), kept
        topology = await make()
        is_worth_it = way in self._seen - self._changed
        kept = await checkpoint(topology) if is_worth_it else None
        self._seen.add(way)
        return topology, kept

    async def give_back(self, way: str, topology: Topology, kept: Checkpoint | None) -> None:
        """Stop what a test has started, and rewind the topology or drop it."""
        if kept is not None:
            try:
                await topology.stop_agents()
                await rewind(topology, kept)
                topology.wiring.keep()
                self._free.setdefault(way, []).append((topology, kept))
            except TwopcError:
                self._changed.add(way)
        await topology.close()

    async def close(self) -> None:
        """Drop the topologies that are left."""
        for topology, _ in [each for free in self._free.values() for each in free]:
            await _connected_anew(topology).close()


def _connected_anew(topology: Topology) -> Topology:
    """Return a topology of the same databases for another event loop."""
    wiring = topology.wiring
    again = Topology(
        server=topology.node(topology.publisher).server,
        name=topology.name,
        subscribers=topology.subscribers,
        lock_timeout_ms=wiring.lock_timeout_ms,
        distribute=wiring.distribute,
    )
    again.wiring._nodes = wiring._nodes
    again.installer.subscribed = topology.installer.subscribed
    again.articles._published = topology.articles._published
    return again


@pytest.fixture(scope="module")
def kept_pairs() -> Iterator[KeptPairs]:
    """The reusable topologies of one module."""
    with asyncio.Runner() as runner:
        kept = KeptPairs()
        yield kept
        runner.run(kept.close())


@pytest.fixture
async def make_pair(
    make_topology: Callable[..., Awaitable[Topology]],
    server: EmbeddedServer,
    kept_pairs: KeptPairs,
    request: pytest.FixtureRequest,
) -> AsyncIterator[MakePair]:
    """Return a function that makes a Publisher and a Subscriber with tables published and subscribed.

    ``await make_pair("create table t (...)", "insert into t ...", publish=["t"])``; statements for the Subscriber run
    before it subscribes (`at_subscriber`) or afterwards (`user_triggers`). In a module marked ``rewinds`` a pair that
    was made with the same arguments before is rewound and used again; in one marked ``immediate`` nothing of
    distribution is installed, which is a third of the work.
    """
    is_immediate = request.node.get_closest_marker("immediate") is not None
    is_rewound = request.node.get_closest_marker("rewinds") is not None
    async with AsyncExitStack() as stack:

        async def make(
            *statements: str,
            publish: Sequence[str | dict[str, Any]],
            at_subscriber: Sequence[str] = (),
            user_triggers: Sequence[str] = (),
            **options: Any,
        ) -> Pair:
            if is_immediate:
                options.setdefault("distribute", False)

            async def prepare(topology: Topology) -> Topology:
                for statement in statements:
                    await topology.execute(topology.publisher, statement)
                for table in publish:
                    options_of = {"table": table} if isinstance(table, str) else table
                    await topology.publish(**options_of)
                for statement in at_subscriber:
                    await topology.execute("sub1", statement)
                await topology.subscribe("sub1")
                for statement in user_triggers:
                    await topology.execute("sub1", statement)
                if user_triggers:
                    await topology.activate("sub1")
                return topology

            async def make_one() -> Topology:
                topology = Topology(server=server, subscribers=("sub1",), **options)
                try:
                    await topology.__aenter__()
                    return await prepare(topology)
                except BaseException:
                    await topology.close()
                    raise

            if is_rewound and options.keys() <= KEPT_OPTIONS:
                way = repr((statements, publish, at_subscriber, user_triggers, options))
                topology, kept = await kept_pairs.take(way, make_one)
                stack.push_async_callback(kept_pairs.give_back, way, topology, kept)
            else:
                topology = await prepare(await make_topology(subscribers=("sub1",), **options))
            pair = Pair(topology, "sub1")
            await pair.open()
            stack.push_async_callback(lambda: pair.app.close())  # a test may have opened another
            return pair

        yield make
