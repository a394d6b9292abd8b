"""Clocks that are wrong: set forward or back, and running fast or slow, each by itself.

Who measures with such a clock waits longer or shorter than he says. It must not know what for.
"""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """A clock beside virtual time.

    Args:
        now: virtual time in seconds.
        shows: what it shows now, in seconds since 1970.
        rate: seconds that it counts in one second.
    """

    def __init__(self, now: Callable[[], float], *, shows: float = 0.0, rate: float = 1.0) -> None:
        self._now = now
        self._since = now()
        self._shown = shows
        self._rate = rate

    def __call__(self) -> float:
        """What it shows."""
        return self._shown + (self._now() - self._since) * self._rate

    @property
    def rate(self) -> float:
        """Seconds that it counts in one second."""
        return self._rate

    def shift(self, seconds: float) -> None:
        """Set it forward, or back."""
        self._shown += seconds

    def run_at(self, rate: float) -> None:
        """Let it run faster or slower from now on; it shows no other time by that. ValueError: not forward."""
        if rate <= 0:
            raise ValueError(f"a clock that runs at {rate}: it must go forward")
        self._shown, self._since, self._rate = self(), self._now(), rate

    def lasts(self, seconds: float) -> float:
        """How long it really takes until it has counted so many seconds."""
        return seconds / self._rate


def right(seconds: float) -> float:
    """What a clock that runs right takes for so many seconds."""
    return seconds
