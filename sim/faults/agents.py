"""A distribution agent in a process of its own, which works on request and halts at protocol points."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from twopc import log
from twopc.errors import DeliveryError
from twopc.sim.faults.call_server import CallServer
from twopc.sim.faults.plans import FaultPlace
from twopc.sim.faults.remote import DeadError, RemoteProcess
from twopc.subscriber.distribution_agent import AgentProgress, DistributionAgent, Profile, Servers


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSetup:
    """The arguments of an agent's process."""

    subscriber: str
    publisher: str
    distribution_dsn: str = field(repr=False)
    subscriber_dsn: str = field(repr=False)
    profile: Profile | None
    armed: tuple[tuple[str, FaultPlace], ...] = ()
    """Armed faults with their places, by id."""


class _AgentServer(CallServer):
    def __init__(self, setup: AgentSetup, calls: Connection, halts: Connection) -> None:
        super().__init__(setup.armed, calls, halts)
        servers = Servers(
            subscriber=setup.subscriber,
            publisher=setup.publisher,
            distribution_dsn=setup.distribution_dsn,
            subscriber_dsn=setup.subscriber_dsn,
        )
        self._agent = DistributionAgent(servers, profile=setup.profile, points=self._points)

    def _serving(self) -> AbstractAsyncContextManager[Any]:
        stack = AsyncExitStack()
        stack.push_async_callback(self._agent.close)
        return stack

    async def _run_once(self, _: str, final: bool) -> AgentProgress:
        return await self._agent.run_once(final=final)


def serve_agent(setup: AgentSetup, calls: Connection, halts: Connection) -> None:
    """Run the agent's process."""
    log.configure(level="error", layout="text")
    asyncio.run(_AgentServer(setup, calls, halts).run())


class RemoteAgent:
    """An agent that a topology drives; if its process has died, the next call uses a new one.

    Args:
        living: returns a running process for a Subscriber.
    """

    def __init__(self, subscriber: str, living: Callable[[str], Awaitable[RemoteProcess]]) -> None:
        self._subscriber = subscriber
        self._living = living
        self._process: RemoteProcess | None = None

    async def run_once(self, *, final: bool = True) -> AgentProgress:
        """Deliver everything that is stored. Raises DeliveryError, also if the process dies."""
        process = self._process = await self._living(self._subscriber)
        try:
            delivered = await process.call("", "run_once", final)
        except DeadError:
            raise DeliveryError(
                f"the agent of {self._subscriber} was killed",
                node=self._subscriber,
                sqlstate="08006",
            ) from None
        assert isinstance(delivered, AgentProgress)
        return delivered

    async def close(self) -> None:
        """End the process; idempotent."""
        if self._process is not None:
            await self._process.end()
