"""A random workload on a whole model, during faults of all its parts.

Coordinated transactions at every Subscriber change the same rows, while coordinators, agents, the log reader, servers
and links fail and return.

Run by itself: ``python -m tests.model.distribution.whole --transactions 2000 --seed 1``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.model.distribution.drawn import COUNTS
from tests.model.distribution.test_system import Silent
from twopc.errors import DeliveryError, HeuristicError, InDoubtError, TransactionError
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.system import System, build
from twopc.sim.model.values import ModelSpec, RequestLostError, Steps, SubscriberSpec, TableSpec
from twopc.sim.model.wiring import Wiring

ROWS = 12


@dataclass(slots=True, kw_only=True)
class Found:
    """The results of a run."""

    told: Counter[str]
    """Outcomes that applications got."""
    killed: Counter[str]
    problems: list[str]
    trace: tuple[object, ...] = field(repr=False)
    """Equal for equal seeds."""


def spec(subscribers: int, *, seed: int, streams: int, commit: str) -> ModelSpec:
    """Return a specification with accounts at every node, and agents that poll."""
    account = TableSpec(
        name="account", columns={"id": "int", "owner": "text", "balance": "int"}, key=("id",),
        rows=tuple({"id": number, "owner": "o", "balance": -number} for number in range(ROWS)),
    )  # fmt: skip
    return ModelSpec(
        publisher="pub", tables=(account,), seed=seed, agent_poll_s=0.05, commit=commit, in_doubt_after_s=0.5,
        recovery_interval_s=0.2, lock_timeout_s=1.0,
        subscribers=tuple(
            SubscriberSpec(name=f"sub{number}", streams=streams, batch=5, sql=COUNTS)
            for number in range(1, subscribers + 1)
        ),
    )  # fmt: skip


class Client:
    """An application that changes shared rows, and inserts its own.

    It also inserts and deletes shared keys, which all clients use.
    """

    def __init__(self, system: System, node: str, number: int, tokens: list[int]) -> None:
        self._system = system
        self.node = node
        self._chance = system.kernel.random(f"client {number}")
        self._session = system.session(f"client{number}", node)
        self._tokens = tokens
        self._next = number * 100_000
        self.told: Counter[str] = Counter()
        self.put: set[int] = set()
        """Tokens of transactions that are committed, or may be."""

    def _statement(self) -> tuple[str, int]:
        self._tokens[0] += 1
        token = self._tokens[0]
        what, shared = self._chance.random(), 1000 + self._chance.randrange(4)
        if what < 0.2:
            self._next += 1
            return f"insert into account values ({self._next}, '{self.node}', {token})", token
        if what < 0.35:
            return f"insert into account values ({shared}, '{self.node}', {token})", token
        if what < 0.45:
            return f"delete from account where id = {shared}", 0
        if what < 0.5:
            change = f"balance = {token}, id = {shared}"
            return f"update account set {change} where id = {self._next}", token
        key = (
            self._chance.randrange(ROWS)
            if what < 0.8
            else self._chance.choice((self._next, shared))
        )
        return f"update account set balance = {token} where id = {key}", token

    def run(self, count: int) -> Steps[None]:
        """Execute this many transactions."""
        kernel = self._system.kernel
        for _ in range(count):
            yield kernel.env.timeout(self._chance.expovariate(1 / 0.03))
            made = [self._statement() for _ in range(self._chance.choice((1, 1, 2, 3)))]
            put = {token for _, token in made if token}
            try:
                yield from self._session.begin()
                for text, _ in made:
                    yield from self._session.execute(text, {})
                yield from self._session.commit()
                self.told["committed"] += 1
                self.put |= put
            except (InDoubtError, HeuristicError):
                self.told["in doubt"] += 1
                self.put |= put
            except (TransactionError, RequestLostError) as error:
                self.told[type(error).__name__] += 1
                try:
                    yield from self._session.rollback()
                except (TransactionError, RequestLostError):
                    self.told["not rolled back"] += 1


def run(
    seed: int, *, transactions: int = 120, subscribers: int = 3, streams: int = 1, mean_s: float = 0.3,
    commit: str = "presumed_abort", wiring: Wiring | None = None,
) -> Found:  # fmt: skip
    """Run a load with a fault every `mean_s` seconds on average; then heal all faults and deliver everything."""
    kernel = SimpyKernel(seed)
    said = spec(subscribers, seed=seed, streams=streams, commit=commit)
    system = build(said, wiring or Wiring(), kernel=kernel, recorder=Silent())
    tokens = [0]
    clients = [
        Client(system, node, number, tokens)
        for number, node in enumerate(["pub", *system.subscribers, *system.subscribers])
    ]
    working = [
        kernel.spawn(one.run(transactions // len(clients)), f"client {place}")
        for place, one in enumerate(clients)
    ]
    killed: Counter[str] = Counter()
    kernel.run(kernel.spawn(_chaos(system, working, killed, mean_s), "chaos"))
    problems = _settle(system)
    rows = [
        node.rows("account", ["id", "owner", "balance", "msrepl_tran_version"])
        for node in system.nodes.values()
    ]
    problems += [
        f"{name} is not as the Publisher"
        for name, one in zip(system.nodes, rows, strict=True)
        if one != rows[0]
    ]
    for name in system.subscribers:
        own = set().union(*(one.put for one in clients if one.node == name))
        known = set().union(*(one.put for one in clients))
        seen = Counter(
            row[1] for row in system.nodes[name].table("seen").committed() if (row[1] or 0) > 0
        )
        for token, count in seen.items():
            if count > 1:
                problems.append(f"{name}: {token} {'echoed' if token in own else 'twice'}")
            if token not in known:
                problems.append(f"{name}: {token} was never committed")
    return Found(
        told=sum((one.told for one in clients), Counter()), killed=killed, problems=problems,
        trace=(tuple(map(repr, rows)), kernel.now),
    )  # fmt: skip


def _settle(system: System) -> list[str]:
    """Restart all processes and deliver everything; return what is left prepared or undelivered."""
    kernel, distribution = system.kernel, system.distribution
    assert distribution is not None
    for seat in system.coordinators().values():
        if not seat.alive:
            seat.restart()
    kernel.run(kernel.now + 5.0)
    distribution.start()
    problems = [
        f"{name}: {gid} is prepared"
        for name, node in system.nodes.items()
        for gid in node.prepared()
    ]
    syncing = kernel.spawn(_synced(system), "sync")
    kernel.run(kernel.now + 60.0)
    if not syncing.processed:
        problems.append("not everything is delivered")
    elif syncing.value:
        problems.append(syncing.value)
    return problems


def _synced(system: System) -> Steps[str]:
    try:
        yield from system.sync()
    except DeliveryError as error:
        return str(error)
    return ""


def _chaos(
    system: System, working: Sequence[Any], killed: Counter[str], mean_s: float
) -> Steps[None]:
    """While any client works, inject faults that are healed a little later."""
    kernel, distribution = system.kernel, system.distribution
    assert distribution is not None
    chance = kernel.random("chaos")
    (coordinator,) = system.coordinators().values()

    def later(seconds: float, act: Callable[[], object]) -> Steps[None]:
        yield kernel.env.timeout(seconds)
        act()

    while any(not one.processed for one in working):
        yield kernel.env.timeout(chance.expovariate(1 / mean_s))
        what = chance.choice(
            ("log reader", "agent", "agent", "coordinator", "server", "cut", "halt")
        )
        name = chance.choice(system.subscribers)
        pause_s = chance.uniform(0.0, 1.0 if what in ("halt", "agent") else 0.3)
        killed[what] += 1
        if what in ("log reader", "agent", "halt"):
            seat = distribution.reader if what == "log reader" else distribution.seats[name]
            (seat.pause if what == "halt" else seat.crash)()
            kernel.spawn(later(pause_s, seat.resume if what == "halt" else seat.start), "again")
        elif what == "coordinator":
            coordinator.crash()
            kernel.spawn(later(pause_s, coordinator.restart), "again")
        elif what == "server":
            name = chance.choice([*system.nodes])
            system.crash_node(name)
            kernel.spawn(system.restart_node(name), "restart")
        else:
            way = chance.choice(
                (("pub", name), (f"agent:{name}", name), (coordinator.process.actor, name))
            )
            system.cut(*way)
            kernel.spawn(later(pause_s, partial(system.heal, *way)), "heal")


def main() -> None:
    """Run with the command's arguments, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--subscribers", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--commit", default="presumed_abort")
    parser.add_argument("--mean", type=float, default=0.3, help="seconds between two strikes")
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    found = run(
        said.seed, transactions=said.transactions, subscribers=said.subscribers, streams=said.streams,
        commit=said.commit, mean_s=said.mean,
    )  # fmt: skip
    sys.stdout.write(
        f"told: {dict(found.told)}\nkilled: {dict(found.killed)}\nproblems: {found.problems or 'none'}\n"
    )


if __name__ == "__main__":
    main()
