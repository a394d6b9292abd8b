"""The figures of `benchmarks.merge` for one node: the cost of tracking, and of a generation."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from benchmarks.figures import Figure, median, spread
from twopc import names
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

Connection = psycopg.Connection[Any]

TABLE = "create table {name} (id int primary key, a int, b text, c numeric, updated_at timestamptz default now())"
FILL = "insert into {name} (id, a, b, c) select i, i, 'text ' || i, i * 1.5 from generate_series({low}, {high}) as i"
GUID = "alter table {name} add rowguid uuid not null unique default uuidv7()"
#: The usual solution: a row trigger, and a table of the rows that have changed.
ROW_TRIGGER = """
create table changed (rowguid uuid primary key, xid xid8 not null, version int not null);
create index on changed (xid);
create function note() returns trigger language plpgsql as $$
begin
    insert into changed as c values (new.rowguid, pg_current_xact_id(), 1)
    on conflict (rowguid) do update set xid = excluded.xid, version = c.version + 1;
    return null;
end $$;
create trigger note after insert or update on by_row_trigger for each row execute function note();
"""
#: Closes a generation as an agent does, in one round trip.
CLOSE = (
    "begin isolation level repeatable read;"
    " lock table msrepl.msmerge_genhistory in share row exclusive mode;"
    " select * from msrepl.merge_close()"
)
#: The last generation that the Subscriber has, and the last one that exists.
RANGE = """
select s.sentgen, (select max(g.generation) from msrepl.msmerge_genhistory as g)
from msrepl.sysmergesubscriptions as s where not s.is_self
"""
TABLES: Mapping[str, str | None] = {
    "plain": None,
    "by_row": "row",
    "by_column": "column",
    "by_row_trigger": None,
}


def cpu_s(connection: Connection) -> float:
    """Return the CPU seconds that a connection's server process has used."""
    stat = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    return int(stat.read_text(encoding="ascii").split()[0]) / 1e9


def used_s(connection: Connection, statement: str) -> float:
    """Return the CPU seconds of a statement at the server."""
    before = cpu_s(connection)
    connection.execute(statement.encode())
    return cpu_s(connection) - before


async def _make_tables(topology: MergeTopology) -> None:
    for name, level in TABLES.items():
        await topology.execute("pub", TABLE.format(name=name))
        if level is None:
            await topology.execute("pub", GUID.format(name=name))
        else:
            await topology.publish(name, tracking=level)
    await topology.execute("pub", ROW_TRIGGER)


async def tracking(rows: int, rounds: int) -> list[Figure]:
    """Execute the same statements on each table; compare the CPU time of their session."""
    spent: dict[tuple[str, str], list[float]] = {}
    async with MergeTopology(subscribers=()) as topology:
        await _make_tables(topology)
        with psycopg.connect(topology.node("pub").dsn, autocommit=True) as connection:
            for turn in range(rounds):
                low, high = turn * rows + 1, (turn + 1) * rows
                for name in TABLES:
                    fill = FILL.format(name=name, low=low, high=high)
                    change = f"update {name} set a = a + 1 where id between {low} and {high}"
                    spent.setdefault((name, "insert"), []).append(used_s(connection, fill))
                    connection.execute("vacuum analyze")
                    spent.setdefault((name, "update"), []).append(used_s(connection, change))
    return [
        _ratio(name, target, better, spent[one, what], spent[other, what])
        for name, target, better, one, other, what in (
            ("merge_track_insert", 2.2, "lower", "by_row", "plain", "insert"),
            ("merge_track_update", 2.5, "lower", "by_row", "plain", "update"),
            ("merge_track_column", 2.9, "lower", "by_column", "plain", "update"),
            ("merge_track_row_trigger_insert", 1.8, "higher", "by_row_trigger", "by_row", "insert"),
            ("merge_track_row_trigger_update", 1.3, "higher", "by_row_trigger", "by_row", "update"),
        )
    ]


