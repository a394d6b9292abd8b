"""A random workload at a Publisher and Subscribers while agents, log reader and servers crash.

Every statement that stores a value stores a unique one, and no key is used twice, so that each delivery can be
identified. Run by itself: ``python -m tests.model.distribution.drawn --transactions 5000 --seed 1``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from tests.model.distribution.rig import FIRST, Rig
from twopc.errors import DeliveryError
from twopc.sim.model.values import RequestLostError, Steps, SubscriberSpec
from twopc.sim.model.wiring import Wiring

COUNTS = (
    "create table seen (id int, token int)",
    """
    create function count_it() returns trigger language plpgsql as $$
    begin insert into seen values (new.id, new.balance); return new; end $$
    """,
    "create trigger counts after insert or update on account for each row execute function count_it()",
    "alter table account enable always trigger counts",
)
POLL_S = 0.05


@dataclass(slots=True, kw_only=True)
class Found:
    """The results of a run."""

    committed: int
    killed: Counter[str]
    problems: list[str]
    deliveries: int
    seconds: float
    """Virtual time."""
    trace: tuple[object, ...] = field(repr=False)
    """Equal for equal seeds."""


class Writer:
    """An application at one node, which changes only its own rows, each time with a new token."""

    def __init__(self, rig: Rig, node: str, number: int, tokens: list[int]) -> None:
        self._rig = rig
        self.node = node
        self._chance: Random = rig.kernel.random(f"writer of {node}")
        self._tokens = tokens
        self._keys: list[int] = []
        self._next = number * 100_000
        self.put: list[int] = []
        """Tokens of committed transactions."""
        self.committed = 0

    def statements(self) -> tuple[list[str], list[int]]:
        """Return the statements of the next transaction, and its tokens."""
        texts: list[str] = []
        put: list[int] = []
        for _ in range(self._chance.choice((1, 1, 2, 4))):
            self._tokens[0] += 1
            token = self._tokens[0]
            what = self._chance.random()
            if what < 0.4 or not self._keys:
                self._next += 1
                self._keys.append(self._next)
                texts.append(
                    f"insert into account values ({self._next}, '{self.node}', {token}, '{_version(token)}')"
                )
            else:
                key = self._keys.pop(self._chance.randrange(len(self._keys)))
                if what < 0.75:
                    self._keys.append(key)
                    change = f"balance = {token}"
                elif what < 0.85:
                    self._next += 1
                    self._keys.append(self._next)
                    change = f"balance = {token}, id = {self._next}"
                else:
                    texts.append(f"delete from account where id = {key}")
                    continue
                texts.append(
                    f"update account set {change}, msrepl_tran_version = '{_version(token)}' where id = {key}"
                )
            put.append(token)
        return texts, put

    def run(self, count: int) -> Steps[None]:
        """Execute this many transactions, each at the Publisher and then at the writer's own node."""
        rig, home = self._rig, self.node
        for _ in range(count):
            yield rig.kernel.env.timeout(self._chance.expovariate(1 / 0.02))
            texts, put = self.statements()
            origin = "" if home == "pub" else home
            assert (yield from rig.transaction("pub", *texts, origin=origin))
            if origin:
                yield from self._at_home(texts)
            self.put += put
            self.committed += 1

    def _at_home(self, texts: Sequence[str]) -> Steps[None]:
        """Repeat a transaction until it has committed; the server may crash before or during the commit."""
        rig = self._rig
        marked = f"insert into done values ({self.committed})"
        while True:
            node = rig.nodes[self.node]
            if node.up:
                if any(row[0] == self.committed for row in node.table("done").committed()):
                    return
                try:
                    if (yield from rig.transaction(self.node, marked, *texts)):
                        return
                except RequestLostError:
                    pass
            yield rig.kernel.env.timeout(0.1)


def _version(token: int) -> str:
    return f"{FIRST[:-12]}{token:012d}"


