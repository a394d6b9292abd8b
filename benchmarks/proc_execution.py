"""One call of a routine against the rows that it changes: ``python -m benchmarks.proc_execution``.

Two tables have the same 10,000 employees, who all get the same raise. The routine for ``called_employees`` is an
article: its call is sent. The one for ``rowed_employees`` is not: its rows are sent, as by default. For the former
table the log need not contain old rows, since its updates and deletes would be sent without them (``CALL``), and no
column is stored out of line. Everything else is the same: one durable server for the Publisher, with the distribution
database, one for a read-only Subscriber, the log reader and the agent in separate processes, and space for a second
version of each row in its page.

``bytes_ratio``: size of the transaction in the distribution database, as rows over as a call. ``time_ratio``: time from
the return of COMMIT at the Publisher until the last row is seen changed at the Subscriber, as rows over as a call.
Rounds are interleaved. The run is void unless both tables are equal at both ends, without row versions, which are not
compared for a read-only Subscriber.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.distribution import SETTINGS
from benchmarks.figures import Figure, median, report, spread
from benchmarks.native import wait
from benchmarks.processes import Ours
from twopc.server import EmbeddedServer

TARGETS = {"bytes_ratio": 1000.0, "time_ratio": 5.0}
TABLES = {"called": "called_employees", "rowed": "rowed_employees"}
TABLE = """
create table {table} (
    id int primary key, name text storage plain not null, street text storage plain not null,
    city text storage plain not null, phone text storage plain not null, born date not null, hired date not null,
    department int not null, grade smallint not null,
    salary numeric(14, 2) storage plain not null
) with (fillfactor = 45, autovacuum_enabled = off)
"""
FILL = """
insert into {table}
select n, 'employee ' || n, 'street ' || n % 997, 'city ' || n % 89, '+39 02 ' || 1000000 + n,
    date '1960-01-01' + n % 15000, date '2000-01-01' + n % 9000, n % 40, n % 9, 1000 + n
from generate_series(1, {rows}) as n
"""
ROUTINE = """
create procedure raise_{who}() language plpgsql as $$ begin
    update {table} set salary = salary * 1.01;
end $$
"""
CONTENT = "id, name, street, city, phone, born, hired, department, grade, salary"
#: Size of the blocks of one transaction; values stored out of line count as they are stored.
BYTES = """
select sum(pg_column_size(seqnos) + pg_column_size(xids) + pg_column_size(entry_times)
    + pg_column_size(originators) + pg_column_size(marks) + pg_column_size(counts) + pg_column_size(lengths)
    + pg_column_size(command_seqnos) + pg_column_size(command_ids) + pg_column_size(codes)
    + pg_column_size(command_originators) + pg_column_size(hashkeys) + pg_column_size(texts))::int,
    sum(commands)::int
