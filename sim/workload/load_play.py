"""Playing a case that is a load, from its initial rows to its final ones, and writing its figures."""

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

#: Name of the task that opens gates.
_GATES = "gates"
#: Interval at which sessions at gates are looked for.
_LOOK_EVERY_S = 0.01


async def play(
    case: Case,
    stage: Stage,
    history: OrderHistory,
    *,
    seed: int,
    recording: Sequence[LoadTransaction] | None = None,
) -> CaseLesson:
    """Play a load on a stage.

    Args:
        recording: transactions that are played instead of drawn ones.
    """
    scenario = case.scenario
    timeouts = scenario.topology.timeouts
    await initial_states(scenario, stage, history)
    history.write("drew", data=drawn(case, seed))
    # only stages in virtual time have a model; faults need the tasks of the event loop
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
    watch = getattr(stage, "watch", None)  # only if the stage's coordinator can be observed
    if watch is not None:
        watch(BranchTimes(played_on.time, partial(load.figures.time, "in_doubt")))
    at_gates = getattr(stage, "at_gates", None)  # only on a stage with faults
    if at_gates is not None:
        bench.spawn(_open_gates(at_gates, load, bench), _GATES)
    left = await _played(load, (timeouts.step_ms + timeouts.settle_ms) / 1000, model)
    if watch is not None:
        watch(None)
    for name in left:
        if name == _GATES:
            continue  # it ends only after all other tasks
        history.write("stuck", session=name, message=f"{name} did not come to an end")
    if case.faults:
        await stage.recover()  # heals faults that last until the end
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
    """Return the bench for a load in virtual time, and a function that writes history records from there.

    The model's processes are no tasks of the event loop, and a history's clock depends on the current task. Records
    are therefore written in a copy of this task's context.
    """
    from twopc.sim.workload.kernel_bench import KernelBench  # needs simpy, unlike real servers

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
    """Perform pending faults of sessions that wait within triggers and procedures, until the load is over.

    No other code looks for such sessions during a load.
    """
    while not load.is_quiet:
        await at_gates()
        await bench.sleep(_LOOK_EVERY_S)


async def _played(load: Load, grace_s: float, model: Any) -> list[str]:
    if model is None:
        return await load.play(grace_s)
    from twopc.drivers.virtual import steps  # needs simpy
    from twopc.sim.model.bridge import performed  # needs simpy

    return await performed(model.kernel, steps(load.play(grace_s)), "load")


def drawn(case: Case, seed: int) -> dict[str, Any]:
    """Return every parameter of the load, including defaults that the file does not mention."""
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
    """An observer of a coordinator's machines that times each branch from its vote to its acknowledged end.

    A branch that is finished by another process, because this coordinator died or lost the connection, is not
    timed.

    Args:
        time: returns the seconds of a monotonic clock.
        ended: is called with the time that a branch has been prepared.
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
    """Return each threshold as text, with the measured value and whether it was met.

    A threshold without a measured value (for example a commit latency if nothing committed) is not met.
    """
    return [_compared(figures, each) for each in thresholds]


def _compared(figures: Figures, threshold: Threshold) -> dict[str, Any]:
    result = figures.measure(threshold.metric, threshold.unit)
    return {
        "bound": threshold.text,
        "measured": None if result is None else f"{result:.4g}{threshold.unit}",
        "kept": result is not None and _COMPARE[threshold.op](result, threshold.number),
    }
