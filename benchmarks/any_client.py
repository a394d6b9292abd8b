"""Any client against a plain local commit and a coordinator's transaction: ``python -m benchmarks.any_client``.

Two durable servers (fsync on), one for the Publisher and the distribution database, one for the Subscriber. Every
round runs each contender for the same time on the same servers, in changing order; a figure is the median over the
rounds of a ratio within a round. Each client updates its own rows only. At the end nothing may be prepared, and both
ends must hold the same rows and as many updates as were counted, or the run is void.

``vs_local_1``: the duration of a one-row transaction over that of a plain local commit of the same row on the same
server; ``lazy_vs_local_1``: the same for a client with ``msrepl.shipping = 'lazy'``, for which there is no target.
``vs_coordinated_n``: transactions per second of n clients over those with presumed abort. ``publisher_lag_p99``: the
time from the Subscriber's commit to the Publisher's, by their commit timestamps, for the last change of each row.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

from psycopg import AsyncConnection, conninfo

from benchmarks.figures import Figure, median, report, spread
from benchmarks.immediate import UPDATE, Contender, Update, measure, prepare
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology

SETTINGS = {"track_commit_timestamp": "on"}
LAG = """
select t.id, extract(epoch from pg_xact_commit_timestamp(t.xmin))::float8 from account as t where t.balance > 0
"""
TARGETS = {1: 1.2, 16: 1.1}


def by_clients(dsn: str, name: str, table: str, stack: AsyncExitStack) -> Contender:
    """Return a contender with ordinary connections and one statement per transaction."""
    pool: list[AsyncConnection[Any]] = []
    statement = UPDATE.replace("account", table).replace("$1", "%s")

    def update_on(connection: AsyncConnection[Any]) -> Update:
        async def update(key: int) -> None:
            await connection.execute(statement, (key,))

        return update

    async def updates(clients: int) -> list[Update]:
        while len(pool) < clients:
            pool.append(
                await stack.enter_async_context(await AsyncConnection.connect(dsn, autocommit=True))
            )
        return [update_on(connection) for connection in pool[:clients]]

    return Contender(name, updates)


def coordinated(topology: Topology) -> Contender:
    """Return a contender whose transactions a coordinator commits."""

    async def updates(clients: int) -> list[Update]:
        async def update(key: int) -> None:
            await topology.run("sub1", UPDATE, (key,))

        return [update] * clients

    return Contender("coordinated", updates)


@contextmanager
def resolver(topology: Topology) -> Iterator[subprocess.Popen[str]]:
    """Run `twopc resolver` as a separate process, as for clients that do not know of the product."""
    words = [  # the Publisher's database is also the distribution database
        f"--node={name}={topology.node(name).dsn}"
        for name in (topology.publisher, *topology.subscribers)
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "twopc.sim", "resolver", *words], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            if not process.stderr.readline().startswith("resolver of"):
                raise SystemExit(process.stderr.read())
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


async def check(topology: Topology, contenders: list[Contender]) -> None:
    """Check that both ends agree with each other and with the updates counted; otherwise the run is void."""
    await topology.settle()
    query = "select md5(string_agg(t::text, ' ' order by id)), sum(balance) from account as t"
    there, here = await topology.execute("pub", query), await topology.execute("sub1", query)
    done = sum(c.done for c in contenders if c.name != "local")
    if there != here or there[0][1] != done:
        raise SystemExit(f"VOID: account at pub {there}, at sub1 {here}, counted {done}")


async def lags_ms(topology: Topology) -> list[float]:
    """Return by how much later each row's last change was committed at the Publisher."""
    here = dict(await topology.execute("sub1", LAG))
    there = dict(await topology.execute("pub", LAG))
    return sorted((there[key] - at) * 1000 for key, at in here.items())


async def contest(clients: int, rounds: int, seconds: float) -> tuple[list[Contender], list[float]]:
    """Run all contenders with one number of clients; return them and the Publisher's lags."""
    async with AsyncExitStack() as stack:
        servers = {
            name: stack.enter_context(EmbeddedServer.start(durable=True, settings=SETTINGS))
            for name in ("pub", "sub1")
        }
        for name, server in servers.items():
            server.create_database(name)
        topology = await stack.enter_async_context(
            Topology(
                subscribers=("sub1",),
                dsns={name: server.superuser_dsn(name) for name, server in servers.items()},
                name="bench",
            )
        )
        await prepare(topology)
        await topology.allow_any_client("sub1", resolve=False)
        await asyncio.to_thread(stack.enter_context, resolver(topology))
        app = topology.node("sub1").app_dsn
        admin = topology.node("sub1").dsn
        contenders = [
            by_clients(admin, "local", "plain", stack),
            by_clients(app, "any", "account", stack),
            coordinated(topology),
        ]
        if clients == 1:
            lazily = conninfo.make_conninfo(app, options="-c msrepl.shipping=lazy")
            contenders.append(by_clients(lazily, "lazy", "account", stack))
        for contender in contenders:  # warm up
            await measure(contender, clients, seconds / 2, seed=0)
            contender.per_second.clear()
            contender.latencies_ms.clear()
        orders = itertools.cycle((contenders, contenders[::-1]))
        for seed in range(1, rounds + 1):
            for contender in next(orders):
                await measure(contender, clients, seconds, seed)
                # finish what a contender has left before the next one runs
                await topology.settle()
        await measure(contenders[1], clients, seconds, seed=rounds + 1)
        await topology.settle()
        lags = await lags_ms(topology)
        await check(topology, contenders)
        return contenders, lags


def figures(contenders: list[Contender], lags: list[float], clients: int) -> list[Figure]:
    """Return the ratios within rounds, and the lag."""
    local, any_client, other, *lazy = contenders
    rounds = range(len(local.per_second))

    def slower(one: Contender) -> list[float]:
        return [one.latencies_ms[n] / local.latencies_ms[n] for n in rounds]

    faster = [any_client.per_second[n] / other.per_second[n] for n in rounds]
    detail = {
        "any tx/s": round(median(any_client.per_second)),
        "coordinated tx/s": round(median(other.per_second)),
        "local tx/s": round(median(local.per_second)),
    }
    made = [
        Figure(
            name=f"vs_coordinated_{clients}",
            value=median(faster),
            unit="x",
            target=TARGETS[clients],
            better="higher",
            detail={"rounds": spread(faster), **detail},
        )
    ]
    if clients == 1:
        made[:0] = [
            Figure(
                name=name,
                value=median(slower(one)),
                unit="x",
                target=target,
                better="lower",
                detail={"rounds": spread(slower(one)), "tx/s": round(median(one.per_second))},
            )
            for name, one, target in (
                ("vs_local_1", any_client, 4.0),
                ("lazy_vs_local_1", lazy[0], None),
            )
        ]
    else:
        made.append(
            Figure(
                name="publisher_lag_p99",
                value=lags[int(len(lags) * 0.99)],
                unit="ms",
                target=20.0,
                better="lower",
                detail={
                    "clients": clients,
                    "rows": len(lags),
                    "p50 ms": round(lags[len(lags) // 2], 2),
                    "max ms": round(lags[-1], 1),
                },
            )
        )
    return made


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0, help="per contender and round")
    arguments = parser.parse_args()
    found: list[Figure] = []
    for clients in (1, 16):
        contenders, lags = asyncio.run(contest(clients, arguments.rounds, arguments.seconds))
        found += figures(contenders, lags, clients)
    report("any client, against a local commit and a coordinator's transactions", found)


if __name__ == "__main__":
    main()
