"""The Merge Agent as a process: one session at once, and one after each interval."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from twopc.drivers.merge.engine import MergeReport
from twopc.errors import MergeError


async def keep_merging(
    session: Callable[[], Awaitable[MergeReport]],
    stop: asyncio.Event,
    *,
    every_s: float,
    tell: Callable[[MergeReport | MergeError], None],
) -> None:
    """Run sessions until `stop` is set; a session in progress is finished first.

    Args:
        session: runs one session.
        every_s: interval from the end of a session to the next.
        tell: called with a session's report, or with the error that has ended it; the next session continues.

    Raises:
        ConfigurationError: the subscription no longer exists.
    """
    while not stop.is_set():
        try:
            tell(await session())
        except MergeError as error:
            tell(error)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every_s)
