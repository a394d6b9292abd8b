"""Subscriptions whose triggers are made by hand: the script, and what else there is to a subscription then.

And what every subscription begins with: the Subscriber's link, known at the Publisher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import sql

from publisher import publication, subscriptions
from sim.script import SyncScript, script_synctran_commands
from sim.topology import initial
from sim.topology.distribution import Distribution
from sim.topology.nodes import grant_tables
from subscriber import (
    not_for_replication,
    proc_execution,
    propagation,
    subscription,
    tables,
)
from subscriber.distribution_agent.profile import Profile
from subscriber.triggers import Sites
from twopc.distributed import DistributedArticle
from twopc.errors import SubscriptionError
from twopc.proc_execution import ProcArticle
from twopc.sql.describe import describe


class Scripting(Distribution):
    """A topology that knows Subscribers' links, and scripts triggers."""

    def sites(self, subscriber: str) -> Sites:
        """The names under which a Subscriber and the Publisher take part in transactions."""
        return Sites(publisher=self.publisher, subscriber=subscriber)

    async def register_link(self, subscriber: str) -> subscription.LinkAddress:
        """Let the Publisher know the Subscriber, and the coordinator finish its link's branches."""
        publisher = await self.admin(self.publisher)
        registered, password = await subscriptions.add_subscription(publisher, subscriber)
        await publisher.execute(
            sql.SQL("grant {} to {}").format(
                sql.Identifier(registered.link_role),
                sql.Identifier(self.node(subscriber).coordinator_role),
            )
        )
        return subscription.LinkAddress(
            options=self.node(self.publisher).link_options,
            role=registered.link_role,
            password=password,
            lock_timeout_ms=self.lock_timeout_ms,
        )

    async def link_role(self, subscriber: str) -> str:
        """The role of a Subscriber's link at the Publisher.

        Raises:
            SubscriptionError: it does not subscribe.
        """
        for each in await subscriptions.subscriptions(await self.admin(self.publisher)):
            if each.subscriber == subscriber:
                return each.link_role
        raise SubscriptionError(f"{subscriber!r} does not subscribe: subscribe it first")

    async def forget_subscriber(self, subscriber: str) -> None:
        """Have Publisher and distribution database know a Subscriber no longer."""
        await self.dismiss_agent(subscriber)
        if self.distribute:
            await self.withdraw(subscriber)
        await subscriptions.drop_subscription(await self.admin(self.publisher), subscriber)
        await self.switch_calls()

    async def create_procedures(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle],
        scripts: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Make what agents call for some articles.

        Args:
            scripts: by table, SQL that makes the user's own procedures.
        """
        here = await self.admin(subscriber)
        for each in articles:
            await propagation.create(
                here,
                each.article,
                each.article_id,
                each.propagation,
                self.node(subscriber).agent_role,
                procedures=each.procedures,
                scripts=(scripts or {}).get(each.article.name, ()),
            )

    async def create_routines(
        self, subscriber: str, routines: Sequence[ProcArticle], *, calls: bool
    ) -> None:
        """Define routines at a Subscriber as they are at the Publisher; `calls`: agents call them there."""
        here, agent = await self.admin(subscriber), self.node(subscriber).agent_role
        for routine in routines:
            await proc_execution.create(here, routine, agent, call=calls)

    async def script(
        self,
        subscriber: str,
        *,
        role: str | None = None,
        filters: Mapping[str, str] | None = None,
    ) -> SyncScript:
        """What a Subscriber must run that has the tables and rows already; see `sim.script`.

        The Publisher knows the Subscriber from then on, and what is committed from then on is kept for it.

        Args:
            role: the application's role there; None: the topology's.
            filters: by table, a condition: only rows that fulfil it are there, and come there.

        Raises:
            SubscriptionError: it subscribes already, or a table of it does not match.
        """
        node, here = self.node(subscriber), await self.admin(subscriber)
        articles = await self.choose(filters or {})
        link, sites = await self.register_link(subscriber), self.sites(subscriber)
        try:
            commands = []
            for each in articles:
                tables.check_same_shape(
                    each.article, await describe(here, each.article.schema, each.article.table)
                )
                texts, _ = await subscription.article_commands(here, each.article, sites)
                commands.append(texts)
            if self.distribute:
                await self.announce(subscriber, articles, link_role=link.role, sync_type="none")
                async with initial.reading(await self.admin(self.publisher)) as moment:
                    pass
                await self.start_from(subscriber, articles, moment)
        except BaseException:
            await self.forget_subscriber(subscriber)
            raise
        text = script_synctran_commands(
            commands,
            database=node.database,
            sites=sites,
            link=link,
            app_role=role or node.app_role,
            coordinator_role=node.coordinator_role,
        )
        return SyncScript(text=text, role=link.role, password=link.password)

    async def add_sync_triggers(
        self,
        subscriber: str,
        script: SyncScript,
        *,
        profile: Profile | None = None,
        scripts: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Run the script of a subscription; see `subscriber.subscription.addsynctriggers`.

        Args:
            profile, scripts: as for `subscribe`.

        Raises:
            SubscriptionError: it cannot be run; nothing was changed at the Subscriber.
        """
        here, node = await self.admin(subscriber), self.node(subscriber)
        articles = await self.choose({})
        async with here.transaction():
            await subscription.addsynctriggers(here, script.text, script.role, script.password)
            if self.distribute:
                articles = await self.chosen_articles(subscriber)
                await propagation.install(here, node.agent_role)
                await self.create_procedures(subscriber, articles, scripts)
        for each in articles:
            await grant_tables(here, each.article.schema, each.article.table, node.app_role)
        self.profiles[subscriber] = profile or Profile()
        self.subscribed.append(subscriber)
        self.attend(subscriber)

    async def activate(self, subscriber: str) -> None:
        """Let a Subscriber's changes through again once nothing keeps our triggers from firing first.

        Raises:
            SubscriptionError: something still does, or the subscription is read only.
        """
        if await self.is_read_only(subscriber):
            raise SubscriptionError(
                f"the subscription of {subscriber!r} is read only: it has no triggers to activate"
            )
        articles = await publication.articles(await self.admin(self.publisher))
        await subscription.activate(await self.admin(subscriber), articles, self.sites(subscriber))

    async def set_not_for_replication(
        self, subscriber: str, table: str, object_name: str, value: bool, *, schema: str = "public"
    ) -> None:
        """Say whether agents' changes pass by a trigger or constraint of a Subscriber's table.

        See `subscriber.not_for_replication`.
        """
        await not_for_replication.set_not_for_replication(
            await self.admin(subscriber), schema, table, object_name, value
        )
