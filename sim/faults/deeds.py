"""The actions of faults on real servers, by first word: on processes, servers, connections and stored data.

If the object of an action does not exist, `twopc.sim.faults.plans.NoEffectError` is raised before anything is done.
The struck process is halted meanwhile, or is one for which no other waits. When a fault strikes and heals is
decided by `twopc.sim.faults.postgres`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from psycopg.pq import TransactionStatus

from twopc.sim.faults import strikes
from twopc.sim.faults.agenda import Agenda
from twopc.sim.faults.call_server import ResumeOrder
from twopc.sim.faults.plans import Arrival, FaultPlan, check_running, nothing_there
from twopc.sim.faults.remote import RemoteProcess
from twopc.sim.faults.sessions import RemoteSession, StruckAnyClientSession
from twopc.sim.faults.ways import REQUESTS, Ways
from twopc.sim.faults.wires import Fate
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology

Mend = Callable[[], Awaitable[None]]


class Deeds(ABC):
    """Actions on a topology and on the processes that use it."""

    def __init__(self, topology: Topology, observer: Observer, plans: Sequence[FaultPlan]) -> None:
        self._topology = topology
        self._observer = observer
        self._agenda: Agenda[Mend] = Agenda(plans)
        self._ways = Ways(topology, plans)
        self.sessions: dict[str, RemoteSession | StruckAnyClientSession] = {}
        self.coordinator: RemoteProcess | None = None
        self.agents: dict[str, RemoteProcess] = {}
        """Agents' processes by Subscriber; empty unless faults concern agents."""
        self.down: list[str] = []
        """Nodes whose servers are stopped."""
        self._orphans: dict[str, list[str]] = {}
        """Backends that serve a coordinator that was killed, by node."""

    @abstractmethod
    async def _start_another(self) -> None:
        """Start another process of the coordinator."""

    @abstractmethod
    async def _living_agent(self, subscriber: str) -> RemoteProcess:
        """Return a Subscriber's agent; start it if there is none, or if it has died."""

    @property
    def _deeds(self) -> dict[str, Callable[[FaultPlan, Arrival], Awaitable[ResumeOrder | None]]]:
        return {
            "crash": self._crash,
            "pause": self._pause,
            "kill": self._end_backends,
            "terminate": self._end_backends,
            "cancel": self._end_backends,
            "restart": self._restart,
            "stop": self._stop,
            "delay": self._delay,
            "forget": self._forget,
            "finish": self._finish,
            "fill": self._fill,
            "cut": self._cut,
            "black": self._swallow,
            "one": self._swallow,
            "lose": self._lose,
            "repeat": self._repeat,
            "error": self._fail,
        }

    async def _do(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder | None:
        """Perform a fault's action; return how the process halted there resumes, None if it does not.

        Raises:
            NoEffectError: the object of the action does not exist; nothing has been done.
        """
        check_running(plan.deed, self.down)
        return await self._deeds[plan.deed.verb](plan, arrival)

    async def _crash(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder | None:
        if plan.deed.what == "agent":
            return await self._crash_agent(plan, arrival)
        process = self.coordinator
        if process is None or not process.is_alive:
            raise nothing_there(plan.deed)
        self._orphans = await strikes.processes_of(self._topology, down=self.down)
        await process.kill()
        await strikes.until_gone(self._topology, self._orphans)
        self._agenda.breaks(plan, self._start_another)
        return None

    async def _crash_agent(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder | None:
        """Kill the agent's process; the next sync starts a new one."""
        subscriber = plan.deed.node
        process = self.agents.get(subscriber)
        if process is None or not process.is_alive:
            raise nothing_there(plan.deed)
        other = await strikes.processes_of_agent(self._topology, subscriber)
        await process.kill()
        await strikes.until_gone(self._topology, other)
        return None if arrival.at == subscriber else ResumeOrder()

    async def _pause(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        of_agent = plan.deed.what == "agent"
        # An agent that has not been used yet is started and stopped, so that its users wait for it.
        process = await self._living_agent(plan.deed.node) if of_agent else self.coordinator
        if process is None or not process.is_alive or process.is_stopped:
            raise nothing_there(plan.deed)
        process.stop()

        async def go_on() -> None:
            process.go_on()

        self._agenda.breaks(plan, go_on)
        return ResumeOrder()

    async def _end_backends(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        deed, node = plan.deed, self._topology.node(plan.deed.node)
        pids = await strikes.backends(self._topology, deed.node, arrival.pids)
        if not pids:
            raise nothing_there(deed)
        if deed.verb == "kill":
            await self._leave(deed.node)
            await strikes.kill_backends(node, pids)
            await self._return_to(deed.node)
        else:
            await strikes.signal_backends(node, deed.verb, pids)
        return ResumeOrder()

    async def _restart(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        node = self._topology.node(plan.deed.node)
        await self._leave(node.name)
        await strikes.stop_server(node, plan.deed.how or "fast")
        await strikes.start_server(node)
        await self._return_to(node.name)
        return ResumeOrder()

    async def _stop(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        node = self._topology.node(plan.deed.node)
        await self._leave(node.name)
        await strikes.stop_server(node, plan.deed.how or "fast")
        there = strikes.on_server_of(self._topology, node.name)
        self.down += there
        self._observer.cut += there

        async def start() -> None:
            await strikes.start_server(node)
            self._observer.cut = [name for name in self._observer.cut if name not in there]
            self.down = [name for name in self.down if name not in there]
            await self._return_to(node.name)

        self._agenda.breaks(plan, start)
        return ResumeOrder()

    async def _delay(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        return ResumeOrder(delay_ms=plan.deed.ms)

    async def _forget(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        if plan.deed.what == "decisions":
            lost = await strikes.lose_decisions(self._topology)
        else:
            lost = await strikes.forget_markers(self._topology, arrival.gid, down=self.down)
        if not lost:
            raise nothing_there(plan.deed)
        return ResumeOrder()

    async def _finish(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        if not await strikes.finish(self._topology, plan.deed.node, arrival.gid, plan.deed.how):
            raise nothing_there(plan.deed)
        return ResumeOrder()

    async def _fill(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        node = self._topology.node(plan.deed.node)
        if not await strikes.fill_slots(node):
            raise nothing_there(plan.deed)
        self._agenda.breaks(plan, partial(strikes.free_slots, node))
        return ResumeOrder()

    # -- connections -------------------------------------------------------------------------------

    async def _cut(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        wires = self._ways.wires(self._ways.of(plan)[:1])

        async def mend() -> None:
            for wire in wires:
                wire.mend()

        for wire in wires:
            wire.cut()
        self._agenda.breaks(plan, mend)
        return ResumeOrder()

    async def _swallow(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        (way, *_) = self._ways.of(plan)
        (wire,) = self._ways.wires([way])
        forward = plan.deed.node == way[0]  # the end that opens the connection is named first
        both = plan.deed.verb == "black"
        wire.swallow(requests=both or forward, answers=both or not forward)

        async def mend() -> None:
            wire.mend()

        self._agenda.breaks(plan, mend)
        return ResumeOrder()

    async def _fail(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        return ResumeOrder(lose=True)

    async def _lose(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        """Lose the answer that arrives here, or that to the next request."""
        if not plan.strikes_later:
            return ResumeOrder(lose=True)

        async def answered(_: str) -> Fate:
            return "lose"

        return self._next_answer(plan, arrival, answered)

    async def _repeat(self, plan: FaultPlan, arrival: Arrival) -> ResumeOrder:
        """Send a request twice: the second time over another connection."""
        ((_, node), *_) = self._ways.of_answers(plan.place)
        dsn = self._topology.node(node).coordinator_dsn

        async def answered(text: str) -> Fate:
            await strikes.repeat(dsn, text)
            return "pass"

        if not plan.strikes_later:
            await answered(arrival.text)
            return ResumeOrder()
        return self._next_answer(plan, arrival, answered)

    def _next_answer(
        self, plan: FaultPlan, arrival: Arrival, answered: Callable[[str], Awaitable[Fate]]
    ) -> ResumeOrder:
        async def struck(text: str) -> Fate:
            self._agenda.note(plan, arrival)
            return await answered(text)

        for wire in self._ways.wires(self._ways.of_answers(plan.place)):
            wire.watch(REQUESTS[plan.place.name], struck)
        return ResumeOrder()

    async def _leave(self, node: str) -> None:
        """Close all our connections to a node's server."""
        await self._topology.stop_agents()
        for name in strikes.on_server_of(self._topology, node):
            await self._observer.leave(name)
            connection = await self._topology.admin(name)
            # A busy connection is not closed: it would roll back, and the server would not die during its work. A
            # PostgreSQL that dies right after the rollback of a transaction that made an unlogged table does not
            # start again ("could not create file … File exists").
            if connection.info.transaction_status is TransactionStatus.IDLE:
                await connection.close()

    async def _return_to(self, node: str) -> None:
        for name in strikes.on_server_of(self._topology, node):
            if name != self._topology.distribution:
                await self._observer.return_to(name, self._topology.node(name).dsn)
