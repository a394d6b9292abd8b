"""Retries of an agent: how often, and after which wait. The module knows a clock, and no database."""

from __future__ import annotations

from collections.abc import Callable

from twopc.errors import DeliveryError
from twopc.subscriber.distribution_agent.ports import AheadError
from twopc.subscriber.distribution_agent.profile import Profile

_FIRST_RETRY_MS = 100


class RetryPatience:
    """Limits the retries of an agent.

    Args:
        clock: returns seconds from an arbitrary origin.
    """

    def __init__(self, profile: Profile, clock: Callable[[], float]) -> None:
        self.profile = profile
        self._clock = clock
        self._failures = 0
        self._clash = ""
        self._since = 0.0

    def renew(self) -> None:
        """Reset the limits after a success."""
        self._failures, self._clash = 0, ""

    def failed(self, error: Exception, subscriber: str) -> int:
        """Return the time in milliseconds to wait before the next attempt.

        Raises:
            DeliveryError: the attempts are exhausted.
        """
        self._failures += 1
        profile = self.profile
        if self._failures > profile.retry_attempts:
            raise DeliveryError(
                f"{subscriber}: {error}; given up after {profile.retry_attempts} further attempts",
                node=subscriber,
            ) from error
        return int(min(_FIRST_RETRY_MS * 2 ** (self._failures - 1), profile.retry_interval_ms))

    def clash(self, error: AheadError) -> bool:
        """Note a conflict with a change that may be the Subscriber's own; return whether it is a new one."""
        if self._clash == error.seqno:
            return False
        self._clash, self._since = error.seqno, self._clock()
        return True

    @property
    def clash_wait_ms(self) -> float:
        """Milliseconds left to wait for the Subscriber's own change to come through the log."""
        waited = (self._clock() - self._since) * 1000
        return max(0.0, self.profile.barrier_timeout_ms - waited)

    @property
    def is_over(self) -> bool:
        """Whether the wait for the noted conflict has expired."""
        return bool(self._clash) and self.clash_wait_ms == 0.0
