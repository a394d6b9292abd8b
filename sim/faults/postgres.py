"""Performs a scenario's faults on real servers: each strikes when its place is reached, and heals as specified.

A transaction's arrivals are reported by the coordinator's process (`twopc.sim.faults.remote`), by the wires between
the nodes (`twopc.sim.faults.wires`), and by the gates in procedures and triggers (`twopc.sim.faults.gates`); the
actions are in `twopc.sim.faults.deeds`. Nothing depends on timing: the struck process is halted meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

from twopc.drivers.recovery import SettledBranch
from twopc.errors import ConfigurationError
from twopc.sim.faults import strikes
from twopc.sim.faults.agenda import session_of_gid, session_of_process, waits_of_faults
from twopc.sim.faults.agents import AgentSetup, RemoteAgent, serve_agent
from twopc.sim.faults.call_server import ARM, CoordinatorSetup, HaltNotice, ResumeOrder, serve
from twopc.sim.faults.capabilities import AGENTS, ANSWERS, COORDINATOR, COPIES, GATED
from twopc.sim.faults.deeds import Deeds
from twopc.sim.faults.gates import FaultGate, GateWait
from twopc.sim.faults.plans import Arrival, FaultPlan, NoEffectError
from twopc.sim.faults.remote import RemoteProcess
from twopc.sim.faults.ways import REQUESTS, gid_in
from twopc.sim.faults.wires import Fate
from twopc.sim.scenario.values import FaultStrike
from twopc.sim.sessions.servers import PostgresSession
from twopc.sim.sessions.waits import Observer, Wait
from twopc.sim.topology import Topology

#: Longer than any run.
_NEVER_S = 3600.0


class Performer(Deeds):
    """Performs the faults of one case.

    Args:
        plans: the faults that the case arms; others are unknown here.
        step_ms: timeout of a step; an unknown outcome is queried for half of it.
        off: the protections that are switched off.
        settled: receives the branches that recovery settles.
    """

    def __init__(
        self,
        topology: Topology,
        observer: Observer,
        plans: Sequence[FaultPlan] = (),
        *,
        step_ms: int = 10_000,
        off: frozenset[str] = frozenset(),
        settled: list[SettledBranch] | None = None,
    ) -> None:
        super().__init__(topology, observer, plans)
        self._step_ms = step_ms
        self._off = off
        self._settled = settled
        self.turn = asyncio.Lock()
        """Held while a fault is performed or healed, so that nodes are not observed meanwhile."""
        self._timers: list[asyncio.TimerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._gates: dict[str, FaultGate] = {}
        """Gates by the faults that strike there."""
        self._standing = 0
        """PID of the backend at the gate where the last fault has struck."""
        self._starting = asyncio.Lock()

    async def add(self, plan: FaultPlan) -> None:
        """Add a fault.

        Raises:
            ConfigurationError: the fault concerns a connection that is open already.
        """
        if self.coordinator is not None and not self._ways.has(plan):
            raise ConfigurationError(
                f"{plan.deed.verb} at {plan.place.point}: what is about connections is said before the first "
                "transaction"
            )
        self._agenda.plans[plan.id] = plan
        await self._ways.add(plan)

    async def open(self) -> None:
        """Open the wires that faults need, and build the gates.

        A previous case may have had its coordinator in this process. That coordinator is stopped: it would recover
        in parallel with the one that is struck, and its sessions be taken for those of the dead process.
        """
        await self._topology.stop_coordinator()
        await self._ways.open()
        if any(_is_of_agents(plan) for plan in self._agenda.plans.values()):
            await self._topology.stop_agents()  # stop the agents of this process
            self._topology.agents.make_driven = partial(RemoteAgent, living=self._living_agent)
        for number, plan in enumerate(self._agenda.plans.values()):
            if plan.place.name in GATED:
                gate = FaultGate(self._topology, number, plan.place.name, plan.deed.how)
                await gate.build()
                self._gates[plan.id] = gate

    # -- the coordinator's process -----------------------------------------------------------------

    async def living(self) -> RemoteProcess | None:
        """Return the coordinator's process, started at the first use; None: it is dead and not healed."""
        async with self._starting:
            if self.coordinator is None:
                await self._start()
        process = self.coordinator
        return process if process is not None and process.is_alive else None

    async def _start(self) -> None:
        """Start a process, which recovers what others have left, and may be killed meanwhile."""
        topology = self._topology
        setup = CoordinatorSetup(
            coordinator=topology.name,
            distribution=self._ways.distribution(),
            publisher=self._ways.address(topology.publisher),
            subscribers={name: self._ways.address(name) for name in topology.subscribers},
            lock_timeout_ms=topology.wiring.lock_timeout_ms,
            shipping=topology.shipping,
            commit=topology.commit,
            in_doubt_after_s=self._step_ms / 2000,
            answer_timeout_s=self._patience_s(),
            armed=self._agenda.armed_at(COORDINATOR),
            off=self._off,
        )
        self.coordinator = RemoteProcess(serve, setup, self._halted, self._settled)
        await self.coordinator.start()

    def _patience_s(self) -> float:
        """Return the timeout after which a connection without answers is given up: if its silence ends, never."""
        for plan in self._agenda.plans.values():
            if plan.deed.verb in ("black", "one") and plan.heal.when == "never":
                # longer than any wait for a lock
                return self._topology.wiring.lock_timeout_ms / 1000 + 1
        return _NEVER_S

    async def _start_another(self) -> None:
        async with self._starting:
            await self._start()

    async def _living_agent(self, subscriber: str) -> RemoteProcess:
        process = self.agents.get(subscriber)
        if process is not None and process.is_alive:
            return process
        topology = self._topology
        setup = AgentSetup(
            subscriber=subscriber,
            publisher=topology.publisher,
            distribution_dsn=topology.node(topology.distribution).agent_dsn,
            subscriber_dsn=topology.node(subscriber).agent_dsn,
            profile=topology.agents.profiles.get(subscriber),
            armed=self._agenda.armed_at(AGENTS),
        )
        halted = partial(self._agent_halted, subscriber)
        process = self.agents[subscriber] = RemoteProcess(serve_agent, setup, halted)
        await process.start()
        return process

    async def _agent_halted(self, subscriber: str, note: HaltNotice) -> ResumeOrder | None:
        if not self._agenda.is_armed(note.fault):
            return ResumeOrder()  # it has struck another Subscriber's agent
        return await self.happen(note.fault, Arrival(point=note.point, at=subscriber))

    async def _halted(self, note: HaltNotice) -> ResumeOrder | None:
        healed = self._agenda.healed_by(note.fault)
        if healed:
            await self._mend(healed)
            return ResumeOrder()
        session = self.sessions.get(note.session)
        pids = session.begun if session is not None else {}
        arrival = Arrival(point=note.point, session=note.session, gid=note.gid, pids=pids)
        return await self.happen(note.fault, arrival)

    # -- arming ------------------------------------------------------------------------------------

    async def arm(self, name: str) -> None:
        """Arm a fault for the next matching arrival."""
        plan = self._agenda.arm(name)
        if plan.place.name in ANSWERS:
            self._await_answers(plan)
        elif name in self._gates:
            await self._gates[name].shut()
        elif plan.place.name in COPIES:
            self._topology.copies.points.arm(plan.place.point, self._at_copies)
        elif plan.place.name in AGENTS:
            for agent in self.agents.values():
                if agent.is_alive:
                    await agent.call("", ARM, name, plan.place)
        elif self.coordinator is not None and self.coordinator.is_alive:
            await self.coordinator.call("", ARM, name, plan.place)

    def _await_answers(self, plan: FaultPlan) -> None:
        """Watch for the answer at which the fault strikes; the answer is held back meanwhile."""

        async def answered(text: str) -> Fate:
            gid = gid_in(text)
            name, session = session_of_gid(self.sessions, gid)
            if not self._agenda.is_armed(plan.id):
                return "pass"
            if not self._agenda.occasions.comes(plan.id, session=name, gid=gid):
                self._await_answers(plan)
                return "pass"
            pids = session.begun if session is not None else {}
            arrival = Arrival(point=plan.place.point, session=name, gid=gid, pids=pids, text=text)
            word = await self.happen(plan.id, arrival)
            await _delay(word)
            return "lose" if word is None or word.lose else "pass"

        for wire in self._ways.wires(self._ways.of_answers(plan.place)):
            wire.watch(REQUESTS[plan.place.name], answered)

    async def at_gates(self) -> bool:
        """Perform the faults of sessions that wait at gates; return False if no session does."""
        is_anybody = False
        for name, gate in self._gates.items():
            standing = await gate.waiting() if self._agenda.is_armed(name) else []
            is_anybody = is_anybody or bool(standing)
            for waiting in standing:
                if await self._at_gate(self._agenda.plans[name], waiting):
                    break  # the gate is open now: the others pass, too
            else:
                for node in dict.fromkeys(waiting.node for waiting in standing):
                    await gate.let_pass(node)
        return is_anybody

    async def _at_gate(self, plan: FaultPlan, waiting: GateWait) -> bool:
        """Perform a fault on a session that waits at its gate, if the arrival counts; return whether it does."""
        name, session = session_of_process(self.sessions, waiting.node, waiting.pid, waiting.name)
        gid, pids = (session.gid, session.begun) if session is not None else ("", {})
        if not self._agenda.occasions.comes(plan.id, session=name, gid=gid):
            return False
        self._standing = waiting.pid
        arrival = Arrival(point=plan.place.point, session=name, gid=gid, pids=pids, at=waiting.node)
        await self.happen(plan.id, arrival)
        return True

    async def _at_copies(self, point: str) -> None:
        """Perform the faults of a snapshot agent that has reached a point; it uses the administrator's connections."""
        topology = self._topology
        _, struck = self._agenda.arrived(point, session=None, gid="")
        if self._agenda.occasions.at(point):
            topology.copies.points.arm(point, self._at_copies)
        for plan in struck:
            nodes = (topology.publisher, topology.copies.subscriber)
            pids = {name: (await topology.admin(name)).info.backend_pid for name in nodes}
            arrival = Arrival(point=point, pids=pids, at=topology.copies.subscriber)
            await _delay(await self.happen(plan.id, arrival))

    def waits(self, sessions: Mapping[str, PostgresSession]) -> dict[str, Wait]:
        """Return the sessions that wait for something that a fault has stopped."""
        return waits_of_faults(
            self.sessions,
            sessions,
            subscribers=self._topology.subscribers,
            silent=self._ways.silent(),
            stopped=[name for name, each in self.sessions.items() if each.is_stopped],
            resting=[name for name, each in self.agents.items() if each.is_stopped],
        )

    def is_armed(self, name: str) -> bool:
        """Whether a fault is armed and has not struck yet."""
        return self._agenda.is_armed(name)

    def no_effect(self, name: str) -> str:
        """Return the missing object of a fault; empty: the fault has had an effect, or has not struck yet."""
        return self._agenda.missed.get(name, "")

    def fired(self) -> list[FaultStrike]:
        """Return the strikes since the last call."""
        return self._agenda.fired()

    # -- striking ----------------------------------------------------------------------------------

    async def happen(self, name: str, arrival: Arrival) -> ResumeOrder | None:
        """Perform a fault now; return how the process halted there resumes, None if it does not."""
        plan = self._agenda.plans[name]
        of_agent = plan.deed.what == "agent"
        self._agenda.strike(plan)
        async with self.turn:
            # Read only now: a new process may have been started after the last strike.
            struck = self.agents.get(plan.deed.node) if of_agent else self.coordinator
            self._observer.is_disturbed = True
            no_effect = ""
            try:
                word = await self._do(plan, arrival)
            except NoEffectError as error:
                word, no_effect = ResumeOrder(), str(error)
            if not plan.strikes_later:
                self._agenda.note(plan, arrival, no_effect)
            word = self._plan_healing(plan, word)
            if plan.id in self._gates:
                await self._leave_gate(self._gates[plan.id], word, arrival)
            if plan.deed.verb == "crash" and struck is not None and not no_effect:
                struck.bury()
        return word

    async def _leave_gate(
        self, gate: FaultGate, word: ResumeOrder | None, arrival: Arrival
    ) -> None:
        """Let the sessions at a gate resume after its fault; the gate stays open."""
        await _delay(word)
        if word is not None and word.lose:
            await gate.let_fail(arrival.at, self._standing)
        await gate.open()
        if word is None:
            await strikes.until_gone(self._topology, self._orphans)

    # -- healing -----------------------------------------------------------------------------------

    def _plan_healing(self, plan: FaultPlan, word: ResumeOrder | None) -> ResumeOrder | None:
        """Schedule the healing of a fault; a point at which it heals becomes part of the order to resume."""
        after_s, places = self._agenda.heals_after_s(plan), self._agenda.heals_at(plan)
        if after_s is not None:
            later = partial(self._begin_mending, plan.id)
            self._timers.append(asyncio.get_running_loop().call_later(after_s, later))
        return dataclasses.replace(word, arm=places) if word is not None and places else word

    def _begin_mending(self, name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._mend(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _mend(self, name: str) -> None:
        mend, plan = self._agenda.mend(name), self._agenda.plans[name]
        if mend is None:
            return
        try:
            if plan.deed.verb == "crash":  # a crash of the coordinator
                async with self.turn:
                    pass  # wait until the old process is buried
                # without `turn`, since a fault may strike the new process at a point of recovery
                await mend()
                return
            async with self.turn:
                await mend()
        except BaseException:
            self._agenda.breaks(plan, mend)  # still in effect: `close` heals it
            raise

    async def heal(self) -> None:
        """Heal every fault in effect that heals, and the faults that strike meanwhile."""
        while broken := self._agenda.broken():
            for plan in broken:
                await self._mend(plan.id)

    async def close(self) -> None:
        """Heal everything that would affect later cases, and end the coordinator's process."""
        for timer in self._timers:
            timer.cancel()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.agents:
            for agent in self.agents.values():
                agent.go_on()
            await self._topology.stop_agents()
        self._topology.agents.make_driven = self._topology.agents.make_agent
        for process in (*self.agents.values(), self.coordinator):
            if process is not None:
                await process.end()
        for plan in self._agenda.broken(for_good=True):
            if plan.deed.verb != "crash":
                await self._mend(plan.id)
        for gate in self._gates.values():
            await gate.open()
        self._topology.copies.points.disarm()
        await self._ways.close()


def _is_of_agents(plan: FaultPlan) -> bool:
    return plan.deed.what == "agent" or plan.place.name in AGENTS


async def _delay(word: ResumeOrder | None) -> None:
    """Wait for the duration of a delay, which is the fault itself; return at once if the fault is another."""
    if word is not None and word.delay_ms:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), word.delay_ms / 1000)
