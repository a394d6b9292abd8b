"""Tests of several topologies made and dropped concurrently on one server, whose catalogs they share."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from psycopg import AsyncConnection, sql

from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology
from twopc.sim.topology.nodes import fresh_name
from twopc.sql.render import render

GRANT, DROP = (
    render("twopc", name, role=sql.SQL("{}")) for name in ("grant_replica", "drop_rights")
)

TABLE = (
    "create table t (id int primary key, n int)",
    # the Publisher stores another value, so the Subscriber's functions must write rows back
    "create function twice() returns trigger language plpgsql as 'begin new.n := new.n * 2; return new; end'",
    "create trigger twice before insert on t for each row execute function twice()",
)


async def one(server):
    async with Topology(server=server, name=fresh_name(), subscribers=["sub1"]) as topology:
        for text in TABLE:
            await topology.execute("pub", text)
        await topology.publish("t")
        await topology.subscribe("sub1")
        await topology.run("sub1", "insert into t values (1, 5)")
        return await topology.execute("sub1", "select n from t")


async def test_rights_that_all_databases_share(server):
    found = await asyncio.gather(*(one(server) for _ in range(6)))
    assert found == [[(10,)]] * 6


async def test_the_first_right_of_a_server():
    """Concurrent sessions can create and remove the first granted privilege of a server."""
    with EmbeddedServer.start() as fresh:
        dsn = fresh.superuser_dsn("postgres")
        for turn in range(4):
            names = [f"first_{turn}_{number}" for number in range(6)]
            async with AsyncExitStack() as stack:
                sessions = [
                    await stack.enter_async_context(
                        await AsyncConnection.connect(dsn, autocommit=True)
                    )
                    for _ in names
                ]
                for statement in ("create role {}", GRANT, DROP, "drop role {}"):
                    texts = [statement.replace("{}", name) for name in names]
                    await asyncio.gather(
                        *(
                            session.execute(text.encode())
                            for session, text in zip(sessions, texts, strict=True)
                        )
                    )
