"""The sessions of a node by `application_name`."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twopc.sim.model.node.session import NodeSession


class SessionNames:
    """The sessions of a node by `application_name`; notifies the search.

    Code that reads or ends sessions counts as the writer of their list, so that sessions that begin and end depend on
    that code and not on each other.

    Args:
        notify: notifies the search; see `twopc.sim.model.node.node.ModelNode.notify_access`.
    """

    def __init__(self, notify: Callable[..., None]) -> None:
        self._notify = notify
        self._by_name: dict[str, dict[int, NodeSession]] = {}

    def add(self, session: NodeSession) -> None:
        """Add a session that begins."""
        self._notify_session(session)
        self._by_name.setdefault(session.application_name, {})[session.pid] = session

    def remove(self, session: NodeSession) -> None:
        """Remove a session that has ended; idempotent."""
        self._notify_session(session)
        self._by_name.get(session.application_name, {}).pop(session.pid, None)

    def clear(self) -> None:
        """Remove all sessions: the node has crashed."""
        for name in self._by_name:
            self._notify(f"sessions {name}", changed=True)
        self._notify("sessions", changed=True)
        self._by_name.clear()

    def find(self, *names: str) -> list[NodeSession]:
        """Return the sessions with these names, each once, by process id."""
        for name in names:
            self._notify(f"sessions {name}", changed=True)
        return sorted(
            (one for name in set(names) for one in self._by_name.get(name, {}).values()),
            key=attrgetter("pid"),
        )

    def _notify_session(self, session: NodeSession) -> None:
        for what in ("sessions", f"sessions {session.application_name}"):
            self._notify(what, changed=False)
