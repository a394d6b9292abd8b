"""Keys of the rows that transactions use, drawn from a distribution with a random source of the caller's.

Keys are the numbers from 1 on. Lower keys are picked more often, except by `Latest`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from bisect import bisect_left
from itertools import accumulate

#: Skew with which `Latest` prefers the newest rows: YCSB's constant.
LATEST_THETA = 0.99


class Picker(ABC):
    """A distribution of keys."""

    @abstractmethod
    def pick(self, chance: random.Random) -> int:
        """Return a key, from 1 on."""

    def made(self, key: int) -> None:  # noqa: B027 - most distributions pick only initial rows
        """Note that a row with this key has been inserted."""


class Uniform(Picker):
    """Picks every row with the same probability."""

    def __init__(self, count: int) -> None:
        self._count = count

    def pick(self, chance: random.Random) -> int:
        """Return any of the keys."""
        return chance.randrange(self._count) + 1


class Zipfian(Picker):
    """Picks the row of rank `n` with a probability proportional to 1/n^theta.

    For theta below 1, uses the formula of Gray and others, as YCSB does, which needs no table; from 1 on, uses a
    table.
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
        """Return a key, most often a low one."""
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


class Latest(Picker):
    """Picks the newest rows most often, including rows that the load inserts."""

    def __init__(self, count: int) -> None:
        self._newest = count
        self._back = Zipfian(count, LATEST_THETA)

    def pick(self, chance: random.Random) -> int:
        """Return a key, most often a recent one."""
        return max(1, self._newest + 1 - self._back.pick(chance))

    def made(self, key: int) -> None:
        """Note the new row as the newest one, unless a newer one exists."""
        self._newest = max(self._newest, key)


class Hotspot(Picker):
    """Picks a small share of the rows for most of the accesses.

    Args:
        rows: the share of the rows that is hot.
        accesses: the share of the accesses that hot rows receive.
    """

    def __init__(self, count: int, rows: float, accesses: float) -> None:
        self._count = count
        self._hot = min(max(1, round(count * rows)), count)
        self._accesses = accesses

    def pick(self, chance: random.Random) -> int:
        """Return a hot key with the probability `accesses`, else one of the other keys."""
        if chance.random() < self._accesses or self._hot == self._count:
            return chance.randrange(self._hot) + 1
        return self._hot + chance.randrange(self._count - self._hot) + 1


def picker(how: str, count: int) -> Picker:
    """Return the distribution that a file names: ``uniform``, ``latest``, ``zipfian 0.9``, ``hotspot 20%/80%``."""
    word, _, rest = how.partition(" ")
    if word == "zipfian":
        return Zipfian(count, float(rest))
    if word == "hotspot":
        rows, accesses = (float(each.strip().rstrip("%")) / 100 for each in rest.split("/"))
        return Hotspot(count, rows, accesses)
    return Latest(count) if word == "latest" else Uniform(count)
