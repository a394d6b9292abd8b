"""A Subscriber leaves: at its end first, then at the Publisher.

Knows nothing of how subscriptions begin.
"""

from __future__ import annotations

from publisher import subscriptions
from sim.topology import initial
from sim.topology.nodes import revoke_tables
from sim.topology.scripting import Scripting
from subscriber import proc_execution as routines_here
from subscriber import propagation as procedures
from subscriber import subscription


class Leaving(Scripting):
    """A topology that takes subscriptions away."""

    async def unsubscribe(self, subscriber: str) -> None:
        """Take a subscription away at both ends; the rows stay. Transactions that use them are waited for.

        Raises:
            LockTimeoutError: one does not end; nothing is changed anywhere.
            SubscriptionError: a branch is prepared there; likewise.
        """
        here, node, ran = await self.admin(subscriber), self.node(subscriber), self.agents_run
        await self.dismiss_agent(subscriber)
        if await self._is_half_gone(subscriber):
            await self._forget_left(subscriber)
            return
        try:
            async with here.transaction():
                await subscription.refuse_prepared(here)
                await initial.close_tables(here, self.lock_timeout_ms)
                await self._until_finished(subscriber)
                if self.distribute:
                    await procedures.drop_all(here)
                    await routines_here.drop_all(here)
                for schema, table in await subscription.uninstall(here):
                    for role in (
                        (node.app_role, node.agent_role) if self.distribute else (node.app_role,)
                    ):
                        await revoke_tables(here, schema, table, role)
        except BaseException:
            if ran and subscriber in self.subscribed:
                self.attend(subscriber)  # it subscribes as before
            raise
        await self._forget_left(subscriber)

    async def _is_half_gone(self, subscriber: str) -> bool:
        """The Publisher knows it, and nothing of the subscription is there: it could not be told the last time."""
        found = await self.execute(
            subscriber, "select to_regclass('msrepl.msreplication_objects') is null"
        )
        known = await subscriptions.subscriptions(await self.admin(self.publisher))
        return bool(found[0][0]) and subscriber in {each.subscriber for each in known}

    async def _forget_left(self, subscriber: str) -> None:
        if subscriber in self.subscribed:
            self.subscribed.remove(subscriber)
        await self.forget_subscriber(subscriber)

    async def _until_finished(self, subscriber: str) -> None:
        """Wait until nothing of a Subscriber's is prepared at the Publisher. LockTimeoutError"""
        publisher = await self.admin(self.publisher)
        for each in await subscriptions.subscriptions(publisher):
            if each.subscriber == subscriber:
                await initial.until_finished(publisher, each.link_role, self.lock_timeout_ms)
