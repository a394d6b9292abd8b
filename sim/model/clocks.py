"""Clocks that are wrong, each independently: set forward or back, running fast or slow.

A timeout measured with such a clock is longer or shorter than intended.
"""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """A clock with its own offset and rate relative to virtual time.

    Args:
        now: virtual time in seconds.
        shows: its present reading, in seconds since 1970.
        rate: seconds that it counts in one second of virtual time.
    """

    def __init__(self, now: Callable[[], float], *, shows: float = 0.0, rate: float = 1.0) -> None:
        self._now = now
        self._since = now()
        self._shown = shows
        self._rate = rate

    def __call__(self) -> float:
        """Return the reading of the clock."""
        return self._shown + (self._now() - self._since) * self._rate

    @property
    def rate(self) -> float:
        """Seconds that the clock counts in one second of virtual time."""
        return self._rate

    def shift(self, seconds: float) -> None:
        """Set the clock forward, or back if negative."""
        self._shown += seconds

    def lasts(self, seconds: float) -> float:
        """Return the virtual time in which the clock counts this many seconds."""
        return seconds / self._rate


def right(seconds: float) -> float:
    """Return the virtual time in which a clock without error counts this many seconds."""
    return seconds
