"""Plays every feasible order of a scenario's steps on the model, and groups the orders by behaviour.

Of orders that differ only in the sequence of independent steps, one is played. Must not run inside an event loop.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.sim.explore import cards
from twopc.sim.explore.bases import bases
from twopc.sim.explore.cards import as_item
from twopc.sim.explore.plays import variant_of
from twopc.sim.explore.variants import chosen, every
from twopc.sim.explore.wire.runs import OrdersEvent, WireBehaviour
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import History
from twopc.sim.report.phrases import holder
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.judging import judge
from twopc.sim.scenario.model import OrderItem
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.order_generation import Generate
from twopc.sim.scenario.ordering import Courses, courses
from twopc.sim.scenario.run import begin
from twopc.sim.scenario.runner import play_case
from twopc.sim.scenario.theatres import played
from twopc.sim.scenario.values import Case

#: Default number of orders that are played.
LIMIT = 1_000
#: Interval between progress events.
_TELL_EVERY_S = 0.1


@dataclass(slots=True)
class OrderMap:
    """The played orders, by behaviour."""

    courses: Courses
    behaviours: dict[str, WireBehaviour] = field(default_factory=dict)
    fresh: dict[str, None] = field(default_factory=dict)
    """Behaviours that have changed since they were last reported."""

    def see(self, case: Case, history: History) -> None:
        """Add an order that was played to its end."""
        records = history.records
        behaviour = judge(case, records).behaviour
        self.fresh[behaviour] = None
        known = self.behaviours.get(behaviour)
        if known is not None:
            known["count"] += 1
            return
        fold = Fold(records)
        broken = [each["name"] for each in cards.invariants(case, fold) if not each["holds"]]
        self.behaviours[behaviour] = {
            "id": behaviour,
            "order": [item.step for item in case.items if item.step is not None],
            "count": 1,
            "outcomes": {name: text for name, text in fold.outcomes.items() if text != "none"},
            "text": cards.outcome_text(fold, broken),
            "holds": not broken,
            "broken": broken,
            "waits": [f"{step} waits for {holder(each.wait)}" for step, each in fold.waits.items()],
            "refused": [each.step for each in fold.refusals() if each.step],
        }

    def event(self, name: str, **more: Any) -> OrdersEvent:
        """Return an event with the present counts."""
        counts = self.courses.counts
        event: dict[str, Any] = {
            "event": name,
            "orders": counts.orders,
            "run": counts.run,
            "infeasible": counts.infeasible,
            "left_out": counts.left_out,
            **more,
        }
        return event  # type: ignore[return-value] # the event of that name


def play_every(
    loaded: LoadedScenario,
    request: Mapping[str, Any],
    tell: Callable[[OrdersEvent], None],
    is_stopped: Callable[[], bool],
) -> OrdersEvent:
    """Play all orders until the end, or until stopped. Return the last event.

    Args:
        request: `twopc.sim.explore.wire.runs.OrdersRequest`.
        tell: called with the progress and with each behaviour.

    Raises:
        SwitchError, ScenarioError: see `twopc.sim.explore.plays.play`.
    """
    generate = Generate(
        sessions=tuple(request.get("sessions") or ()), limit=request.get("limit") or LIMIT
    )
    case = every(loaded, generate, request)
    return played("model", _play_every(loaded, request, case, tell, is_stopped))


async def _play_every(
    loaded: LoadedScenario,
    request: Mapping[str, Any],
    case: Case,
    tell: Callable[[OrdersEvent], None],
    is_stopped: Callable[[], bool],
) -> OrdersEvent:
    order_map = OrderMap(courses(case.scenario, case.order))
    known = {tuple(each.first) for each in bases(loaded)}
    tell(order_map.event("progress"))
    last_s = time.monotonic()
    async with ModelTheatre() as theatre:
        while (course := order_map.courses.next()) is not None:
            if is_stopped():
                return order_map.event("done", why="stopped")
            rank, items = course
            made = _listed(loaded, request, items) if items in known else case
            one = dataclasses.replace(made, name=f"{case.name} #{rank}", number=rank, items=items)
            history = History(clock_ns=lambda: 0)
            async with theatre.stage(one) as stage:
                own = history.of(one.name)
                begin(own, loaded, one)
                learned = await play_case(one, stage, own)
            own.write("end")
            order_map.courses.learn(rank, learned)
            if learned.infeasible_at is None:
                order_map.see(one, history)
            if time.monotonic() - last_s > _TELL_EVERY_S:
                _tell_all(order_map, tell)
                last_s = time.monotonic()
    _tell_all(order_map, tell)
    return order_map.event("done", why=order_map.courses.counts.limit)


def _listed(loaded: LoadedScenario, request: Mapping[str, Any], items: Sequence[OrderItem]) -> Case:
    """Return the case of a listed order's steps, as it is played on its own, with its expectations."""
    order = [as_item(item) for item in items]
    return chosen(loaded, variant_of({**request, "order": order})).case


def _tell_all(order_map: OrderMap, tell: Callable[[OrdersEvent], None]) -> None:
    tell(order_map.event("progress"))
    for name in order_map.fresh:
        tell(order_map.event("behaviour", behaviour=order_map.behaviours[name]))
    order_map.fresh.clear()