from msrepl.msrepl_blocks where last_seqno > %s
"""


@dataclass(slots=True)
class Contender:
    """One of the tables, with the measurements of its routine."""

    who: str
    arrived_ms: list[float] = field(default_factory=list)
    """Time from COMMIT to the last row at the Subscriber."""
    stored_ms: list[float] = field(default_factory=list)
    """Time from COMMIT to the distribution database."""
    body_ms: list[float] = field(default_factory=list)
    """Time of the call itself, at the Publisher."""
    bytes: list[int] = field(default_factory=list)
    commands: int = 0

    @property
    def table(self) -> str:
        """The table in which the routine raises the salaries."""
        return TABLES[self.who]


class Arena:
    """Both servers, with both tables."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.contenders = [Contender("called"), Contender("rowed")]

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Arena]:
        """Start servers, tables, the subscription and processes."""
        with contextlib.ExitStack() as stack:
            dsns = {}
            for name in ("pub", "sub1"):
                server = EmbeddedServer.start(durable=True, settings=SETTINGS)
                stack.callback(server.stop)
                server.create_database(name)
                dsns[name] = server.superuser_dsn(name)
            self.publisher, self.subscriber, self.eyes = (
                stack.enter_context(psycopg.connect(dsns[name], autocommit=True))
                for name in ("pub", "sub1", "pub")
            )
            for who, table in TABLES.items():
                holes = {"table": table, "rows": self.rows, "who": who}
                for text in (TABLE, FILL, ROUTINE):
                    self.publisher.execute(text.format(**holes).encode())
                self.subscriber.execute(TABLE.format(**holes).encode())
            self.publisher.execute("set default_transaction_isolation = serializable")
            tables = list(TABLES.values())
            routines = {"raise_called": TABLES["called"]}
            async with Ours.open(
                dsns["pub"],
                {"sub1": dsns["sub1"]},
                tables,
                propagate={TABLES["called"]: {"upd": "CALL", "del": "CALL"}},
                routines=routines,
                update_mode="read only",
            ):
                for connection in (self.publisher, self.subscriber):
                    for text in ("vacuum analyze", "checkpoint"):
                        connection.execute(text.encode())
                yield self

    def play(self, contender: Contender) -> None:
        """Measure one call."""
        self.publisher.execute(f"vacuum {contender.table}".encode())
        self.subscriber.execute(f"vacuum {contender.table}".encode())
        last = f"select salary from {contender.table} where id = {self.rows}".encode()
        before = self._one(self.subscriber, last)
        read_to = "select read_to from msrepl.mspublisher_databases"
        was = self._one(self.eyes, read_to.encode())
        began = time.perf_counter()
        self.publisher.execute("begin")
        self.publisher.execute(f"call raise_{contender.who}()".encode())
        called = time.perf_counter()
        self.publisher.execute("commit")
        committed = time.perf_counter()
        stored: list[float] = []

        def arrived() -> bool:
            if not stored and self._one(self.eyes, read_to.encode()) != was:
                stored.append(time.perf_counter())
            return bool(self._one(self.subscriber, last) != before)

        wait(arrived, f"the raise in {contender.table}", pause_s=0.001)
        done = time.perf_counter()
        contender.arrived_ms.append((done - committed) * 1000)
        contender.stored_ms.append(((stored or [done])[0] - committed) * 1000)
        contender.body_ms.append((called - began) * 1000)
        size, commands = self.eyes.execute(BYTES, (was,)).fetchone() or (0, 0)
        contender.bytes.append(size)
        contender.commands = commands

    @staticmethod
    def _one(connection: psycopg.Connection[Any], query: bytes) -> Any:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]

    def check(self) -> None:
        """Check that both ends are equal, and that only one contender was sent as a call; otherwise the run is void."""
        for contender in self.contenders:
            query = (
                f"select count(*), sum(hashtextextended(row({CONTENT})::text, 0)) from {contender.table}"
            ).encode()
            there, here = (c.execute(query).fetchone() for c in (self.publisher, self.subscriber))
            if there != here:
                raise SystemExit(f"VOID: {contender.table} is {there} at pub and {here} at sub1")
            wanted = 1 if contender.who == "called" else self.rows
            if contender.commands != wanted:
                raise SystemExit(
                    f"VOID: {contender.commands} commands of {contender.table}, not {wanted}"
                )


async def contest(rounds: int, rows: int) -> tuple[Contender, Contender]:
    """Run all rounds, after one to warm up."""
    async with Arena(rows).open() as arena:
        for number in range(rounds + 1):
            for contender in arena.contenders[:: 1 if number % 2 else -1]:
                await asyncio.to_thread(arena.play, contender)
            if number == 0:
                arena.contenders[:] = [Contender(each.who) for each in arena.contenders]
        await asyncio.to_thread(arena.check)
        called, rowed = arena.contenders
        return called, rowed


def figures(called: Contender, rowed: Contender) -> list[Figure]:
    """Return the figures: ratios within each round."""
    times = [b / a for a, b in zip(called.arrived_ms, rowed.arrived_ms, strict=True)]
    sizes = [b / a for a, b in zip(called.bytes, rowed.bytes, strict=True)]
    split: dict[str, Any] = {"rounds": spread(times)}
    for each in (called, rowed):
        split |= {
            f"{each.who} ms": round(median(each.arrived_ms), 1),
            f"{each.who} stored ms": round(median(each.stored_ms), 1),
            f"{each.who} body ms": round(median(each.body_ms), 1),
        }
    details = {
        "bytes_ratio": {
            "called bytes": round(median(called.bytes)),
            "rowed bytes": round(median(rowed.bytes)),
        },
        "time_ratio": split,
    }
    values = {"bytes_ratio": median(sizes), "time_ratio": median(times)}
    return [
        Figure(
            name=name,
            value=values[name],
            unit="x",
            target=target,
            better="higher",
            detail=details[name],
        )
        for name, target in TARGETS.items()
    ]


async def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=10_000)
    options = parser.parse_args()
    called, rowed = await contest(options.rounds, options.rows)
    report("one call against its rows", figures(called, rowed))


if __name__ == "__main__":
    asyncio.run(main())
