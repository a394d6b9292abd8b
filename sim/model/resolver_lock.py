"""The lock by which clients know whether the resolver sleeps, and its notifications, in virtual time.

`twopc.drivers.resolver_watch` decides when the lock is taken.
"""

from __future__ import annotations

from collections.abc import Callable

import simpy

from twopc.drivers.resolver_watch import DROWSY_S
from twopc.drivers.virtual import awaited
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession

#: Delay of a notification in seconds.
_NOTICE_S = 0.001


class ModelResolverLock:
    """See `twopc.drivers.resolver_watch.LockPort`. Here only clients at their commits share the lock.

    Args:
        node: the Subscriber.
        prefix: beginning of the gids of its clients' transactions.
        pause: returns an event after a time; a search may end a pause that is `awake` at any moment.
        notify: called when the state of the lock was read or has changed.
    """

    def __init__(
        self, node: ModelNode, prefix: str, pause: Callable[..., simpy.Event],
        notify: Callable[..., None],
    ) -> None:  # fmt: skip
        self._node = node
        self._prefix = prefix
        self._pause = pause
        self._notify = notify
        self._notice = node.kernel.event()
        self.is_taken = False
        node.on_notice = self.ring

    def ring(self) -> None:
        """Wake the resolver after a commit that notified."""
        self._notify(changed=True)
        if not self._notice.triggered:
            self._notice.succeed()

    async def try_lock(self) -> bool:
        self._notify(changed=True)
        self.is_taken = not any(
            one.tx is not None
            and one.tx.ending
            and (one.tx.setting("msrepl.gid") or "").startswith(self._prefix)
            for one in sessions_of(self._node)
        )
        return self.is_taken

    async def take(self) -> bool:
        """See `LockPort`; does not wait."""
        return await self.try_lock()

    async def give(self) -> None:
        self._notify(changed=True)
        self.is_taken = False

    async def hear(self, timeout_s: float | None) -> None:
        self._notify(changed=True)
        kernel = self._node.kernel
        if timeout_s is None:
            await awaited(self._notice)
        else:
            timer = self._pause(timeout_s, "look", awake=timeout_s <= DROWSY_S)
            await awaited(simpy.AnyOf(kernel.env, [self._notice, timer]))
            kernel.cancel(timer)
        if self._notice.triggered:
            self._notice = kernel.event()
            await awaited(self._pause(_NOTICE_S, "look", awake=True))


def sessions_of(node: ModelNode) -> list[NodeSession]:
    """Return all sessions of a node; the search is notified that each of them is read."""
    results = [*node.sessions.values()]
    if node.kernel.record_access is not None:
        for what in ("sessions", *(one.search_name for one in results)):
            node.notify_access(what, changed=True)  # see `PreparedTransaction.notify_change`
    return results
