"""Plays a case that is a load, from the rows before it to those after it, and writes what it came to."""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from twopc.errors import TwopcError
from twopc.protocol.effects import Effect
from twopc.protocol.events import BranchAborted, BranchCommitted, Event, VotedYes
from twopc.sim.checkers import LAST_SYNC
from twopc.sim.replay.loads import LoadTransaction, RecordedLoad
from twopc.sim.report.history import HistoryRecord, OrderHistory
from twopc.sim.scenario.observe import (
    answers,
    final_states,
    initial_states,
    settled,
    write_deliveries,
)
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.values import Case, CaseLesson
from twopc.sim.scenario.workload import Threshold
from twopc.sim.workload import drawing
from twopc.sim.workload.asyncio_bench import AsyncioBench
from twopc.sim.workload.figures import Figures
from twopc.sim.workload.load import Load
from twopc.sim.workload.ports import LoadBench

#: What is named when it does not end.
_GATES = "gates"
#: How often it is looked whether somebody stands at a gate.
_LOOK_EVERY_S = 0.01


async def play(
    case: Case,
    stage: Stage,
    history: OrderHistory,
    *,
    seed: int,
    recording: Sequence[LoadTransaction] | None = None,
) -> CaseLesson:
    """Play it on a stage.

    Args:
        recording: the transactions that are played instead of drawn ones.
    """
    scenario = case.scenario
    timeouts = scenario.topology.timeouts
    await initial_states(scenario, stage, history)
    history.write("drew", data=drawn(case, seed))
    # of a stage in virtual time, unless faults have to know who does what there
    model = getattr(stage, "model", None) if not case.faults else None
    bench = AsyncioBench(stage, scenario.faults)
    played_on, write = (bench, history.write) if model is None else _virtual(model, bench, history)
    make = Load if recording is None else partial(RecordedLoad, recording)
    load = make(
        scenario,
        played_on,
        seed=seed,
        write=write,
        level=lambda node: scenario.level(case.order, node),
    )
    watch = getattr(stage, "watch", None)  # of a stage whose coordinator can be watched
    if watch is not None:
        watch(BranchTimes(played_on.time, partial(load.figures.time, "in_doubt")))
    at_gates = getattr(stage, "at_gates", None)  # of a stage on which faults happen
    if at_gates is not None:
        bench.spawn(_open_gates(at_gates, load, bench), _GATES)
    left = await _played(load, (timeouts.step_ms + timeouts.settle_ms) / 1000, model)
    if watch is not None:
        watch(None)
    for name in left:
        if name == _GATES:
            continue  # it ends when everybody else has
        history.write("stuck", session=name, message=f"{name} did not come to an end")
    if case.faults:
        await stage.recover()  # what heals at the end heals now
        for strike in await stage.fired():
            history.write("fault", message=strike.point, data=strike.data)
    await settled(scenario, stage, history, timeouts.settle_ms / 1000)
    if scenario.distributes:
        for subscriber in scenario.topology.subscribers:
            try:
                await bench.sync((subscriber,))
            except TwopcError as error:
                history.write("error", node=subscriber, step=LAST_SYNC, message=str(error))
            else:
                history.write("ok", node=subscriber, step=LAST_SYNC, tag="SYNC")
        await write_deliveries(stage, history)
    text = load.figures.as_record()
    text["thresholds"] = compared(load.figures, scenario.thresholds)
    history.write("load", data=text)
    await final_states(scenario, stage, history)
    await answers(case, stage, history)
    return CaseLesson()


def _virtual(
    model: Any, stage: AsyncioBench, history: OrderHistory
) -> tuple[LoadBench, Callable[..., Any]]:
    """Where a load is played in virtual time, and how it writes from there.

    It is no task of the event loop, whose clock goes by the task that asks; so it writes as this one does.
    """
    from twopc.sim.workload.kernel_bench import KernelBench  # simpy, which real servers do not need

    def outage(node: str, on: bool) -> None:
        (model.network.shut if on else model.network.open)(node)

    bench = KernelBench(model.kernel, model, outage=outage, arm=stage.arm)
    context = copy_context()

    def write(kind: str, **fields: Any) -> HistoryRecord:
        return context.run(history.write, kind, **fields)

    return bench, write


async def _open_gates(
    at_gates: Callable[[], Awaitable[bool]], load: Load, bench: AsyncioBench
) -> None:
    """Let happen what happens to those who stand within triggers and procedures: nobody else looks for them."""
    while not load.is_quiet:
        await at_gates()
        await bench.sleep(_LOOK_EVERY_S)


async def _played(load: Load, grace_s: float, model: Any) -> list[str]:
    if model is None:
        return await load.play(grace_s)
    from twopc.drivers.virtual import steps  # likewise
    from twopc.sim.model.bridge import performed  # simpy, likewise

    return await performed(model.kernel, steps(load.play(grace_s)), "load")


def drawn(case: Case, seed: int) -> dict[str, Any]:
    """Every parameter of the load, those that nobody has said too."""
    workload = case.scenario.workload
    assert workload is not None, "it is a load"
    weights = drawing.nodes(case.scenario, workload)
    report: dict[str, Any] = {
        "seed": seed,
        "nodes": weights,
        "mix": dict(workload.mix)
        or dict.fromkeys({**case.scenario.transactions, **workload.transactions}, 1),
        "for_ms": workload.for_ms,
        "transactions": workload.count,
        "warmup_ms": workload.warmup_ms,
        "sync_ms": workload.sync_ms,
        "on_conflict": workload.on_conflict.model_dump(exclude={"hole", "holes"}),
    }
    if workload.rate is not None:
        report["rate_per_s"] = workload.rate
    else:
        report["clients"] = drawing.places(weights, workload.clients or 1)
    if workload.keys_of is not None:
        keys = workload.keys_of
        report["keys"] = {"table": keys.table, "count": keys.count, "pick": keys.pick}
    if workload.think is not None:
        report["think"] = " ".join((workload.think.distribution, *workload.think.values))
    return report


class BranchTimes:
    """Sees a coordinator's machines, and times each branch from its vote to its end as the coordinator knows it.

    A branch that somebody else ends, because this coordinator died or lost the connection, is not timed.

    Args:
        time: seconds of a clock that only goes forward.
        ended: is told for how long each has been prepared.
    """

    def __init__(self, time: Callable[[], float], ended: Callable[[float], None]) -> None:
        self._time = time
        self._ended = ended
        self._since: dict[tuple[str, str], float] = {}

    def __call__(self, gid: str, what: Effect | Event) -> None:
        if isinstance(what, VotedYes):
            self._since[gid, what.participant] = self._time()
        elif isinstance(what, BranchCommitted | BranchAborted):
            since_s = self._since.pop((gid, what.participant), None)
            if since_s is not None:
                self._ended(self._time() - since_s)


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def compared(figures: Figures, thresholds: Sequence[Threshold]) -> list[dict[str, Any]]:
    """Each bound in words, what was measured, and whether it was kept.

    Where there is nothing to measure (no commit, and so no latency of one) a bound is not kept: it was meant
    for something that did not happen.
    """
    return [_compared(figures, each) for each in thresholds]


def _compared(figures: Figures, threshold: Threshold) -> dict[str, Any]:
    result = figures.measure(threshold.metric, threshold.unit)
    return {
        "bound": threshold.text,
        "measured": None if result is None else f"{result:.4g}{threshold.unit}",
        "kept": result is not None and _COMPARE[threshold.op](result, threshold.number),
    }
