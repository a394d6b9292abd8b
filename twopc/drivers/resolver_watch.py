"""Detection of decisions of any client soon after the commit.

A NOTIFY of each commit would be simplest, but a server allows only one transaction with a notification to commit at
a time, including its flush, so with many clients all of them would wait for each other. Therefore a loop that has
found a decision stays awake and checks every millisecond; clients must notify only while it is asleep. An advisory
lock of the Subscriber's database indicates the state:

- asleep, the loop holds the lock exclusively; a client that cannot share the lock at its COMMIT notifies; - the
loop also holds the lock while it is far behind; - a client that can share the lock holds it until its commit is
visible, so that the loop cannot fall asleep before.

If other roles take the lock, the loop checks more often, or clients notify more often; no decision is missed. The
lock is a port: `twopc.drivers.resolver_lock` on servers, `twopc.sim.model.resolver_lock` in virtual time. This
module must not depend on what is found, nor on how it is finished.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

#: The first pause between two checks, doubled while nothing is found.
_PAUSE_MIN_S = 0.001
#: Pause from which on the loop tries to fall asleep.
DROWSY_S = 0.016
_PAUSE_MAX_S = 0.064
#: If a check finds more than this, clients are slowed down by having to notify.
_BEHIND = 8


class LockPort(Protocol):
    """Interface to the Subscriber's lock, and its clients' notifications. Every method may raise `psycopg.Error`."""

    async def try_lock(self) -> bool:
        """Take the lock if it is free; return whether it was taken."""
        ...

    async def take(self) -> bool:
        """Take the lock, waiting for a short time if a client holds it; return whether it was taken."""
        ...

    async def give(self) -> None:
        """Release the lock."""
        ...

    async def hear(self, timeout_s: float | None) -> None:
        """Wait for a notification, or for the timeout; the payload is ignored, because any role may notify."""
        ...


class ResolverLoop:
    """Checks for decisions while there are any, and otherwise sleeps until notified.

    Args:
        lock: indicates to clients whether the loop is asleep.
        look: finishes decided branches, and returns their number.
    """

    def __init__(self, lock: LockPort, look: Callable[[], Awaitable[int]]) -> None:
        self._lock = lock
        self._look = look

    async def watch(self) -> None:
        """Run until cancelled, or until the connection fails, which releases the lock.

        Raises:
            psycopg.Error: the Subscriber cannot be reached.
        """
        lock, pause_s = self._lock, _PAUSE_MIN_S
        while True:
            done = await self._look()
            if done > _BEHIND:
                if await lock.take():
                    while await self._look() > _BEHIND:
                        pass
                    await lock.give()
                pause_s = _PAUSE_MIN_S
            elif done:
                pause_s = _PAUSE_MIN_S
            elif pause_s >= DROWSY_S and await lock.try_lock():
                await self._sleep()
                await lock.give()
                pause_s = _PAUSE_MIN_S
                continue
            else:
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            await lock.hear(pause_s)

    async def _sleep(self) -> None:
        """Sleep, holding the lock, until there is a decision."""
        if not await self._look():  # commits from before the lock was taken
            await self._lock.hear(None)
            await self._look()
