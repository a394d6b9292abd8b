"""Player of a case, one item at a time: each as soon as the one before it has ended or is provably blocked.

It writes a history and does not judge. Its state between two items can be queried, so that a user can play a case
step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from twopc.errors import TransactionError
from twopc.sim.checkers import LAST_SYNC
from twopc.sim.report.behaviour import fingerprint
from twopc.sim.report.events import STILL_OPEN
from twopc.sim.report.history import HistoryRecord, OrderHistory
from twopc.sim.scenario.case_sessions import CaseSessions, StuckError, now_s
from twopc.sim.scenario.expectations import EVERYWHERE
from twopc.sim.scenario.lane import ROLLBACK, SYNC, Lane, StepPlay
from twopc.sim.scenario.merge_parts import ColumnChange
from twopc.sim.scenario.model import OrderItem, Step, sync_name
from twopc.sim.scenario.observe import (
    answers,
    final_states,
    initial_states,
    settled,
    state_after,
)
from twopc.sim.scenario.open_changes import write_uncommitted
from twopc.sim.scenario.stage import AGENTS, SetUpError, Stage
from twopc.sim.scenario.steps import OF_AGENTS
from twopc.sim.scenario.values import Case, CaseLesson
from twopc.sim.sessions.waits import LOOK_EVERY_S

#: Maximum number of rounds of merge sessions until one propagates no more changes.
ROUNDS_MAX = 10


class InfeasibleError(Exception):
    """The next item of a generated case belongs to a session that is blocked."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place
        """Index of the item, from 0."""


