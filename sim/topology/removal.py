"""A Subscriber leaves: at its end first, then at the Publisher.

Knows nothing of how subscriptions begin.
"""

from __future__ import annotations

from twopc.errors import ConfigurationError, SubscriptionError
from twopc.publisher import publication, slot
from twopc.sim.topology.agents import Agents
from twopc.sim.topology.copies import Copies, ServerCopyTarget
from twopc.sim.topology.installer import Installer
from twopc.sim.topology.registration import Registration
from twopc.sim.topology.wiring import TopologyWiring
from twopc.subscriber import subscription


class SubscriptionRemoval:
    """Takes subscriptions away, and at last all of a topology."""

    def __init__(
        self,
        wiring: TopologyWiring,
        registration: Registration,
        agents: Agents,
        installer: Installer,
        copies: Copies,
    ) -> None:
        self._wiring = wiring
        self._registration = registration
        self._agents = agents
        self._installer = installer
        self._copies = copies

    async def unsubscribe(self, subscriber: str) -> None:
        """Take a subscription away at both ends; the rows stay. Transactions that use them are waited for.

        Raises:
            LockTimeoutError: one does not end; nothing is changed anywhere.
            SubscriptionError: a branch is prepared there; likewise. Or it does not subscribe.
        """
        known = {*await self._registration.update_modes(), *await self._registration.linked()}
        there = await self._wiring.execute(
            subscriber, "select to_regclass('msrepl.mssubscription_agents') is not null"
        )
        if subscriber not in known and not there[0][0]:
            raise SubscriptionError(
                f"{subscriber!r} does not subscribe; Subscribers are {', '.join(sorted(known)) or 'none'}"
            )
        ran = self._agents.are_running
        await self._agents.dismiss(subscriber)
        if not there[0][0]:  # it could not be told the last time, or the copy was never finished
            await self._forget_left(subscriber)
            return
        try:
            await (await self._copies.agent(ServerCopyTarget(self._copies, subscriber))).remove()
        except BaseException:
            if ran and subscriber in self._installer.subscribed:
                self._agents.attend(subscriber)  # it subscribes as before
            raise
        await self._forget_left(subscriber)

    async def dissolve(self) -> None:
        """Take everything of ours out of the nodes' databases, with our roles; tables and rows stay.

        Raises:
            SubscriptionError: somebody subscribes still, or a branch is prepared.
            ArticleError: a table is published still.
            ConfigurationError: another topology uses the distribution database too, or a role of ours has
                something in a database that is no node here.
        """
        publisher = await self._wiring.admin(self._wiring.publisher)
        left = sorted(
            {*await self._registration.linked(), *await self._registration.update_modes()}
        )
        if left:
            raise SubscriptionError(
                f"{', '.join(left)} still subscribe{'s' if len(left) == 1 else ''}: `twopc unsubscribe {left[0]}` first"
            )
        for name in self._wiring.nodes:
            await subscription.refuse_prepared(await self._wiring.admin(name))
        others = await self._wiring.execute(
            self._wiring.distribution,
            "select name from msrepl.coordinator where name <> %s",
            (self._wiring.name,),
        )
        if others:
            raise ConfigurationError(
                f"topology {others[0][0]!r} uses the distribution database too: uninstall it first"
            )
        await publication.refuse_published(publisher)
        if await self._registration.knows_publisher():
            await (
                self._agents.forget_publisher()
            )  # a subscription was cut off before, or after, it was one
        for stray in await slot.strays(publisher, None):
            await slot.drop(publisher, stray.name)
        await self._wiring.drop_roles()
        # last and together: without them the nodes are not found again
        distribution = await self._wiring.node(self._wiring.distribution).connect()
        async with distribution, publisher.transaction(), distribution.transaction():
            if self._wiring.is_apart(self._wiring.node(self._wiring.distribution)):
                await distribution.execute("drop schema if exists msrepl cascade")
            await publication.uninstall(publisher)

    async def _forget_left(self, subscriber: str) -> None:
        if subscriber in self._installer.subscribed:
            self._installer.subscribed.remove(subscriber)
        await self._installer.forget_subscriber(subscriber)
