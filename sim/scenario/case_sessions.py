"""Waiting for sessions without fixed delays: until all are quiet, or until one has ended.

The code waits for the end of a step, and reads the wait graph whenever no step has ended for a few milliseconds.
When steps are launched is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from twopc.sim.report.history import OrderHistory
from twopc.sim.scenario.expect_meaning import sqlstate_of
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.lane import Lane, StepOutcome, StepPlay
from twopc.sim.scenario.model import Session
from twopc.sim.scenario.observe import (
    state_after,
    write_deliveries,
    write_merge_sessions,
    write_settled,
)
from twopc.sim.scenario.stage import AGENTS, Stage
from twopc.sim.scenario.steps import OF_AGENTS
from twopc.sim.scenario.values import Case
from twopc.sim.sessions.waits import LOOK_EVERY_S, RepeatedLook, Wait, Waits

#: Time limit in seconds for the end of a cancelled step; then its session is abandoned.
CANCEL_S = 3.0
#: Interval in seconds between cancel requests: a server ignores one that arrives before the statement.
_CANCEL_EVERY_S = 0.2
#: Kinds of rejections, and errors, that end a wait without an action of another session.
_END_BY_THEMSELVES = frozenset({"lock_timeout", "deadlock"})
_ENDS_BY_ITSELF = frozenset({"55P03", "40P01", "57014"})


class StuckError(Exception):
    """No remaining item of the order can end a wait; the message names the waiting sessions and their holders."""


class CaseSessions:
    """The sessions of one case and the waits between them."""

    def __init__(
        self, case: Case, stage: Stage, history: OrderHistory, *, step_timeout_ms: int | None = None
    ) -> None:
        self._case = case
        self._scenario = case.observed
        self._stage = stage
        self._history = history
        timeouts = self._scenario.topology.timeouts
        self._step_s = (step_timeout_ms or timeouts.step_ms) / 1000
        self._settle_s = timeouts.settle_ms / 1000
        self._ends: asyncio.Queue[StepOutcome] = asyncio.Queue()
        self._lanes: dict[str, Lane] = {}
        self._launches = 0
        self._queued: list[Lane] = []
        """Lanes with steps that wait until their session is free, in the order of the case."""
        self._paused: list[str] = []
        """Subscribers whose agents are paused."""
        self._looked = RepeatedLook()
        self._cyclic = False
        """Whether the last look found a cycle of waits."""
        self._as_tester = self._scenario.runner == "isolationtester"
        self._grace_s = CANCEL_S if self._as_tester else 0.0
        """Seconds for which stuck sessions may still end: isolationtester's rules wait for cancelled steps."""
        self._struck = 0
        """Number of faults that have struck."""

    @property
    def _busy(self) -> list[Lane]:
        return [lane for lane in self._lanes.values() if lane.running is not None]

    def _start(self, lane: Lane, play: StepPlay) -> None:
        self._launches += 1
        lane.launched = self._launches
        limit_ms = play.step.timeout_ms
        lane.deadline = now_s() + (limit_ms / 1000 if limit_ms else self._step_s)
        step = play.step
        sql = "; ".join(step.statements) or step.script or step.action or ""
        self._write("invoke", lane, play, sql=sql, params=dict(step.values) or None)
        lane.start(play)

    def _write(self, kind: str, lane: Lane, play: StepPlay, **fields: object) -> None:
        session = "" if lane.name == AGENTS else lane.name
        node = play.step.at or lane.node or " ".join(play.subscribers)
        self._history.write(kind, session=session, node=node, step=play.name, **fields)

    # -- waiting -----------------------------------------------------------------------------------

    async def _until_quiet(self) -> None:
        """Wait until every session is idle, or blocked by an idle one."""
        while self._busy:
            if await self._one_end(LOOK_EVERY_S):
                continue
            if await self._all_blocked() and not self._start_queued():
                return

    async def _until_done(self, lanes: Mapping[str, Lane], only: str = "") -> None:
        """Wait until these sessions are idle, or until the step `only` has ended.

        Raises:
            StuckError: the sessions wait for an event that no session can cause.
        """
        quiet_s = now_s()
        while True:
            busy = [lane for lane in lanes.values() if lane.running is not None]
            if only:
                busy = [lane for lane in busy if lane.running and lane.running.name == only]
            if not busy and (only or not any(lane.queue for lane in lanes.values())):
                return
            if await self._one_end(LOOK_EVERY_S):
                quiet_s = now_s()
                continue
            if not await self._all_blocked() or self._start_queued():
                continue
            if await self._mended() or now_s() < quiet_s + self._grace_s:
                continue
            if not any(self._ends_by_itself(lane) for lane in busy):
                self._stuck(busy)

    async def _mended(self) -> bool:
        """Return whether the cause of a wait has just been removed."""
        return False

    async def _one_end(self, timeout_s: float) -> bool:
        """Wait for a step to end and record its outcome. Return False if none has ended in time."""
        try:
            ended = await asyncio.wait_for(self._ends.get(), timeout_s)
        except TimeoutError:
            self._check_deadlines()
            return False
        lane = ended.lane
        self._looked.clear()
        if ended.failure is not None:
            raise ended.failure
        if lane.wait is not None:
            self._write("unblocked", lane, ended.play)
        if ended.play.step.action == "sync":
            await write_deliveries(self._stage, self._history)
            if self._scenario.merges:
                write_merge_sessions(self._stage, self._history)
        await self._note_faults()
        self._write(ended.kind, lane, ended.play, **ended.fields)
        await self._note_ended(lane, ended.play)
        lane.running, lane.wait, lane.cycle = None, None, ()
        if ended.fields.get("data", {}).get("committed"):
            await state_after(self._scenario, self._stage, self._history, lane.nodes)
        if ended.play.step.action in OF_AGENTS:
            there = ended.play.subscribers or (lane.node,)
            if self._scenario.merges:  # a republisher is the Publisher of its own Subscribers
                above = self._scenario.topology.publishers
                there = (*there, *(above[each] for each in there if each in above))
            await state_after(self._scenario, self._stage, self._history, there)
        self._start_queued()
        return True

    def _start_queued(self) -> bool:
        """Start the first queued step whose session is free. Return False if there is none.

        As with any other step, all earlier steps must have ended or be provably blocked: the commit that has
        released the session may have completed at its node before its result arrives here.
        """
        if any(lane.wait is None for lane in self._busy):
            return False
        lane = next((each for each in self._queued if each.running is None), None)
        if lane is None:
            return False
        self._queued.remove(lane)
        self._start(lane, lane.queue.popleft())
        return True

    async def _note_ended(self, lane: Lane, play: StepPlay) -> None:
        """Record the effects of a step other than its own outcome."""
        lane.session.collect()
        self._note_messages(lane, play)
        for subscriber, on in ((play.step.pause, True), (play.step.resume, False)):
            if subscriber is not None:
                await self._pause(subscriber, on=on)

    def _note_messages(self, lane: Lane, play: StepPlay) -> None:
        """Record the notices and notifications that a session has received since the last call."""
        came = lane.session.messages[lane.recorded :]
        if not came:
            return
        lane.recorded += len(came)
        names = {
            (node, pid): each.name
            for each in self._lanes.values()
            for node, pid in each.session.pids.items()
        }
        lines = [
            {
                "channel": each.channel,
                "payload": each.text,
                "from": names.get((lane.node, each.pid), f"PID {each.pid}"),
            }
            if each.channel
            else {"text": each.text}
            for each in came
        ]
        self._write("notice", lane, play, data={"count": len(came), "messages": lines})

    async def _note_faults(self) -> None:
        for strike in await self._stage.fired():
            self._struck += 1
            self._history.write("fault", message=strike.point, data=strike.data)
        write_settled(self._stage, self._history)

    async def _pause(self, subscriber: str, *, on: bool) -> None:
        """Pause or resume an agent; syncs omit paused agents."""
        if (subscriber in self._paused) == on:
            return
        await self._stage.pause_agent(subscriber, on=on)
        self._paused = [each for each in self._paused if each != subscriber] + [subscriber] * on
        self._history.write("paused", node=subscriber, data={"on": on})

    def _check_deadlines(self) -> None:
        for lane in self._busy:
            if lane.running is not None and now_s() > lane.deadline:
                name, waits = lane.running.name, self._waiting(lane)
                self._write(
                    "timed_out", lane, lane.running, message=f"no end within its time limit{waits}"
                )
                raise StuckError(name)

    async def _cancel(self) -> None:
        until = now_s() + CANCEL_S
        while self._busy and now_s() < until:
            for lane in self._busy:
                await lane.session.cancel()
            await self._drain("cancelled", _CANCEL_EVERY_S)

    async def _drain(self, why: str, within_s: float = CANCEL_S) -> None:
        """Wait, for a limited time, until no step is running."""
        until = now_s() + within_s
        while self._busy and now_s() < until:
            try:
                ended = await asyncio.wait_for(self._ends.get(), until - now_s())
            except TimeoutError:
                return
            if ended.failure is not None:
                raise ended.failure
            if ended.play.name:
                self._write("info", ended.lane, ended.play, message=f"{why}: {ended.kind}")
            ended.lane.running = None

    # -- the wait graph ----------------------------------------------------------------------------

    async def _all_blocked(self) -> bool:
        """Return whether all running steps are blocked permanently: two looks found the same waits, and no cycle."""
        looked = await self._stage.waits()
        if not self._ends.empty():
            return False
        seen = {
            lane.name: looked.waits[lane.name]
            for lane in self._busy
            if lane.name in looked.waits and self._counts(lane, looked.waits[lane.name])
        }
        if not self._looked.confirms(seen):
            return False
        await self._note_faults()
        self._note_waits(seen)
        self._cyclic = looked.cyclic
        if looked.cyclic:
            await self._break_cycle(looked)
            if not self._as_tester:
                return False
        return all(lane.wait is not None for lane in self._busy)

    def _counts(self, lane: Lane, wait: Wait) -> bool:
        """Return whether a wait may last until another item of the order ends it.

        isolationtester does not detect a wait for a prepared transaction. Without a timeout of the session itself,
        it would wait for its limit of a step, which is never intended.
        """
        if not self._as_tester or wait.on in self._lanes:
            return True
        return bool(wait.gid) and not _may_set_timeout(self._scenario.sessions[lane.name])

    def _note_waits(self, seen: Mapping[str, Wait]) -> None:
        for lane in self._busy:
            wait, play = seen.get(lane.name), lane.running
            if play is None:
                continue
            # messages of a step that continues are recorded at its end, independent of the time of looks
            if wait is not None:
                self._note_messages(lane, play)
            if wait == lane.wait:
                continue
            begins, lane.wait = lane.wait is None, wait
            if wait is None:
                self._write("unblocked", lane, play)
                continue
            holder = self._lanes.get(wait.on)
            text = wait.record(step=holder.holding if holder is not None else "")
            late = {"seen_after_us": wait.since_us} if begins and wait.since_us else None
            self._write("blocked", lane, play, wait=text, data=late)

    async def _break_cycle(self, looked: Waits) -> None:
        """Cancel the youngest step of a cycle that no server can detect; PostgreSQL breaks the others."""
        for sessions, report in looked.cycles:
            lanes = [self._lanes[name] for name in sessions if name in self._lanes]
            lanes = [lane for lane in lanes if lane.running is not None]
            if not lanes or any(lane.cycle for lane in lanes):
                continue
            victim = max(lanes, key=lambda lane: lane.launched)
            victim.cycle = report
            self._history.write(
                "deadlock",
                session=victim.name,
                step=victim.running.name if victim.running is not None else "",
                data={"cycle": list(report), "sessions": list(sessions)},
            )
            await victim.session.cancel()

    # -- stuck sessions ----------------------------------------------------------------------------

    def _ends_by_itself(self, lane: Lane) -> bool:
        """Return whether a wait may end without another item of the order.

        That is so if the scenario expects a timeout or a deadlock to end it, if a plain session sets a timeout of
        its own, if a server will break a cycle, or if a session outside of the scenario holds the lock.
        """
        if self._cyclic or (lane.wait is not None and lane.wait.on not in self._lanes):
            return True
        session = self._scenario.sessions.get(lane.name)
        if session is not None and session.plain and _may_set_timeout(session):
            return True
        name = lane.running.name if lane.running is not None else ""
        expected = CaseExpectations(self._case)
        if _END_BY_THEMSELVES & expected.rejected().keys():
            return True  # the counted rejection may be that of any step
        result = expected.step(name, of_order=True)
        if result is None:
            return False
        end = result[1].final
        return end.rejected in _END_BY_THEMSELVES or (
            end.error is not None and sqlstate_of(end.error) in _ENDS_BY_ITSELF
        )

    def _waiting(self, lane: Lane) -> str:
        if lane.wait is None:
            return ""
        holder = self._lanes.get(lane.wait.on)
        if holder is None:
            return f": it waits at {lane.wait.node} for {lane.wait.gid or f'pid {lane.wait.pid}'}"
        return f": it waits at {lane.wait.node} for {holder.name} ({holder.holding})"

    def _stuck(self, busy: list[Lane]) -> None:
        """Record why the sessions cannot continue, and raise StuckError."""
        chain: list[str] = []
        for lane in busy:
            assert lane.running is not None
            chain.append(f"{lane.running.name}{self._waiting(lane).replace(': it', '')}")
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


def now_s() -> float:
    """Return the time of the running loop, the only clock used here."""
    return asyncio.get_running_loop().time()


def _may_set_timeout(session: Session) -> bool:
    """Return whether a session may set lock_timeout, statement_timeout or a similar setting."""
    steps = [text for _, step in session.named_steps for text in (step.script, *step.statements)]
    return any("_timeout" in (text or "").lower() for text in (*session.setup, *steps))
