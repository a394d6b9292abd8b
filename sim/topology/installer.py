"""Installation of the objects of a subscription at both ends: its articles, its link, and what agents call.

Independent of how a subscription begins, and of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import AsyncConnection, sql

from twopc.distributed_article import DistributedArticle
from twopc.errors import SubscriptionError
from twopc.proc_execution import ProcArticle
from twopc.publisher import publication, subscriptions
from twopc.sim.topology import routine_warnings
from twopc.sim.topology.agents import Agents
from twopc.sim.topology.article_names import by_article
from twopc.sim.topology.registration import Registration
from twopc.sim.topology.wiring import TopologyWiring
from twopc.subscriber import proc_execution, propagation, subscription
from twopc.subscriber.triggers import BranchNames


class Installer:
    """Creates the objects that a Subscriber needs, and removes the Subscriber's registration at both ends."""

    def __init__(self, wiring: TopologyWiring, registration: Registration, agents: Agents) -> None:
        self.wiring = wiring
        self.registration = registration
        self.agents = agents
        self.subscribed: list[str] = []
        """Subscribers that this topology has subscribed."""

    def sites(self, subscriber: str) -> BranchNames:
        """Return the names under which a Subscriber and the Publisher take part in transactions."""
        return BranchNames(publisher=self.wiring.publisher, subscriber=subscriber)

    async def choose(self, filters: Mapping[str, str]) -> list[DistributedArticle]:
        """Return the articles that a Subscriber gets; for a table with a filter, an article with that filter.

        Args:
            filters: a condition by table (``table`` or ``schema.table``).

        Raises:
            ArticleError: a table is not published, or a filter is not a valid condition.
        """
        here = await self.wiring.at_publisher()
        everything = await publication.distributed_articles(here)
        published = {each.article.name: each for each in everything}
        before, parts = await publication.parts(here), set()
        try:
            for name, condition in by_article(filters, published.values()).items():
                there = published[name].article
                part = await publication.publish_part(here, there.schema, there.table, condition)
                parts.add(part)
        except BaseException:
            for part in parts - before:
                await publication.unpublish_part(here, part)
            raise
        if parts - before:
            await routine_warnings.tell(here)
        if parts:
            everything = await publication.distributed_articles(here)
        chosen: dict[str, DistributedArticle] = {}
        for each in everything:  # parts come after their base
            if each.article.name not in chosen or each.article_id in parts:
                chosen[each.article.name] = each
        return list(chosen.values())

    async def register_link(self, subscriber: str) -> subscription.LinkAddress:
        """Register the Subscriber at the Publisher, and allow the coordinator to finish its link's branches."""
        publisher = await self.wiring.at_publisher()
        registered, password = await subscriptions.add_subscription(publisher, subscriber)
        await publisher.execute(
            sql.SQL("grant {} to {}").format(
                sql.Identifier(registered.link_role),
                sql.Identifier(self.wiring.node(subscriber).coordinator_role),
            )
        )
        return subscription.LinkAddress(
            options=self.wiring.node(self.wiring.publisher).link_options,
            role=registered.link_role,
            password=password,
            lock_timeout_ms=self.wiring.lock_timeout_ms,
        )

    async def link_role(self, subscriber: str) -> str:
        """Return the role of a Subscriber's link at the Publisher.

        Raises:
            SubscriptionError: the node does not subscribe.
        """
        for each in await subscriptions.subscriptions(await self.wiring.at_publisher()):
            if each.subscriber == subscriber:
                return each.link_role
        raise SubscriptionError(
            f"{subscriber!r} does not subscribe: `twopc subscribe {subscriber}` first"
        )

    async def forget_subscriber(self, subscriber: str) -> None:
        """Remove a Subscriber's registration from the Publisher and the distribution database."""
        await self.agents.dismiss(subscriber)
        try:
            if self.wiring.distribute:
                await self.agents.withdraw(subscriber)
        finally:  # a link without a registration would be taken for a subscription
            await subscriptions.drop_subscription(await self.wiring.at_publisher(), subscriber)
        await self.registration.switch_calls()

    async def create_procedures(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle],
        scripts: Mapping[str, Sequence[str]] | None = None,
        *,
        here: AsyncConnection[Any] | None = None,
    ) -> None:
        """Create the procedures that agents call for some articles.

        Args:
            scripts: SQL that creates the user's own procedures, by table.
            here: a connection to the Subscriber; None: the administrator's.
        """
        here = here or await self.wiring.admin(subscriber)
        for each in articles:
            await propagation.create(
                here,
                each.article,
                each.article_id,
                each.propagation,
                self.wiring.node(subscriber).agent_role,
                procedures=each.procedures,
                scripts=(scripts or {}).get(each.article.name, ()),
            )

    async def create_routines(
        self,
        subscriber: str,
        routines: Sequence[ProcArticle],
        *,
        calls: bool,
        here: AsyncConnection[Any] | None = None,
    ) -> None:
        """Define routines at a Subscriber as at the Publisher; `calls`: agents call them there."""
        here = here or await self.wiring.admin(subscriber)
        agent = self.wiring.node(subscriber).agent_role
        for routine in routines:
            await proc_execution.create(here, routine, agent, call=calls)


class TopologyComponent:
    """A part of a topology that works with the registration, the agents and the installer."""

    def __init__(self, installer: Installer) -> None:
        self._installer = installer
        self._wiring = installer.wiring
        self._registration = installer.registration
        self._agents = installer.agents
