"""Distribution against PostgreSQL's own logical replication: ``python -m benchmarks.distribution``.

One durable server for the Publisher, with the distribution database, and one for all Subscribers; both contenders
use both. Each has its own copy of the same tables (`benchmarks.loads`): ours are published with procedures, with one
call per row unless the load is one transaction of 500,000 rows; native's have default replica identity. Both apply
with ``synchronous_commit = off``, native by its default.

A figure is a ratio of rates. In each round, for each contender, all its processes are stopped (SIGSTOP), a backlog is
made at the Publisher, the processes continue, and the time is measured until the last change is visible at every
Subscriber. The order changes from round to round. At the end every Subscriber must hold the Publisher's rows, for
both contenders, or the run is void.

Latency is measured for ours only: commit timestamps of the same row at both ends, at 200 transactions per second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg

from benchmarks.figures import Figure, add_only, median, report, selected, spread
from benchmarks.loads import LOADS, Load, fill, make, tables
from benchmarks.native import Native, wait
from benchmarks.processes import Ours
from twopc.server import EmbeddedServer

SETTINGS = {
    "track_commit_timestamp": "on",
    "max_wal_size": "4GB",  # no checkpoint during a measurement
    "wal_sender_timeout": "0",  # a stopped process must not count as dead
    "autovacuum": "off",
}
#: Load, number of Subscribers and target of each figure.
FIGURES = {
    "one_row_1": ("one_row", 1, 1.5),
    "one_row_4": ("one_row", 4, 2.2),
    "ten_row": ("ten_row", 1, 1.1),
    "big_update": ("big_update", 1, 0.8),
    "big_insert": ("big_insert", 1, 0.6),
    "tpcb": ("tpcb", 1, 1.3),
}
LATENCY = {"latency_p50": (0.50, 3.0), "latency_p99": (0.99, 10.0)}


class Pipeline(Protocol):
    """A pipeline that replicates changes; it is stopped while a backlog is made."""

    def settings(self) -> dict[str, object]: ...
    def hold(self) -> None: ...
    def let_go(self) -> None: ...


@dataclass(slots=True)
class Contender:
    """A pipeline with its tables."""

    prefix: str
    pipeline: Pipeline
    rates: dict[str, list[float]] = field(default_factory=dict)
    """Changes per second in each round, by load."""
    ends: int = 0


class Arena:
    """Both servers, with both contenders."""

    def __init__(self, subscribers: int) -> None:
        self.names = [f"sub{n}" for n in range(1, subscribers + 1)]

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Arena]:
        """Start servers, tables, subscriptions and processes."""
        with contextlib.ExitStack() as stack:
            for place in ("there", "here"):
                server = EmbeddedServer.start(durable=True, settings=SETTINGS)
                stack.callback(server.stop)
                setattr(self, place, server)
            self.there: EmbeddedServer
            self.here: EmbeddedServer
            self.there.create_database("pub")
            for name in self.names:
                self.here.create_database(name)
            self.publisher_dsn = self.there.superuser_dsn("pub")
            self.dsns = {name: self.here.superuser_dsn(name) for name in self.names}
            self.publisher = stack.enter_context(
                psycopg.connect(self.publisher_dsn, autocommit=True)
            )
            self.subscribers = {
                name: stack.enter_context(psycopg.connect(dsn, autocommit=True))
                for name, dsn in self.dsns.items()
            }
            for prefix in ("ours", "native"):
                for table, columns in tables(prefix).items():
                    self.publisher.execute(f"create table {table} ({columns})".encode())
                for text in fill(prefix):
                    self.publisher.execute(text.encode())
            native = Native(self.publisher_dsn, list(self.dsns.values()))
            native.replicate(tables("native"))
            stack.callback(native.close)
            wait(native.copied, "the initial copies")
            async with Ours.open(self.publisher_dsn, self.dsns, list(tables("ours"))) as ours:
                self.contenders = [Contender("ours", ours), Contender("native", native)]
                for text in ("vacuum analyze", "checkpoint"):
                    for connection in (self.publisher, *self.subscribers.values()):
                        connection.execute(text.encode())
                yield self

    def mark(self, contender: Contender) -> None:
        """Commit an end mark after everything else."""
        contender.ends += 1
        self.publisher.execute(f"update {contender.prefix}_end set n = {contender.ends}".encode())

    def arrived(self, contender: Contender) -> bool:
        """Return whether the end mark is at every Subscriber."""
        query = f"select n from {contender.prefix}_end".encode()
        return all(
            s.execute(query).fetchone() == (contender.ends,) for s in self.subscribers.values()
        )

    def catch_up(self) -> None:
        """Wait until both contenders have delivered everything."""
        for contender in self.contenders:
            self.mark(contender)
        for contender in self.contenders:
            wait(lambda c=contender: self.arrived(c), f"{contender.prefix} to catch up")

    def play(self, contender: Contender, load: Load) -> None:
        """Measure one backlog of one contender."""
        if load.before:
            self.publisher.execute(load.before.format(p=contender.prefix).encode())
        self.catch_up()
        contender.pipeline.hold()
        make(self.publisher_dsn, contender.prefix, load)
        self.mark(contender)
        began = time.perf_counter()
        contender.pipeline.let_go()
        wait(lambda: self.arrived(contender), f"{contender.prefix} to carry {load.name}")
        seconds = time.perf_counter() - began
        contender.rates.setdefault(load.name, []).append(load.changes / seconds)

    def check(self) -> None:
        """Check that every Subscriber holds the Publisher's rows; otherwise the run is void."""
        self.catch_up()
        for contender in self.contenders:
            for table in tables(contender.prefix):
                query = (
                    f"select count(*), sum(hashtextextended(t::text, 0)) from {table} as t".encode()
                )
                there = self.publisher.execute(query).fetchone()
                for name, connection in self.subscribers.items():
                    here = connection.execute(query).fetchone()
                    if there != here:
                        raise SystemExit(f"VOID: {table} is {there} at pub and {here} at {name}")

    def latencies_ms(self, seconds: float, per_second: int) -> list[float]:
        """Return the times from commit to commit of single-row transactions at an even rate."""
        self.catch_up()
        first = 10_000_000
        began = time.perf_counter()
        count = int(seconds * per_second)
        for number in range(count):
            due = began + number / per_second
            while time.perf_counter() < due:
                time.sleep(max(0.0, due - time.perf_counter()))
            self.publisher.execute(
                "insert into ours_item values (%s, 0, 'on its way', 1)", (first + number,)
            )
        self.catch_up()
        query = "select id, extract(epoch from pg_xact_commit_timestamp(xmin)) from ours_item where id >= %s"
        there: dict[int, Any] = dict(self.publisher.execute(query, (first,)).fetchall())
        name = self.names[0]
        here: dict[int, Any] = dict(self.subscribers[name].execute(query, (first,)).fetchall())
        return [float(here[key] - at) * 1000 for key, at in there.items()]


