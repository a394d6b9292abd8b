"""Performs a scenario's faults on real servers: each when its place is reached, mended when it heals.

Where a transaction stands is heard from the coordinator's process (`twopc.sim.faults.remote`), from the wires between
the nodes (`twopc.sim.faults.wires`), and from the gates in procedures and triggers (`twopc.sim.faults.gates`); what is done
then is in `twopc.sim.faults.deeds`. Nothing relies on time: whoever is struck stands still meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial

from twopc.drivers.recovery import Settled
from twopc.errors import ConfigurationError
from twopc.sim.faults import strikes
from twopc.sim.faults.able import AGENTS, COORDINATOR, COPIES, GATED
from twopc.sim.faults.agents import AgentSetup, RemoteAgent, serve_agent
from twopc.sim.faults.copying import Copying
from twopc.sim.faults.deeds import Arrival, Deeds
from twopc.sim.faults.gates import Gate, Waiting
from twopc.sim.faults.remote import RemoteProcess
from twopc.sim.faults.serving import ARM, Halted, Setup, Word, serve
from twopc.sim.faults.ways import REQUESTS, Ways, gid_in
from twopc.sim.faults.wires import Fate
from twopc.sim.faults.words import Place, Plan
from twopc.sim.sessions.waits import Observer, Wait
from twopc.sim.topology import Topology
from twopc.waits import link_name

#: The names under which a healing point is armed: a fault's id cannot be like this.
_HEALS = "heals "
#: Longer than anything lasts.
_NEVER_S = 3600.0


class Performer(Deeds):
    """Faults of one case.

    Args:
        plans: the faults that the case arms; others are unknown here.
        step_ms: how long a step may take: an outcome is looked for during half of it.
        gives_up: the coordinator gives connections up that are silent; else it waits until that is mended.
        off: the protections that it is without.
        settled: gets what recovery settles.
    """

    def __init__(
        self,
        topology: Topology,
        observer: Observer,
        plans: Sequence[Plan] = (),
        *,
        step_ms: int = 10_000,
        gives_up: bool = False,
        off: frozenset[str] = frozenset(),
        settled: list[Settled] | None = None,
    ) -> None:
        super().__init__(topology, observer, Ways(topology, plans), self._another)
        self._step_ms = step_ms
        self._gives_up = gives_up
        self._off = off
        self._settled = settled
        self._plans = {plan.id: plan for plan in plans}
        self.turn = asyncio.Lock()
        """Held while a fault happens or is mended: nobody looks at the nodes meanwhile."""
        self._fired: list[tuple[str, str]] = []
        self._waiting: dict[str, Plan] = {}
        """Armed, and not happened yet."""
        self._timers: list[asyncio.TimerHandle] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._gates: dict[str, Gate] = {}
        """By the faults that happen there."""
        self._left: dict[str, int] = {}
        """So many arrivals at a gate are left until its fault happens."""
        self._standing = 0
        """The process that stands at the gate where something has happened last."""
        self._starting = asyncio.Lock()
        self._copying = Copying(topology, self._at_copy)

    async def add(self, plan: Plan) -> None:
        """Know one more fault.

        Raises:
            ConfigurationError: it is about a connection that is there already.
        """
        if self.coordinator is not None and not self._ways.has(plan):
            raise ConfigurationError(
                f"{plan.deed.verb} at {plan.place.point}: what is about connections is said before the first "
                "transaction"
            )
        self._plans[plan.id] = plan
        await self._ways.add(plan)

    async def open(self) -> None:
        """Lay the wires that faults need, and build the gates.

        A case before this one may have had its coordinator in this process: it would recover beside the one that
        is struck, and its sessions be taken for sessions of the dead.
        """
        await self._topology.stop_coordinator()
        await self._ways.open()
        if any(_is_of_agents(plan) for plan in self._plans.values()):
            await self._topology.stop_agents()  # those of this process
            self._topology.agents.make_driven = partial(RemoteAgent, living=self._living_agent)
        for number, plan in enumerate(self._plans.values()):
            if plan.place.name in GATED:
                gate = Gate(self._topology, number, plan.place.name, plan.deed.how)
                await gate.build()
                self._gates[plan.id] = gate

    # -- the coordinator's process -----------------------------------------------------------------

    async def living(self) -> RemoteProcess | None:
        """The coordinator's process, started at its first use; None: it is dead, and nobody has mended that."""
        async with self._starting:
            if self.coordinator is None:
                await self._start()
        process = self.coordinator
        return process if process is not None and process.is_alive else None

    async def _start(self) -> None:
        """Start a process, which recovers what others have left; it may die of that."""
        topology = self._topology
        setup = Setup(
            coordinator=topology.name,
            distribution=self._ways.distribution(),
            publisher=self._ways.address(topology.publisher),
            subscribers={name: self._ways.address(name) for name in topology.subscribers},
            lock_timeout_ms=topology.wiring.lock_timeout_ms,
            shipping=topology.shipping,
            commit=topology.commit,
            in_doubt_after_s=self._step_ms / 2000,
            answer_timeout_s=self._patience_s(),
            armed=tuple(
                (name, plan.place)
                for name, plan in self._waiting.items()
                if plan.place.name in COORDINATOR
            ),
            off=self._off,
        )
        self.coordinator = RemoteProcess(serve, setup, self._halted, self._settled)
        await self.coordinator.start()

    def _patience_s(self) -> float:
        """After how long without an answer a connection is given up: where silence ends by itself, never."""
        for plan in self._plans.values():
            if plan.deed.verb in ("black", "one") and plan.heal.when == "never":
                return (
                    self._topology.wiring.lock_timeout_ms / 1000 + 1
                )  # longer than anybody waits for a lock
        return _NEVER_S

    async def _another(self) -> None:
        async with self._starting:
            await self._start()

    async def _living_agent(self, subscriber: str) -> RemoteProcess:
        """A Subscriber's agent; started if there is none, or if it has died."""
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
            armed=tuple(
                (name, plan.place)
                for name, plan in self._waiting.items()
                if plan.place.name in AGENTS
            ),
        )
        halted = partial(self._agent_halted, subscriber)
        process = self.agents[subscriber] = RemoteProcess(serve_agent, setup, halted)
        await process.start()
        return process

    async def _agent_halted(self, subscriber: str, note: Halted) -> Word | None:
        if note.fault not in self._waiting:
            return Word()  # it has happened to another Subscriber's agent
        return await self.happen(note.fault, Arrival(point=note.point, at=subscriber))

    async def _halted(self, note: Halted) -> Word | None:
        begun = self.coordinator.begun if self.coordinator else {}
        pids = begun[note.session][0] if note.session in begun else {}
        arrival = Arrival(point=note.point, session=note.session, gid=note.gid, pids=pids)
        if note.fault.startswith(_HEALS):
            await self._mend(note.fault.removeprefix(_HEALS))
            return Word()
        return await self.happen(note.fault, arrival)

    # -- arming ------------------------------------------------------------------------------------

    async def arm(self, name: str) -> None:
        """Have a fault happen at the next arrival that counts."""
        plan = self._plans[name]
        self._waiting[name] = plan
        if plan.place.name.startswith("reply."):
            self._await_answers(plan, plan.place.nth)
        elif name in self._gates:
            self._left[name] = plan.place.nth
            await self._gates[name].shut()
        elif plan.place.name in COPIES:
            self._copying.arm(plan)
        elif plan.place.name in AGENTS:
            for agent in self.agents.values():
                if agent.is_alive:
                    await agent.call("", ARM, name, plan.place)
        elif self.coordinator is not None and self.coordinator.is_alive:
            await self.coordinator.call("", ARM, name, plan.place)

    def _await_answers(self, plan: Plan, left: int) -> None:
        """Stand where an answer arrives: it is held back meanwhile."""

        async def answered(text: str) -> Fate:
            nonlocal left
            gid = gid_in(text)
            session, pids = self._of_gid(gid)
            if plan.id not in self._waiting:
                return "pass"
            left -= plan.place.fits(session=session, gid=gid)
            if left:
                self._await_answers(plan, left)
                return "pass"
            point = plan.place.point
            arrival = Arrival(point=point, session=session, gid=gid, pids=pids, text=text)
            word = await self.happen(plan.id, arrival)
            if word is not None and word.delay_ms:
                await _pass(word.delay_ms / 1000)
            return "lose" if word is None or word.lose else "pass"

        for wire in self._ways.wires(self._ways.of_answers(plan.place)):
            wire.watch(REQUESTS[plan.place.name], answered)

    async def at_gates(self) -> bool:
        """Let happen what happens to those who wait at gates; False if nobody does."""
        is_anybody = False
        for name, gate in self._gates.items():
            plan = self._waiting.get(name)
            standing = await gate.waiting() if plan is not None else []
            is_anybody = is_anybody or bool(standing)
            for waiting in standing:
                if plan is not None and await self._at_gate(plan, waiting):
                    break  # the others go on with him
            else:
                for node in dict.fromkeys(waiting.node for waiting in standing):
                    await gate.let_pass(node)
        return is_anybody

    async def _at_gate(self, plan: Plan, waiting: Waiting) -> bool:
        """Whether it has happened to somebody who stands at a gate; it may not be his turn."""
        session = next(
            (
                (name, each)
                for name, each in self.sessions.items()
                if each.pids.get(waiting.node) == waiting.pid
                or waiting.name in [link_name(*place) for place in each.pids.items()]
            ),
            None,
        )
        name, gid = (session[0], session[1].gid) if session else ("", "")
        pids = session[1].pids if session else {}
        self._left[plan.id] -= plan.place.fits(session=name, gid=gid)
        if self._left[plan.id]:
            return False
        self._standing = waiting.pid
        arrival = Arrival(point=plan.place.point, session=name, gid=gid, pids=pids, at=waiting.node)
        await self.happen(plan.id, arrival)
        return True

    async def _at_copy(self, plan: Plan, arrival: Arrival) -> None:
        word = await self.happen(plan.id, arrival)
        if word is not None and word.delay_ms:
            await _pass(word.delay_ms / 1000)

    def _of_gid(self, gid: str) -> tuple[str, Mapping[str, int]]:
        """The session, and its process at each of its Subscribers, of a global transaction."""
        begun = self.coordinator.begun if self.coordinator is not None else {}
        return next(((name, pids) for name, (pids, its) in begun.items() if its == gid), ("", {}))

    def waits(self) -> dict[str, Wait]:
        """The sessions that wait for a coordinator that stands, or for an answer that does not arrive."""
        found = {}
        silent = self._ways.silent()
        for name, session in self.sessions.items():
            why = ""
            if session.process is not None and session.process.is_stopped:
                why = "its coordinator, which is stopped"
            elif any(session.waits_on(*way) for way in silent):
                why = "an answer that does not arrive"
            if why:
                found[name] = Wait(session=name, on="", node=session.node, lock=why)
        return found

    def fired(self) -> list[tuple[str, str]]:
        """Those that have happened since this was asked last: each one's id and point."""
        fired, self._fired = self._fired, []
        return fired

    # -- happening ---------------------------------------------------------------------------------

    async def happen(self, name: str, arrival: Arrival) -> Word | None:
        """It happens now; returns how whoever stands there goes on, None if he does not."""
        plan = self._waiting.pop(name)
        of_agent = plan.deed.what == "agent"
        async with self.turn:
            # Not before: what struck last may have been followed by a new process.
            struck = self.agents.get(plan.deed.node) if of_agent else self.coordinator
            self._observer.is_disturbed = True
            word = await self._deeds[plan.deed.verb](plan, arrival)
            self._fired.append((plan.id, arrival.point))
            word = self._plan_healing(plan, word)
            if plan.id in self._gates:
                await self._leave_gate(self._gates[plan.id], word, arrival)
            if plan.deed.verb == "crash" and struck is not None:
                struck.bury()
        return word

    async def _leave_gate(self, gate: Gate, word: Word | None, arrival: Arrival) -> None:
        """What happened at a gate has happened: it stays open."""
        if word is not None and word.delay_ms:
            await _pass(word.delay_ms / 1000)
        if word is not None and word.lose:
            await gate.let_fail(arrival.at, self._standing)
        await gate.open()
        if word is None:
            await strikes.until_gone(self._topology, self._doomed)

    # -- healing -----------------------------------------------------------------------------------

    def _plan_healing(self, plan: Plan, word: Word | None) -> Word | None:
        """Have mended in time what has been broken; where it heals is said with the word to go on."""
        if plan.id not in self._mends:
            return word  # nothing is left broken
        if plan.heal.when == "after":
            later = partial(self._begin_mending, plan.id)
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(plan.heal.after_ms / 1000, later))
        elif plan.heal.when == "at":
            place = Place(point=plan.heal.point)
            if word is not None:
                return dataclasses.replace(word, arm=((_HEALS + plan.id, place),))
        return word

    def _begin_mending(self, name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._mend(name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _mend(self, name: str) -> None:
        found = self._mends.pop(name, None)
        if found is None:
            return
        plan, mend = found
        try:
            if plan.deed.verb == "crash":  # of the coordinator
                async with self.turn:
                    pass  # the old one is buried
                # without a turn: at a point of recovery something may happen to the new one
                await mend()
                return
            async with self.turn:
                await mend()
        except BaseException:
            self._mends.setdefault(name, found)  # it is broken still: closing mends it
            raise

    async def heal(self) -> None:
        """Mend whatever is broken and does not stay so for good, and what breaks of that."""
        while broken := [
            name for name, (plan, _) in self._mends.items() if plan.heal.when != "never"
        ]:
            for name in broken:
                await self._mend(name)

    async def close(self) -> None:
        """Mend everything that others would stumble over, and end the coordinator's process."""
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
        for name in [*self._mends]:
            if self._plans[name].deed.verb != "crash":
                await self._mend(name)
        for gate in self._gates.values():
            await gate.open()
        self._copying.close()
        await self._ways.close()


def _is_of_agents(plan: Plan) -> bool:
    return plan.deed.what == "agent" or plan.place.name in AGENTS


async def _pass(seconds: float) -> None:
    """Let time pass: that is what the fault is."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
