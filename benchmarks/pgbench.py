"""pgbench's TPC-B script, unchanged, at a Subscriber, and kill -9 of every process: ``python -m benchmarks.pgbench``.

The Publisher and the Subscribers have separate servers, which flush to disk; log reader, agents and resolver are
processes (`twopc up`). At the end nothing may be prepared, all sites must hold the same rows, and the sums must be
those that TPC-B requires: the balances of accounts, tellers and branches each equal the sum of the history's deltas.

``--kill`` kills each process in turn (pgbench, resolver, agent, log reader, the Subscriber's server, the Publisher's)
under the load of pgbench, psql and SQLAlchemy, restarts what is missing, and makes the same checks each time.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from twopc.server.polling import wait_for
from twopc.sim.up import State, remove, up
from twopc.sim.up.parts import running
from twopc.sim.up.setup import server_of

VICTIMS = ("pgbench", "resolver", "agent", "log-reader", "server of sub1", "server of pub")
TABLES = {
    "pgbench_branches": "bid",
    "pgbench_tellers": "tid",
    "pgbench_accounts": "aid",
    "pgbench_history": "id",
    "account": "id",
}
_PREPARED = "select count(*) from pg_prepared_xacts where database = current_database()"
_SUMS = """
select (select coalesce(sum(abalance), 0) from pgbench_accounts), (select coalesce(sum(tbalance), 0) from pgbench_tellers),
       (select coalesce(sum(bbalance), 0) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)
"""
_CONVERGE_TIMEOUT_S = 300
#: Duration of a run of pgbench that is terminated earlier.
_LONG_S = 3600


@contextmanager
def topology(scale: int) -> Iterator[State]:
    """Start servers and processes, in a folder that is removed with them.

    Args:
        scale: pgbench's scale: the number of branches, each with 10 tellers and 100,000 accounts.
    """
    place = Path(tempfile.mkdtemp(prefix="twopc-pgbench-"))
    place.chmod(0o755)
    folder = place / "state"
    try:
        text = Path(__file__).with_name("pgbench.twopc.yaml").read_text(encoding="utf-8")
        for rows in (1, 10, 100_000):
            text = text.replace(f"(1, {rows}) as g", f"(1, {rows * scale}) as g")
        scenario = place / "pgbench.twopc.yaml"
        scenario.write_text(text, encoding="utf-8")
        yield up(folder, scenario=scenario, each=True)
    finally:
        remove(folder)
        shutil.rmtree(place)


def start_pgbench(state: State, clients: int, seconds: int) -> subprocess.Popen[str]:
    """Start pgbench with its built-in script."""
    program = shutil.which("pgbench")
    if program is None:
        raise SystemExit("no program pgbench here (Debian: apt-get install postgresql-contrib)")
    # as usual, a client that loses its server gives up
    words = ["-n", "-c", str(clients), "-T", str(seconds), state.nodes["sub1"].app_dsn]
    return subprocess.Popen(
        [program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


class Traffic:
    """Load by psql and an ORM in addition to pgbench, each on separate rows; failed updates are repeated."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._psql, self._orm)]
        self.done = {"psql": 0, "orm": 0}

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _psql(self) -> None:
        words = ["psql", "-X", "-c", "update account set balance = balance + 1 where id = 1"]
        while not self._over.is_set():
            done = subprocess.run(
                [*words, self._state.nodes["sub1"].app_dsn], capture_output=True, check=False
            )
            self.done["psql"] += done.returncode == 0

    def _orm(self) -> None:
        from sqlalchemy import create_engine, exc, text
        from sqlalchemy.orm import Session

        dsn = self._state.nodes["sub1"].app_dsn
        engine = create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), pool_pre_ping=True
        )
        while not self._over.is_set():
            with suppress(exc.DBAPIError, psycopg.Error), Session(engine) as session:
                session.execute(text("update account set balance = balance + 1 where id = 2"))
                session.commit()
                self.done["orm"] += 1
        engine.dispose()


