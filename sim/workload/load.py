"""Playing a load: clients that execute one transaction after the other, or transactions that begin at a rate.

This module uses only a `LoadBench`, and depends neither on servers nor on virtual time. It writes one history
record for each attempt, and judges nothing.
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

#: For a load at a rate: the most transactions that run at once; further ones are dropped, and counted.
AT_ONCE_MAX = 64
#: How long a client waits after its node was unreachable: an immediate retry would only add a failed attempt.
LOST_REST_S = (0.02, 0.1)
#: Interval at which tasks that wait for a point in time check whether the load is over.
LOOK_EVERY_S = 0.05


class Load:
    """One load on one bench.

    Args:
        scenario: a scenario with a workload.
        seed: the seed of all random choices.
        write: adds a record to the history.
        level: returns the isolation level at a node.
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
        """Time until which the load is known to make progress, if the file does not limit its duration."""
        self._is_over = False
        self._clients: dict[str, list[LoadClient]] = {}
        """For a load at a rate: the free clients by node."""
        self._busy = 0
        self._closing: list[LoadClient] = []

    def now(self) -> float:
        """Return the seconds since the load began."""
        return self._bench.time() - self._began_s

    @property
    def is_quiet(self) -> bool:
        """Whether no further transaction will begin and every transaction that has begun has ended."""
        return self._is_over and not self._busy

    async def play(self, grace_s: float) -> list[str]:
        """Play the load to its end.

        Args:
            grace_s: how long running transactions may take after the last one has begun. A load with a fixed number
                of transactions has no time limit, but is given up if no attempt ends for this long.

        Returns:
            The names of the tasks that did not end in time and were cancelled.
        """
        self._began_s = self._bench.time()
        for happening in self._workload.during:
            if happening.fault is not None and not happening.at_ms:
                await self._switch(happening, on=True)  # before any client can reach the point
                if happening.every_ms is None:
                    continue
            self._bench.spawn(self._run_event(happening), "what happens")
        if self._workload.sync_ms:
            self._bench.spawn(self._keep_syncing(self._workload.sync_ms / 1000), "agents")
        await self._begin()
        left = await self._bench.all_over(lambda: self._patience_s(grace_s))
        self.figures.seconds = max(0.0, self.now() - self._workload.warmup_ms / 1000)
        for client in self._closing:
            await leave(client.close())
        return left

    # -- beginning transactions --------------------------------------------------------------------

    def _length_s(self) -> float:
        """Return for how many seconds transactions begin; 0 if the file does not limit the duration."""
        return (self._workload.for_ms or 0) / 1000

    def _patience_s(self, grace_s: float) -> float:
        """Return how many more seconds the load may take, as of now."""
        return max(self._length_s(), self._alive_s) + grace_s - self.now()

    def _is_timed(self) -> bool:
        """Return whether the file limits the duration of the load."""
        return self._workload.for_ms is not None

    def _note_progress(self, until_s: float) -> None:
        """Note that the load makes progress, or pauses, until this time."""
        if not self._is_timed():
            self._alive_s = max(self._alive_s, until_s)

    async def _begin(self) -> None:
        if self._workload.rate is not None:
            self._bench.spawn(self._arrive(self._workload.rate), "arrivals")
        else:
            await self._start_clients(self._workload.clients or 1)

    def _may_begin(self, at_s: float) -> bool:
        """Return whether one more transaction may begin."""
        if self._workload.count is not None:
            return self._number < self._workload.count
        return at_s < (self._workload.for_ms or 0) / 1000

    async def _start_clients(self, number: int) -> None:
        places = drawing.places(self._nodes, number)
        names = [f"client {place}" for place in range(1, number + 1)]
        clients = [
            await self._connect(name, node) for name, node in zip(names, places, strict=True)
        ]
        self._began_s = self._bench.time()  # the load begins when all clients are connected
        self._busy = number
        for name, node, client in zip(names, places, clients, strict=True):
            self._bench.spawn(self._client(name, node, client), name)

    async def _connect(self, name: str, node: str) -> LoadClient:
        client = await self._bench.client(name, node)
        self._closing.append(client)
        return client

    async def _client(self, name: str, node: str, client: LoadClient) -> None:
        """Run a client that begins a transaction whenever its previous one has ended."""
        of = chance(self._seed, name)
        while self._may_begin(self.now()):
            self._number += 1
            deed = self._drawer.deed(self._number, of)
            intended_s = self.now()
            self.figures.started(intended_s)
            await self._carry_out(name, node, client, deed, intended_s)
            if self._workload.think is not None:
                await self._pause(drawing.seconds(self._workload.think, of))
        self._busy -= 1
        self._is_over = self._busy == 0

    async def _pause(self, seconds: float) -> None:
        """Sleep for this long, but not past the moment after which no transaction begins."""
        left_s = inf if self._workload.for_ms is None else self._workload.for_ms / 1000 - self.now()
        self._note_progress(self.now() + seconds)
        await self._bench.sleep(max(0.0, min(seconds, left_s)))

    async def _arrive(self, rate: float) -> None:
        """Begin transactions at random times of the given rate, regardless of those still running."""
        of = chance(self._seed, "arrivals")
        at_s = 0.0
        names, weights = [*self._nodes], [*self._nodes.values()]
        while self._may_begin(at_s := at_s + of.expovariate(rate)):
            self._note_progress(at_s)
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
                self._bench.spawn(self._run_arrival(node, deed, at_s), f"transaction {deed.number}")
        self._is_over = True

    async def _run_arrival(self, node: str, deed: ClientTransaction, at_s: float) -> None:
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
        """Attempt a transaction until it is committed, is in doubt, or has used up its retries."""
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
            self._note_progress(self.now() + pause_s)
            await self._bench.sleep(pause_s)
            if text.after == "sync" and node in self._subscribers:
                await self.syncing.sync(node)

    def _is_late(self) -> bool:
        """Return whether the load's duration is exceeded by so much that nothing is retried."""
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
        self._note_progress(now_s)
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

    # -- events during the load --------------------------------------------------------------------

    async def _keep_syncing(self, every_s: float) -> None:
        while not self._is_over:
            await self.syncing.sync(*self._subscribers)
            await self._until(self.now() + every_s)

    async def _run_event(self, happening: LoadEvent) -> None:
        """Make an event of a load happen, once or repeatedly until the load is over."""
        at_s = happening.at_ms / 1000
        if happening.fault is not None and not at_s:
            assert happening.every_ms is not None, "it was armed before anything began"
            at_s = happening.every_ms / 1000
        while True:
            await self._until(at_s)
            if self._is_over:
                return
            await self._switch(happening, on=True)
            if happening.fault is None:
                await self._until(
                    inf if happening.for_ms is None else at_s + happening.for_ms / 1000
                )
                await self._switch(happening, on=False)
            if happening.every_ms is None:
                return
            at_s += happening.every_ms / 1000

    async def _until(self, at_s: float) -> None:
        """Sleep until this time, or until no transaction begins any more."""
        while not self._is_over and (left_s := at_s - self.now()) > 0:
            await self._bench.sleep(min(LOOK_EVERY_S, left_s))

    async def _switch(self, happening: LoadEvent, *, on: bool) -> None:
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
    """Return every statement, with the row count of those that were executed."""
    return [
        {"sql": text, "params": dict(params), "rowcount": rowcount}
        for (text, params), rowcount in zip_longest(deed.statements, ended.rowcounts)
    ]


class SyncQueue:
    """A queue of synchronisations, one at a time; requests made during one share the next.

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
        """Subscribers whose agents are paused: they are left out."""

    async def sync(self, *subscribers: str) -> None:
        """Return when Subscribers have received all earlier commits, or when the attempt has failed."""
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
                gate.set()
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
