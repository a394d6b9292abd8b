"""A distribution agent in its own process: it runs until SIGINT or SIGTERM, or until an error stops it.

The module must not know how the command line is parsed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from twopc.signals import stop_event
from twopc.subscriber.distribution_agent.agent import AgentProgress, DistributionAgent
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.servers import Servers

#: Seconds that an agent has to stop: it may be waiting for a row lock that another session holds.
_END_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Configuration of an agent's process."""

    subscriber: str
    publisher: str
    distribution_dsn: str = field(repr=False)
    subscriber_dsn: str = field(repr=False)
    profile: Profile | None = None
    """Profile of the agent; None for the profile stored with the subscription."""
    once: bool = False
    """Whether the agent ends once it has delivered the transactions stored so far."""


def main(config: Config, *, running: Callable[[], None] | None = None) -> AgentProgress:
    """Run the agent; return what it has delivered.

    Args:
        running: called as soon as signals stop the agent properly, unless the agent delivers only once.

    Raises:
        DeliveryError: the agent cannot continue.
        ConfigurationError: the subscription does not exist.
    """
    return asyncio.run(_run(config, running))


async def _run(config: Config, announce: Callable[[], None] | None) -> AgentProgress:
    servers = Servers(
        subscriber=config.subscriber,
        publisher=config.publisher,
        distribution_dsn=config.distribution_dsn,
        subscriber_dsn=config.subscriber_dsn,
    )
    agent = DistributionAgent(servers, profile=config.profile)
    stop = stop_event()
    if announce is not None and not config.once:
        announce()
    running = asyncio.ensure_future(agent.run_once() if config.once else agent.run(stop))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((running,), timeout=_END_S)
        # statements already sent may or may not take effect; if not, the next run delivers them
        running.cancel()
        with suppress(asyncio.CancelledError):
            return await running
        return agent.delivered
    finally:
        stopped.cancel()
        await agent.close()
