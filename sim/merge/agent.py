"""The Merge Agent as a process: a session now, and one after each interval."""

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
    """Run sessions until `stop` is set, at whose end the session under way is finished.

    Args:
        session: runs one.
        every_s: from the end of a session to the next.
        tell: gets what a session has done, or why it has ended early; the next continues.

    Raises:
        ConfigurationError: the subscription is not there any more.
    """
    while not stop.is_set():
        try:
            tell(await session())
        except MergeError as error:
            tell(error)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every_s)
