"""An immediate update against a hand-written two-phase commit: ``python -m benchmarks.immediate``.

Two durable servers (fsync on), one for the Publisher and the distribution database, one for the Subscriber.
Every round runs the hand-written loop and each of our variants for the same time on the same servers, in changing
order; a figure is the median over the rounds of the ratio of transactions per second within a round. Each
client updates its own rows only. At the end both ends must hold the same rows and as many updates as were
counted, or the run is void.

Ours: ``topology.run("sub1", "update … where id = $1", (key,))``, with triggers, conflict check, branch markers
and decision log. The hand-written loop has none of these (`benchmarks.hand_written`); a second one checks
versions and logs decisions (`benchmarks.same_job`): the ratio to it is reported without a target.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.figures import Figure, median, report, spread
from benchmarks.hand_written import HandWritten
from benchmarks.same_job import SameJob
from twopc.sim.topology import Topology
from twopc.together import together

ROWS = 16_000
COLUMNS = """id bigint primary key, balance bigint not null, note text, amount numeric,
    at timestamptz, facts jsonb, tags text[], raw bytea"""
FILL = """select g, 0, 'account ' || g, g / 3.0, '2026-01-01 UTC', '{"kind": "savings"}'::jsonb,
    array['a', 'b'], '\\xdeadbeef'::bytea from generate_series(1, %s) as g"""
UPDATE = "update account set balance = balance + 1 where id = $1"

Update = Callable[[int], Awaitable[Any]]


@dataclass(slots=True)
class Contender:
    """One way to update, with its results per round."""

    name: str
    updates: Callable[[int], Awaitable[list[Update]]]
    """Returns one update function per client."""
    per_second: list[float] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    done: int = 0


async def measure(contender: Contender, clients: int, seconds: float, seed: int) -> None:
    """Run one round of one contender."""
    updates = await contender.updates(clients)
    share = ROWS // clients
    for number, update in enumerate(updates):  # opens connections and caches plans; not measured
        await update(number * share + 1)
    contender.done += clients
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def client(number: int, update: Update) -> None:
        chance = random.Random(f"{seed}:{number}")
        while (began := time.perf_counter()) < end:
            await update(number * share + 1 + chance.randrange(share))
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    await together(*(client(n, update) for n, update in enumerate(updates)))
    contender.per_second.append(len(latencies) / (time.perf_counter() - began))
    contender.latencies_ms.append(median(latencies) * 1000)
    contender.done += len(latencies)


async def prepare(topology: Topology) -> None:
    """Create the same rows twice: published for ours, and plain for the hand-written loop."""
    await topology.execute("pub", f"create table account ({COLUMNS})")
    await topology.execute("pub", f"insert into account {FILL}", (ROWS,))
    await topology.publish("account")
    await topology.subscribe("sub1")
    for node in ("pub", "sub1"):
        await topology.execute(node, f"create table plain ({COLUMNS})")
        await topology.execute(node, f"insert into plain {FILL}", (ROWS,))
        await topology.execute(node, f"create table checked ({COLUMNS}, version uuid)")
        await topology.execute(node, f"insert into checked {FILL}", (ROWS,))
        await topology.execute(node, "update checked set version = md5(id::text)::uuid")
        await topology.execute(node, "vacuum analyze")
    await topology.execute(topology.distribution, "create table decided (gid text primary key)")


def ours(topology: Topology, name: str, **options: str) -> Contender:
    """Return our contender with these options."""

    async def updates(clients: int) -> list[Update]:
        async def update(key: int) -> None:
            await topology.run("sub1", UPDATE, (key,), **options)

        return [update] * clients

    return Contender(name, updates)


def hand_written(topology: Topology) -> Contender:
    """Return the yardstick, which keeps its connections."""
    pool: list[HandWritten] = []

    async def updates(clients: int) -> list[Update]:
        while len(pool) < clients:
            pool.append(
                await HandWritten.connect(topology.nodes["pub"].dsn, topology.nodes["sub1"].dsn)
            )
        return [one.update for one in pool[:clients]]

    return Contender("hand", updates)


def same_job(topology: Topology) -> Contender:
    """Return the loop that does the same job by hand and keeps its connections."""
    pool: list[SameJob] = []
    names = ("pub", "sub1", topology.distribution)

    async def updates(clients: int) -> list[Update]:
        while len(pool) < clients:
            pool.append(await SameJob.connect(*[topology.nodes[name].dsn for name in names]))
        return [one.update for one in pool[:clients]]

    return Contender("same_job", updates)


async def check(topology: Topology, contenders: list[Contender]) -> None:
    """Check that both ends agree with each other and with the updates counted; otherwise the run is void."""
    tables = {"hand": "plain", "same_job": "checked"}
    counted = dict.fromkeys(("account", *tables.values()), 0)
    for contender in contenders:
        counted[tables.get(contender.name, "account")] += contender.done
    for table, done in counted.items():
        query = f"select md5(string_agg(t::text, ' ' order by id)), sum(balance) from {table} as t"
        there, here = await topology.execute("pub", query), await topology.execute("sub1", query)
        if there != here or there[0][1] != done:
            raise SystemExit(f"VOID: {table} at pub {there}, at sub1 {here}, counted {done}")


async def contest(clients: int, rounds: int, seconds: float) -> list[Contender]:
    """Run all contenders with one number of clients."""
    async with Topology(subscribers=("sub1",), servers="each", durable=True) as topology:
        await prepare(topology)
        contenders = [
            hand_written(topology),
            same_job(topology),
            ours(topology, "immediate"),
            ours(topology, "lazy", shipping="lazy"),
            ours(topology, "last_agent", commit="last_agent"),
        ]
        for contender in contenders:  # warm up
            await measure(contender, clients, seconds / 2, seed=0)
            contender.per_second.clear()
            contender.latencies_ms.clear()
        orders = itertools.cycle((contenders, contenders[::-1]))
        for seed in range(1, rounds + 1):
            for contender in next(orders):
                await measure(contender, clients, seconds, seed)
        await check(topology, contenders)
        return contenders


TARGETS = {
    "immediate": {1: 1.0, 16: 0.9},
    "lazy": {1: 1.0, 16: 1.0},
    "last_agent": {1: 1.3, 16: 1.3},
}


def figures(contenders: list[Contender], clients: int) -> list[Figure]:
    """Return the ratios to the hand-written loop, and that of eager shipping to the loop that does the same job."""
    hand, same, eager, *rest = contenders
    found = [
        _ratio(each.name, each, hand, clients, TARGETS[each.name][clients])
        for each in (eager, *rest)
    ]
    return [*found, _ratio(same.name, eager, same, clients, None)]


def _ratio(
    name: str, contender: Contender, other: Contender, clients: int, target: float | None
) -> Figure:
    """Return the ratio of the rates of two contenders, within each round."""
    ratios = [
        mine / their for mine, their in zip(contender.per_second, other.per_second, strict=True)
    ]
    return Figure(
        name=f"{name}_{clients}",
        value=median(ratios),
        unit="x",
        target=target,
        better="higher",
        detail={
            "rounds": spread(ratios),
            "tx/s": round(median(contender.per_second)),
            "hand tx/s": round(median(other.per_second)),
            "p50 ms": round(median(contender.latencies_ms), 2),
            "hand p50 ms": round(median(other.latencies_ms), 2),
        },
    )


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="per contender and round")
    arguments = parser.parse_args()
    found: list[Figure] = []
    for clients in (1, 16):
        contenders = asyncio.run(contest(clients, arguments.rounds, arguments.seconds))
        found += figures(contenders, clients)
    report("immediate updates against a hand-written two-phase commit", found)


if __name__ == "__main__":
    main()