class Player(CaseSessions):
    """Player of one case on one stage.

    Call `begin`, then `item` for each item, then `finish`, and always `close`.
    """

    def __init__(
        self, case: Case, stage: Stage, history: OrderHistory, *, step_timeout_ms: int | None = None
    ) -> None:
        super().__init__(case, stage, history, step_timeout_ms=step_timeout_ms)
        self._syncs = 0
        self._played = 0
        self._launched: set[str] = set()
        self._cut_nodes: list[str] = []
        """Nodes that are cut off."""
        self._stopped = False
        """Whether a session is stuck, so that no more items are played."""
        self._blocked: dict[int, frozenset[str]] = {}
        self._infeasible_at: int | None = None
        self._healed: int | None = None
        """Number of strikes when faults were healed at the end; None before that."""

    # -- life cycle --------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Connect every session of the scenario and record the initial state."""
        for name in self._sessions():
            session = self._scenario.sessions[name]
            self._lanes[name] = Lane(
                name,
                session.node,
                self._scenario.level(self._case.order, session.node),
                await self._stage.open(name, session.node),
                self._ends,
                plain=session.plain,
                also=session.also,
                subscribes=partial(self._all_subscribe, session.nodes),
            )
            await self._around(name, "setup")
        if self._scenario.distributes:
            self._lanes[AGENTS] = Lane(AGENTS, "", "", self._stage.agents(), self._ends)
        await initial_states(self._scenario, self._stage, self._history)
        for fault in self._case.order.faults:
            await self._arm(fault)

    async def _around(self, name: str, when: Literal["setup", "teardown"]) -> None:
        """Run a plain session's own SQL before or after its steps."""
        lane = self._lanes[name]
        for at, text in enumerate(getattr(self._scenario.sessions[name], when)):
            try:
                await lane.session.script(text)
            except TransactionError as error:
                raise SetUpError(("sessions", name, when, at), str(error)) from error
            last = list(lane.session.printable[-1:])
            if any("tag" not in each for each in last):
                self._history.write(when, session=name, node=lane.node, data={"results": last})
            self._note_messages(lane, StepPlay(name="", step=SYNC))
        lane.open = lane.session.is_open

    async def _arm(self, name: str) -> None:
        await self._stage.arm(next(fault for fault in self._scenario.faults if fault.id == name))

    def _all_subscribe(self, nodes: Sequence[str]) -> bool:
        """Return whether all of these nodes have subscriptions now."""
        return self._scenario.merges or all(map(self._stage.subscribes, nodes))

    def _sessions(self) -> list[str]:
        """Return the sessions that the items name or that have a setup, in the file's order."""
        named = {self._scenario.steps[item.step][0] for item in self._case.items if item.step}
        sessions = self._scenario.sessions.items()
        return [name for name, session in sessions if name in named or session.setup]

    async def item(self, item: OrderItem) -> None:
        """Play one item, and return when every session is idle or blocked.

        After a session was stuck, do nothing.

        Raises:
            InfeasibleError: the case is generated, and the item's session is blocked.
        """
        if self._stopped:
            return
        try:
            await self._item(item)
            await self._until_quiet()
            await self._note_faults()
        except StuckError:
            self._stopped = True  # recorded already; `finish` ends open transactions
            return
        self._played += 1
        self._blocked[self._played] = frozenset(lane.name for lane in self._busy)

    async def finish(self) -> CaseLesson:
        """Wait for running steps, end open transactions, deliver all changes and record the final state."""
        if self._case.faults:
            await self._recover()
        if not self._stopped:
            try:
                await self._until_done(self._lanes)
            except StuckError:
                self._stopped = True
        await self._restore_nodes()
        await self._end_sessions()
        if self._infeasible_at is not None:
            return CaseLesson(infeasible_at=self._infeasible_at, blocked=dict(self._blocked))
        await settled(self._scenario, self._stage, self._history, self._settle_s)
        if self._scenario.distributes:
            await self._last_sync()
        await final_states(self._scenario, self._stage, self._history)
        await answers(self._case, self._stage, self._history)
        return CaseLesson(blocked=dict(self._blocked), behaviour=fingerprint(self._history.records))

    async def _recover(self) -> None:
        """Heal the faults that heal at the end."""
        await self._note_faults()
        self._healed = self._struck
        await self._stage.recover()
        await self._note_faults()

    async def _mended(self) -> bool:
        """Heal faults that have struck since the end began. Return whether there were any."""
        await self._note_faults()
        if self._healed is None or self._healed == self._struck:
            return False
        await self._recover()
        return True

    async def close(self) -> None:
        """Close every session, which rolls back open transactions."""
        for lane in self._lanes.values():
            await lane.close()

    # -- the present state -------------------------------------------------------------------------

    def standing(self) -> Mapping[str, str]:
        """Return by session ``idle``, ``in a transaction``, ``runs a_write`` or ``a_write waits for bob
        (b_write)``.
        """
        return {name: self._standing(lane) for name, lane in self._lanes.items() if name != AGENTS}

    def _standing(self, lane: Lane) -> str:
        if lane.running is None:
            return "in a transaction" if lane.open else "idle"
        if lane.wait is None:
            return f"runs {lane.running.name}"
        holder = self._lanes.get(lane.wait.on)
        whom = f"{holder.name} ({holder.holding})" if holder is not None else lane.wait.gid
        return f"{lane.running.name} waits for {whom or f'pid {lane.wait.pid}'}"

    async def look(self) -> None:
        """Record the changes of open transactions, for a user who plays the case step by step."""
        if not self._case.faults:  # a fault could strike the query
            await write_uncommitted(self._scenario, [*self._lanes.values()], self._history)

    def way_to(self, step: str) -> tuple[str, ...]:
        """Return the next steps of a step's session up to that step; empty if it cannot be reached now."""
        session, _ = self._scenario.steps.get(step, ("", None))
        lane = self._lanes.get(session)
        if lane is None or lane.running is not None:
            return ()
        ahead = self._ahead(session)
        return ahead[: ahead.index(step) + 1] if step in ahead else ()

    def _ahead(self, session: str) -> tuple[str, ...]:
        """Return the steps of a session after the last one that was launched."""
        steps = [step for step, _ in self._scenario.sessions[session].named_steps]
        last = max((at for at, step in enumerate(steps) if step in self._launched), default=-1)
        return tuple(steps[last + 1 :])

    def ready(self) -> tuple[str, ...]:
        """Return the steps that can be launched next: the next step of each idle session."""
        results: list[str] = []
        for name, lane in self._lanes.items():
            if name == AGENTS or lane.running is not None:
                continue
            results += self._ahead(name)[:1]
        return tuple(results)

    # -- one item ----------------------------------------------------------------------------------

    async def _item(self, item: OrderItem) -> None:
        if item.wait is not None:
            await self._wait_item(item)
        elif item.rollback is not None:
            self._launch(self._lanes[item.rollback], StepPlay(name="", step=ROLLBACK))
        elif item.sync is not None:
            self._syncs += 1
            play = self._sync(sync_name(self._syncs), SYNC, item.sync)
            self._launch(self._lanes[AGENTS], play)
        elif item.fault is not None:
            await self._arm(item.fault)
        elif item.cut is not None or item.restore is not None:
            await self._outage(item.cut or item.restore or "", on=item.cut is not None)
        elif item.age is not None:
            await self._stage.age(item.age)
            self._history.write("info", message=f"{item.age} days go by")
        elif item.backup is not None or item.restore_backup is not None:
            await self._backup(
                item.backup or item.restore_backup or "", kept=item.backup is not None
            )
        elif item.column_change is not None:
            await self._change_column(item.column_change)
        elif item.pause is not None or item.resume is not None:
            await self._pause(item.pause or item.resume or "", on=item.pause is not None)
        else:
            await self._step(item.step or "")

    async def _step(self, name: str) -> None:
        session, step = self._scenario.steps[name]
        lane = self._lanes[session]
        if self._as_tester and lane.running is not None:
            play = StepPlay(name=name, step=step)
            self._write("queued", lane, play, message=f"{lane.running.name} is not over")
            try:
                await self._until_done({session: lane})
                await self._until_quiet()  # its end may have released others
            except StuckError:
                if not self._case.is_generated:
                    raise
        if self._case.is_generated and lane.running is not None:
            self._infeasible_at = self._played
            self._write(
                "infeasible", lane, StepPlay(name=name, step=step), message=self._why_not(lane)
            )
            raise InfeasibleError(self._played)
        self._launched.add(name)
        play = StepPlay(name=name, step=step)
        if step.action == "sync":
            publisher = self._scenario.topology.publisher
            own = (EVERYWHERE,) if lane.node == publisher else (lane.node,)
            play = self._sync(name, step, own)
        self._launch(lane, play)

    def _sync(self, name: str, step: Step, whom: Sequence[str]) -> StepPlay:
        """Return the sync of those Subscribers whose agents are not paused."""
        if EVERYWHERE in whom:
            whom = self._scenario.topology.subscribers
        there = tuple(each for each in whom if self._stage.subscribes(each))
        working = tuple(each for each in there if each not in self._paused)
        if not there:
            resting = f"{' and '.join(whom)} does not subscribe now"
        else:
            resting = "" if working else f"the agent of {' and '.join(there)} is paused"
        return StepPlay(name=name, step=step, subscribers=working or tuple(whom), instead=resting)

    async def _outage(self, node: str, *, on: bool) -> None:
        if (node in self._cut_nodes) == on:
            return
        await self._stage.outage(node, on=on)
        self._cut_nodes = [each for each in self._cut_nodes if each != node] + [node] * on
        self._history.write("outage", node=node, data={"on": on})

    def _require_rest(self, node: str, what: str) -> None:
        """Raise StuckError if a merge session, or a session at `node`, is running a step."""
        for lane in self._busy:
            play = lane.running
            if play is not None and (lane.node == node or play.step.action in OF_AGENTS):
                text = f"{play.name} is not over, so {what}"
                self._history.write("stuck", session=lane.name, step=play.name, message=text)
                raise StuckError(text)

    async def _change_column(self, change: ColumnChange) -> None:
        what = f"{change.table} is not altered"
        self._require_rest(self._scenario.topology.publisher, what)
        await self._stage.change_column(change)
        self._history.write("info", message=str(change))

    async def _backup(self, node: str, *, kept: bool) -> None:
        self._require_rest(node, f"{node} cannot be {'backed up' if kept else 'restored'}")
        await self._stage.backup(node, kept=kept)
        self._history.write("backup", node=node, data={"restored": not kept})
        if not kept:
            await state_after(self._scenario, self._stage, self._history, (node,))

    def _why_not(self, lane: Lane) -> str:
        assert lane.running is not None
        return f"{lane.name} cannot go on: {lane.running.name}{self._waiting(lane).replace(': it', '')}"

    def _launch(self, lane: Lane, play: StepPlay) -> None:
        if lane.running is None and not lane.queue:
            self._start(lane, play)
            return
        lane.queue.append(play)
        self._queued.append(lane)
        before = lane.running.name if lane.running is not None else lane.queue[0].name
        self._write("queued", lane, play, message=f"{before} is not over")

    async def _wait_item(self, item: OrderItem) -> None:
        session, _ = self._scenario.steps[item.waited]
        lane = self._lanes[session]
        running = lane.running is not None and lane.running.name == item.waited
        if item.waits_for_end and running:
            await self._until_done({session: lane}, only=item.waited)
            running = False
        if item.waits_for_notices:
            await self._until_noticed(lane, item)
        self._history.write("waited", session=session, step=item.waited, data={"blocked": running})

    async def _until_noticed(self, lane: Lane, item: OrderItem) -> None:
        """Wait until a session has received the expected notices since the step began."""
        until = now_s() + self._step_s
        while (came := len(lane.session.messages) - lane.noticed) < item.waits_for_notices:
            if now_s() > until:
                message = f"{lane.name} has got {came} of {item.waits_for_notices} notices"
                self._history.write("stuck", session=lane.name, step=item.waited, message=message)
                raise StuckError(message)
            await self._one_end(LOOK_EVERY_S)
            lane.session.collect()

    # -- the end -----------------------------------------------------------------------------------

    async def _restore_nodes(self) -> None:
        """End all outages and pauses of the order."""
        for node in [*self._cut_nodes]:
            await self._outage(node, on=False)
        for subscriber in [*self._paused]:
            await self._pause(subscriber, on=False)

    async def _end_sessions(self) -> None:
        """Cancel running steps, roll back open transactions, and record each session's outcome."""
        for lane in self._lanes.values():
            lane.queue.clear()
        self._queued.clear()
        await self._cancel()
        if self._as_tester:
            await self._teardowns()
        for lane in self._lanes.values():
            if lane.open and lane.running is None:
                self._history.write(
                    "info",
                    session=lane.name,
                    node=lane.node,
                    message=f"{STILL_OPEN}: rolled back",
                )
                lane.start(StepPlay(name="", step=ROLLBACK))
        await self._drain("rolled back")
        if not self._as_tester:
            await self._teardowns()
        for lane in self._lanes.values():
            if lane.name == AGENTS:
                continue
            self._history.write(
                "outcome", session=lane.name, node=lane.node, message=lane.outcome or "none"
            )

    async def _teardowns(self) -> None:
        """Run the `teardown` of every plain session."""
        for lane in self._lanes.values():
            if lane.plain and lane.running is None:
                await self._around(lane.name, "teardown")

    async def _last_sync(self) -> None:
        """Deliver all changes to every Subscriber; a failure at one does not prevent the others.

        A delivery that a fault strikes is repeated after the fault is healed: each fault strikes once.
        """
        rounds = ROUNDS_MAX if self._scenario.merges else 1
        for _ in range(rounds):
            before = len(self._history.records)
            await self._deliver_all()
            if not _has_changes(self._history.records[before:]):
                break

    async def _deliver_all(self) -> None:
        """Run one delivery to each Subscriber."""
        lane = self._lanes[AGENTS]
        for subscriber in filter(self._stage.subscribes, self._scenario.topology.subscribers):
            while lane.running is None:  # otherwise a delivery could not be cancelled
                before = self._struck
                self._start(lane, StepPlay(name=LAST_SYNC, step=SYNC, subscribers=(subscriber,)))
                lane.deadline = now_s() + self._settle_s
                try:
                    await self._until_done({AGENTS: lane})
                except StuckError:
                    await self._cancel()
                await self._note_faults()
                if self._delivered() or not (await self._mended() or self._struck != before):
                    break

    def _delivered(self) -> bool:
        """Return whether the last delivery succeeded."""
        last = [record.kind for record in self._history.records if record.step == LAST_SYNC]
        return last[-1:] == ["ok"]


def _has_changes(records: Sequence[HistoryRecord]) -> bool:
    """Return whether merge sessions have changed anything, so that other nodes may have new changes to receive."""
    reports = [each for record in records for each in (record.data or {}).get("merge", ())]
    changes = ("uploaded", "downloaded", "conflicts", "deferred")
    return any(each[name] for each in reports for name in changes)
