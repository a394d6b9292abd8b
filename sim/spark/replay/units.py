"""Which transactions must keep their order among themselves, and who carries them out. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping


def units(edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Transactions that share keys, directly or through others, are of one unit.

    Args:
        edges: transaction and a key that it touches, both as numbers.

    Returns:
        By transaction its unit, which is called by its first transaction.
    """
    parent: dict[int, int] = {}

    def root(of: int) -> int:
        while parent[of] != of:
            parent[of] = parent[parent[of]]
            of = parent[of]
        return of

    holder: dict[int, int] = {}
    for transaction, key in edges:
        parent.setdefault(transaction, transaction)
        other = holder.setdefault(key, transaction)
        one, two = root(transaction), root(other)
        parent[max(one, two)] = min(one, two)
    return {transaction: root(transaction) for transaction in parent}


def lanes(sizes: Mapping[int, int], count: int) -> list[list[int]]:
    """Units spread over lanes, the largest first, each onto the lane that has least; none is empty.

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
