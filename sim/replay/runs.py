"""Replaying a recorded run, order by order, on servers or on the model.

The scenario is set up anew for each order. The results that sessions receive are compared with the recorded ones.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from twopc.drivers.runtime import Asyncio
from twopc.errors import ConfigurationError
from twopc.sim.replay import divergence, loads
from twopc.sim.replay.divergence import CLASSES, Divergence
from twopc.sim.replay.engine import replay
from twopc.sim.replay.lanes import Sync
from twopc.sim.replay.steps import StepTransaction, arranged, recorded_steps
from twopc.sim.report.history import History, HistoryRecord, OrderHistory, by_order
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.player import Player
from twopc.sim.scenario.run import begin, header
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre
from twopc.sim.scenario.values import Case, Selection

#: Classes examined for loads: a load's history does not contain the rows of its queries.
_OF_LOADS = ("rowcount", "outcome", "error", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReplay:
    """Options for replaying a run. Contains only texts and numbers, so that it can be pickled."""

    on: str = "postgres"
    """One of `twopc.sim.scenario.theatres.THEATRES`."""
    sync: Sync = Sync.rows
    speed: float | None = None
    """Multiple of the recorded pace of steps; None to begin each when the one before has ended or provably waits."""
    place: TheatreOptions = field(default_factory=TheatreOptions, repr=False)
    """Servers to use, and existing nodes that replace databases made for the replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderReplay:
    """The result of replaying one order or load."""

    order: str
    transactions: int
    statements: int
    classes: Sequence[str]
    """Classes of divergence that were examined."""
    divergences: tuple[Divergence, ...]
    """Differences; their calls begin with the order's name."""


def replay_order(
    loaded: LoadedScenario,
    records: Sequence[HistoryRecord],
    options: RunReplay,
    *,
    history: History | None = None,
) -> OrderReplay:
    """Replay one order or load.

    Args:
        loaded: the scenario that was recorded.
        records: all records of the order, and the run's header, which has the seed for the model.
        history: receives the records of the replay.

    Raises:
        ConfigurationError: the scenario has no such order any more, or other statements.
        ScenarioError: the scenario cannot be played in that place.
    """
    records_of_order = [each for each in records if each.order]
    heads = [each.data or {} for each in records if each.kind == "header"]
    seed = int(heads[0]["seed"]) if heads and heads[0].get("seed") is not None else None
    place = theatre(options.on, dataclasses.replace(options.place, seed=seed))
    case = case_of(loaded, records_of_order[0].order)

    async def work() -> OrderReplay:
        kept = history if history is not None else History(None)
        if not kept.records:
            kept.write("header", data=header(loaded, place, Selection(seed=seed)))
        async with place, place.stage(case) as stage:
            own = kept.of(case.name)
            begin(own, loaded, case)
            if case.scenario.workload is not None:
                done = await _load(case, stage, records_of_order, options)
            else:
                done = await _order(loaded, case, stage, records_of_order, options, own)
        results = tuple(
            dataclasses.replace(each, call=", ".join(filter(None, (done.order, each.call))))
            for each in done.divergences
        )
        return dataclasses.replace(done, divergences=results)

    return played(options.on, work())


def case_of(loaded: LoadedScenario, name: str) -> Case:
    """Return the case that was played under a name.

    Raises:
        ConfigurationError: there is no such order.
    """
    for group in groups(loaded, Selection(orders=(name,))):
        course = group.courses.next()
        if course is not None:
            rank, items = course
            return group.case(rank, items)
    raise ConfigurationError(
        f"{loaded.document.path} has no order {name!r} any more: --scenario FILE, as it was then"
    )


async def _order(
    loaded: LoadedScenario,
    case: Case,
    stage: Stage,
    recorded: Sequence[HistoryRecord],
    options: RunReplay,
    history: OrderHistory,
) -> OrderReplay:
    items = arranged(case.scenario, case.items, options.sync)
    order = case.order
    if not options.sync.delivers:
        order = order.model_copy(update={"faults": ()})
    # with a number, an order counts as generated: a blocked session makes it infeasible
    case = dataclasses.replace(case, order=order, items=items, number=0)
    await _play(case, stage, history, [*recorded_steps(items, recorded, speed=options.speed)])
    history.write("end")
    try:
        results = [*divergence.of_steps(recorded, history.records, every=options.sync.delivers)]
    except divergence.OtherStatementsError as error:
        raise ConfigurationError(
            f"{loaded.document.path} is not the scenario that was recorded: {error}: --scenario FILE"
        ) from None
    return OrderReplay(
        order=case.name,
        transactions=divergence.transactions(recorded),
        statements=divergence.statements(recorded),
        classes=CLASSES,
        divergences=tuple(results),
    )


async def _play(
    case: Case, stage: Stage, history: OrderHistory, steps: Sequence[StepTransaction]
) -> None:
    player = Player(case, stage, history)
    clock = Asyncio()
    try:
        await player.begin()
        await replay(steps, lambda each: player.item(each.work), clock, began_s=clock.time())
        await player.finish()
    finally:
        await player.close()


async def _load(
    case: Case, stage: Stage, recorded: Sequence[HistoryRecord], options: RunReplay
) -> OrderReplay:
    if options.speed is not None:
        raise ConfigurationError(
            "a load's transactions are carried out as fast as can be; at a pace of your own they are simulated: "
            "--onto model --speed"
        )
    if not any(each.kind == "load" for each in recorded):
        raise ConfigurationError(f"{case.name} was broken off: it has no end to compare with")
    result = await loads.repeated(case, stage, recorded, options.sync)
    transactions = [*loads.committed(recorded)]
    return OrderReplay(
        order=case.name,
        transactions=len(transactions),
        statements=sum(len(each.work.statements) for each in transactions),
        classes=_OF_LOADS,
        divergences=tuple(
            dataclasses.replace(each, kind="error")
            if each.kind == "outcome" and each.actual.startswith("error")
            else each
            for each in result
        ),
    )


def orders_of(records: Sequence[HistoryRecord], name: str = "") -> dict[str, list[HistoryRecord]]:
    """Return the orders of a run that can be replayed, without infeasible ones.

    Args:
        name: the only order to return.

    Raises:
        ConfigurationError: there is none.
    """
    results = {
        order: own
        for order, own in by_order(records)
        if name in ("", order) and not any(each.kind == "infeasible" for each in own)
    }
    if not results:
        known = ", ".join(dict.fromkeys(each.order for each in records if each.order)) or "none"
        raise ConfigurationError(f"the run has no order {name!r} to replay; there are: {known}")
    return results


def totals(replays: Sequence[OrderReplay]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the counts of all orders, and their divergences by class."""
    counts = {
        "orders": len(replays),
        "transactions": sum(each.transactions for each in replays),
        "statements": sum(each.statements for each in replays),
    }
    classes = Counter(result.kind for each in replays for result in each.divergences)
    examined = {name for each in replays for name in each.classes}
    return counts, {name: classes[name] for name in CLASSES if name in examined}
