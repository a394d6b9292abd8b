"""A recorded run, said once more: what each session said, on servers or on the model. Knows no Spark.

The run's scenario is set up anew for each of its orders; what sessions are told then is held against what they were
told when it was recorded. Where it is said, and in which order, others decide.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.drivers.runtime import Asyncio
from twopc.sim.report.history import History, Record, by_order
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import Loaded
from twopc.sim.scenario.model import OrderItem
from twopc.sim.scenario.player import Player
from twopc.sim.scenario.run import begin, header
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre
from twopc.sim.scenario.words import Case, Selection
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.replay import said
from twopc.sim.spark.replay.rearranged import rearranged
from twopc.sim.spark.replay.windows import Sync
from twopc.sim.workload.redoing import carried_out, committed

#: A load's history does not have the rows that its queries gave.
_OF_LOADS = ("rowcount", "outcome", "error", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How it is said once more. Texts and numbers only: it travels."""

    on: str = "postgres"
    """One of `twopc.sim.scenario.theatres.THEATRES`."""
    sync: Sync = Sync.rows
    speed: float | None = None
    """Times the recorded pace at which steps begin; None: as soon as the one before is over, or provably waits."""
    pg: str = ""
    """Which PostgreSQL, as `twopc.server.choose`."""
    servers: str = "one"
    dsns: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of nodes that are there, instead of databases that are made for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of one order, or load."""

    order: str
    transactions: int
    statements: int
    classes: tuple[str, ...]
    """Those that were examined."""
    found: tuple[Mapping[str, Any], ...]
    """`article`, `key`, `session`, `call`, `class`, `expected`, `actual`; what is not known is left out."""


def say_again(
    loaded: Loaded, records: Sequence[Record], manner: Manner, *, history: History | None = None
) -> Told:
    """Say one order once more, or carry out a load's transactions.

    Args:
        loaded: the scenario that was recorded.
        records: those of the order, whole; and the run's header, by whose seed the model draws.
        history: what happens is written there.

    Raises:
        PipelineError: the scenario has no such order any more, or says something else now.
        ScenarioError: it cannot be played there.
    """
    mine = [each for each in records if each.order]
    heads = [each.data or {} for each in records if each.kind == "header"]
    seed = heads[0].get("seed") if heads else None
    place = theatre(
        manner.on,
        TheatreOptions(
            pg=manner.pg,
            servers=manner.servers,
            dsns=manner.dsns,
            seed=None if seed is None else int(seed),
        ),
    )
    case = case_of(loaded, mine[0].order)

    async def work() -> Told:
        kept = history if history is not None else History(None)
        if not kept.records:
            kept.write("header", data=header(loaded, place, Selection(seed=seed)))
        async with place, place.stage(case) as stage:
            return await _said(loaded, case, stage, mine, manner, kept)

    return played(manner.on, work())


def case_of(loaded: Loaded, name: str) -> Case:
    """What was played under a name.

    Raises:
        PipelineError: there is no such order.
    """
    for group in groups(loaded, Selection(order=name)):
        course = group.courses.next()
        if course is not None:
            rank, items = course
            return group.case(rank, items)
    raise PipelineError(
        f"{loaded.document.path} has no order {name!r} any more: --scenario FILE, as it was then"
    )


async def _said(
    loaded: Loaded,
    case: Case,
    stage: Stage,
    recorded: Sequence[Record],
    manner: Manner,
    history: History,
) -> Told:
    own = history.of(case.name)
    begin(own, loaded, case)
    if case.scenario.workload is not None:
        return await _load(case, stage, recorded, manner)
    items = rearranged(case.scenario, case.items, manner.sync)
    order = case.order
    if not manner.sync.delivers:
        order = order.model_copy(update={"faults": ()})
    # a number says that the order is generated, and that whoever is blocked makes it infeasible
    case = dataclasses.replace(case, order=order, items=items, number=0)
    await _play(case, stage, own, _due(recorded, items, manner))
    own.write("end")
    try:
        found = [*said.differences(recorded, own.records, every=manner.sync.delivers)]
    except said.OtherStatementsError as error:
        raise PipelineError(
            f"{loaded.document.path} is not the scenario that was recorded: {error}: --scenario FILE"
        ) from None
    return Told(
        order=case.name,
        transactions=said.transactions(recorded),
        statements=said.statements(recorded),
        classes=said.CLASSES,
        found=tuple(found),
    )


async def _play(case: Case, stage: Stage, own: Any, due: Sequence[float]) -> None:
    player = Player(case, stage, own)
    clock = Asyncio()
    try:
        await player.begin()
        began = clock.time()
        for at, item in enumerate(case.items):
            if due and (early_s := began + due[at] - clock.time()) > 0:
                await clock.sleep(early_s)
            await player.item(item)
        await player.finish()
    finally:
        await player.close()


def _due(recorded: Sequence[Record], items: Sequence[OrderItem], manner: Manner) -> Sequence[float]:
    """When each item is to begin, in seconds after the first; none: as soon as can be."""
    if manner.speed is None:
        return ()
    began = {each.step: each.t_us for each in recorded if each.kind == "invoke" and each.session}
    first_us = min(began.values(), default=0)
    return [
        (began.get(each.step or "", first_us) - first_us) / 1e6 / manner.speed for each in items
    ]


async def _load(case: Case, stage: Stage, recorded: Sequence[Record], manner: Manner) -> Told:
    if manner.speed is not None:
        raise PipelineError(
            "a load's transactions are carried out as fast as can be; at a pace of your own they are simulated: "
            "--onto model --speed"
        )
    if not any(each.kind == "load" for each in recorded):
        raise PipelineError(f"{case.name} was broken off: it has no end to compare with")
    found = await carried_out(case, stage, recorded, manner.sync)
    for each in found:
        if each["class"] == "outcome" and str(each["actual"]).startswith("error"):
            each["class"] = "error"
    redone = committed(recorded)
    return Told(
        order=case.name,
        transactions=len(redone),
        statements=sum(len(each.deed.statements) for each in redone),
        classes=_OF_LOADS,
        found=tuple(found),
    )


def orders_of(records: Sequence[Record], name: str = "") -> dict[str, list[Record]]:
    """What of a run can be said once more, by order: what could not be played then is left out.

    Args:
        name: this one only.

    Raises:
        PipelineError: there is none.
    """
    found = {
        order: mine
        for order, mine in by_order(records)
        if name in ("", order) and not any(each.kind == "infeasible" for each in mine)
    }
    if not found:
        known = ", ".join(dict.fromkeys(each.order for each in records if each.order)) or "none"
        raise PipelineError(f"the run has no order {name!r} to replay; there are: {known}")
    return found


def summed(told: Sequence[Told]) -> tuple[dict[str, int], dict[str, int]]:
    """Counts, and divergences by class, of all orders."""
    counts = {
        "orders": len(told),
        "transactions": sum(each.transactions for each in told),
        "statements": sum(each.statements for each in told),
    }
    classes = Counter(found["class"] for each in told for found in each.found)
    examined = {name for each in told for name in each.classes}
    return counts, {name: classes[name] for name in said.CLASSES if name in examined}


def rows(told: Told) -> list[dict[str, Any]]:
    """`shapes.DIVERGENCES` of an order, as values; whose it is stands before what was said."""
    names = (
        "class", "article", "key", "seqno", "gid", "session", "call", "expected", "actual",
    )  # fmt: skip
    return [
        {
            **{name: each.get(name) for name in names},
            "call": f"{told.order}, {each['call']}" if each.get("call") else told.order,
        }
        for each in told.found
    ]
