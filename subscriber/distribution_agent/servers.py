"""Environment of a distribution agent on servers: an asyncio event loop, and connections to two databases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.source import ServerSource
from twopc.subscriber.distribution_agent.target import ServerTarget


class Servers:
    """See `twopc.subscriber.distribution_agent.ports.WorldPort`.

    Args:
        subscriber, publisher: node names.
        distribution_dsn, subscriber_dsn: connection strings of the agent's role at either database.
    """

    def __init__(
        self, *, subscriber: str, publisher: str, distribution_dsn: str, subscriber_dsn: str
    ) -> None:
        self.subscriber = subscriber
        self.publisher = publisher
        self._distribution_dsn = distribution_dsn
        self._subscriber_dsn = subscriber_dsn
        self.news = asyncio.Event()

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    async def wait(self, signals: Sequence[Any], timeout_s: float) -> None:
        """See `WorldPort.wait`; the signals are asyncio events."""
        if any(signal.is_set() for signal in signals):
            return
        waiting = [asyncio.ensure_future(signal.wait()) for signal in signals]
        try:
            await self.first(waiting, timeout_s)
        finally:
            for each in waiting:
                each.cancel()

    async def first(self, pending: Sequence[Any], timeout_s: float) -> None:
        """See `WorldPort.first`; the groups are asyncio futures."""
        await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)

    async def source(self, profile: Profile | None) -> ServerSource:
        return await ServerSource.open(
            self._distribution_dsn,
            publisher=self.publisher,
            subscriber=self.subscriber,
            profile=profile,
            news=self.news,
        )

    async def target(self, publisher_db: str, profile: Profile) -> ServerTarget:
        return await ServerTarget.open(
            self._subscriber_dsn,
            publisher=self.publisher,
            publisher_db=publisher_db,
            subscriber=self.subscriber,
            profile=profile,
        )
