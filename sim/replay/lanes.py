"""Which transactions keep their order among themselves, and in which lane each is carried out. Pure."""

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
    """Which transactions keep the order in which they were committed."""

    commit = "commit"
    """All."""
    rows = "rows"
    """Those that share a row, directly or through others."""
    session = "session"
    """Those of the same session; of an archive, those that were made at the same node."""
    off = "off"
    """None."""

    @property
    def delivers(self) -> bool:
        """A Subscriber has the Publisher's rows before a transaction of it begins."""
        return self in (Sync.commit, Sync.rows)


def lanes(
    sync: Sync,
    transactions: Sequence[Recorded],
    count: int,
    *,
    touches: Iterable[tuple[int, int]] | None = None,
) -> list[list[Recorded]]:
    """Each lane's transactions, with their units, in the order in which they are carried out.

    Args:
        transactions: in the order of their commits.
        count: at most so many lanes.
        touches: a transaction's number and a row, for each row; None: nobody knows them, so all keep their order.
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
    """A place that does not depend on the recording, and is the same each time."""
    return zlib.crc32(name.encode())


def units(touches: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Transactions that share rows, directly or through others, are of one unit.

    Args:
        touches: transaction and a row, both as numbers.

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
    """Units spread over lanes, the largest first, each onto the shortest lane; no lane is empty.

    Args:
        sizes: how many transactions a unit has.
        count: at most so many lanes.
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
