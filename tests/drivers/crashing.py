"""A coordinator process that can be killed: a program for tests that forks once per order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tests.forking import Ended, Forking, serve
from twopc.drivers import ParticipantAddress, PostgresCoordinator
from twopc.errors import TransactionError
from twopc.sim.topology import Topology


async def work(order: dict[str, Any]) -> str:
    """Open a coordinator, which recovers, and run the statements of a transaction, if any.

    Return ``committed``, or the error's class.

    With several Subscribers, each statement begins with the name of its own: ``sub2: update``.
    """
    subscribers = order["subscribers"]
    coordinator = PostgresCoordinator(
        order["coordinator"],
        distribution=order["distribution"],
        publisher=ParticipantAddress(**order["publisher"]),
        subscribers={name: ParticipantAddress(**found) for name, found in subscribers.items()},
        recovery_interval_s=3600.0,
        in_doubt_after_s=1.0,
    )
    try:
        async with coordinator:
            if len(subscribers) > 1 and order["statements"]:
                async with coordinator.several([*subscribers], **order["options"]) as transaction:
                    for line in order["statements"]:
                        where, _, statement = line.partition(": ")
                        await transaction.at(where).execute(statement)
            elif order["statements"]:
                async with coordinator.transaction("sub1", **order["options"]) as transaction:
                    for statement in order["statements"]:
                        await transaction.execute(statement)
        return "committed"
    except TransactionError as error:
        return type(error).__name__


class Crashing(Forking):
    """The program, as tests use it."""

    def __init__(self) -> None:
        super().__init__("tests.drivers.crashing")

    async def run(
        self,
        topology: Topology,
        *statements: str,
        arm: str = "",
        subscribers: Sequence[str] = ("sub1",),
        **options: str,
    ) -> Ended:
        """Run a topology's coordinator in a process of its own, to the end of the process."""
        order = {
            "coordinator": topology.name,
            "distribution": topology.node("distribution").coordinator_dsn,
            "publisher": asdict(topology.address("pub")),
            "subscribers": {name: asdict(topology.address(name)) for name in subscribers},
            "statements": statements,
            "options": options,
        }
        return await self.order(order, arm)


if __name__ == "__main__":
    serve(lambda order: asyncio.run(work(order)))
