"""Kill everything that can be killed under mixed traffic, and judge what is left.

Run ``python -m tests.chaos``. The Publisher and three Subscribers have servers of their own, which
flush to disk. Log reader, agents, resolver and clean-up are processes (`twopc up`), and so are the
clients: at every Subscriber one with a coordinator, and plain ones. Every few seconds something
gets SIGKILL: a server, one backend of a server, a process of ours, or a client. What is missing is
started again. In the end nothing may be prepared, every site holds the same rows, no money was made
or lost, every transfer has the outcome that its client was told, clients of both kinds have
committed some, and all refusals were worth another attempt.

The seed decides what is killed, and when, and what clients do. How the processes interleave is not
decided by the seed.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.chaos.worker import ACCOUNTS
from twopc.errors import TwopcError
from twopc.server.polling import wait_for
from twopc.sim.operate import attach
from twopc.sim.up import State, remove, up
from twopc.sim.up.parts import running
from twopc.sim.up.setup import server_of

TABLES = ("account", "ledger")
PARTS = ("log-reader", "agent", "resolver", "clean-up")
CLIENTS = ("coordinated", "plain")
KINDS = ("server", "backend", *PARTS, *CLIENTS)
#: A conflict, a deadlock, a lost vote, a lock timeout, or a server or connection that is gone.
_WORTH_ANOTHER = re.compile("40...|55P03|08...|57P..|53300")
_SCENARIO = Path(__file__).with_name("chaos.twopc.yaml")
_CONVERGE_TIMEOUT_S = 180.0
_PREPARED_TIMEOUT_S = 2.0
_PREPARED = "select gid from pg_prepared_xacts where database = current_database()"
_BACKENDS = """
select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() order by pid
"""


@dataclass(slots=True)
class Clients:
    """The processes that transfer money, and the files that they have written."""

    state: State
    seed: int
    plain: int
    books: Path
    processes: dict[tuple[str, str, int], subprocess.Popen[bytes]] = field(default_factory=dict)
    started: int = 0

    def start(self) -> None:
        """Start the processes that do not run."""
        for node in self.state.subscribers:
            for key in [("coordinated", node, 0)] + [("plain", node, n) for n in range(self.plain)]:
                process = self.processes.get(key)
                if process is None or process.poll() is not None:
                    self.processes[key] = self._started(key[0], node)

    def _started(self, kind: str, node: str) -> subprocess.Popen[bytes]:
        self.started += 1
        name = f"{kind}-{self.seed}-{self.started}"
        words = [kind, str(self.state.folder), node, name, str(self.books / f"{name}.txt")]
        log = (self.books / f"{name}.log").open("wb")
        with log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.worker", *words],
                stdout=log, stderr=subprocess.STDOUT, cwd=Path(__file__).parents[2],
            )  # fmt: skip

    def kill(self, kind: str | None, chance: random.Random) -> str:
        """Kill one process of a kind, or all processes."""
        chosen = [key for key in sorted(self.processes) if kind in (None, key[0])]
        if kind is not None:
            chosen = [chance.choice(chosen)]
        for key in chosen:
            self.processes[key].kill()
            self.processes[key].wait()
        return " ".join(map(str, chosen[0])) if kind is not None else "all clients"

    def told(self, kind: str = "*") -> dict[str, str]:
        """Return the last line about each transfer, with the SQLSTATE of a refusal.

        ``begun`` means that the client was told no outcome.
        """
        found: dict[str, str] = {}
        for path in sorted(self.books.glob(f"{kind}-*.txt")):
            for line in path.read_text(encoding="utf-8").splitlines():
                word, key, sqlstate = line.split(" ")
                found[key] = f"{word} {sqlstate}".strip()
        return found


@contextmanager
def topology() -> Iterator[State]:
    """Yield servers and processes in a folder that is removed with them.

    Any client may write at each Subscriber.
    """
    place = Path(tempfile.mkdtemp(prefix="twopc-chaos-"))
    place.chmod(0o755)
    try:
        scenario = Path(shutil.copy(_SCENARIO, place))
        yield up(place / "state", scenario=scenario, each=True)
    finally:
        remove(place / "state")
        shutil.rmtree(place)


def until_prepared(state: State) -> None:
    """Wait until the Publisher has a prepared transaction, whose coordinator can then be killed."""
    with psycopg.connect(state.nodes[state.publisher].dsn, autocommit=True) as connection:
        end = time.monotonic() + _PREPARED_TIMEOUT_S
        while not connection.execute(_PREPARED).fetchall() and time.monotonic() < end:
            pass


def strike(state: State, clients: Clients, kind: str, chance: random.Random) -> str:
    """Send SIGKILL to one process of a kind; return what it was."""
    if kind == "server":
        name, server = chance.choice([(name, server_of(state, name)) for name in state.servers])
        until_prepared(state)
        server.kill()
        return f"server {name}"
    if kind == "backend":
        node = chance.choice(sorted(state.nodes))
        with psycopg.connect(state.nodes[node].dsn, autocommit=True) as connection:
            pids = [pid for (pid,) in connection.execute(_BACKENDS).fetchall()]
        if not pids:
            return "no backend"
        with suppress(psutil.NoSuchProcess):
            psutil.Process(chance.choice(pids)).kill()
        return f"a backend at {node}"
    if kind in PARTS:
        parts = running(state.folder)
        chosen = sorted(part for part in parts if part.kind == kind)
        if not chosen:
            return f"no {kind}"
        part = chance.choice(chosen)
        with suppress(psutil.NoSuchProcess):
            parts[part].kill()
            parts[part].wait()
        return str(part)
    until_prepared(state)
    return clients.kill(kind, chance)


def mend(state: State) -> None:
    """Start servers and processes again; a server that was struck since needs another attempt."""

    def runs() -> bool:
        try:
            up(state.folder)
        except (TwopcError, psycopg.Error):
            return False
        return True

    wait_for(runs, what="everything to run again", timeout_s=120)


def ask(state: State, node: str, query: str) -> list[Any]:
    """Return the rows of a query, executed by the administrator."""
    with psycopg.connect(state.nodes[node].dsn, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def settle(state: State) -> None:
    """Wait until nothing is prepared and all sites hold the same rows."""
    nodes = (state.publisher, *state.subscribers)
    seen: list[object] = []

    def same() -> bool:
        seen[:] = [(node, rows) for node in nodes if (rows := ask(state, node, _PREPARED))]
        for table in TABLES:
            query = f"select md5(string_agg(t::text, ' ' order by id)) from {table} as t"
            found = {node: ask(state, node, query)[0] for node in nodes}
            if len(set(found.values())) > 1:
                seen.append((table, found))
        return not seen

    try:
        wait_for(same, what="all sites to be equal", timeout_s=_CONVERGE_TIMEOUT_S)
    except TimeoutError:
        raise SystemExit(f"BROKEN: after {_CONVERGE_TIMEOUT_S:g} s: {seen}") from None


def judge(
    told: Mapping[str, str],
    entries: Sequence[tuple[str, int, int, int]],
    accounts: Collection[tuple[int, int]],
) -> dict[str, int]:
    """Compare the Publisher's rows with what clients were told; return counts of outcomes.

    Args:
        told: the last line about each transfer, by key; of a refusal with its SQLSTATE.
        entries: the ledger: key, payer, payee, amount.
        accounts: id and balance.

    Raises:
        SystemExit: they do not agree.
    """
    there = {key for key, *_ in entries}
    refused = {key: word.split()[-1] for key, word in told.items() if word.startswith("refused")}
    balances = dict.fromkeys(range(1, ACCOUNTS + 1), 1000)
    for _, payer, payee, amount in entries:
        balances[payer] -= amount
        balances[payee] += amount
    broken = {
        "told committed, and lost": {key for key, word in told.items() if word == "committed"}
        - there,
        "told refused, and there": refused.keys() & there,
        "refused for good": {s for s in refused.values() if not _WORTH_ANOTHER.fullmatch(s)},
        "never begun, and there": there - set(told),
        "balances that the ledger does not make": set(accounts) ^ set(balances.items()),
    }
    if any(broken.values()):
        raise SystemExit(
            "BROKEN: "
            + "; ".join(
                f"{what}: {sorted(map(str, found))}" for what, found in broken.items() if found
            )
        )
    words = list(told.values())
    silent = {key for key, word in told.items() if word == "begun"}
    return {
        "committed": words.count("committed"),
        "refused": len(refused),
        "told nothing, committed": len(silent & there),
        "told nothing, rolled back": len(silent - there),
    }


async def recover(state: State) -> None:
    """Finish what the last coordinators have left, as `twopc recover` does."""
    async with await attach(state.dsns, coordinator=state.name) as topology:
        await topology.recover()


async def let_in(state: State) -> None:
    """Let any client write at each Subscriber."""
    async with await attach(state.dsns, coordinator=state.name) as topology:
        await topology.allow_any_client(*state.subscribers, resolve=False)


def run(seconds: float, seed: int, plain: int, every: float) -> dict[str, int]:
    """Run until the time is over and everything was struck once.

    Raises:
        SystemExit: something is broken; the message says what.
    """
    chance = random.Random(seed)
    with topology() as state:
        asyncio.run(let_in(state))
        up(state.folder)
        books = state.folder.parent / "books"
        books.mkdir()
        clients = Clients(state, seed, plain, books)
        clients.start()
        end, turn = time.monotonic() + seconds, 0
        try:
            while time.monotonic() < end or turn < len(KINDS):
                before = len(clients.told())
                wait_for(
                    lambda before=before: len(clients.told()) > before + every,
                    what="transfers",
                    timeout_s=120,
                )
                kind = KINDS[turn] if turn < len(KINDS) else chance.choice(KINDS)
                what = strike(state, clients, kind, chance)
                sys.stdout.write(f"{seconds - (end - time.monotonic()):6.1f} s  {what}\n")
                sys.stdout.flush()
                mend(state)
                clients.start()
                turn += 1
        finally:
            clients.kill(None, chance)
        mend(state)
        asyncio.run(recover(state))
        settle(state)
        entries = ask(state, state.publisher, "select id::text, payer, payee, amount from ledger")
        accounts = ask(state, state.publisher, "select id, balance from account")
        for kind in CLIENTS:
            if "committed" not in clients.told(kind).values():
                raise SystemExit(f"BROKEN: no {kind} client has committed anything")
        return judge(clients.told(), entries, accounts) | {"strikes": turn}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", type=int, default=2, help="plain clients at each Subscriber")
    parser.add_argument("--transfers", type=float, default=20, help="between two strikes")
    options = parser.parse_args(arguments)
    found = run(options.seconds, options.seed, options.plain, options.transfers)
    sys.stdout.write("; ".join(f"{name}: {count}" for name, count in found.items()) + "\n")


if __name__ == "__main__":
    main()
