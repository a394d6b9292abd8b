"""What every subscription stands on, made at both ends: its articles, its link, what agents call.

Knows nothing of how a subscription begins, or of rows.
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
    """Makes what a Subscriber needs, and has both ends forget it."""

    def __init__(self, wiring: TopologyWiring, registration: Registration, agents: Agents) -> None:
        self._wiring = wiring
        self._registration = registration
        self._agents = agents
        self.subscribed: list[str] = []
        """The Subscribers that this topology has subscribed."""

    def sites(self, subscriber: str) -> BranchNames:
        """The names under which a Subscriber and the Publisher take part in transactions."""
        return BranchNames(publisher=self._wiring.publisher, subscriber=subscriber)

    async def choose(self, filters: Mapping[str, str]) -> list[DistributedArticle]:
        """The articles that a Subscriber gets: where it has a filter, an article of its own for that.

        Args:
            filters: a condition by table (``table`` or ``schema.table``).

        Raises:
            ArticleError: there is no such table among the articles, or it is no condition.
        """
        here = await self._wiring.admin(self._wiring.publisher)
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
        """Let the Publisher know the Subscriber, and the coordinator finish its link's branches."""
        publisher = await self._wiring.admin(self._wiring.publisher)
        registered, password = await subscriptions.add_subscription(publisher, subscriber)
        await publisher.execute(
            sql.SQL("grant {} to {}").format(
                sql.Identifier(registered.link_role),
                sql.Identifier(self._wiring.node(subscriber).coordinator_role),
            )
        )
        return subscription.LinkAddress(
            options=self._wiring.node(self._wiring.publisher).link_options,
            role=registered.link_role,
            password=password,
            lock_timeout_ms=self._wiring.lock_timeout_ms,
        )

    async def link_role(self, subscriber: str) -> str:
        """The role of a Subscriber's link at the Publisher.

        Raises:
            SubscriptionError: it does not subscribe.
        """
        for each in await subscriptions.subscriptions(
            await self._wiring.admin(self._wiring.publisher)
        ):
            if each.subscriber == subscriber:
                return each.link_role
        raise SubscriptionError(
            f"{subscriber!r} does not subscribe: `twopc subscribe {subscriber}` first"
        )

    async def forget_subscriber(self, subscriber: str) -> None:
        """Have Publisher and distribution database know a Subscriber no longer."""
        await self._agents.dismiss(subscriber)
        if self._wiring.distribute:
            await self._agents.withdraw(subscriber)
        await subscriptions.drop_subscription(
            await self._wiring.admin(self._wiring.publisher), subscriber
        )
        await self._registration.switch_calls()

    async def create_procedures(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle],
        scripts: Mapping[str, Sequence[str]] | None = None,
        *,
        here: AsyncConnection[Any] | None = None,
    ) -> None:
        """Make what agents call for some articles.

        Args:
            scripts: by table, SQL that makes the user's own procedures.
            here: a connection to the Subscriber; None: the administrator's.
        """
        here = here or await self._wiring.admin(subscriber)
        for each in articles:
            await propagation.create(
                here,
                each.article,
                each.article_id,
                each.propagation,
                self._wiring.node(subscriber).agent_role,
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
        """Define routines at a Subscriber as they are at the Publisher; `calls`: agents call them there."""
        here, agent = (
            here or await self._wiring.admin(subscriber),
            self._wiring.node(subscriber).agent_role,
        )
        for routine in routines:
            await proc_execution.create(here, routine, agent, call=calls)
