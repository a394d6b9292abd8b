"""Plays a load: clients that work one transaction after the other, or transactions that begin at a rate.

It knows neither servers nor virtual time, only a `LoadBench`. What happens is written into the history, a line for
each attempt; nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from math import inf
from typing import Any

from twopc.errors import TwopcError
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.workload import LoadEvent, Workload
from twopc.sim.workload import drawing
from twopc.sim.workload.attempts import attempt, leave
from twopc.sim.workload.drawing import Drawer, chance
from twopc.sim.workload.figures import Figures
from twopc.sim.workload.ports import (
    COMMITTED,
    REJECTED,
    AttemptOutcome,
    ClientTransaction,
    LoadBench,
    LoadClient,
    LoadGate,
)

#: At a rate, so many transactions are under way at most; what is to begin beyond them is dropped, and counted.
AT_ONCE_MAX = 64
#: How long a client rests whose node was gone: trying at once would only be counted.
LOST_REST_S = (0.02, 0.1)
#: How often it is looked whether the load is over, by those who wait for something else.
LOOK_EVERY_S = 0.05


class Load:
    """One load on one bench.

    Args:
        scenario: that has a workload.
        seed: for everything that is drawn.
        write: adds a record to the history.
        level: the isolation level at a node.
    """

    def __init__(
        self,
        scenario: Scenario,
        bench: LoadBench,
        *,
        seed: int,
        write: Callable[..., Any],
        level: Callable[[str], str],
    ) -> None:
        assert scenario.workload is not None, "it has a workload"
        self._workload: Workload = scenario.workload
        self._publisher = scenario.topology.publisher
        self._subscribers = scenario.topology.subscribers if scenario.distributes else ()
        self._bench = bench
        self._seed = seed
        self._write = write
        self._level = level
        self._nodes = drawing.nodes(scenario, self._workload)
        self._drawer = Drawer(scenario, self._workload)
        self.figures = Figures(self._workload.warmup_ms / 1000)
        self.syncing = SyncQueue(bench, self.figures, write)
        self._number = 0
        self._began_s = 0.0
        self._alive_s = 0.0
        """Until when it is sure that the load goes on, where it is not said how long it lasts."""
        self._is_over = False
        self._clients: dict[str, list[LoadClient]] = {}
        """At a rate: those that are free, by node."""
        self._busy = 0
        self._closing: list[LoadClient] = []

    def now(self) -> float:
        """Seconds since the load began."""
        return self._bench.time() - self._began_s

    @property
    def is_quiet(self) -> bool:
        """Nothing begins any more, and what has begun is over."""
        return self._is_over and not self._busy

    async def play(self, grace_s: float) -> list[str]:
        """Let it begin, go on and end.

        Args:
            grace_s: how long what has begun may take once nothing more begins. A load of so many transactions
                has all the time that it needs; it is given up when for so long nothing has come of any.

        Returns:
            Whoever did not come to an end, and was ended.
        """
        self._began_s = self._bench.time()
        for happening in self._workload.during:
            if happening.fault is not None and not happening.at_ms:
                await self._turn(happening, on=True)  # before anybody can come there
                if happening.every_ms is None:
                    continue
            self._bench.spawn(self._befall(happening), "what happens")
        if self._workload.sync_ms:
            self._bench.spawn(self._keep_syncing(self._workload.sync_ms / 1000), "agents")
        await self._begin()
        left = await self._bench.all_over(lambda: self._patience_s(grace_s))
        self.figures.seconds = max(0.0, self.now() - self._workload.warmup_ms / 1000)
        for client in self._closing:
            await leave(client.close())
        return left

    # -- who begins what ---------------------------------------------------------------------------

    def _length_s(self) -> float:
        """For how long something begins; 0: that is not said by time."""
        return (self._workload.for_ms or 0) / 1000

    def _patience_s(self, grace_s: float) -> float:
        """How much longer it may take, as things stand."""
        return max(self._length_s(), self._alive_s) + grace_s - self.now()

    def _is_timed(self) -> bool:
        """The file says for how long it lasts."""
        return self._workload.for_ms is not None

    def _lives(self, until_s: float) -> None:
        """Something has come of a transaction, or somebody rests until then."""
        if not self._is_timed():
            self._alive_s = max(self._alive_s, until_s)

    async def _begin(self) -> None:
        if self._workload.rate is not None:
            self._bench.spawn(self._arrive(self._workload.rate), "arrivals")
        else:
            await self._start_clients(self._workload.clients or 1)

    def _may_begin(self, at_s: float) -> bool:
        """Whether one more transaction may begin."""
        if self._workload.count is not None:
            return self._number < self._workload.count
        return at_s < (self._workload.for_ms or 0) / 1000

    async def _start_clients(self, number: int) -> None:
        places = drawing.places(self._nodes, number)
        names = [f"client {place}" for place in range(1, number + 1)]
        clients = [
            await self._connect(name, node) for name, node in zip(names, places, strict=True)
        ]
        self._began_s = self._bench.time()  # it begins when everybody is there
        self._busy = number
        for name, node, client in zip(names, places, clients, strict=True):
            self._bench.spawn(self._client(name, node, client), name)

    async def _connect(self, name: str, node: str) -> LoadClient:
        client = await self._bench.client(name, node)
        self._closing.append(client)
        return client

    async def _client(self, name: str, node: str, client: LoadClient) -> None:
        """One that begins whenever its last transaction is over."""
        of = chance(self._seed, name)
        while self._may_begin(self.now()):
            self._number += 1
            deed = self._drawer.deed(self._number, of)
            intended_s = self.now()
            self.figures.started(intended_s)
            await self._carry_out(name, node, client, deed, intended_s)
            if self._workload.think is not None:
                await self._rest(drawing.seconds(self._workload.think, of))
        self._busy -= 1
        self._is_over = self._busy == 0

    async def _rest(self, seconds: float) -> None:
        """So long, but not beyond the moment from which nothing begins any more."""
        left_s = inf if self._workload.for_ms is None else self._workload.for_ms / 1000 - self.now()
        self._lives(self.now() + seconds)
        await self._bench.sleep(max(0.0, min(seconds, left_s)))

    async def _arrive(self, rate: float) -> None:
        """Transactions that begin when they are to begin, whatever became of the others."""
        of = chance(self._seed, "arrivals")
        at_s = 0.0
        names, weights = [*self._nodes], [*self._nodes.values()]
        while self._may_begin(at_s := at_s + of.expovariate(rate)):
            self._lives(at_s)
            if at_s > self.now():
                await self._bench.sleep(at_s - self.now())
            self._number += 1
            deed = self._drawer.deed(self._number, of)
            (node,) = of.choices(names, weights)
            free = self._clients.setdefault(node, [])
            dropped = not free and self._busy >= AT_ONCE_MAX
            self.figures.started(at_s, dropped=dropped)
            if not dropped:
                self._busy += 1
                self._bench.spawn(self._arrived(node, deed, at_s), f"transaction {deed.number}")
        self._is_over = True

    async def _arrived(self, node: str, deed: ClientTransaction, at_s: float) -> None:
        free = self._clients[node]
        name = f"transaction {deed.number}"
        client = free.pop() if free else await self._connect(name, node)
        try:
            await self._carry_out(name, node, client, deed, at_s)
        finally:
            free.append(client)
            self._busy -= 1

    # -- one transaction ---------------------------------------------------------------------------

    async def _carry_out(
        self, name: str, node: str, client: LoadClient, deed: ClientTransaction, intended_s: float
    ) -> None:
        """Attempt it until it is committed, in doubt, or has been tried often enough."""
        text = self._workload.on_conflict
        of = chance(self._seed, f"{name}, {deed.number} again")
        for number in range(1, text.retry + 2):
            began_s = self.now()
            ended = await attempt(client, deed, self._level(node))
            repeated = ended.kind == REJECTED and number <= text.retry and not self._is_late()
            self._note(name, node, deed, ended, number, intended_s, began_s, is_retry=repeated)
            if ended.is_lost and ended.kind != COMMITTED:
                await self._bench.sleep(of.uniform(*LOST_REST_S))
            if not repeated:
                return
            pause_s = drawing.backoff(text.backoff, of)
            self._lives(self.now() + pause_s)
            await self._bench.sleep(pause_s)
            if text.after == "sync" and node in self._subscribers:
                await self.syncing.sync(node)

    def _is_late(self) -> bool:
        """Its time has been over for so long that nothing is tried again."""
        return self._workload.for_ms is not None and self.now() > 2 * self._length_s()

    def _note(
        self,
        name: str,
        node: str,
        deed: ClientTransaction,
        ended: AttemptOutcome,
        number: int,
        intended_s: float,
        began_s: float,
        *,
        is_retry: bool,
    ) -> None:
        now_s = self.now()
        self._lives(now_s)
        self.figures.attempt(
            ended, intended_s=intended_s, began_s=began_s, now_s=now_s, is_retry=is_retry
        )
        data: dict[str, Any] = {
            "number": deed.number,
            "attempt": number,
            "due_us": round(intended_s * 1e6),
            "latency_us": round((now_s - intended_s) * 1e6),
            "took_us": round((now_s - began_s) * 1e6),
            "calls": _calls(deed, ended),
        }
        if ended.kind == COMMITTED:
            data["committed"] = True
            if deed.new is not None:
                self._drawer.picker.made(deed.new)
        values = {name: value for _, given in deed.statements for name, value in given.items()}
        self._write(
            ended.kind,
            session=name,
            node=node,
            step=deed.name,
            params=values or None,
            data=data,
            **ended.fields,
        )

    # -- what happens meanwhile --------------------------------------------------------------------

    async def _keep_syncing(self, every_s: float) -> None:
        while not self._is_over:
            await self.syncing.sync(*self._subscribers)
            await self._until(self.now() + every_s)

    async def _befall(self, happening: LoadEvent) -> None:
        """Make an event of a load happen, once or repeatedly until the load is over."""
        at_s = happening.at_ms / 1000
        if happening.fault is not None and not at_s:
            assert happening.every_ms is not None, "it was armed before anything began"
            at_s = happening.every_ms / 1000
        while True:
            await self._until(at_s)
            if self._is_over:
                return
            await self._turn(happening, on=True)
            if happening.fault is None:
                await self._until(
                    inf if happening.for_ms is None else at_s + happening.for_ms / 1000
                )
                await self._turn(happening, on=False)
            if happening.every_ms is None:
                return
            at_s += happening.every_ms / 1000

    async def _until(self, at_s: float) -> None:
        """Until so much time has passed, or nothing more begins."""
        while not self._is_over and (left_s := at_s - self.now()) > 0:
            await self._bench.sleep(min(LOOK_EVERY_S, left_s))

    async def _turn(self, happening: LoadEvent, *, on: bool) -> None:
        if happening.cut is not None:
            await self._bench.outage(happening.cut, on=on)
            self._write("outage", node=happening.cut, data={"on": on})
        elif happening.pause is not None:
            await self._bench.pause_agent(happening.pause, on=on)
            (self.syncing.paused.add if on else self.syncing.paused.discard)(happening.pause)
            self._write("paused", node=happening.pause, data={"on": on})
        elif happening.fault is not None:
            await self._bench.arm(happening.fault)
            self._write("info", message=f"fault '{happening.fault}' is armed")


def _calls(deed: ClientTransaction, ended: AttemptOutcome) -> list[dict[str, Any]]:
    """Every statement, and how many rows those that were carried out have met."""
    return [
        {"sql": text, "params": dict(params), "rowcount": rowcount}
        for (text, params), rowcount in zip_longest(deed.statements, ended.rowcounts)
    ]


class SyncQueue:
    """Syncs, one after the other; who asks during one is served by the next, with everybody else.

    Args:
        write: adds a record to the history.
    """

    def __init__(self, bench: LoadBench, figures: Figures, write: Callable[..., Any]) -> None:
        self._bench = bench
        self._figures = figures
        self._write = write
        self._requested: dict[str, None] = {}
        self._next: LoadGate = bench.gate()
        self._works = False
        self.paused: set[str] = set()
        """The Subscribers whose agents rest: they get nothing."""

    async def sync(self, *subscribers: str) -> None:
        """Return when they have got what was committed when this was called, or could not."""
        requested = [name for name in subscribers if name not in self.paused]
        if not requested:
            return
        self._requested |= dict.fromkeys(requested)
        gate = self._next
        if not self._works:
            self._works = True
            self._bench.spawn(self._work(), "sync")
        await gate.wait()

    async def _work(self) -> None:
        try:
            while self._requested:
                requested, gate = [*self._requested], self._next
                self._requested, self._next = {}, self._bench.gate()
                await self._once(requested)
                gate.open()
        finally:
            self._works = False

    async def _once(self, subscribers: list[str]) -> None:
        began_s = self._bench.time()
        report: dict[str, Any] = {"node": " ".join(subscribers), "step": "sync"}
        try:
            await self._bench.sync(subscribers)
        except TwopcError as error:
            self._figures.synced(0.0, failed=True)
            self._write("error", message=str(error), **report)
        else:
            took_s = self._bench.time() - began_s
            self._figures.synced(took_s)
            self._write("ok", data={"latency_us": round(took_s * 1e6)}, **report)