def ask(state: State, node: str, query: str) -> tuple[object, ...]:
    """Return one row, read by the administrator."""
    with psycopg.connect(state.nodes[node].dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row


def check(state: State) -> int:
    """Wait until all sites are equal; return the number of pgbench's transactions.

    Raises:
        SystemExit: the sums are wrong.
        TimeoutError: a branch stays prepared, or the sites differ.
    """
    nodes = (state.publisher, *state.subscribers)

    def settled() -> bool:
        if any(ask(state, node, _PREPARED) != (0,) for node in nodes):
            return False
        for table, key in TABLES.items():
            query = f"select md5(string_agg(t::text, ' ' order by {key})) from {table} as t"
            if len({ask(state, node, query) for node in nodes}) != 1:
                return False
        return True

    wait_for(settled, what="all sites to be equal", timeout_s=_CONVERGE_TIMEOUT_S)
    sums = ask(state, state.publisher, _SUMS)
    if len(set(sums)) != 1:
        raise SystemExit(f"VOID: accounts, tellers, branches and history sum up to {sums}")
    (count,) = ask(state, state.publisher, "select count(*) from pgbench_history")
    assert isinstance(count, int)
    return count


def run(state: State, clients: int, seconds: int) -> float:
    """Run pgbench to its end; return its transactions per second."""
    before = check(state)
    process = start_pgbench(state, clients, seconds)
    said, _ = process.communicate()
    done = re.search(r"transactions actually processed: (\d+)", said)
    rate = re.search(r"tps = ([\d.]+)", said)
    failed = re.search(r"failed transactions: (\d+)", said)
    if process.returncode != 0 or done is None or rate is None or (failed and failed[1] != "0"):
        raise SystemExit(f"VOID: pgbench ended with {process.returncode}:\n{said}")
    after = check(state)
    if after - before != int(done[1]):
        raise SystemExit(f"VOID: pgbench counted {done[1]}, the sites {after - before}")
    return float(rate[1])


def kill(state: State, victim: str, clients: int) -> int:
    """Kill one process under load, restart it, and check; return the number of pgbench's transactions so far."""
    before = ask(state, state.publisher, "select count(*) from pgbench_history")
    with Traffic(state) as traffic:
        process = start_pgbench(state, clients, _LONG_S)

        def busy() -> bool:
            if process.poll() is not None:
                raise SystemExit(f"VOID: pgbench has ended: {process.communicate()[0]}")
            now = ask(state, state.publisher, "select count(*) from pgbench_history")
            return now != before and all(traffic.done.values())

        wait_for(busy, what="traffic", timeout_s=120)
        if victim == "pgbench":
            process.kill()
        elif victim.startswith("server of "):
            server_of(state, victim.removeprefix("server of ")).kill()
        else:
            for part, found in running(state.folder).items():
                if part.kind == victim:
                    found.kill()
                    found.wait()
        up(state.folder)
        done = dict(traffic.done)
        # psql and the ORM continue; pgbench gives up when it loses its server or a transaction
        wait_for(
            lambda: all(traffic.done[who] > done[who] for who in done),
            what="traffic after the kill",
            timeout_s=120,
        )
        process.terminate()
        process.communicate()
    return check(state)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--scale", type=int, default=8, help="pgbench's; one: all want one branch")
    parser.add_argument("--kill", action="store_true", help="kill -9 every process in turn")
    options = parser.parse_args(arguments)
    with topology(options.scale) as state:
        if not options.kill:
            rate = run(state, options.clients, options.seconds)
            print(
                f"pgbench: {rate:.0f} transactions per second, {options.clients} clients; all sites equal"
            )
            return
        for victim in VICTIMS:
            count = kill(state, victim, options.clients)
            print(
                f"{victim}: killed; {count} transactions by now; nothing prepared, all sites equal",
                flush=True,
            )


if __name__ == "__main__":
    main()
