"""Advisory locks of sessions and transactions.

A request never waits: it is one of pg_try_advisory_*, or a pg_advisory_lock that finds the key free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopc.sim.model.node.transactions import TopXact


class Advisory:
    """The advisory locks of a node: the holders of each key.

    Args:
        notify: called with each use, to notify the search.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._held: dict[int, list[Any]] = {}

    def take(self, key: int, session: Any, top: TopXact | None) -> bool:
        """Take a key for a transaction, or for the session if `top` is None; False if another session holds it."""
        self._notify()
        holders = self._held.setdefault(key, [])
        if any(self._session_of(holder) is not session for holder in holders):
            return False
        holders.append(session if top is None else top)
        if top is not None:
            top.advisory.add(key)
            if session in holders:
                top.held.add("advisory")
        else:
            session.session_locks.add(key)
            tx = session.tx
            if tx is not None and key in tx.top.advisory:
                tx.top.held.add("advisory")
        return True

    def give(self, key: int, session: Any) -> bool:
        """Release a session's lock; whether the session held it."""
        self._notify()
        holders = self._held.get(key, [])
        if session not in holders:
            return False
        holders.remove(session)
        if session not in holders:
            session.session_locks.discard(key)
        if not holders:
            self._held.pop(key, None)
        return True

    @staticmethod
    def _session_of(holder: Any) -> Any:
        return holder.session if isinstance(holder, TopXact) else holder

    def over(self, top: TopXact) -> None:
        """Release the locks of a transaction that has ended."""
        for key in top.advisory:
            holders = [holder for holder in self._held.get(key, []) if holder is not top]
            self._replace(key, holders)

    def session_gone(self, session: Any) -> None:
        """Release the locks of a session that has ended."""
        for key in session.session_locks:
            self._replace(key, [h for h in self._held.get(key, []) if h is not session])

    def _replace(self, key: int, holders: list[Any]) -> None:
        self._notify()
        if holders:
            self._held[key] = holders
        else:
            self._held.pop(key, None)
