"""Tests of waits on servers: local ones, over a link, for a prepared branch, and in a cycle."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import psycopg
import pytest

from tests.fix_topology import Pair
from twopc.sim.sessions.waits import ObservedClient, Observer
from twopc.sim.topology import Topology
from twopc.waits import link_name

TABLE = (
    "create table t (id int primary key, n int)",
    "insert into t values (1, 0), (2, 0), (3, 0)",
)
LOOKS_MAX = 2000


class Watch:
    """Looks at the waits until a condition holds, a limited number of times."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.clients: list[ObservedClient] = []

    async def until(self, condition):
        for _ in range(LOOKS_MAX):
            waits = await self.observer.look(self.clients)
            if condition(waits):
                return waits
        raise AssertionError(f"after {LOOKS_MAX} looks: {waits}")


@asynccontextmanager
async def watching(topology, *nodes):
    observer = await Observer.connect({node: topology.node(node).dsn for node in nodes})
    try:
        yield Watch(observer)
    finally:
        await observer.close()


@asynccontextmanager
async def at_publisher(pair: Pair):
    dsn = pair.topology.node("pub").app_dsn
    bounded = "-c lock_timeout=10s"  # a test that fails must not hang
    async with await psycopg.AsyncConnection.connect(
        dsn, autocommit=True, options=bounded
    ) as connection:
        yield connection


def client(name, node, connection, gid=""):
    return ObservedClient(name=name, node=node, pid=connection.info.backend_pid, gid=gid)


async def test_a_local_wait_and_the_queue_behind_it(make_pair):
    pair = await make_pair(*TABLE, publish=["t"])
    async with (
        watching(pair.topology, "pub", "sub1") as watch,
        at_publisher(pair) as a,
        at_publisher(pair) as b,
        at_publisher(pair) as c,
    ):
        watch.clients = [client("a", "pub", a), client("b", "pub", b), client("c", "pub", c)]
        await a.execute("begin; update t set n = 1 where id = 1")
        b_waits = asyncio.create_task(b.execute("begin; update t set n = 2 where id = 1"))
        waits = await watch.until(lambda w: "b" in w.waits)
        assert waits.waits["b"].on == "a"
        assert waits.waits["b"].node == "pub"
        assert waits.waits["b"].pid == a.info.backend_pid
        assert not waits.cyclic
        c_waits = asyncio.create_task(c.execute("begin; update t set n = 3 where id = 1"))
        waits = await watch.until(lambda w: "c" in w.waits)
        assert waits.waits["c"].on == "b"  # c is behind b in the queue for the row
        await a.execute("rollback")
        await b_waits
        await watch.until(lambda w: "b" not in w.waits)
        await b.execute("rollback")
        await c_waits
        assert (await watch.until(lambda w: not w.waits)).cycles == ()


async def test_a_wait_through_the_link(make_pair):
    await _wait_through_the_link(await make_pair(*TABLE, publish=["t"]))


async def test_a_wait_through_the_link_to_another_server():
    async with Topology(subscribers=("sub1",), servers="each") as topology:
        for statement in TABLE:
            await topology.execute("pub", statement)
        await topology.publish("t")
        await topology.subscribe("sub1")
        pair = Pair(topology, "sub1")
        await pair.open()
        async with pair.app:
            await _wait_through_the_link(pair)


async def _wait_through_the_link(pair):
    async with watching(pair.topology, "pub", "sub1") as watch, at_publisher(pair) as office:
        await office.execute("begin; update t set n = 1 where id = 1")
        gid = await pair.begin()
        watch.clients = [client("office", "pub", office), client("app", "sub1", pair.app, gid)]
        writing = asyncio.create_task(pair.execute("update t set n = 2 where id = 1"))
        waits = await watch.until(lambda w: w.waits)
        wait = waits.waits["app"]  # its own server shows only a wait for the link
        assert (wait.on, wait.node, wait.pid) == ("office", "pub", office.info.backend_pid)
        await office.execute("rollback")
        await writing
        # conversely, a wait for the link's process is a wait for the Subscriber's session
        waiting = asyncio.create_task(office.execute("update t set n = 3 where id = 1"))
        waits = await watch.until(lambda w: "office" in w.waits)
        assert waits.waits["office"].on == "app"
        assert waits.waits["office"].pid != pair.app.info.backend_pid
        await pair.rollback()
        await waiting


async def test_a_wait_for_a_prepared_branch(make_pair):
    """`pg_blocking_pids` returns 0 for the holder; it is identified by its gid."""
    pair = await make_pair(*TABLE, publish=["t"])
    async with watching(pair.topology, "pub", "sub1") as watch, at_publisher(pair) as office:
        gid = await pair.begin()
        await pair.execute("update t set n = 2 where id = 1")
        calls = await pair.prepare()
        watch.clients = [client("office", "pub", office), client("app", "sub1", pair.app, gid)]
        waiting = asyncio.create_task(office.execute("update t set n = 1 where id = 1"))
        waits = await watch.until(lambda w: w.waits)
        wait = waits.waits["office"]
        assert (wait.on, wait.pid, wait.gid) == ("app", 0, f"{gid}:pub")
        # without its session the branch is still identified by its gid
        waits = await watch.observer.look([client("office", "pub", office)])
        assert (waits.waits["office"].on, waits.waits["office"].gid) == ("", f"{gid}:pub")
        await pair.finish(calls)
        await waiting