def run(
    seed: int, *, transactions: int = 240, subscribers: int = 3, streams: int = 1, mean_s: float = 0.15,
    wiring: Wiring | None = None,
) -> Found:  # fmt: skip
    """Run a load with a fault every `mean_s` seconds on average; then heal all faults and deliver everything."""
    names = [f"sub{number}" for number in range(1, subscribers + 1)]
    rig = Rig(
        *(SubscriberSpec(name=name, streams=streams, batch=5) for name in names), rows=(), seed=seed, poll_s=POLL_S,
        sql=dict.fromkeys(names, (*COUNTS, "create table done (n int primary key)")), wiring=wiring,
    )  # fmt: skip
    tokens = [0]
    writers = [Writer(rig, name, number, tokens) for number, name in enumerate(["pub", *names], 1)]
    working = [
        rig.kernel.spawn(one.run(transactions // len(writers)), f"writer of {one.node}")
        for one in writers
    ]
    killed: Counter[str] = Counter()
    chaos = rig.kernel.spawn(_chaos(rig, working, killed, mean_s), "chaos")
    rig.kernel.run(chaos)
    rig.until(1.0)  # servers that crashed have restarted
    rig.distribution.start()
    problems: list[str] = []
    try:
        rig.sync()
    except DeliveryError as error:
        problems.append(str(error))
    put = {one.node: one.put for one in writers}
    if not rig.converged():
        problems.append("nodes do not hold the same rows")
    deliveries = 0
    for name in names:
        counted = Counter(row[1] for row in rig.nodes[name].table("seen").committed())
        wanted = [token for node in put for token in put[node]]
        deliveries += sum(counted.values()) - len(put[name])
        problems += [
            f"{name}: {token} {'echoed' if token in put[name] else 'twice'}"
            for token, count in counted.items()
            if count > 1
        ]
        problems += [f"{name}: {token} is missing" for token in wanted if token not in counted]
        problems += [f"{name}: {gid} is prepared" for gid in rig.nodes[name].prepared()]
    histories = tuple(tuple(each.record.history) for each in rig.distribution.seats.values())
    rows = tuple(tuple(map(tuple, map(dict.items, rig.rows(name)))) for name in rig.nodes)
    return Found(
        committed=sum(one.committed for one in writers), killed=killed, problems=problems, deliveries=deliveries,
        seconds=rig.kernel.now, trace=(rows, histories, rig.kernel.now),
    )  # fmt: skip


def _chaos(rig: Rig, working: Sequence[object], killed: Counter[str], mean_s: float) -> Steps[None]:
    """While any client writes, inject faults that are healed a little later."""
    chance = rig.kernel.random("chaos")
    names = [name for name in rig.nodes if name != "pub"]
    while any(not one.processed for one in working):  # type: ignore[attr-defined] # processes
        yield rig.kernel.env.timeout(chance.expovariate(1 / mean_s))
        what = chance.choice(("log reader", "agent", "agent", "halt", "server", "cut"))
        name = chance.choice(names)
        killed[what] += 1
        seat = rig.distribution.reader if what == "log reader" else rig.distribution.seats[name]
        pause_s = chance.uniform(0.0, 0.3)
        if what in ("log reader", "agent"):
            seat.crash()
            rig.kernel.spawn(_later(rig, pause_s, seat.start), "again")
        elif what == "halt":
            seat.pause()
            rig.kernel.spawn(_later(rig, pause_s, seat.resume), "on")
        elif what == "server":
            ends = rig.nodes[name].wal.young()
            rig.crash_node(
                name, kept_lsn=chance.choice(ends) if ends and chance.random() < 0.5 else None
            )
        else:
            ways = (("log_reader", "pub"), (f"agent:{name}", "pub"), (f"agent:{name}", name))
            way = chance.choice(ways)
            rig.network.cut(*way)
            rig.kernel.spawn(_later(rig, pause_s, partial(rig.network.heal, *way)), "heal")


def _later(rig: Rig, seconds: float, act: object) -> Steps[None]:
    yield rig.kernel.env.timeout(seconds)
    act()  # type: ignore[operator] # something to be called


def main() -> None:
    """Run with the command's arguments, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=5000)
    parser.add_argument("--subscribers", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    found = run(
        said.seed,
        transactions=said.transactions,
        subscribers=said.subscribers,
        streams=said.streams,
    )
    sys.stdout.write(
        f"{found.committed} transactions, {found.deliveries} deliveries, {found.seconds:.1f} s of virtual time\n"
        f"killed: {dict(found.killed)}\nproblems: {found.problems or 'none'}\n"
    )


if __name__ == "__main__":
    main()
