"""Delivery of a target's commits to its Subscribers while transactions are replayed.

The log reader and agents either run in other processes already, or run here for the duration of the replay. Tasks
of a replay therefore never read the log, and many of them can wait for a delivery at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from twopc.drivers.runtime import Asyncio
from twopc.errors import DeliveryError
from twopc.lsn import lsn_value
from twopc.publisher.log_reader.wal import LOG_READERS
from twopc.publisher.posted_messages import stored_message
from twopc.sim.replay.topology import TopologyAddress
from twopc.sim.topology import Topology
from twopc.sim.topology.blocking_twin import blocking

#: Timeout for agents of other processes at the end.
DELIVERED_WITHIN_S = 60.0
#: Polling interval: agents of other processes do not notify this one.
LOOK_EVERY_S = 0.005


async def runs_elsewhere(topology: Topology) -> bool:
    """Return whether a process is reading the Publisher's log now."""
    slot = await topology.registration.slot()
    return bool(await topology.execute(topology.publisher, LOG_READERS, (slot,)))


@contextmanager
def delivering(address: TopologyAddress) -> Iterator[Callable[[], object]]:
    """Deliver within the block what is committed.

    Yields:
        A function that returns once everything committed by then is delivered; see `deliver`.

    Raises:
        ConfigurationError: a node cannot be reached, or there is no subscription.
    """
    if asyncio.run(_is_log_read(address)):
        yield partial(deliver, address)
        return
    with blocking(asyncio.run(address.attach())) as topology:
        topology.start_agents()
        yield topology.sync


async def _is_log_read(address: TopologyAddress) -> bool:
    async with await address.attach() as topology:
        return await runs_elsewhere(topology)


def deliver(address: TopologyAddress) -> None:
    """Return once everything that is committed now has been delivered.

    Raises:
        DeliveryError: a change cannot be applied, or agents of other processes do not deliver in time.
    """

    async def go() -> None:
        async with await address.attach() as topology:
            if await runs_elsewhere(topology):
                await _wait(topology, await topology.agents.subscribers())
            else:
                await topology.sync()

    asyncio.run(go())


async def _wait(topology: Topology, subscribers: Sequence[str]) -> None:
    """Wait until a tracer token that is posted now has reached all Subscribers."""
    clock = Asyncio()
    until = clock.time() + DELIVERED_WITHIN_S
    token: Any = await topology.post_tracer_token()
    distribution = await topology.admin(topology.distribution)
    left, seqno = set(subscribers), None
    while left:
        seqno = seqno or await stored_message(distribution, topology.publisher, token)
        if seqno is not None:
            for name in tuple(left):
                if lsn_value(await topology.registration.position(name)) >= lsn_value(seqno):
                    left.discard(name)
        if clock.time() > until:
            raise DeliveryError(
                f"{', '.join(sorted(left))} did not get everything within {DELIVERED_WITHIN_S:g} s. The log is "
                "read by another process: do the agents run too? `twopc status` says how far they are"
            )
        await clock.sleep(LOOK_EVERY_S)