async def begun(pair, node, event, application):
    """Wait until the server shows that a session waits, by a query other than the wait graph's."""
    query = (
        "select pid from pg_stat_activity where application_name = %s and wait_event_type = %s"
        " and (wait_event_type <> 'Lock' or exists (select from pg_locks as l"
        " where l.pid = pg_stat_activity.pid and not l.granted))"
    )
    for _ in range(LOOKS_MAX):
        if await pair.topology.execute(node, query, (application, event)):
            return
    raise AssertionError(f"{application} does not wait at {node}")


@pytest.mark.parametrize("kind", ["at home", "through the link", "for a prepared branch"])
async def test_the_first_look_after_a_wait_began_names_it(make_pair, kind):
    """The first look after a wait has begun shows it: detection does not depend on elapsed time."""
    pair = await make_pair(*TABLE, publish=["t"])
    async with watching(pair.topology, "pub", "sub1") as watch, at_publisher(pair) as office:
        await office.execute("set application_name = 'office'")
        gid = await pair.begin()
        clients = [client("office", "pub", office), client("app", "sub1", pair.app, gid)]
        assert (await watch.observer.look(clients)).waits == {}
        if kind == "through the link":
            await office.execute("begin; update t set n = 1 where id = 1")
            waiting = asyncio.create_task(pair.execute("update t set n = 2 where id = 1"))
            link = link_name("sub1", pair.app.info.backend_pid)
            await begun(pair, "pub", "Lock", link)
            name = pair.app.info.parameter_status("application_name")
            await begun(pair, "sub1", "Extension", name)
        else:
            await pair.execute("update t set n = 2 where id = 1")
            calls = await pair.prepare() if kind == "for a prepared branch" else 0
            waiting = asyncio.create_task(office.execute("update t set n = 1 where id = 1"))
            await begun(pair, "pub", "Lock", "office")
        who, whom = ("app", "office") if kind == "through the link" else ("office", "app")
        looked = await watch.observer.look(clients)
        assert {name: wait.on for name, wait in looked.waits.items()} == {who: whom}
        if kind == "through the link":
            await office.execute("rollback")
            await waiting
            await pair.rollback()
        elif calls:
            await pair.finish(calls)
            await waiting
        else:
            await pair.rollback()
            await waiting


async def test_cancel_ends_a_wait(make_pair):
    pair = await make_pair(*TABLE, publish=["t"])
    async with (
        watching(pair.topology, "pub") as watch,
        at_publisher(pair) as a,
        at_publisher(pair) as b,
    ):
        watch.clients = [client("a", "pub", a), client("b", "pub", b)]
        await a.execute("begin; update t set n = 1 where id = 1")
        waiting = asyncio.create_task(b.execute("update t set n = 2 where id = 1"))
        await watch.until(lambda w: w.waits)
        await watch.observer.cancel("pub", b.info.backend_pid)
        with pytest.raises(psycopg.errors.QueryCanceled):
            await waiting
        await a.execute("rollback")


async def test_cycles_that_one_server_sees_and_that_none_sees(make_pair):
    pair = await make_pair(*TABLE, publish=["t"])
    carol = Pair(pair.topology, "sub1")
    await carol.open()
    async with (
        carol.app,
        watching(pair.topology, "pub", "sub1") as watch,
        at_publisher(pair) as office,
    ):
        # alice holds row 1 at sub1 and at the Publisher; the office holds row 2 there and wants
        # carol's row 3; carol wants row 1, at sub1, and alice wants row 2, at the Publisher
        gid = await pair.begin()
        await pair.execute("update t set n = 1 where id = 1")
        carol_gid = await carol.begin()
        await carol.execute("update t set n = 1 where id = 3")
        await office.execute("begin; update t set n = 1 where id = 2")
        watch.clients = [
            client("alice", "sub1", pair.app, gid),
            client("carol", "sub1", carol.app, carol_gid),
            client("office", "pub", office),
        ]
        tasks = [asyncio.create_task(office.execute("update t set n = 2 where id = 3"))]
        await watch.until(lambda w: "office" in w.waits)
        tasks.append(asyncio.create_task(carol.execute("update t set n = 2 where id = 1")))
        waits = await watch.until(lambda w: "carol" in w.waits)
        assert not waits.cyclic
        tasks.append(asyncio.create_task(pair.execute("update t set n = 2 where id = 2")))
        waits = await watch.until(lambda w: w.cyclic)
        ((sessions, told),) = waits.cycles
        assert set(sessions) == {"alice", "carol", "office"}
        assert sorted(told) == [
            "alice waits at pub for office (a row of t)",
            "carol waits at sub1 for alice (a row of t)",
            "office waits at pub for carol (a row of t)",
        ]
        await watch.observer.cancel("sub1", carol.app.info.backend_pid)
        with pytest.raises(psycopg.errors.QueryCanceled):
            await tasks[1]
        await watch.until(lambda w: not w.cyclic)
        await carol.rollback()
        await tasks[0]
        await office.execute("rollback")
        await tasks[2]
        await pair.rollback()
