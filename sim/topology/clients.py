"""Clients that commit without a coordinator: which may write, and which process finishes their transactions.

Of global transactions, only the format of their names is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.resolver_servers import ResolverSite, ServerResolver
from twopc.errors import ConfigurationError, InDoubtError
from twopc.names import role
from twopc.protocol import VARIANTS
from twopc.sim.topology.registration import Registration
from twopc.sim.topology.wiring import TopologyWiring
from twopc.subscriber import any_client
from twopc.subscriber.any_client import AnyClient

_LAST_AGENT = next(name for name, variant in VARIANTS.items() if variant.last_agent)


class AnyClients:
    """Allows any client to write, and runs the resolvers that finish the Publisher's branches."""

    def __init__(self, wiring: TopologyWiring, registration: Registration) -> None:
        self._wiring = wiring
        self._registration = registration
        self._starting = asyncio.Lock()
        self.resolvers: dict[str, ServerResolver] = {}
        """Running resolvers, by Subscriber."""

    async def allow(self, *subscribers: str, resolve: bool = True) -> None:
        """Allow any client to change subscribed tables, and run the Subscribers' resolvers.

        A client's own COMMIT prepares the Publisher's branch and is the decision. A change that the Publisher
        refuses fails with its SQLSTATE, at the statement (or, with ``msrepl.shipping = 'lazy'``, at the COMMIT).

        Args:
            subscribers: none: all that subscribe with immediate updating.
            resolve: False: the resolver runs in another process (`twopc resolver`).

        Raises:
            ConfigurationError: there is no such Subscriber, or none at all.
            SubscriptionError: a node does not subscribe.
        """
        for name in subscribers or await self._updating():
            here = await self._wiring.admin(self._subscriber(name))
            await any_client.check_subscribed(here)
            known = await any_client.any_client_of(here)
            if known is None:
                coordinator = f"{self._wiring.name}.{name}"
                # no session writes for this epoch: there is no process that could decide
                rows = await self._wiring.execute(
                    self._wiring.distribution,
                    "insert into msrepl.coordinator_epoch (coordinator, variant) values (%s, %s) returning epoch",
                    (coordinator, _LAST_AGENT),
                )
                known = AnyClient(coordinator=coordinator, epoch=rows[0][0])
            known = await any_client.allow(here, known)
            if resolve:
                await self._start_resolver(name, known)

    async def forbid(self, *subscribers: str) -> None:
        """Restrict changes of subscribed tables to global transactions again; finish the transactions in progress.

        Raises:
            LockTimeoutError: a client's transaction does not end; nothing was changed at that Subscriber.
            InDoubtError: a branch stays prepared.
        """
        names = subscribers or await self._updating()
        for name in names:
            known = await any_client.forbid(await self._wiring.admin(self._subscriber(name)))
            if known is not None:
                await self._start_resolver(name, known)  # to finish decided transactions
        await self.resolve(asyncio.get_running_loop().time() + 10)
        for name in names:
            resolver = self.resolvers.pop(name, None)
            if resolver is not None:
                await resolver.close()

    async def start(self) -> None:
        """Run the resolver of every Subscriber where any client may write; idempotent."""
        for name, known in (await self.subscribers()).items():
            await self._start_resolver(name, known)

    async def subscribers(self) -> dict[str, AnyClient]:
        """Return the Subscribers where any client may write, each with the coordinator name and epoch of its gids."""
        names = {}
        for name in self._wiring.subscribers:
            here = await self._wiring.admin(name)
            there = await self._wiring.execute(
                name, "select to_regclass('msrepl.any_client') is not null"
            )
            known = await any_client.any_client_of(here) if there[0][0] else None
            if known is not None:
                names[name] = known
        return names

    async def stop(self) -> None:
        """Stop all resolvers. Transactions that clients decide afterwards stay prepared at the Publisher."""
        resolvers, self.resolvers = self.resolvers, {}
        for resolver in resolvers.values():
            await resolver.close()

    async def resolve(self, until: float) -> None:
        """Finish all transactions that clients have decided, and roll back the rest.

        Args:
            until: deadline by the event loop's clock.

        Raises:
            InDoubtError: a branch stays prepared.
        """
        while (left := await self._undecided()) and self.resolvers:
            if asyncio.get_running_loop().time() > until:
                raise InDoubtError(
                    f"{left[0]} is still prepared at {self._wiring.publisher}: its client has not ended, or its "
                    "Subscriber does not answer",
                    gid=left[0],
                    node=self._wiring.publisher,
                )
            for resolver in self.resolvers.values():
                await resolver.settle()

    async def end_links(self) -> None:
        """End the links whose transactions were rolled back at the Subscriber at once; resolvers do so with a
        delay.
        """
        for resolver in self.resolvers.values():
            await resolver.end_links(0)

    async def _undecided(self) -> Sequence[str]:
        names = [f"{self._wiring.name}.{name}" for name in self.resolvers]
        if not names:
            return ()
        database = self._wiring.node(self._wiring.publisher).database
        links = [role("link", database, name) for name in self.resolvers]
        rows = await self._wiring.execute(
            self._wiring.publisher,
            "select gid from pg_prepared_xacts where database = current_database() "
            "and split_part(gid, ':', 2) = any (%s) and owner = any (%s) order by prepared",
            (names, links),
        )
        return [gid for (gid,) in rows]

    async def _start_resolver(self, name: str, known: AnyClient) -> None:
        async with self._starting:
            if name not in self.resolvers:
                self.resolvers[name] = await self._resolver(name, known)

    async def _resolver(self, name: str, known: AnyClient) -> ServerResolver:
        publisher = self._wiring.node(self._wiring.publisher)
        resolver = ServerResolver(
            ResolverSite(
                coordinator=known.coordinator,
                publisher=ParticipantAddress(name=publisher.name, dsn=publisher.coordinator_dsn),
                subscriber=ParticipantAddress(
                    name=name, dsn=self._wiring.node(name).coordinator_dsn
                ),
                distribution=self._wiring.node(self._wiring.distribution).coordinator_dsn,
                link_role=role("link", publisher.database, name),
                channel=any_client.CHANNEL,
            )
        )
        try:
            await resolver.open()
        except BaseException:
            await resolver.close()
            raise
        return resolver

    async def updating(self) -> list[str]:
        """Return the Subscribers with immediate updating: those that change their copies and the Publisher
        together.
        """
        return sorted(await self._registration.linked() & {*self._wiring.nodes})

    async def _updating(self) -> Sequence[str]:
        self._registration.require(await self._registration.linked(), "who may write is said")
        result = await self.updating()
        if not result:
            raise ConfigurationError(
                f"no Subscriber of {self._wiring.publisher!r} has a subscription with immediate updating: `twopc subscribe` one first"
            )
        return result

    def _subscriber(self, name: str) -> str:
        if name not in self._wiring.subscribers:
            raise ConfigurationError(
                f"no Subscriber {name!r}; there are {', '.join(self._wiring.subscribers)}"
            )
        return name
