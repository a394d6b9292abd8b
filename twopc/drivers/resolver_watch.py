"""Finds what any client has decided soon after its commit, and hands it on.

A NOTIFY of each commit would be simplest, but a server lets only one transaction that has one commit at a time,
its flush included, and with many clients that is what they all wait for. So a watch that has found something
stays awake and looks every millisecond; only while it sleeps are clients asked to notify. An advisory lock of
the Subscriber's database says which:

- asleep, it holds the lock exclusively; a client that cannot share it at its COMMIT notifies;
- so it does while it is far behind;
- a client that can share it holds it until its commit can be seen, so that nobody falls asleep over it.

Whoever else takes the lock makes us look more often, or clients notify more often; nothing is missed. The lock is a
port: `twopc.drivers.resolver_lock` on servers, `twopc.sim.model.resolver_lock` in virtual time. It must not know what is
found, nor what is done with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

#: The first pause between looks, doubled while nothing is found.
_PACE_S = 0.001
#: From which pause on it tries to fall asleep.
DROWSY_S = 0.016
_PAUSE_MAX_S = 0.064
#: When a look has found so much, clients are held back by having to notify.
_BEHIND = 8


class LockPort(Protocol):
    """The Subscriber's lock, and its clients' notices. Every method may raise `psycopg.Error`."""

    async def try_lock(self) -> bool:
        """Take it if nobody has it; whether it is taken."""
        ...

    async def take(self) -> bool:
        """The same, with some patience: a client may hold it for as long as its end takes, or for no reason."""
        ...

    async def give(self) -> None:
        """Let it go."""
        ...

    async def hear(self, timeout_s: float | None) -> None:
        """Wait for a notice, or for so long; what it says does not matter, as anybody may say it."""
        ...


class ResolverLoop:
    """Looks while there is something to find, and sleeps until it is told of more.

    Args:
        lock: tells clients whether it sleeps.
        look: does what there is to do, and tells how much that was.
    """

    def __init__(self, lock: LockPort, look: Callable[[], Awaitable[int]]) -> None:
        self._lock = lock
        self._look = look

    async def watch(self) -> None:
        """Until it is stopped, or the lock fails, which is let go by that.

        Raises:
            psycopg.Error: the Subscriber cannot be reached.
        """
        lock, pause_s = self._lock, _PACE_S
        while True:
            done = await self._look()
            if done > _BEHIND:
                if await lock.take():
                    while await self._look() > _BEHIND:
                        pass
                    await lock.give()
                pause_s = _PACE_S
            elif done:
                pause_s = _PACE_S
            elif pause_s >= DROWSY_S and await lock.try_lock():
                await self._sleep()
                await lock.give()
                pause_s = _PACE_S
                continue
            else:
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            await lock.hear(pause_s)

    async def _sleep(self) -> None:
        """With the lock, until there is something to find."""
        if not await self._look():  # what was committed before we had the lock
            await self._lock.hear(None)
            await self._look()
