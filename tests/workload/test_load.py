"""When a load begins its transactions, and what it counts.

Its clients are simulated: each step takes as long as a test says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from twopc.drivers.virtual import steps
from twopc.errors import ConflictError, DeliveryError, InDoubtError
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import Cause, Label, StatementResult, Steps
from twopc.sim.scenario.check import parse
from twopc.sim.workload.kernel_bench import KernelBench
from twopc.sim.workload.load import AT_ONCE_MAX, Load

HEAD = """\
twopc: 1
name: toy
about: x
topology: {publisher: pub, subscribers: [sub1, sub2]}
tables: {t: {columns: {id: int primary key, n: int}, rows: [{id: 1, n: 0}]}}
transactions:
  add: {sql: "update t set n = n + :amount where id = :key"}
"""
_TAKES = Label(actor="toy", cause=Cause.MESSAGE, what="a step")


class Toy:
    """A world in which each step at a node takes a given time, and some attempts are refused."""

    def __init__(self, took_s: Mapping[str, float], refused: Sequence[int] = ()) -> None:
        self.kernel = SimpyKernel()
        self.took_s = took_s
        self.refused = {*refused}
        """The numbers of the attempts that are refused."""
        self.in_doubt: set[int] = set()
        self.attempts = 0
        self.open = 0
        self.most = 0
        self.syncs: list[tuple[str, ...]] = []
        self.syncs_fail = False
        self.happened: list[tuple[float, str, str, bool]] = []
        self.records: list[tuple[str, dict[str, Any]]] = []

    def takes(self, seconds: float) -> Steps[None]:
        """Let a time pass."""
        yield self.kernel.delay(seconds, _TAKES)

    def session(self, name: str, node: str) -> ToySession:
        """Return a session at a node."""
        return ToySession(self, node)

    def sync(self, subscribers: Sequence[str]) -> Steps[None]:
        """Synchronise Subscribers in 10 ms."""
        self.syncs.append(tuple(subscribers))
        yield from self.takes(0.010)
        if self.syncs_fail:
            raise DeliveryError("the node is gone")

    def outage(self, node: str, on: bool) -> None:
        """Record an outage."""
        self.happened.append((round(self.kernel.now, 3), "cut", node, on))

    async def arm(self, fault: str) -> None:
        """Record a fault."""
        self.happened.append((round(self.kernel.now, 3), "fault", fault, True))

    def write(self, kind: str, **fields: Any) -> None:
        """Add a record."""
        self.records.append((kind, fields))

    def play(self, workload: str, *, seed: int = 7, more: str = "") -> Load:
        """Play a load until it is over."""
        scenario = parse(f"{HEAD}workload: {workload}\n{more}").scenario
        bench = KernelBench(self.kernel, self, outage=self.outage, arm=self.arm)
        load = Load(scenario, bench, seed=seed, write=self.write, level=lambda _: "read committed")
        self.left = self.kernel.run(self.kernel.spawn(steps(load.play(30.0)), "load"))
        return load

    def attempts_of(self) -> list[dict[str, Any]]:
        """Return the record of each attempt."""
        return [fields for _, fields in self.records if fields.get("session")]


class ToySession:
    """A session of a `Toy`."""

    gid = ""

    def __init__(self, world: Toy, node: str) -> None:
        self._world = world
        self._node = node

    def begin(self, level: str) -> Steps[None]:
        """Begin an attempt, in no time."""
        world = self._world
        world.attempts += 1
        self._number = world.attempts
        world.open += 1
        world.most = max(world.most, world.open)
        yield from world.takes(0.0)

    def execute(self, text: str, params: Mapping[str, Any]) -> Steps[StatementResult]:
        """Execute a statement in the time of its node, or refuse it."""
        yield from self._world.takes(self._world.took_s[self._node])
        if self._number in self._world.refused:
            raise ConflictError("stale", sqlstate="40001")
        return StatementResult(tag="UPDATE 1", rowcount=1)

    def commit(self) -> Steps[None]:
        """Commit, in no time."""
        self._world.open -= 1
        yield from self._world.takes(0.0)
        if self._number in self._world.in_doubt:
            raise InDoubtError("nobody knows", sqlstate="08006")

    def rollback(self) -> Steps[None]:
        """Roll back, in no time."""
        self._world.open -= 1
        yield from self._world.takes(0.0)

    def close(self) -> Steps[None]:
        """Close the session, in no time."""
        yield from self._world.takes(0.0)


SLOW = {"pub": 0.1, "sub1": 0.1, "sub2": 0.1}


def test_closed():
    """A client begins a transaction when its last one is over: ten in a second.

    Two clients make twenty.
    """
    toy = Toy(SLOW)
    load = toy.play("{clients: 2, for: 950ms}")
    told = load.figures.as_record()
    assert (toy.left, toy.most) == ([], 2)
    assert told["counts"]["committed"] == 20
    assert told["latencies_ms"]["commit"]["max"] == pytest.approx(100, rel=0.01)
    assert Counter(each["node"] for each in toy.attempts_of()) == {"sub1": 10, "sub2": 10}


def test_so_many_transactions():
    toy = Toy(SLOW)
    load = toy.play("{clients: 3, transactions: 10}")
    assert load.figures.as_record()["counts"]["transactions"] == 10
    assert sorted(each["data"]["number"] for each in toy.attempts_of()) == list(range(1, 11))


def test_weights_of_nodes():
    toy = Toy(SLOW)
    toy.play("{clients: 10, transactions: 10, nodes: {pub: 1, sub1: 6, sub2: 3}}")
    assert Counter(each["node"] for each in toy.attempts_of()) == {"pub": 1, "sub1": 6, "sub2": 3}


def test_thinking():
    toy = Toy(SLOW)
    load = toy.play("{clients: 1, for: 1s, think: constant 150ms}")
    assert load.figures.as_record()["counts"]["committed"] == 4
    assert toy.kernel.now == pytest.approx(1.0)


def test_warming_up():
    toy = Toy(SLOW)
    load = toy.play("{clients: 1, for: 950ms, warmup: 450ms}")
    assert load.figures.as_record()["counts"]["committed"] == 5
    assert len(toy.attempts_of()) == 10


def test_a_refusal_is_tried_again_after_a_sync():
    """Every refusal is counted, and the latency of a transaction is that of all its attempts."""
    toy = Toy(SLOW, refused=[1, 2])
    load = toy.play(
        "{clients: 1, transactions: 1, on_conflict: {retry: 3, after: sync, backoff: 50ms..50ms}}"
    )
    told = load.figures.as_record()
    counts = told["counts"]
    assert (counts["attempts"], counts["committed"], counts["rejected"], counts["retries"]) == (
        3,
        1,
        2,
        2,
    )
    assert told["rejected"] == {"version_mismatch": 2}
    assert toy.syncs == [("sub1",), ("sub1",)]
    assert told["latencies_ms"]["commit"]["max"] == pytest.approx(300 + 2 * 60, rel=0.01)
    assert told["latencies_ms"]["conflict"]["max"] == pytest.approx(100, rel=0.01)
    same = {str(each["params"]) for each in toy.attempts_of()}
    assert len(same) == 1
    made = [each["data"]["calls"] for each in toy.attempts_of()]
    assert [[call["rowcount"] for call in calls] for calls in made] == [[None], [None], [1]]
    assert made[0][0]["sql"] == "update t set n = n + :amount where id = :key"
    assert made[0][0]["params"] == toy.attempts_of()[0]["params"]


def test_what_is_tried_in_vain():
    toy = Toy(SLOW, refused=[1, 2])
    load = toy.play("{clients: 1, transactions: 1, on_conflict: {retry: 1}}")
    counts = load.figures.as_record()["counts"]
    assert (counts["rejected"], counts["retries"], counts["given_up"]) == (2, 1, 1)
    assert toy.syncs == []


def test_in_doubt():
    toy = Toy(SLOW)
    toy.in_doubt = {1}
    load = toy.play("{clients: 1, transactions: 2, on_conflict: {retry: 3}}")
    counts = load.figures.as_record()["counts"]
    assert (counts["in_doubt"], counts["committed"], counts["attempts"]) == (1, 1, 2)
    assert [kind for kind, _ in toy.records] == ["in_doubt", "ok"]


def test_at_a_rate():
    """Transactions begin when they are due, however long others take."""
    toy = Toy({"sub1": 0.5, "sub2": 0.5})
    load = toy.play("{rate: 20/s, for: 10s}")
    counts = load.figures.as_record()["counts"]
    assert 150 <= counts["transactions"] <= 250
    assert counts["dropped"] == 0
    assert toy.most >= 10
    assert load.figures.as_record()["latencies_ms"]["commit"]["max"] == pytest.approx(500, rel=0.01)


def test_at_a_rate_for_which_there_is_no_room():
    """Transactions for which no client is free are dropped and counted.

    Those that have begun do not become slower.
    """
    toy = Toy({"sub1": 10.0, "sub2": 10.0})
    load = toy.play("{rate: 100/s, for: 5s}")
    counts = load.figures.as_record()["counts"]
    assert toy.most == AT_ONCE_MAX
    assert counts["transactions"] == counts["committed"] + counts["dropped"]
    assert counts["dropped"] > 300
    assert load.figures.measure("dropped.rate", "%") == pytest.approx(
        100 * counts["dropped"] / counts["transactions"]
    )


def test_waiting_for_a_turn_is_waiting():
    """A transaction that begins late is timed from when it was due.

    A pause was longer than planned.
    """
    toy = Toy({"sub1": 0.01, "sub2": 0.01})
    bench_sleep = KernelBench.sleep
    late = iter([2.0])

    async def oversleep(self: KernelBench, seconds: float) -> None:
        await bench_sleep(self, seconds + next(late, 0.0))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelBench, "sleep", oversleep)
        load = toy.play("{rate: 10/s, for: 3s}")
    told = load.figures.as_record()
    assert told["latencies_ms"]["commit"]["max"] > 1800
    assert told["latencies_ms"]["commit"]["p50"] > 100


def test_many_ask_for_one_sync():
    """Synchronisations requested while another one runs are performed together."""
    toy = Toy(SLOW, refused=[1, 2, 3, 4, 5, 6])
    toy.play("{clients: 6, transactions: 6, on_conflict: {retry: 1, after: sync}}")
    assert len(toy.syncs) <= 2
    assert {name for each in toy.syncs for name in each} == {"sub1", "sub2"}


def test_a_sync_that_fails_keeps_nobody():
    toy = Toy(SLOW, refused=[1])
    toy.syncs_fail = True
    load = toy.play("{clients: 1, transactions: 1, on_conflict: {retry: 1, after: sync}}")
    counts = load.figures.as_record()["counts"]
    assert (counts["committed"], counts["sync_failures"], counts["syncs"]) == (1, 1, 0)


def test_what_happens_meanwhile():
    toy = Toy(SLOW)
    toy.play(
        "{clients: 1, for: 2s, during: [{at: 500ms, cut: sub1, for: 200ms, every: 1s}, {at: 1s, fault: dies}]}",
        more="faults: [{id: dies, at: coordinator.decision_logged, do: crash coordinator}]\n",
    )
    assert sorted(toy.happened) == [
        (0.5, "cut", "sub1", True), (0.7, "cut", "sub1", False), (1.0, "fault", "dies", True),
        (1.5, "cut", "sub1", True), (1.7, "cut", "sub1", False),
    ]  # fmt: skip


def test_what_is_cut_is_whole_again_in_the_end():
    toy = Toy(SLOW)
    toy.play("{clients: 1, for: 1s, during: [{at: 500ms, cut: sub1}]}")
    assert [(what, on) for _, what, _, on in toy.happened] == [("cut", True), ("cut", False)]


def test_an_agent_that_rests_brings_nothing():
    toy = Toy(SLOW)
    toy.play(
        "{clients: 1, for: 2s, sync: 100ms, during: [{at: 500ms, pause: agent sub2, for: 1s}]}"
    )
    assert ("sub1",) in toy.syncs
    assert toy.syncs[0] == toy.syncs[-1] == ("sub1", "sub2")


def test_who_does_not_come_to_an_end_is_named():
    toy = Toy({"sub1": 1000.0, "sub2": 0.1})
    toy.play("{clients: 2, for: 1s}")
    assert toy.left == ["client 1"]


def test_so_many_transactions_have_the_time_that_they_need():
    """A load of many transactions may take longer than the limit for those that have begun.

    A client that thinks for longer than that limit is not stuck.
    """
    toy = Toy(SLOW)
    toy.play("{clients: 2, transactions: 1000}")
    assert (toy.left, len(toy.attempts_of())) == ([], 1000)
    assert toy.kernel.now == pytest.approx(50.0)
    toy = Toy(SLOW)
    toy.play("{clients: 1, transactions: 4, think: constant 60s}")
    assert (toy.left, len(toy.attempts_of())) == ([], 4)


def test_so_many_transactions_of_which_one_does_not_end():
    toy = Toy({"sub1": 1e6, "sub2": 0.1})
    toy.play("{clients: 2, transactions: 500}")
    assert (toy.left, len(toy.attempts_of())) == (["client 1"], 499)


def test_the_same_seed_does_the_same():
    played = []
    for seed in (7, 7, 8):
        toy = Toy(SLOW, refused=[3, 5])
        toy.play("{rate: 30/s, for: 2s, on_conflict: {retry: 2, backoff: 5ms..50ms}}", seed=seed)
        played.append(toy.records)
    assert played[0] == played[1] != played[2]
