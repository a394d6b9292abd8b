"""The items of a recorded order, in the order that a replay is to keep. Pure.

Which rows a statement meets nobody knows before it is carried out. So where rows decide, the order of all is kept,
deliveries included; where they do not, nothing is delivered before the end.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import chain

from twopc.sim.scenario.model import OrderItem, Scenario
from twopc.sim.scenario.steps import OF_AGENTS
from twopc.sim.spark.replay.windows import Sync

Items = tuple[OrderItem, ...]


def rearranged(scenario: Scenario, items: Sequence[OrderItem], sync: Sync) -> Items:
    """The same statements, in another order.

    Args:
        items: of the order, as it was recorded.
    """
    if sync.delivers:
        return tuple(items)
    sessions: dict[str, list[OrderItem]] = {}
    for each in items:
        session = _said_by(scenario, each)
        if session:
            sessions.setdefault(session, []).append(each)
    if sync is Sync.session:
        taken = sorted(sessions, key=_mixed)
        return tuple(chain.from_iterable(sessions[name] for name in taken))
    transactions = [
        (f"{name} {place}", found)
        for name, said in sessions.items()
        for place, found in enumerate(_transactions(scenario, name, said))
    ]
    transactions.sort(key=lambda each: _mixed(each[0]))
    return tuple(chain.from_iterable(found for _, found in transactions))


def _mixed(name: str) -> int:
    """A place that has nothing to do with the recording, and is the same each time."""
    return zlib.crc32(name.encode())


def _said_by(scenario: Scenario, item: OrderItem) -> str:
    """Whose item it is; empty if it is about agents, nodes, faults or waits."""
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
    """What one session said, transaction by transaction."""
    if scenario.sessions[name].plain:
        yield [*items]  # its texts may begin and end transactions anywhere
        return
    found: list[OrderItem] = []
    is_open = False
    for each in items:
        found.append(each)
        action = "rollback" if each.step is None else scenario.steps[each.step][1].action
        is_open = action == "begin" or (is_open and action not in ("commit", "rollback"))
        if not is_open:
            yield found
            found = []
    if found:
        yield found
