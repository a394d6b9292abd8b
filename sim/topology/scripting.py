"""Subscriptions whose triggers are made by hand: the script, and what else there is to a subscription then.

And what every subscription begins with: the Subscriber's link, known at the Publisher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.distributed import DistributedArticle
from twopc.drivers.install import install_participant
from twopc.errors import SubscriptionError
from twopc.proc_execution import ProcArticle
from twopc.publisher import publication, subscriptions
from twopc.publisher.proc_execution import proc_articles
from twopc.sim.script import SyncScript, Trial, script_synctran_commands
from twopc.sim.topology import initial, warned
from twopc.sim.topology.distribution import Distribution
from twopc.sim.topology.naming import by_article
from twopc.sim.topology.nodes import grant_tables
from twopc.sql.describe import describe
from twopc.subscriber import (
    not_for_replication,
    proc_execution,
    propagation,
    subscription,
    tables,
)
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.firing import Obstacle
from twopc.subscriber.objects import install_texts
from twopc.subscriber.triggers import Sites


class Scripting(Distribution):
    """A topology that knows Subscribers' links, and scripts triggers."""

    def sites(self, subscriber: str) -> Sites:
        """The names under which a Subscriber and the Publisher take part in transactions."""
        return Sites(publisher=self.publisher, subscriber=subscriber)

    async def choose(self, filters: Mapping[str, str]) -> list[DistributedArticle]:
        """The articles that a Subscriber gets: where it has a filter, an article of its own for that.

        Args:
            filters: a condition by table (``table`` or ``schema.table``).

        Raises:
            ArticleError: there is no such table among the articles, or it is no condition.
        """
        here = await self.admin(self.publisher)
        published = {
            each.article.name: each for each in await publication.distributed_articles(here)
        }
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
            await warned.tell(here)
        chosen: dict[str, DistributedArticle] = {}
        for each in await publication.distributed_articles(here):  # parts come after their base
            if each.article.name not in chosen or each.article_id in parts:
                chosen[each.article.name] = each
        return list(chosen.values())

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
        raise SubscriptionError(
            f"{subscriber!r} does not subscribe: `twopc subscribe {subscriber}` first"
        )

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
        *,
        here: AsyncConnection[Any] | None = None,
    ) -> None:
        """Make what agents call for some articles.

        Args:
            scripts: by table, SQL that makes the user's own procedures.
            here: a connection to the Subscriber; None: the administrator's.
        """
        here = here or await self.admin(subscriber)
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
        self,
        subscriber: str,
        routines: Sequence[ProcArticle],
        *,
        calls: bool,
        here: AsyncConnection[Any] | None = None,
    ) -> None:
        """Define routines at a Subscriber as they are at the Publisher; `calls`: agents call them there."""
        here, agent = here or await self.admin(subscriber), self.node(subscriber).agent_role
        for routine in routines:
            await proc_execution.create(here, routine, agent, call=calls)

    async def script(
        self,
        subscriber: str,
        *,
        role: str | None = None,
        filters: Mapping[str, str] | None = None,
        scripts: Mapping[str, Sequence[str]] | None = None,
    ) -> SyncScript:
        """What a Subscriber must run that has the tables and rows already; see `twopc.sim.script`.

        It is tried there, and rolled back. The Publisher knows the Subscriber from then on, and what is committed
        from then on is kept for it.

        Args:
            role: the application's role there; None: the topology's.
            filters: by table, a condition: only rows that fulfil it are there, and come there.
            scripts: as for `subscribe`.

        Raises:
            SubscriptionError: it subscribes already, or a table of it does not match.
        """
        await self._nodes.admit(subscriber, like=self.publisher)
        articles = await self.choose(filters or {})
        scripts = by_article(scripts or {}, articles)
        routines = await proc_articles(await self.admin(self.publisher))
        link, sites = await self.register_link(subscriber), self.sites(subscriber)
        try:
            if self.distribute:
                await self.announce(
                    subscriber,
                    articles,
                    link_role=link.role,
                    sync_type="none",
                    routines=routines,
                )
                async with initial.reading(await self.admin(self.publisher)) as moment:
                    routines = await proc_articles(await self.admin(self.publisher))
                await self.start_from(subscriber, articles, moment, routines=routines)
            async with (
                await Trial.connect(self.node(subscriber).dsn, autocommit=True) as trial,
                trial.transaction(force_rollback=True),
            ):
                found = await self._try(trial, subscriber, link, articles, routines, scripts, role)
        except BaseException:
            await self.forget_subscriber(subscriber)
            raise
        text = script_synctran_commands(
            trial.texts, database=self.node(subscriber).database, sites=sites, link=link
        )
        return SyncScript(text=text, role=link.role, obstacles=tuple(found), password=link.password)

    async def _try(
        self,
        trial: Trial,
        subscriber: str,
        link: subscription.LinkAddress,
        articles: Sequence[DistributedArticle],
        routines: Sequence[ProcArticle],
        scripts: Mapping[str, Sequence[str]],
        role: str | None,
    ) -> list[Obstacle]:
        """Make a whole subscription where tables and rows are, but for the link's password."""
        node, sites = self.node(subscriber), self.sites(subscriber)
        found: list[Obstacle] = []
        for each in articles:
            plain = each.article
            tables.check_same_shape(plain, await describe(trial, plain.schema, plain.table))
        try:
            for text in install_texts(node.database, sites, link):
                await trial.execute(text.encode())
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise SubscriptionError(f"{error.diag.message_primary}") from error
        for each in articles:
            found += await subscription.subscribe(trial, each.article, sites)
        app = role or node.app_role
        await subscription.register_role(trial, app, node.coordinator_role)
        await install_participant(
            trial, subscription.owner_role(node.database), node.coordinator_role
        )
        if self.distribute:
            await propagation.install(trial, node.agent_role)
            await self.create_procedures(subscriber, articles, scripts, here=trial)
            await self.create_routines(subscriber, routines, calls=False, here=trial)
        for each in articles:
            await grant_tables(trial, each.article.schema, each.article.table, app)
        return found

    async def add_sync_triggers(
        self,
        subscriber: str,
        script: SyncScript,
        *,
        profile: Profile | None = None,
    ) -> None:
        """Run the script of a subscription; see `twopc.subscriber.subscription.addsynctriggers`.

        Args:
            profile: as for `subscribe`.

        Raises:
            SubscriptionError: it cannot be run; nothing was changed at the Subscriber. Or a user's trigger fires
                before ours: then the subscription is there, but inactive until `activate`.
        """
        here = await self.admin(subscriber)
        await subscription.addsynctriggers(here, script.text, script.role, script.password)
        if self.distribute and profile is not None:
            await self.set_profile(subscriber, profile)
        self.subscribed.append(subscriber)
        self.attend(subscriber)
        if script.obstacles:
            raise SubscriptionError(subscription.inactive_message(script.obstacles))

    async def set_not_for_replication(
        self, subscriber: str, table: str, object_name: str, value: bool, *, schema: str = "public"
    ) -> None:
        """Say whether agents' changes pass by a trigger or constraint of a Subscriber's table.

        See `twopc.subscriber.not_for_replication`.
        """
        await not_for_replication.set_not_for_replication(
            await self.admin(subscriber), schema, table, object_name, value
        )
