"""Division of transactions into units that keep their order, and of units into lanes. Without I/O."""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeVar

from twopc.sim.replay.engine import RecordedTransaction

Recorded = TypeVar("Recorded", bound=RecordedTransaction[Any])


class Sync(StrEnum):
    """The transactions that keep the order in which they were committed."""

    commit = "commit"
    """All transactions."""
    rows = "rows"
    """Transactions that share a row, directly or through other transactions."""
    session = "session"
    """Transactions of the same session; in an archive, those made at the same node."""
    off = "off"
    """No transactions."""

    @property
    def delivers(self) -> bool:
        """Whether a Subscriber receives the Publisher's rows before a transaction begins there."""
        return self in (Sync.commit, Sync.rows)


def lanes(
    sync: Sync,
    transactions: Sequence[Recorded],
    count: int,
    *,
    touches: Iterable[tuple[int, int]] | None = None,
) -> list[list[Recorded]]:
    """Return the transactions of each lane, with their units, in the order of execution.

    Args:
        transactions: in the order of their commits.
        count: the greatest number of lanes.
        touches: pairs of a transaction's number and a row; None if unknown, so that all transactions keep their
            order.
    """
    if sync is Sync.off:
        mixed = sorted(transactions, key=lambda each: mixed_place(str(each.number)))
        results: list[list[Recorded]] = [[] for _ in range(count)]
        for each in mixed:
            lane = results[mixed_place(str(each.number)) % count]
            lane.append(replace(each, unit=each.number))
        return [lane for lane in results if lane]
    if sync is Sync.session:
        firsts: dict[str, int] = {}
        of = {each.number: firsts.setdefault(each.session, each.number) for each in transactions}
    elif sync is Sync.rows and touches is not None:
        of = {each.number: each.number for each in transactions} | units(touches)
    else:
        of = {each.number: transactions[0].number for each in transactions}
    taken = spread(Counter(of.values()), count)
    lane_of = {unit: lane for lane, of_lane in enumerate(taken) for unit in of_lane}
    results = [[] for _ in taken]
    for each in transactions:
        unit = of[each.number]
        results[lane_of[unit]].append(replace(each, unit=unit))
    return results


def mixed_place(name: str) -> int:
    """Return a sort key that is independent of the recording's order and the same in every replay."""
    return zlib.crc32(name.encode())


def units(touches: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the unit of each transaction: transactions that share rows, directly or indirectly, form a unit.

    Args:
        touches: pairs of a transaction and a row, both as numbers.

    Returns:
        The unit of each transaction, which is the number of the unit's first transaction.
    """
    parent: dict[int, int] = {}

    def root(of: int) -> int:
        while parent[of] != of:
            parent[of] = parent[parent[of]]
            of = parent[of]
        return of

    holder: dict[int, int] = {}
    for transaction, row in touches:
        parent.setdefault(transaction, transaction)
        other = holder.setdefault(row, transaction)
        one, two = root(transaction), root(other)
        parent[max(one, two)] = min(one, two)
    return {transaction: root(transaction) for transaction in parent}


def spread(sizes: Mapping[int, int], count: int) -> list[list[int]]:
    """Distribute units over lanes, the largest first, each to the shortest lane; return the lanes in use.

    Args:
        sizes: the number of transactions of each unit.
        count: the greatest number of lanes.
    """
    if count < 1:
        raise ValueError("there is no lane")
    made: list[list[int]] = [[] for _ in range(count)]
    free = [(0, lane) for lane in range(count)]
    for unit in sorted(sizes, key=lambda each: (-sizes[each], each)):
        load, lane = heapq.heappop(free)
        made[lane].append(unit)
        heapq.heappush(free, (load + sizes[unit], lane))
    return [lane for lane in made if lane]
