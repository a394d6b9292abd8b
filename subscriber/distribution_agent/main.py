"""An agent in a process of its own: until SIGINT or SIGTERM, or until it has to stop.

It must not know how the command line is read.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from twopc.subscriber.distribution_agent.agent import AgentProgress, DistributionAgent
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.servers import Servers

#: How long an agent that is told to stop may take: it may wait for a row that somebody holds.
_END_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What an agent needs to run."""

    subscriber: str
    publisher: str
    distribution_dsn: str = field(repr=False)
    subscriber_dsn: str = field(repr=False)
    profile: Profile | None = None
    """None: the one that is kept with the subscription."""
    once: bool = False
    """Deliver what there is now, and end."""


def main(config: Config, *, running: Callable[[], None] | None = None) -> AgentProgress:
    """Run the agent; what it has delivered.

    Args:
        running: called as soon as a signal ends it in order, unless it delivers but once.

    Raises:
        DeliveryError: it cannot go on.
        ConfigurationError: there is no such subscription.
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
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if announce is not None and not config.once:
        announce()
    running = asyncio.ensure_future(agent.run_once() if config.once else agent.run(stop))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait((running,), timeout=_END_S)
        # what was sent already is done or not; if not, it is delivered another time
        running.cancel()
        with suppress(asyncio.CancelledError):
            return await running
        return agent.delivered
    finally:
        stopped.cancel()
        await agent.close()
