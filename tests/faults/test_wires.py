"""A wire between two nodes loses and swallows the messages that it is asked to."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.fix_link import until
from twopc.server import EmbeddedServer
from twopc.sim.faults.wires import Fate, ServerWire


async def test_an_answer_is_held_back_and_lost(server: EmbeddedServer) -> None:
    wire = ServerWire(server.dsn("postgres"))
    await wire.open()
    heard: list[str] = []

    async def lost(text: str) -> Fate:
        heard.append(text.rstrip("\0"))
        return "lose"

    dsn = wire.through(server.dsn("postgres"))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute("select repeat('x', 1000) from generate_series(1, 500)")
        assert len(await cursor.fetchall()) == 500
        wire.watch(b"select %s", lost)
        cursor = await connection.execute("select %s::int", (5,))
        assert await cursor.fetchone() == (5,)
        wire.watch(b"select 7", lost)
        with pytest.raises(psycopg.OperationalError):
            await connection.execute("select 7")
    assert heard == ["select 7"]
    await wire.close()


async def test_a_wire_that_swallows_says_nothing_until_it_is_mended(server: EmbeddedServer) -> None:
    wire = ServerWire(server.dsn("postgres"))
    await wire.open()
    dsn = wire.through(server.dsn("postgres"))
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        wire.swallow(requests=False, answers=True)
        asked = asyncio.create_task(connection.execute("select 1"))
        await until(lambda: wire.has_swallowed, "the answer to be swallowed")
        assert not asked.done()
        wire.mend()
        with pytest.raises(psycopg.OperationalError):
            await asked
    wire.cut()
    with pytest.raises(psycopg.OperationalError):
        await psycopg.AsyncConnection.connect(dsn)
    wire.mend()
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await connection.execute("select 1")
    await wire.close()
