"""Removal of subscriptions: at the Subscriber first, then at the Publisher.

Independent of how subscriptions begin.
"""

from __future__ import annotations

from twopc.errors import ConfigurationError, SubscriptionError
from twopc.publisher import publication, slot
from twopc.sim.topology.copies import Copies, ServerCopyTarget
from twopc.sim.topology.installer import Installer, TopologyComponent
from twopc.subscriber import subscription


class SubscriptionRemoval(TopologyComponent):
    """Removes subscriptions, and finally all objects of a topology."""

    def __init__(self, installer: Installer, copies: Copies) -> None:
        super().__init__(installer)
        self._copies = copies

    async def unsubscribe(self, subscriber: str) -> None:
        """Remove a subscription at both ends, and keep the rows. Waits for transactions that use the tables.

        Raises:
            LockTimeoutError: a transaction does not end; nothing is changed anywhere.
            SubscriptionError: a branch is prepared at the Subscriber; nothing is changed anywhere. Or the node does
                not subscribe.
            ConfigurationError: another command changes the subscription.
        """
        async with self._registration.turn_of(subscriber):
            await self._unsubscribe(subscriber)

    async def _unsubscribe(self, subscriber: str) -> None:
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
        if not there[0][0]:  # a removal was interrupted, or the copy was never finished
            await self._forget_left(subscriber)
            return
        try:
            await (await self._copies.agent(ServerCopyTarget(self._installer, subscriber))).remove()
        except BaseException:
            if ran and subscriber in self._installer.subscribed:
                self._agents.attend(subscriber)  # the subscription is unchanged
            raise
        await self._forget_left(subscriber)

    async def dissolve(self) -> None:
        """Remove all our objects from the nodes' databases, and our roles; tables and rows stay.

        Raises:
            SubscriptionError: there are still subscriptions, or a branch is prepared.
            ArticleError: a table is still published.
            ConfigurationError: another topology uses the distribution database too, or a role of ours has objects
                or privileges in a database that is not a node.
        """
        publisher = await self._wiring.at_publisher()
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
            await self._agents.forget_publisher()  # left by an interrupted subscribe or unsubscribe
        for stray in await slot.strays(publisher, None):
            await slot.drop(publisher, stray.name)
        await self._wiring.drop_roles()
        # last and together: without these schemas the nodes cannot be identified again
        distribution = await self._wiring.node(self._wiring.distribution).connect()
        async with distribution, publisher.transaction(), distribution.transaction():
            if self._wiring.is_apart(self._wiring.node(self._wiring.distribution)):
                await distribution.execute("drop schema if exists msrepl cascade")
            await publication.uninstall(publisher)

    async def _forget_left(self, subscriber: str) -> None:
        if subscriber in self._installer.subscribed:
            self._installer.subscribed.remove(subscriber)
        await self._installer.forget_subscriber(subscriber)
