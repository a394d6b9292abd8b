"""An order's steps, arranged for a replay by a scenario's player.

The rows that a statement uses are unknown before it is executed. A replay that depends on rows therefore keeps the
order of all steps, including deliveries; any other replay delivers nothing before the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from twopc.sim.replay.engine import RecordedTransaction
from twopc.sim.replay.lanes import Sync, mixed_place
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.model import OrderItem, Scenario
from twopc.sim.scenario.steps import OF_AGENTS

StepTransaction = RecordedTransaction[OrderItem]


def recorded_steps(
    items: Sequence[OrderItem], records: Sequence[HistoryRecord], *, speed: float | None
) -> Iterator[StepTransaction]:
    """Yield each item with its recorded time.

    Args:
        speed: multiple of the recorded pace; None to begin a step once the one before has ended or provably waits.
    """
    began = {each.step: each.t_us for each in records if each.kind == "invoke" and each.session}
    first_us = min(began.values(), default=0)
    for number, item in enumerate(items):
        due_us = began.get(item.step or "", first_us) - first_us
        yield RecordedTransaction(
            number=number, node="", work=item, due_s=None if speed is None else due_us / 1e6 / speed
        )


def arranged(scenario: Scenario, items: Sequence[OrderItem], sync: Sync) -> tuple[OrderItem, ...]:
    """Return the items of an order, rearranged unless the order of commits is kept.

    Args:
        items: the items of the recorded order.
    """
    if sync.delivers:
        return tuple(items)
    sessions: dict[str, list[OrderItem]] = {}
    for each in items:
        session = _session_of(scenario, each)
        if session:
            sessions.setdefault(session, []).append(each)
    if sync is Sync.session:
        taken = sorted(sessions, key=mixed_place)
        return tuple(chain.from_iterable(sessions[name] for name in taken))
    transactions = [
        (f"{name} {place}", results)
        for name, own in sessions.items()
        for place, results in enumerate(_transactions(scenario, name, own))
    ]
    transactions.sort(key=lambda each: mixed_place(each[0]))
    return tuple(chain.from_iterable(result for _, result in transactions))


def _session_of(scenario: Scenario, item: OrderItem) -> str:
    """Return the session of an item; empty if the item concerns agents, nodes, faults or waits."""
    if item.rollback is not None:
        return item.rollback
    if item.step is None:
        return ""
    session, step = scenario.steps[item.step]
    of_agents = step.action in OF_AGENTS or step.pause or step.resume
    return "" if of_agents or step.explain is not None else session


def _transactions(
    scenario: Scenario, name: str, items: Sequence[OrderItem]
) -> Iterator[list[OrderItem]]:
    """Yield a session's items, transaction by transaction."""
    if scenario.sessions[name].plain:
        yield [*items]  # a plain session's texts may begin and end transactions anywhere
        return
    results: list[OrderItem] = []
    is_open = False
    for each in items:
        results.append(each)
        action = "rollback" if each.step is None else scenario.steps[each.step][1].action
        is_open = action == "begin" or (is_open and action not in ("commit", "rollback"))
        if not is_open:
            yield results
            results = []
    if results:
        yield results
