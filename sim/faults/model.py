"""Performs a scenario's faults in the model: each strikes when its place is reached, and heals as specified.

The equivalent of `twopc.sim.faults.postgres` for real servers. A process that reaches a fault's place waits there
until the fault has been performed; the fault runs in another process, so that it can kill the waiting one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import simpy

from twopc.drivers.virtual import AwaitableSteps, wait
from twopc.names import branch_gid
from twopc.protocol.effects import Outcome
from twopc.sim.faults.agenda import Agenda, session_of_gid, session_of_process, waits_of_faults
from twopc.sim.faults.capabilities import ANSWERS, COPIES, GATED
from twopc.sim.faults.plans import (
    COORDINATOR,
    Arrival,
    FaultAction,
    FaultPlan,
    NoEffectError,
    check_running,
    nothing_there,
)
from twopc.sim.faults.ways import REQUESTS, ends, gid_in, ways_of_answers
from twopc.sim.model.network import RequestWatch
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.system import LOG, System
from twopc.sim.model.values import Cause, Label, RequestLostError, SqlError, StatementResult, Steps
from twopc.sim.scenario.values import FaultStrike
from twopc.sim.sessions.model import CoordinatedSession, VirtualSession
from twopc.sim.sessions.waits import Wait
from twopc.waits import link_name

_LABEL = Label(actor="faults", cause=Cause.TIMER, what="a fault")
_MARKERS = "msrepl.branch_marker"


Mend = Callable[[], Steps[None]]


class ModelPerformer:
    """Performs the faults of one case."""

    def __init__(self, model: System, plans: Sequence[FaultPlan]) -> None:
        self._model = model
        self._kernel = model.kernel
        self._agenda: Agenda[Mend] = Agenda(plans)
        self.sessions: dict[str, CoordinatedSession] = {}
        self.down: list[str] = []
        """Nodes whose servers are stopped."""
        self.resting: set[str] = set()
        """Subscribers whose agents are stopped."""
        self._silent: dict[str, tuple[str, str]] = {}
        """Ends of a silent connection, by fault."""
        self._struck: list[NodeSession] = []
        """Sessions that were terminated or cancelled last."""
        self._under_way: list[simpy.Event] = []
        self._is_paused = False
        """Whether the coordinator is stopped."""
        self._ends = False

    # -- arming ------------------------------------------------------------------------------------

    def arm(self, name: str) -> None:
        """Arm a fault for the next matching arrival."""
        plan = self._agenda.arm(name)
        if plan.place.name in ANSWERS:
            self._await_answer(plan)
        else:
            self._stand_at(plan.place.point)

    def _stand_at(self, point: str) -> None:
        self._model.points.arm(point, self._arrived)

    def fired(self) -> list[FaultStrike]:
        """Return the strikes since the last call."""
        return self._agenda.fired()

    async def _arrived(self, point: str) -> None:
        """Handle an arrival at a point: perform the faults armed there, heal those that heal there."""
        name, session = self._session_at(point)
        gid, pids = (session.gid, session.begun) if session is not None else ("", {})
        healed, struck = self._agenda.arrived(point, session=name, gid=gid)
        if self._agenda.occasions.at(point):
            self._stand_at(point)
        for each in healed:
            await AwaitableSteps(self._mend(each))
        for plan in struck:
            arrival = Arrival(point=point, session=name, gid=gid, pids=pids)
            await AwaitableSteps(self._wait_for(plan, arrival))

    def _session_at(self, point: str) -> tuple[str, CoordinatedSession | None]:
        """Return the session whose transaction has reached a point, with its name."""
        if point in GATED:
            there = self._model.reaching
            return session_of_process(
                self.sessions, there.node.name, there.pid, there.application_name
            )
        process = self._kernel.env.active_process
        doing = (
            (name, one) for name, one in self.sessions.items() if process and one.work is process
        )
        return next(doing, ("", None))

    def _await_answer(self, plan: FaultPlan) -> None:
        def answered(text: str) -> Steps[bool]:
            if not self._agenda.is_armed(plan.id):
                return False  # it has struck the answer of another connection
            gid = gid_in(text)
            name, session = session_of_gid(self.sessions, gid)
            if not self._agenda.occasions.comes(plan.id, session=name, gid=gid):
                self._await_answer(plan)
                return False
            pids = session.begun if session is not None else {}
            arrival = Arrival(point=plan.place.point, session=name, gid=gid, pids=pids, text=text)
            yield from self._wait_for(plan, arrival)
            return plan.deed.verb == "lose"

        self._watch(plan, answered)

    def _watch(self, plan: FaultPlan, answered: Callable[[str], Steps[bool]]) -> None:
        words = REQUESTS[plan.place.name].decode().removeprefix("log_")
        for here, there in self._of_answers(plan):
            self._model.network.watch(
                RequestWatch(here=here, there=there, words=words, answered=answered)
            )

    def _of_answers(self, plan: FaultPlan) -> list[tuple[str, str]]:
        model = self._model
        own = f"coordinator:{model.spec.coordinator}"
        ways = ways_of_answers(plan.place, model.spec.publisher, model.subscribers, log=LOG)
        return [(own if who == COORDINATOR else who, node) for who, node in ways]

    # -- striking ----------------------------------------------------------------------------------

    def _wait_for(self, plan: FaultPlan, arrival: Arrival) -> Steps[None]:
        """Wait until the fault has been performed, which may kill the waiting process."""
        standing = self._model.reaching if plan.place.name in GATED else None
        done = self._kernel.event()
        self._under_way.append(done)
        self._kernel.spawn(self._perform(plan, arrival, done), f"fault {plan.id}")
        yield from wait(done)
        if plan.deed.verb == "delay":
            yield self._kernel.delay(plan.deed.ms / 1000, _LABEL)
        if plan.deed.verb == "error" and plan.place.name in GATED:
            raise SqlError(plan.deed.how, "a fault of the scenario")
        if standing is not None and standing in self._struck:
            if plan.deed.verb == "terminate":
                raise RequestLostError("terminating connection due to administrator command")
            raise SqlError("57014", "canceling statement due to user request")

    def _perform(self, plan: FaultPlan, arrival: Arrival, done: simpy.Event) -> Steps[None]:
        self._agenda.strike(plan)
        no_effect = ""
        try:
            self._check(plan.deed, arrival)
        except NoEffectError as error:
            no_effect = str(error)
        if not plan.strikes_later:
            self._agenda.note(plan, arrival, no_effect)
        if not no_effect:
            with suppress(RequestLostError):  # the connection was lost meanwhile
                yield from self._deeds(plan, arrival)
        self._plan_healing(plan)
        if self._ends and plan.heal.when == "end" and plan.deed.verb != "crash":
            yield from self._mend(plan.id)
        self._under_way.remove(done)
        done.succeed()

    def _check(self, deed: FaultAction, arrival: Arrival) -> None:
        """Raise NoEffectError if the object of the fault does not exist."""
        check_running(deed, self.down)
        model = self._model
        match deed.verb, deed.what:
            case "crash", "agent":
                process = model.agent(deed.node).process
                is_there = process is not None and process.alive
            case "pause", "agent":
                is_there = deed.node not in self.resting
            case (("crash" | "pause"), _):
                is_there = self._seat.alive and not (deed.verb == "pause" and self._is_paused)
            case (("kill" | "terminate" | "cancel"), _):
                is_there = bool(self._backends(deed.node, arrival))
            case "forget", "decisions":
                is_there = bool(model.ledger.decisions)
            case "forget", _:
                is_there = any(_markers_of(node, arrival.gid) for node in self._running())
            case "finish", _:
                gid = branch_gid(arrival.gid, deed.node)
                is_there = gid in model.nodes[deed.node].prepared()
            case "fill", _:
                node = model.nodes[deed.node]
                is_there = node.slots_taken() < node.prepared_max
            case _:
                is_there = True
        if not is_there:
            raise nothing_there(deed)

    def _running(self) -> list[ModelNode]:
        return [node for name, node in self._model.nodes.items() if name not in self.down]

    def _deeds(self, plan: FaultPlan, arrival: Arrival) -> Steps[None]:
        deed = plan.deed
        match deed.verb, deed.what:
            case "crash", "agent":
                self._model.agent(deed.node).crash()
            case "crash", _:
                self._seat.crash()
                self._agenda.breaks(plan, _at_once(self._seat.restart))
            case "pause", "agent":
                self._model.agent(deed.node).pause()
                self.resting.add(deed.node)
                self._agenda.breaks(plan, _at_once(partial(self._resume_agent, deed.node)))
            case "pause", _:
                seat = self._seat.process
                seat.pause()
                self._is_paused = True
                self._agenda.breaks(plan, _at_once(partial(self._resume_coordinator, seat)))
            case (("kill" | "restart"), _):
                self._model.crash_node(deed.node)
                yield from self._model.restart_node(deed.node)
            case "stop", _:
                self._model.crash_node(deed.node)
                self.down.append(deed.node)
                self._agenda.breaks(plan, partial(self._start, deed.node))
            case (("terminate" | "cancel"), _):
                self._struck = self._backends(deed.node, arrival)
                for one in self._struck:
                    one.terminate() if deed.verb == "terminate" else one.cancel()
            case (("cut" | "black" | "one"), _):
                self._cut(plan)
            case _:
                yield from self._change_data(plan, arrival)

    def _change_data(self, plan: FaultPlan, arrival: Arrival) -> Steps[None]:
        deed, model = plan.deed, self._model
        match deed.verb, deed.what:
            case "forget", "decisions":
                model.ledger.decisions.clear()
            case "forget", _:
                for node in self._running():
                    yield from _forget(node.connect("postgres", "by hand"), arrival.gid)
            case "finish", _:
                gid = branch_gid(arrival.gid, deed.node)
                outcome = Outcome.COMMITTED if deed.how == "commit" else Outcome.ABORTED
                yield from model.finish_by_hand(deed.node, gid, outcome)
            case "fill", _:
                node = model.nodes[deed.node]
                # nodes of one server share its slots
                taken = node.slots_taken()
                before, node.prepared_max = node.prepared_max, max(1, taken)
                if not taken:
                    yield from _prepare(node.connect("postgres", "by hand"))
                self._agenda.breaks(plan, partial(self._make_room, deed.node, before))
            case "skew", _:
                node = model.nodes[deed.node]
                clock, shift_s = node.clock, deed.ms / 1000
                node.clock = lambda: clock() + shift_s
                self._agenda.breaks(plan, _at_once(lambda: setattr(node, "clock", clock)))
            case _ if plan.strikes_later:
                self._watch(plan, partial(self._at_request, plan, arrival))
            case "repeat", _:
                yield from self._repeat(plan, arrival.text)

    def _at_request(self, plan: FaultPlan, arrival: Arrival, text: str) -> Steps[bool]:
        """Perform a fault that strikes a request; return whether the answer is lost."""
        self._agenda.note(plan, arrival)
        if plan.deed.verb == "repeat":
            yield from self._repeat(plan, text)
        return plan.deed.verb == "lose"

    def _repeat(self, plan: FaultPlan, text: str) -> Steps[None]:
        """Send the same request over another connection, and discard the answer."""
        ((_, node), *_) = self._of_answers(plan)
        if node != LOG:
            session = self._model.nodes[node].connect("postgres", "again")
            try:
                yield from session.execute(text.split(";")[-1].strip())
            except SqlError:
                pass
            finally:
                session.close()

    @property
    def _seat(self) -> Any:
        return self._model.coordinators()[self._model.spec.coordinator]

    def _resume_coordinator(self, coordinator: Any) -> None:
        coordinator.go_on()
        self._is_paused = False

    def _resume_agent(self, subscriber: str) -> None:
        self._model.agent(subscriber).resume()
        self.resting.discard(subscriber)

    def _start(self, node: str) -> Steps[None]:
        yield from self._model.restart_node(node)
        self.down.remove(node)

    def _make_room(self, node: str, room: int) -> Steps[None]:
        there = self._model.nodes[node]
        there.prepared_max = room
        if _FILLER in there.prepared():
            session = there.connect("postgres", "by hand")
            yield from session.execute(f"rollback prepared '{_FILLER}'")
            session.close()

    def _backends(self, node: str, arrival: Arrival) -> list[NodeSession]:
        """See `twopc.sim.faults.strikes.backends`."""
        here = self._model.nodes[node].sessions
        if arrival.point in COPIES:
            return [one for one in here.values() if one.application_name == "msrepl snapshot"]
        if node in arrival.pids:
            return [here[arrival.pids[node]]] if arrival.pids[node] in here else []
        if node != self._model.spec.publisher:
            return []
        names = {"twopc finisher", *(link_name(*place) for place in arrival.pids.items())}
        return [one for one in here.values() if one.application_name in names]

    def _cut(self, plan: FaultPlan) -> None:
        deed, network = plan.deed, self._model.network
        who, node = ends(deed, self._model.spec.publisher)
        here = self._seat.process.actor if who == COORDINATOR else who
        pair = (here, node) if deed.node == who else (node, here)
        silent = deed.verb != "cut"
        network.cut(*pair, silent=silent, one_way=deed.verb == "one")
        if silent:
            self._silent[plan.id] = (who, node)

        def mend() -> Steps[None]:
            network.heal(here, node)
            for wire in [*network.wires] if silent else ():
                if {wire.here, wire.there} == {here, node}:
                    wire.break_("the connection has lost something")
            return
            yield  # makes the function a generator

        self._agenda.breaks(plan, mend)

    def waits(self, sessions: Mapping[str, VirtualSession]) -> dict[str, Wait]:
        """Return the sessions that wait for something that a fault has stopped."""
        return waits_of_faults(
            self.sessions,
            sessions,
            subscribers=self._model.subscribers,
            silent=self._silent.values(),
            stopped=[
                name
                for name, each in self.sessions.items()
                if self._is_paused and each.has_coordinator
            ],
            resting=self.resting,
        )

    # -- healing -----------------------------------------------------------------------------------

    def _plan_healing(self, plan: FaultPlan) -> None:
        after_s = self._agenda.heals_after_s(plan)
        if after_s is not None:
            self._kernel.spawn(self._mend_later(plan, after_s), f"{plan.id} heals")
        for occasion, place in self._agenda.heals_at(plan):
            self._agenda.occasions.add(occasion, place)
            self._stand_at(place.point)

    def _mend_later(self, plan: FaultPlan, after_s: float) -> Steps[None]:
        yield self._kernel.delay(after_s, _LABEL)
        yield from self._mend(plan.id)

    def _mend(self, name: str) -> Steps[None]:
        self._silent.pop(name, None)
        mend = self._agenda.mend(name)
        if mend is not None:
            yield from mend()

    def heal(self) -> Steps[None]:
        """Heal every fault in effect that heals; faults that strike from now on heal at once."""
        self._ends = True
        for done in [*self._under_way]:  # the process that waited for the fault may have died
            yield from wait(done)
        for plan in self._agenda.broken():
            yield from self._mend(plan.id)

    def recover(self) -> Steps[None]:
        """Run one pass of recovery in the coordinator's process, which may be killed meanwhile."""
        process = self._seat.process
        if not process.alive:
            return
        joined = process.join()
        try:
            yield from process.recover()
        except simpy.Interrupt:
            if process.alive:
                raise
        finally:
            if joined is not None:
                process.leave(joined)


_FILLER = "by_hand"


def _at_once(work: Callable[[], None]) -> Mend:
    def steps() -> Steps[None]:
        work()
        return
        yield  # makes the function a generator

    return steps


def _prepare(session: NodeSession) -> Steps[None]:
    for text in ("begin", f"prepare transaction '{_FILLER}'"):
        yield from session.execute(text)
    session.close()


def _markers_of(node: ModelNode, gid: str) -> list[str]:
    return [one.gid for one in node.markers() if one.gid.startswith(f"{gid}:")]


def _forget(session: NodeSession, gid: str) -> Steps[None]:
    """Delete a transaction's branch markers at a node."""
    gids = _markers_of(session.node, gid)

    def delete(tx: OpenTx, params: Any) -> Steps[StatementResult]:
        count = yield from tx.delete_all(_MARKERS, [(each,) for each in gids])
        return StatementResult(tag=f"DELETE {count}", rowcount=count)

    try:
        yield from session.execute(delete)
    finally:
        session.close()
