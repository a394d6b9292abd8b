"""Waiting for a condition for a limited time, where the system offers no event to wait for.

This module must not depend on the condition.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

Seen = TypeVar("Seen")

_POLL_S = 0.002


def wait_for(look: Callable[[], Seen], *, what: str, timeout_s: float) -> Seen:
    """Call `look` until it returns a true value, and return that value.

    Raises TimeoutError after `timeout_s`; the message includes `what` and the last result of `look`.
    """
    never_set = threading.Event()
    end = time.monotonic() + timeout_s
    while True:
        seen = look()
        if seen:
            return seen
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}; last seen: {seen!r}")
        never_set.wait(_POLL_S)
