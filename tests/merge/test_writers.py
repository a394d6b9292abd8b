"""Applications that write during sessions: no change is missed, and no transaction fails."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections import Counter

import psycopg

from twopc.sim.merge import MergeTopology

WRITERS = 4
ROWS = 40
SESSIONS = 15


def write(dsn: str, table: str, number: int, enough: threading.Event) -> Counter[int]:
    """Run transactions of an application on its own rows; return how often each was incremented.

    Some roll back savepoints, some are prepared, some are rolled back. SERIALIZABLE transactions on
    so small a table conflict with and without replication; no others may fail.
    """
    chance = random.Random(f"{table} {number}")
    mine = [row for row in range(ROWS) if row % WRITERS == number]
    done: Counter[int] = Counter()
    with psycopg.connect(dsn, autocommit=True) as connection:
        for turn in itertools.count():
            if enough.is_set():
                return done
            level = chance.choice(("read committed", "repeatable read", "serializable"))
            rows = chance.sample(mine, chance.choice((1, 2, 5)))
            end = chance.choice(("commit", "commit", "commit", "rollback", "prepared"))
            gid = f"writer_{table}_{number}_{turn}" if end == "prepared" else ""
            try:
                _transaction(connection, table, level, rows, end, gid)
            except psycopg.errors.SerializationFailure:
                assert level == "serializable"
                connection.execute("rollback")
                continue
            if gid:
                connection.execute(f"commit prepared '{gid}'".encode())
            if end != "rollback":
                done.update(rows)
    raise AssertionError


def _transaction(
    connection: psycopg.Connection, table: str, level: str, rows: list[int], end: str, gid: str
) -> None:
    count = f"update {table} set n = n + 1 where id = %s".encode()
    connection.execute(f"begin isolation level {level}".encode())
    for place, row in enumerate(rows):
        if place % 2:
            connection.execute("savepoint s")
            connection.execute(count, (row,))
            connection.execute("rollback to s")
        connection.execute(count, (row,))
    connection.execute((f"prepare transaction '{gid}'" if gid else end).encode())


async def test_nobody_is_missed_and_nobody_fails(topology: MergeTopology) -> None:
    """Each table is written at one node; after the last session the other has every increment."""
    for table in ("up", "down"):
        await topology.execute("pub", f"create table {table} (id int primary key, n int not null)")
        await topology.execute(
            "pub", f"insert into {table} select i, 0 from generate_series(0, {ROWS - 1}) as i"
        )
        await topology.publish(table)
    await topology.subscribe("anna")
    enough = threading.Event()
    running = [
        asyncio.create_task(
            asyncio.to_thread(write, topology.node(node).app_dsn, table, number, enough)
        )
        for node, table in (("anna", "up"), ("pub", "down"))
        for number in range(WRITERS)
    ]
    try:
        for _ in range(SESSIONS):
            assert (await topology.sync("anna")).conflicts == 0
    finally:
        enough.set()
        done = await asyncio.gather(*running)
    await topology.settle()
    for table, counts in (("up", done[:WRITERS]), ("down", done[WRITERS:])):
        expected = sum(counts, Counter())
        for node in ("pub", "anna"):
            rows = await topology.execute(
                node, f"select id, n from {table} where n > 0 order by id"
            )
            assert rows == sorted(expected.items()), (table, node)
