"""Waiting for a condition for a bounded time, where the system offers no event to wait for.

It must not know what it is waiting for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

_EVERY_S = 0.002


def wait_for(look: Callable[[], Seen], *, what: str, timeout_s: float) -> Seen:
    """Call `look` until it returns something true, and return that.

    Raises TimeoutError after `timeout_s` with `what` was awaited and what `look` returned last.
    """
    never_set = threading.Event()
    end = time.monotonic() + timeout_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}; last seen: {seen!r}")
        never_set.wait(_EVERY_S)
