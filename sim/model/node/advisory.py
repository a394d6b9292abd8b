"""Advisory locks that are free: taken by a session or a transaction, seen by who tries.

Only keys without waiting (pg_try_advisory_*, and plain ones that find the key free) are known.
"""

from __future__ import annotations

from typing import Any

from twopc.sim.model.node.transactions import TopXact


class Advisory:
    """Who has which key."""

    def __init__(self) -> None:
        self._held: dict[int, list[Any]] = {}

    def take(self, key: int, session: Any, top: TopXact | None) -> bool:
        """For a transaction, or for the session if `top` is None; False if somebody else has it."""
        holders = self._held.setdefault(key, [])
        if any(self._whose(holder) is not session for holder in holders):
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
        """Whether the session had it."""
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
    def _whose(holder: Any) -> Any:
        return holder.session if isinstance(holder, TopXact) else holder

    def over(self, top: TopXact) -> None:
        """A transaction is over."""
        for key in top.advisory:
            holders = [holder for holder in self._held.get(key, []) if holder is not top]
            self._replace(key, holders)

    def session_gone(self, session: Any) -> None:
        """A session is over."""
        for key in session.session_locks:
            self._replace(key, [h for h in self._held.get(key, []) if h is not session])

    def _replace(self, key: int, holders: list[Any]) -> None:
        if holders:
            self._held[key] = holders
        else:
            self._held.pop(key, None)