def _ratio(
    name: str,
    target: float,
    better: str,
    ones: list[float],
    others: list[float],
    unit: str = "x CPU",
) -> Figure:
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    return Figure(
        name=name,
        value=median(ratios),
        unit=unit,
        target=target,
        better=better,
        detail={"rounds": spread(ratios)},
    )


async def one_row(rounds: int) -> list[Figure]:
    """Compare the time of 500 updates of one row, each in a durable commit, the tables in turns."""
    spent: dict[str, list[float]] = {"plain": [], "by_row": []}
    with ExitStack() as stack:
        server = EmbeddedServer.start(durable=True)
        stack.callback(server.stop)
        async with MergeTopology(subscribers=(), server=server) as topology:
            await _make_tables(topology)
            with psycopg.connect(topology.node("pub").dsn, autocommit=True) as connection:
                for name in spent:
                    connection.execute(FILL.format(name=name, low=1, high=1000).encode())
                for _ in range(rounds):
                    for name, seconds in spent.items():
                        change = f"update {name} set a = a + 1 where id = %s".encode()
                        began = time.perf_counter()
                        for row in range(1, 501):
                            connection.execute(change, (row,), prepare=True)
                        seconds.append(time.perf_counter() - began)
    return [_ratio("merge_track_one_row", 1.25, "lower", spent["by_row"], spent["plain"], "x time")]


async def closing(rows: int, rounds: int) -> list[Figure]:
    """Compare closing a generation with numbering its rows, and finding 1 % of a table with comparing checksums."""
    async with MergeTopology(subscribers=("sub",)) as topology:
        await topology.execute("pub", TABLE.format(name="item"))
        await topology.execute("pub", FILL.format(name="item", low=1, high=rows))
        article = await topology.publish("item")
        await topology.subscribe("sub")
        connection = await topology.admin("pub")
        metadata = sql.Identifier(names.SCHEMA, names.merge_metadata(article.nickname))
        await connection.execute("update item set a = a + 1 where id % 10 = 0")
        await connection.execute(
            sql.SQL("create table numbered (like {} including indexes, generation int8)").format(
                metadata
            )
        )
        await connection.execute(sql.SQL("insert into numbered select * from {}").format(metadata))
        numbering = await _time_s(topology, sql.SQL("update numbered set generation = 1"))
        closings = []
        for _ in range(20):
            began = time.perf_counter()
            await connection.execute(CLOSE)
            await connection.execute("commit")
            closings.append(time.perf_counter() - began)
            await connection.execute("update item set a = a + 1 where id % 10 = 0 and id < 100")
        closing_s = median(closings)
        await topology.sync("sub")
        await connection.execute("vacuum analyze")
        times = [await _finding(topology, article.artid, rows) for _ in range(rounds)]
    ratios = [compared / finding for compared, finding in times]
    return [
        Figure(
            name="merge_close", value=numbering / closing_s, unit="x", target=1000, better="higher",
            detail={"numbering ms": round(numbering * 1e3), "closing ms": round(closing_s * 1e3, 3)},
        ),
        Figure(
            name="merge_enumerate", value=median(ratios), unit="x", target=10, better="higher",
            detail={"rounds": spread(ratios), "rows": rows, "checksums ms": round(median([c for c, _ in times]) * 1e3),
                    "finding ms": round(median([f for _, f in times]) * 1e3)},
        ),
    ]  # fmt: skip


