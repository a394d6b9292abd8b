"""Which row a transaction is about: keys by a distribution, drawn from a chance that is handed in.

Keys are the numbers from 1 on. The lower ones are the hotter ones, but for `Latest`.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from itertools import accumulate
from typing import Protocol

#: How much hotter the newest rows are, where the newest are picked: YCSB's constant.
LATEST_THETA = 0.99


class Picker(Protocol):
    """Picks keys."""

    def pick(self, chance: random.Random) -> int:
        """One, from 1 on."""
        ...

    def made(self, key: int) -> None:
        """A row with this key is there now."""
        ...


class Uniform:
    """Every row alike."""

    def __init__(self, count: int) -> None:
        self._count = count

    def pick(self, chance: random.Random) -> int:
        """Any."""
        return chance.randrange(self._count) + 1

    def made(self, key: int) -> None:
        """Rows that are new are not picked."""


class Zipfian:
    """The row of rank `n` as often as 1/n^theta says.

    Below 1 by the formula of Gray and others that YCSB uses, which needs no table; from 1 on by a table.
    """

    def __init__(self, count: int, theta: float) -> None:
        self._count = count
        self._theta = theta
        weights = [1 / rank**theta for rank in range(1, count + 1)]
        self._zeta = sum(weights)
        self._table = list(accumulate(weights)) if theta >= 1 else []
        if theta < 1:
            zeta_2 = sum(weights[:2])
            self._alpha = 1 / (1 - theta)
            self._eta = (
                (1 - (2 / count) ** (1 - theta)) / (1 - zeta_2 / self._zeta) if count > 2 else 0.0
            )

    def pick(self, chance: random.Random) -> int:
        """A low one, most often."""
        drawn = chance.random()
        if self._table:
            return min(bisect_left(self._table, drawn * self._zeta) + 1, self._count)
        scaled = drawn * self._zeta
        if scaled < 1:
            return 1
        if scaled < 1 + 0.5**self._theta or self._count == 2:
            return min(2, self._count)
        rank = self._count * (self._eta * drawn - self._eta + 1) ** self._alpha
        return min(int(rank) + 1, self._count)

    def made(self, key: int) -> None:
        """Rows that are new are not picked."""


class Latest:
    """The newest rows most, those that the load makes among them."""

    def __init__(self, count: int) -> None:
        self._newest = count
        self._back = Zipfian(count, LATEST_THETA)

    def pick(self, chance: random.Random) -> int:
        """A new one, most often."""
        return max(1, self._newest + 1 - self._back.pick(chance))

    def made(self, key: int) -> None:
        """It is the newest, unless a newer one is there."""
        self._newest = max(self._newest, key)


class Hotspot:
    """Some rows take most of the accesses.

    Args:
        rows: the share of the rows that is hot.
        accesses: the share of the accesses that goes there.
    """

    def __init__(self, count: int, rows: float, accesses: float) -> None:
        self._count = count
        self._hot = min(max(1, round(count * rows)), count)
        self._accesses = accesses

    def pick(self, chance: random.Random) -> int:
        """One of the hot ones, or of the others."""
        if chance.random() < self._accesses or self._hot == self._count:
            return chance.randrange(self._hot) + 1
        return self._hot + chance.randrange(self._count - self._hot) + 1

    def made(self, key: int) -> None:
        """Rows that are new are not picked."""


def picker(how: str, count: int) -> Picker:
    """By what a file says: ``uniform``, ``latest``, ``zipfian 0.9``, ``hotspot 20%/80%``."""
    word, _, rest = how.partition(" ")
    if word == "zipfian":
        return Zipfian(count, float(rest))
    if word == "hotspot":
        rows, accesses = (float(each.strip().rstrip("%")) / 100 for each in rest.split("/"))
        return Hotspot(count, rows, accesses)
    return Latest(count) if word == "latest" else Uniform(count)
