"""Performs a scenario's faults on a model: each when its place is reached, mended when it heals.

What `twopc.sim.faults.postgres` does to real servers. Whoever comes to a fault's place waits there until it has
happened; it happens beside him, so that he can be killed as everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import simpy

from twopc.drivers.virtual import Awaited, wait
from twopc.names import branch_gid
from twopc.protocol.effects import Outcome
from twopc.sim.faults.able import ANSWERS, COPIES, GATED
from twopc.sim.faults.ways import REQUESTS, ends, gid_in
from twopc.sim.faults.words import COORDINATOR, Plan
from twopc.sim.model.network import Watch
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.system import LOG, System
from twopc.sim.model.words import Cause, Label, LostError, SqlError, StatementResult, Steps
from twopc.sim.sessions.model import CoordinatedSession
from twopc.sim.sessions.waits import Wait
from twopc.waits import link_name

_LABEL = Label(actor="faults", cause=Cause.TIMER, what="a fault")
_MARKERS = "msrepl.branch_marker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A transaction has come to a fault's place."""

    point: str
    session: CoordinatedSession | None
    gid: str
    text: str = ""


Mend = Callable[[], Steps[None]]


class ModelPerformer:
    """Faults of one case."""

    def __init__(self, model: System, plans: Sequence[Plan]) -> None:
        self._model = model
        self._kernel = model.kernel
        self._plans = {plan.id: plan for plan in plans}
        self.sessions: dict[str, CoordinatedSession] = {}
        self.down: list[str] = []
        """The nodes whose servers are stopped."""
        self.resting: set[str] = set()
        """The Subscribers whose agents are stopped."""
        self._waiting: dict[str, int] = {}
        """Armed, and not happened yet: how many arrivals are left."""
        self._at: dict[str, list[str]] = {}
        """By point, what is armed there."""
        self._mends: dict[str, tuple[Plan, Mend]] = {}
        self._silent: dict[str, tuple[str, str]] = {}
        """By fault, between whom nothing is heard."""
        self._struck: list[NodeSession] = []
        """Those that were ended or cancelled last."""
        self._fired: list[tuple[str, str]] = []
        self._under_way: list[simpy.Event] = []
        self._ends = False

    # -- arming ------------------------------------------------------------------------------------

    def arm(self, name: str) -> None:
        """Have a fault happen at the next arrival that counts."""
        plan = self._plans[name]
        self._waiting[name] = plan.place.nth
        if plan.place.name in ANSWERS:
            self._await_answer(plan)
        else:
            self._stand_at(plan.place.point, name)

    def _stand_at(self, point: str, name: str) -> None:
        self._at.setdefault(point, []).append(name)
        self._model.points.arm(point, self._arrived)

    def fired(self) -> list[tuple[str, str]]:
        """Those that have happened since this was asked last: each one's id and point."""
        fired, self._fired = self._fired, []
        return fired

    async def _arrived(self, point: str) -> None:
        """Somebody has come to a point; everything that is armed there looks whether it is meant."""
        names = self._at.pop(point, [])
        session = self._who(point)
        gid = session.gid if session is not None else ""
        struck: list[Plan] = []
        for name in names:
            if name not in self._plans:  # what heals here
                await Awaited(self._mend(name.removeprefix(_HEALS)))
                continue
            place = self._plans[name].place
            self._waiting[name] -= place.fits(session=session.name if session else "", gid=gid)
            if self._waiting[name]:
                self._stand_at(point, name)
            else:
                struck.append(self._plans[name])
        for plan in struck:
            await Awaited(self._wait_for(plan, Arrival(point=point, session=session, gid=gid)))

    def _who(self, point: str) -> CoordinatedSession | None:
        """Whose transaction has come to a point."""
        if point in GATED:
            there = self._model.reaching
            for one in self.sessions.values():
                here = one.begun.get(there.node.name) == there.pid
                links = [link_name(node, pid) for node, pid in one.begun.items()]
                if here or there.application_name in links:
                    return one
            return None
        process = self._kernel.env.active_process
        doing = (one for one in self.sessions.values() if process and one.work is process)
        return next(doing, None)

    def _await_answer(self, plan: Plan) -> None:
        def answered(text: str) -> Steps[bool]:
            if plan.id not in self._waiting:
                return False  # it has happened where another connection's answer arrived
            gid = gid_in(text)
            session = next((one for one in self.sessions.values() if gid and one.gid == gid), None)
            name = session.name if session is not None else ""
            self._waiting[plan.id] -= plan.place.fits(session=name, gid=gid)
            if self._waiting[plan.id]:
                self._await_answer(plan)
                return False
            arrival = Arrival(point=plan.place.point, session=session, gid=gid, text=text)
            yield from self._wait_for(plan, arrival)
            return plan.deed.verb == "lose"

        self._watch(plan, answered)

    def _watch(self, plan: Plan, answered: Callable[[str], Steps[bool]]) -> None:
        words = REQUESTS[plan.place.name].decode().removeprefix("log_")
        for here, there in self._of_answers(plan):
            self._model.network.watch(Watch(here=here, there=there, words=words, answered=answered))

    def _of_answers(self, plan: Plan) -> list[tuple[str, str]]:
        place, model = plan.place, self._model
        ours = f"coordinator:{model.spec.coordinator}"
        if place.name == "coordinator.before_decision":
            return [(ours, LOG)]
        prepares = place.name in ("coordinator.before_prepare", "reply.prepare")
        if prepares and place.node == model.spec.publisher:
            return [(subscriber, place.node) for subscriber in model.subscribers]
        return [(ours, place.node)]

    # -- happening ---------------------------------------------------------------------------------

    def _wait_for(self, plan: Plan, arrival: Arrival) -> Steps[None]:
        """Until it has happened; whoever waits may be killed by it."""
        standing = self._model.reaching if plan.place.name in GATED else None
        done = self._kernel.event()
        self._under_way.append(done)
        self._kernel.spawn(self._happen(plan, arrival, done), f"fault {plan.id}")
        yield from wait(done)
        if plan.deed.verb == "delay":
            yield self._kernel.delay(plan.deed.ms / 1000, _LABEL)
        if plan.deed.verb == "error" and plan.place.name in GATED:
            raise SqlError(plan.deed.how, "a fault of the scenario")
        if standing is not None and standing in self._struck:
            if plan.deed.verb == "terminate":
                raise LostError("terminating connection due to administrator command")
            raise SqlError("57014", "canceling statement due to user request")

    def _happen(self, plan: Plan, arrival: Arrival, done: simpy.Event) -> Steps[None]:
        self._waiting.pop(plan.id, None)
        self._fired.append((plan.id, arrival.point))
        with suppress(LostError):  # what it was to strike is not there
            yield from self._deeds(plan, arrival)
        if plan.id in self._mends:
            self._plan_healing(plan)
            if self._ends and plan.heal.when == "end" and plan.deed.verb != "crash":
                yield from self._mend(plan.id)
        self._under_way.remove(done)
        done.succeed()

    def _deeds(self, plan: Plan, arrival: Arrival) -> Steps[None]:
        deed = plan.deed
        match deed.verb, deed.what:
            case "crash", "agent":
                self._model.agent(deed.node).crash()
            case "crash", _:
                self._seat.crash()
                self._mends[plan.id] = (plan, _at_once(self._seat.restart))
            case "pause", "agent":
                self._model.agent(deed.node).pause()
                self.resting.add(deed.node)
                self._mends[plan.id] = (plan, _at_once(partial(self._wake, deed.node)))
            case "pause", _:
                seat = self._seat.process
                seat.pause()
                self._silent[plan.id] = (COORDINATOR, "")
                self._mends[plan.id] = (plan, _at_once(seat.go_on))
            case (("kill" | "restart"), _):
                self._model.crash_node(deed.node)
                yield from self._model.restart_node(deed.node)
            case "stop", _:
                self._model.crash_node(deed.node)
                self.down.append(deed.node)
                self._mends[plan.id] = (plan, partial(self._start, deed.node))
            case (("terminate" | "cancel"), _):
                self._struck = self._backends(deed.node, arrival)
                for one in self._struck:
                    one.terminate() if deed.verb == "terminate" else one.cancel()
            case (("cut" | "black" | "one"), _):
                self._cut(plan)
            case _:
                yield from self._by_hand(plan, arrival)

    def _by_hand(self, plan: Plan, arrival: Arrival) -> Steps[None]:
        deed, model = plan.deed, self._model
        match deed.verb, deed.what:
            case "forget", "decisions":
                model.ledger.decisions.clear()
            case "forget", _:
                for node in model.nodes.values():
                    yield from _forget(node.connect("postgres", "by hand"), arrival.gid)
            case "finish", _:
                gid = branch_gid(arrival.gid, deed.node)
                if gid in model.nodes[deed.node].prepared():
                    outcome = Outcome.COMMITTED if deed.how == "commit" else Outcome.ABORTED
                    yield from model.finish_by_hand(deed.node, gid, outcome)
            case "fill", _:
                node = model.nodes[deed.node]
                # nodes of one server share its room
                taken = node.slots_taken()
                before, node.prepared_max = node.prepared_max, max(1, taken)
                if not taken:
                    yield from _prepare(node.connect("postgres", "by hand"))
                self._mends[plan.id] = (plan, partial(self._make_room, deed.node, before))
            case "skew", _:
                node = model.nodes[deed.node]
                clock, shift_s = node.clock, deed.ms / 1000
                node.clock = lambda: clock() + shift_s
                self._mends[plan.id] = (plan, _at_once(lambda: setattr(node, "clock", clock)))
            case "lose", _ if plan.place.name not in ANSWERS:
                self._watch(plan, lambda _: _returned(True))
            case "repeat", _:
                if plan.place.name in ANSWERS:
                    yield from self._again(plan, arrival.text)
                else:
                    self._watch(plan, partial(self._again, plan))

    def _again(self, plan: Plan, text: str) -> Steps[bool]:
        """The same request, over another connection; nobody hears what is answered."""
        ((_, node), *_) = self._of_answers(plan)
        if node != LOG:
            session = self._model.nodes[node].connect("postgres", "again")
            try:
                yield from session.execute(text.split(";")[-1].strip())
            except SqlError:
                pass
            finally:
                session.close()
        return False

    @property
    def _seat(self) -> Any:
        return self._model.coordinators()[self._model.spec.coordinator]

    def _wake(self, subscriber: str) -> None:
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
        """As `twopc.sim.faults.strikes.backends`."""
        session = arrival.session
        here = self._model.nodes[node].sessions
        if arrival.point in COPIES:
            return [one for one in here.values() if one.application_name == "msrepl snapshot"]
        if session is not None and node in session.begun:
            return [here[session.begun[node]]] if session.begun[node] in here else []
        if node != self._model.spec.publisher:
            return []
        names = {"twopc finisher"}
        if session is not None:
            names |= {link_name(*place) for place in session.begun.items()}
        return [one for one in here.values() if one.application_name in names]

    def _cut(self, plan: Plan) -> None:
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
            yield  # it is a generator

        self._mends[plan.id] = (plan, mend)

    def waits(self) -> dict[str, Wait]:
        """As `twopc.sim.faults.postgres.Performer.waits`."""
        found = {}
        for name, session in self.sessions.items():
            for who, node in self._silent.values() if session.asks else ():
                why = (
                    "an answer that does not arrive"
                    if node
                    else "its coordinator, which is stopped"
                )
                of_all = node not in self._model.subscribers and session.asks == "commit"
                if (
                    not node
                    or {who, node} & {session.node, *session.begun}
                    or (who == COORDINATOR and of_all)
                ):
                    found[name] = Wait(session=name, on="", node=session.node, lock=why)
        return found

    # -- healing -----------------------------------------------------------------------------------

    def _plan_healing(self, plan: Plan) -> None:
        if plan.heal.when == "after":
            self._kernel.spawn(self._mend_later(plan), f"{plan.id} heals")
        elif plan.heal.when == "at":
            self._stand_at(plan.heal.point, _HEALS + plan.id)

    def _mend_later(self, plan: Plan) -> Steps[None]:
        yield self._kernel.delay(plan.heal.after_ms / 1000, _LABEL)
        yield from self._mend(plan.id)

    def _mend(self, name: str) -> Steps[None]:
        found = self._mends.pop(name, None)
        self._silent.pop(name, None)
        if found is not None:
            yield from found[1]()

    def heal(self) -> Steps[None]:
        """Mend whatever is broken and does not stay so for good; what breaks from now on is mended at once."""
        self._ends = True
        for done in [*self._under_way]:  # whoever waited for it may have died of it
            yield from wait(done)
        for name, (plan, _) in [*self._mends.items()]:
            if plan.heal.when != "never":
                yield from self._mend(name)

    def recover(self) -> Steps[None]:
        """One pass of recovery in the coordinator's process, which may die of it."""
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


#: The names under which a healing point is armed: a fault's id cannot be like this.
_HEALS = "heals "
_FILLER = "by_hand"


def _at_once(work: Callable[[], None]) -> Mend:
    def steps() -> Steps[None]:
        work()
        return
        yield  # it is a generator

    return steps


def _returned(value: bool) -> Steps[bool]:
    return value
    yield  # it is a generator


def _prepare(session: NodeSession) -> Steps[None]:
    for text in ("begin", f"prepare transaction '{_FILLER}'"):
        yield from session.execute(text)
    session.close()


def _forget(session: NodeSession, gid: str) -> Steps[None]:
    """Delete what a node remembers of a transaction."""
    gids = [one.gid for one in session.node.markers() if one.gid.startswith(f"{gid}:")]

    def delete(tx: OpenTx, params: Any) -> Steps[StatementResult]:
        count = yield from tx.delete_all(_MARKERS, [(each,) for each in gids])
        return StatementResult(tag=f"DELETE {count}", rowcount=count)

    try:
        yield from session.execute(delete)
    finally:
        session.close()
