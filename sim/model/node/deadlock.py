"""Whether a wait is part of a ring of waits that this node sees whole.

A ring through another node is not seen here, as PostgreSQL does not see it.
"""

from __future__ import annotations

from typing import Any


def in_cycle(wait: Any) -> bool:
    """Whether whoever waits waits, by others, for itself; without recursion, since queues are long."""
    start = wait.xact.top
    seen = set()
    stack = list(wait.nearest())
    while stack:
        top = stack.pop()
        if top is start:
            return True
        if top in seen or top.session is None:
            continue
        seen.add(top)
        other = top.session.wait
        if other is not None and other.xact.top is top and not other.event.triggered:
            stack.extend(other.nearest())
    return False
