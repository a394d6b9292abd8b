"""Plays an order on a stage: one item after the other, each as soon as the one before it has finished
or is provably blocked.

It writes a history and judges nothing. It never sleeps: it waits for a step to end, and whenever none
has for a few milliseconds it looks at the wait graph.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sim.checkers import LAST_SYNC
from sim.report.history import History
from sim.scenario.expectations import EVERYWHERE, StepExpect
from sim.scenario.lane import ROLLBACK, SYNC, Ended, Lane, Play
from sim.scenario.meaning import sqlstate_of
from sim.scenario.model import Order, OrderItem, Scenario, sync_name
from sim.scenario.observe import (
    final_states,
    initial_states,
    settled,
    state_after,
    write_deliveries,
)
from sim.scenario.stage import AGENTS, Stage, Wait, Waits

#: How long to wait for a step's end before looking whether it is blocked.
LOOK_EVERY_S = 0.003
#: How long a cancelled step may take to end before its session is given up.
CANCEL_S = 3.0
_ENDS_BY_ITSELF = frozenset({"55P03", "40P01", "57014"})


class StuckError(Exception):
    """Nothing that is left in the order can end a wait; the message tells who waits for whom."""


class Runner:
    """One order on one stage."""

    def __init__(
        self,
        scenario: Scenario,
        order: Order,
        stage: Stage,
        history: History,
        *,
        step_timeout_ms: int | None = None,
    ) -> None:
        self._scenario = scenario
        self._order = order
        self._stage = stage
        self._history = history
        timeouts = scenario.topology.timeouts
        self._step_s = (step_timeout_ms or timeouts.step_ms) / 1000
        self._settle_s = timeouts.settle_ms / 1000
        self._ends: asyncio.Queue[Ended] = asyncio.Queue()
        self._lanes: dict[str, Lane] = {}
        self._launches = 0
        self._syncs = 0
        self._seen: Mapping[str, Wait] | None = None
        """The last look at the wait graph, if nothing has ended since."""

    async def play(self) -> None:
        """Play the whole order and write how everything stands after it."""
        try:
            await self._open()
            await initial_states(self._scenario, self._stage, self._history)
            try:
                for item in self._order.steps:
                    await self._item(item)
                await self._until_done(self._lanes)
            except StuckError:
                pass  # it is in the history; what was open is ended below
            await self._wind_up()
            await settled(self._scenario, self._stage, self._settle_s)
            if self._scenario.distributes:
                await self._last_sync()
            await final_states(self._scenario, self._stage, self._history)
        finally:
            for lane in self._lanes.values():
                await lane.close()

    async def _open(self) -> None:
        names = {self._scenario.steps[item.step][0] for item in self._order.steps if item.step}
        for name, session in self._scenario.sessions.items():
            if name in names:
                self._lanes[name] = Lane(
                    name,
                    session.node,
                    self._scenario.level(self._order, session.node),
                    await self._stage.open(name, session.node),
                    self._ends,
                )

        if self._scenario.distributes:
            self._lanes[AGENTS] = Lane(AGENTS, "", "", self._stage.agents(), self._ends)

    # -- one item ----------------------------------------------------------------------------------

    async def _item(self, item: OrderItem) -> None:
        await self._until_quiet()
        if item.wait is not None:
            await self._wait_item(item)
        elif item.rollback is not None:
            self._launch(self._lanes[item.rollback], Play(name="", step=ROLLBACK))
        elif item.sync is not None:
            self._syncs += 1
            subscribers = item.sync
            if EVERYWHERE in subscribers:
                subscribers = self._scenario.topology.subscribers
            play = Play(name=sync_name(self._syncs), step=SYNC, subscribers=tuple(subscribers))
            self._launch(self._lanes[AGENTS], play)
        else:
            name = item.step or ""
            session, step = self._scenario.steps[name]
            self._launch(self._lanes[session], Play(name=name, step=step))

    def _launch(self, lane: Lane, play: Play) -> None:
        if lane.running is None:
            self._start(lane, play)
            return
        lane.queue.append(play)
        self._write("queued", lane, play, message=f"{lane.running.name} is not over")

    def _start(self, lane: Lane, play: Play) -> None:
        self._launches += 1
        lane.launched = self._launches
        limit_ms = play.step.timeout_ms
        lane.deadline = _now() + (limit_ms / 1000 if limit_ms else self._step_s)
        sql = "; ".join(play.step.statements) or play.step.action or ""
        self._write("invoke", lane, play, sql=sql, params=dict(play.step.params) or None)
        lane.start(play)

    async def _wait_item(self, item: OrderItem) -> None:
        session, _ = self._scenario.steps[item.waited]
        lane = self._lanes[session]
        running = lane.running is not None and lane.running.name == item.waited
        if item.waits_for_end and running:
            await self._until_done({session: lane}, only=item.waited)
            running = False
        self._history.write("waited", session=session, step=item.waited, data={"blocked": running})

    # -- waiting -----------------------------------------------------------------------------------

    @property
    def _busy(self) -> list[Lane]:
        return [lane for lane in self._lanes.values() if lane.running is not None]

    async def _until_quiet(self) -> None:
        """Until every session has nothing to do or is blocked by one that has nothing to do."""
        while self._busy:
            if await self._one_end(LOOK_EVERY_S):
                continue
            if await self._all_blocked():
                return

    async def _until_done(self, lanes: Mapping[str, Lane], only: str = "") -> None:
        """Until these sessions have nothing to do, or `only` is over.

        Raises:
            StuckError: they wait for something that is left to nobody.
        """
        while True:
            busy = [lane for lane in lanes.values() if lane.running is not None]
            if only:
                busy = [lane for lane in busy if lane.running and lane.running.name == only]
            if not busy:
                return
            if await self._one_end(LOOK_EVERY_S):
                continue
            if await self._all_blocked() and not any(self._ends_by_itself(lane) for lane in busy):
                self._stuck(busy)

    async def _one_end(self, timeout_s: float) -> bool:
        """Wait for a step to end and write down how; False if none has."""
        try:
            ended = await asyncio.wait_for(self._ends.get(), timeout_s)
        except TimeoutError:
            await self._check_deadlines()
            return False
        lane = ended.lane
        self._seen = None
        if ended.failure is not None:
            raise ended.failure
        if lane.wait is not None:
            self._write("unblocked", lane, ended.play)
        if ended.play.step.action == "sync":
            await write_deliveries(self._stage, self._history)
        self._write(ended.kind, lane, ended.play, **ended.fields)
        lane.running, lane.wait, lane.cycle = None, None, ()
        if ended.fields.get("data", {}).get("committed"):
            await state_after(self._scenario, self._stage, self._history, (lane.node,))
        if ended.play.step.action in ("sync", "reinitialise"):
            there = ended.play.subscribers or (lane.node,)
            await state_after(self._scenario, self._stage, self._history, there)
        if lane.queue:
            self._start(lane, lane.queue.popleft())
        return True

    async def _check_deadlines(self) -> None:
        for lane in self._busy:
            if lane.running is not None and _now() > lane.deadline:
                name, waits = lane.running.name, self._told(lane)
                self._write(
                    "timed_out", lane, lane.running, message=f"no end within its time limit{waits}"
                )
                raise StuckError(name)

    async def _all_blocked(self) -> bool:
        """Whether all that runs is blocked for good: two looks saw the same, and no cycle."""
        looked = await self._stage.waits()
        if not self._ends.empty():
            return False
        seen = {
            lane.name: looked.waits[lane.name]
            for lane in self._busy
            if lane.name in looked.waits and not self._being_finished(looked.waits[lane.name])
        }
        before, self._seen = self._seen, seen
        if seen != before:
            return False
        self._note_waits(seen)
        if looked.cyclic:
            await self._break_cycle(looked)
            return False
        return all(lane.wait is not None for lane in self._busy)

    def _being_finished(self, wait: Wait) -> bool:
        """A branch whose transaction is over for its application is about to be finished."""
        holder = self._lanes.get(wait.on)
        return (
            bool(wait.gid)
            and holder is not None
            and holder.outcome == "committed"
            and not holder.open
        )

    def _note_waits(self, seen: Mapping[str, Wait]) -> None:
        for lane in self._busy:
            wait, play = seen.get(lane.name), lane.running
            if wait == lane.wait or play is None:
                continue
            lane.wait = wait
            if wait is None:
                self._write("unblocked", lane, play)
                continue
            holder = self._lanes.get(wait.on)
            self._write(
                "blocked",
                lane,
                play,
                wait={
                    "session": wait.on,
                    "step": holder.holding if holder is not None else "",
                    "node": wait.node,
                    "pid": wait.pid,
                    "gid": wait.gid,
                    "lock": wait.lock,
                },
            )

    async def _break_cycle(self, looked: Waits) -> None:
        """Cancel the youngest step of a cycle that no server can see; others PostgreSQL breaks."""
        for sessions, told in looked.cycles:
            lanes = [self._lanes[name] for name in sessions if name in self._lanes]
            lanes = [lane for lane in lanes if lane.running is not None]
            if not lanes or any(lane.cycle for lane in lanes):
                continue
            victim = max(lanes, key=lambda lane: lane.launched)
            victim.cycle = told
            self._history.write(
                "deadlock",
                session=victim.name,
                step=victim.running.name if victim.running is not None else "",
                data={"cycle": list(told), "sessions": list(sessions)},
            )
            await victim.session.cancel()

    # -- what cannot end ---------------------------------------------------------------------------

    def _ends_by_itself(self, lane: Lane) -> bool:
        """Whether a wait may end without us: the scenario expects a time limit or a deadlock to end
        it, or somebody holds the lock who is not in the scenario."""
        if lane.wait is not None and lane.wait.on not in self._lanes:
            return True
        name = lane.running.name if lane.running is not None else ""
        for expect in (self._order.expect, self._scenario.expect):
            expected = expect.steps.get(name, StepExpect(outcome="ok")).final
            if expected.rejected in ("lock_timeout", "deadlock"):
                return True
            if expected.error is not None and sqlstate_of(expected.error) in _ENDS_BY_ITSELF:
                return True
        return False

    def _told(self, lane: Lane) -> str:
        if lane.wait is None:
            return ""
        holder = self._lanes.get(lane.wait.on)
        if holder is None:
            return f": it waits at {lane.wait.node} for {lane.wait.gid or f'pid {lane.wait.pid}'}"
        return f": it waits at {lane.wait.node} for {holder.name} ({holder.holding})"

    def _stuck(self, busy: list[Lane]) -> None:
        """Write down why nothing goes on."""
        chain: list[str] = []
        for lane in busy:
            assert lane.running is not None
            chain.append(f"{lane.running.name}{self._told(lane).replace(': it', '')}")
            chain += [f"{play.name} is queued behind {lane.running.name}" for play in lane.queue]
            holder = self._lanes.get(lane.wait.on) if lane.wait is not None else None
            if holder is not None and holder.running is None:
                chain.append(f"{holder.name} has no step left in this order")
        self._history.write(
            "stuck",
            session=busy[0].name,
            step=busy[0].running.name if busy[0].running is not None else "",
            message="; ".join(dict.fromkeys(chain)),
            data={"chain": list(dict.fromkeys(chain))},
        )
        raise StuckError(chain[0])

    async def _wind_up(self) -> None:
        """Cancel what still runs, roll back what is open, and write each session's outcome."""
        for lane in self._lanes.values():
            lane.queue.clear()
            if lane.running is not None:
                await lane.session.cancel()
        await self._drain("cancelled")
        for lane in self._lanes.values():
            if lane.open and lane.running is None:
                self._history.write(
                    "info",
                    session=lane.name,
                    node=lane.node,
                    message="still open at the end of the order: rolled back",
                )
                lane.start(Play(name="", step=ROLLBACK))
        await self._drain("rolled back")
        for lane in self._lanes.values():
            if lane.name == AGENTS:
                continue
            self._history.write(
                "outcome", session=lane.name, node=lane.node, message=lane.outcome or "none"
            )

    async def _last_sync(self) -> None:
        """Have every Subscriber get everything; who cannot does not keep the others from it."""
        lane = self._lanes[AGENTS]
        for subscriber in self._scenario.topology.subscribers:
            if lane.running is not None:
                return  # an earlier one cannot be ended: nothing works any more
            self._start(lane, Play(name=LAST_SYNC, step=SYNC, subscribers=(subscriber,)))
            lane.deadline = _now() + self._settle_s
            try:
                await self._until_done({AGENTS: lane})
            except StuckError:
                await lane.session.cancel()
                await self._drain("cancelled")

    async def _drain(self, why: str) -> None:
        """Wait, for a bounded time, until nothing runs any more."""
        until = _now() + CANCEL_S
        while self._busy and _now() < until:
            try:
                ended = await asyncio.wait_for(self._ends.get(), until - _now())
            except TimeoutError:
                return
            if ended.failure is not None:
                raise ended.failure
            if ended.play.name:
                self._write("info", ended.lane, ended.play, message=f"{why}: {ended.kind}")
            ended.lane.running = None

    def _write(self, kind: str, lane: Lane, play: Play, **fields: object) -> None:
        session = "" if lane.name == AGENTS else lane.name
        node = lane.node or " ".join(play.subscribers)
        self._history.write(kind, session=session, node=node, step=play.name, **fields)


def _now() -> float:
    return asyncio.get_running_loop().time()