async def contest(
    subscribers: int, loads: Sequence[str], rounds: int, *, latency_s: float
) -> tuple[dict[str, Contender], list[float]]:
    """Run all loads with one number of Subscribers."""
    async with Arena(subscribers).open() as arena:
        for number in range(rounds + 1):
            for name in loads:
                for contender in arena.contenders[:: 1 if number % 2 else -1]:
                    await asyncio.to_thread(arena.play, contender, LOADS[name])
            if number == 0:  # warm-up
                for contender in arena.contenders:
                    contender.rates.clear()
        latencies = await asyncio.to_thread(arena.latencies_ms, latency_s, 200) if latency_s else []
        arena.check()
        for contender in arena.contenders:
            print(f"{contender.prefix}: {contender.pipeline.settings()}")
        return {contender.prefix: contender for contender in arena.contenders}, latencies


def figures_of(
    subscribers: int, contenders: dict[str, Contender], wanted: Sequence[str]
) -> list[Figure]:
    """Return the figures: ratios within each round."""
    made = []
    for name in wanted:
        load, count, target = FIGURES[name]
        if count != subscribers:
            continue
        ours, native = (contenders[prefix].rates[load] for prefix in ("ours", "native"))
        ratios = [a / b for a, b in zip(ours, native, strict=True)]
        per = LOADS[load].rows if LOADS[load].transactions > 1 else 1
        unit = "tx/s" if LOADS[load].transactions > 1 else "rows/s"
        made.append(
            Figure(
                name=name,
                value=median(ratios),
                unit="x",
                target=target,
                better="higher",
                detail={
                    "rounds": spread(ratios),
                    unit: round(median(ours) / per),
                    f"native {unit}": round(median(native) / per),
                },
            )
        )
    return made


async def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    add_only(parser)
    parser.add_argument("--latency-seconds", type=float, default=20.0)
    options = parser.parse_args()
    names = selected(parser, options.only, (*FIGURES, *LATENCY))
    wanted = [name for name in FIGURES if name in names]
    latency = any(name in names for name in LATENCY)
    made: list[Figure] = []
    for count in (1, 4):
        loads = [FIGURES[name][0] for name in wanted if FIGURES[name][1] == count]
        measured = options.latency_seconds if latency and count == 1 else 0.0
        if not loads and not measured:
            continue
        contenders, latencies = await contest(count, loads, options.rounds, latency_s=measured)
        made += figures_of(count, contenders, wanted)
        if latencies:
            latencies.sort()
            made += [
                Figure(
                    name=name,
                    value=latencies[int(len(latencies) * share)],
                    unit="ms",
                    target=target,
                    better="lower",
                    detail={"transactions": len(latencies), "max ms": round(latencies[-1], 1)},
                )
                for name, (share, target) in LATENCY.items()
                if name in names
            ]
    report("distribution against logical replication", made)


if __name__ == "__main__":
    asyncio.run(main())