async def _finding(topology: MergeTopology, artid: UUID, rows: int) -> tuple[float, float]:
    """Change 1 %; return the seconds for checksums at both nodes, and for finding these rows by their metadata."""
    connection = await topology.admin("pub")
    await connection.execute("update item set a = a + 1 where id % 100 = 0")
    await connection.execute("select msrepl.merge_close()")
    [(sent, closed)] = await topology.execute("pub", RANGE)
    checksum = sql.SQL("select bit_xor(hashtextextended(i::text, 0)) from item as i")
    compared_s = await _time_s(topology, checksum) + await _time_s(topology, checksum, "sub")
    function = sql.Identifier(names.SCHEMA, names.merge_object("enumerate", artid))
    agent = names.role("merge", topology.node("pub").database, "sub")
    await connection.execute(sql.SQL("set session authorization {}").format(sql.Identifier(agent)))
    began = time.perf_counter()
    cursor = await connection.execute(
        sql.SQL("select guids, lineages, rows from {}(%s, %s)").format(function), (sent, closed)
    )
    assert sum(len(guids) for guids, *_ in await cursor.fetchall()) == rows // 100
    finding_s = time.perf_counter() - began
    await connection.execute("reset session authorization")
    return compared_s, finding_s


async def _time_s(
    topology: MergeTopology, query: sql.SQL | sql.Composed, node: str = "pub"
) -> float:
    connection = await topology.admin(node)
    began = time.perf_counter()
    await connection.execute(query)
    return time.perf_counter() - began


async def missed(commits: int, writers: int = 16, rows: int = 2000) -> list[Figure]:
    """Count rows whose last version is missed beside `writers`: by sessions, and by the `updated_at` loop."""
    with ExitStack() as stack:
        server = EmbeddedServer.start(settings={"max_connections": "100"})
        stack.callback(server.stop)
        async with MergeTopology(subscribers=("sub",), server=server) as topology:
            await topology.execute("pub", TABLE.format(name="item"))
            await topology.execute("pub", FILL.format(name="item", low=1, high=rows))
            await topology.publish("item")
            await topology.subscribe("sub")
            left = threading.Semaphore(commits)
            dsn = topology.node("pub").dsn
            threads = [
                threading.Thread(target=_write, args=(dsn, number, rows, left))
                for number in range(writers)
            ]
            for thread in threads:
                thread.start()
            copies: dict[int, int] = {}
            last, sessions = None, 0
            while any(thread.is_alive() for thread in threads):
                await topology.sync("sub")
                sessions += 1
                last = await _poll(topology, copies, last)
            await topology.sync("sub")
            await _poll(topology, copies, last)
            final = dict(await topology.execute("pub", "select id, a from item"))
            merged = dict(await topology.execute("sub", "select id, a from item"))
    lost = {
        name: sum(copy.get(row, row) != value for row, value in final.items())
        for name, copy in (("sessions", merged), ("loop", copies))
    }
    return [
        Figure(
            name="merge_missed", value=lost["sessions"], unit="rows", target=0, better="lower",
            detail={"of": rows, "commits": commits, "sessions": sessions, "by the loop": lost["loop"]},
        )
    ]  # fmt: skip


async def _poll(topology: MergeTopology, copies: dict[int, int], last: Any) -> Any:
    """Read what the loop reads; return where it continues."""
    found = await topology.execute(
        "pub", "select id, a, updated_at from item where %(t)s::timestamptz is null or updated_at > %(t)s", {"t": last}
    )  # fmt: skip
    copies.update({row: value for row, value, _ in found})
    return max((when for *_, when in found), default=last)


def _write(dsn: str, number: int, rows: int, left: threading.Semaphore) -> None:
    """Execute the transactions of one writer, some of which are slow."""
    chance = random.Random(number)
    change = b"update item set a = a + 1, updated_at = now() where id = %s"
    with psycopg.connect(dsn, autocommit=True) as connection:
        while left.acquire(blocking=False):
            connection.execute("begin")
            for row in sorted(chance.sample(range(1, rows + 1), chance.choice((1, 1, 2, 5)))):
                connection.execute(change, (row,))
            if chance.random() < 0.05:
                connection.execute("select pg_sleep(%s)", (chance.random() * 0.1,))
            connection.execute("rollback" if chance.random() < 0.1 else "commit")
