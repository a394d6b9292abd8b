"""An agent in a process of its own: until SIGINT or SIGTERM, or until it has to stop.

It must not know how the command line is read.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field

from subscriber.distribution_agent.agent import Delivered, DistributionAgent
from subscriber.distribution_agent.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What an agent needs to run."""

    subscriber: str
    publisher: str
    distribution_dsn: str = field(repr=False)
    subscriber_dsn: str = field(repr=False)
    profile: Profile = field(default_factory=Profile)
    once: bool = False
    """Deliver what there is now, and end."""


def main(config: Config) -> Delivered:
    """Run the agent; what it has delivered.

    Raises:
        DeliveryError: it cannot go on.
        ConfigurationError: there is no such subscription.
    """
    return asyncio.run(_run(config))


async def _run(config: Config) -> Delivered:
    agent = DistributionAgent(
        subscriber=config.subscriber,
        publisher=config.publisher,
        distribution_dsn=config.distribution_dsn,
        subscriber_dsn=config.subscriber_dsn,
        profile=config.profile,
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if not config.once:
        return await agent.run(stop)
    try:
        return await agent.run_once()
    finally:
        await agent.close()
