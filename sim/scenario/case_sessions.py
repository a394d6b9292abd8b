"""Waiting for what sessions do, without sleeping: until all is quiet, until one is over, or for ever.

It waits for a step to end, and whenever none has for a few milliseconds it looks at the wait graph. What is
launched when is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from twopc.sim.report.history import OrderHistory
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.lane import Lane, StepOutcome, StepPlay
from twopc.sim.scenario.meaning import sqlstate_of
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

#: How long a cancelled step may take to end before its session is given up.
CANCEL_S = 3.0
#: A server drops a request to cancel that comes before the statement: so it is made again.
_CANCEL_EVERY_S = 0.2
#: Kinds of rejection, and errors, that end a wait for which nobody else does anything.
_END_BY_THEMSELVES = frozenset({"lock_timeout", "deadlock"})
_ENDS_BY_ITSELF = frozenset({"55P03", "40P01", "57014"})


class StuckError(Exception):
    """Nothing that is left in the order can end a wait; the message tells who waits for whom."""


class CaseSessions:
    """The sessions of one case, and who of them waits for whom."""

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
        """Whose steps wait until their session is free, in the order of the case."""
        self._paused: list[str] = []
        """The Subscribers whose agents rest."""
        self._looked = RepeatedLook()
        self._cyclic = False
        """At the last look somebody waited in a cycle."""
        self._as_tester = self._scenario.runner == "isolationtester"
        self._grace_s = CANCEL_S if self._as_tester else 0.0
        """For how long what seems stuck may still come to an end: such orders wait for what they have cancelled."""
        self._struck = 0
        """How many faults have happened."""

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
        """Until every session has nothing to do or is blocked by one that has nothing to do."""
        while self._busy:
            if await self._one_end(LOOK_EVERY_S):
                continue
            if await self._all_blocked() and not self._start_queued():
                return

    async def _until_done(self, lanes: Mapping[str, Lane], only: str = "") -> None:
        """Until these sessions have nothing to do, or `only` is over.

        Raises:
            StuckError: they wait for something that is left to nobody.
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
        """Whether what keeps the sessions from going on was mended just now."""
        return False

    async def _one_end(self, timeout_s: float) -> bool:
        """Wait for a step to end and write down how; False if none has."""
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
            if self._scenario.merges:  # a republisher is the Publisher of those below it
                above = self._scenario.topology.publishers
                there = (*there, *(above[each] for each in there if each in above))
            await state_after(self._scenario, self._stage, self._history, there)
        self._start_queued()
        return True

    def _start_queued(self) -> bool:
        """Start the step that was queued first and can go on; False if none can now.

        As any other it waits until what was launched before it is over or provably blocked: the commit
        that has let its session go on may be over at its node before we are told.
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
        """What a step has brought about besides its own outcome."""
        lane.session.collect()
        self._note_messages(lane, play)
        for subscriber, on in ((play.step.pause, True), (play.step.resume, False)):
            if subscriber is not None:
                await self._pause(subscriber, on=on)

    def _note_messages(self, lane: Lane, play: StepPlay) -> None:
        """Write the notices and notifications that have come to a session since this was done last."""
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
        """Have an agent rest: whoever syncs leaves it out."""
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
        """Cancel what still runs."""
        until = now_s() + CANCEL_S
        while self._busy and now_s() < until:
            for lane in self._busy:
                await lane.session.cancel()
            await self._drain("cancelled", _CANCEL_EVERY_S)

    async def _drain(self, why: str, within_s: float = CANCEL_S) -> None:
        """Wait, for a bounded time, until nothing runs any more."""
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

    # -- looking -----------------------------------------------------------------------------------

    async def _all_blocked(self) -> bool:
        """Whether all that runs is blocked for good: two looks saw the same, and no cycle."""
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
        """Whether a wait may last until another item of the order ends it.

        isolationtester sees no wait for a prepared transaction: without a time limit of the session's own it would
        wait as long as it lets any step, and nobody means that.
        """
        if not self._as_tester or wait.on in self._lanes:
            return True
        return bool(wait.gid) and not _speaks_of_limits(self._scenario.sessions[lane.name])

    def _note_waits(self, seen: Mapping[str, Wait]) -> None:
        for lane in self._busy:
            wait, play = seen.get(lane.name), lane.running
            if play is None:
                continue
            if (
                wait is not None
            ):  # of one that goes on they are noted at its end, whenever it was looked at
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
        """Cancel the youngest step of a cycle that no server can see; others PostgreSQL breaks."""
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

    # -- what cannot end ---------------------------------------------------------------------------

    def _ends_by_itself(self, lane: Lane) -> bool:
        """Whether a wait may end without us: the scenario expects a time limit or a deadlock to end
        it, a plain session speaks of a limit of its own, a server will break a cycle, or somebody holds the
        lock who is not in the scenario."""
        if self._cyclic or (lane.wait is not None and lane.wait.on not in self._lanes):
            return True
        session = self._scenario.sessions.get(lane.name)
        if session is not None and session.plain and _speaks_of_limits(session):
            return True
        name = lane.running.name if lane.running is not None else ""
        expected = CaseExpectations(self._case)
        if _END_BY_THEMSELVES & expected.rejected().keys():
            return True  # one of them, whichever it is
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
        """Write down why nothing goes on."""
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
    """The running loop's time: the only clock here."""
    return asyncio.get_running_loop().time()


def _speaks_of_limits(session: Session) -> bool:
    """It may have set lock_timeout, statement_timeout or another of the kind."""
    steps = [text for _, step in session.named_steps for text in (step.script, *step.statements)]
    return any("_timeout" in (text or "").lower() for text in (*session.setup, *steps))
