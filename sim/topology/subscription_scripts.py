"""Subscriptions by script: the script that creates the triggers, and the remaining steps of such a subscription."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg

from twopc.distributed_article import DistributedArticle
from twopc.drivers.install import install_participant
from twopc.errors import SubscriptionError
from twopc.proc_execution import ProcArticle
from twopc.publisher.proc_execution import proc_articles
from twopc.sim.script import SyncScript, Trial, script_synctran_commands
from twopc.sim.topology.article_names import by_article
from twopc.sim.topology.copies import Copies, ServerCopyTarget
from twopc.sim.topology.grants import grant_tables
from twopc.sim.topology.installer import Installer, TopologyComponent
from twopc.sql.describe import describe
from twopc.subscriber import (
    not_for_replication,
    propagation,
    subscription,
    tables,
)
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.objects import install_texts
from twopc.subscriber.trigger_order import Obstacle


class SubscriptionScripts(TopologyComponent):
    """Writes the script of a subscription, and runs it."""

    def __init__(self, installer: Installer, copies: Copies) -> None:
        super().__init__(installer)
        self._copies = copies

    async def script(
        self,
        subscriber: str,
        *,
        role: str | None = None,
        filters: Mapping[str, str] | None = None,
        scripts: Mapping[str, Sequence[str]] | None = None,
    ) -> SyncScript:
        """Return the script for a Subscriber that has the tables and rows already; see `twopc.sim.script`.

        The script is tried at the Subscriber, and rolled back. From then on the Publisher has the Subscriber
        registered, and committed changes are retained for it.

        Args:
            role: the application's role at the Subscriber; None: the topology's.
            filters: a condition by table: only rows that fulfil it are there, and are delivered.
            scripts: as for `subscribe`.

        Raises:
            SubscriptionError: the node subscribes already, or one of its tables does not match.
            ConfigurationError: another command changes the subscription.
        """
        await self._wiring.admit(subscriber)
        async with self._registration.turn_of(subscriber):
            return await self._script(subscriber, role, filters, scripts)

    async def _script(
        self,
        subscriber: str,
        role: str | None,
        filters: Mapping[str, str] | None,
        scripts: Mapping[str, Sequence[str]] | None,
    ) -> SyncScript:
        articles = await self._installer.choose(filters or {})
        scripts = by_article(scripts or {}, articles)
        routines = await proc_articles(await self._wiring.at_publisher())
        link = await self._installer.register_link(subscriber)
        sites = self._installer.sites(subscriber)
        try:
            if self._wiring.distribute:
                await self._registration.announce(
                    subscriber,
                    articles,
                    link_role=link.role,
                    sync_type="none",
                    routines=routines,
                )
                target = ServerCopyTarget(self._installer, subscriber, articles, routines)
                copying = await self._copies.agent(target)
                async with copying.kept():
                    async with copying.reading() as moment:
                        routines = await proc_articles(await self._wiring.at_publisher())
                    target.routines = routines
                    await copying.start(moment, delivered=0, active=True)
            async with (
                await Trial.connect(self._wiring.node(subscriber).dsn, autocommit=True) as trial,
                trial.transaction(force_rollback=True),
            ):
                result = await self._try(trial, subscriber, link, articles, routines, scripts, role)
        except BaseException:
            await self._installer.forget_subscriber(subscriber)
            raise
        text = script_synctran_commands(
            trial.texts, database=self._wiring.node(subscriber).database, sites=sites, link=link
        )
        return SyncScript(
            text=text, role=link.role, obstacles=tuple(result), password=link.password
        )

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
        """Create a whole subscription on existing tables and rows, except for the link's password."""
        node, sites = self._wiring.node(subscriber), self._installer.sites(subscriber)
        results: list[Obstacle] = []
        for each in articles:
            plain = each.article
            tables.check_same_shape(plain, await describe(trial, plain.schema, plain.table))
        try:
            for text in install_texts(node.database, sites, link):
                await trial.execute(text.encode())
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            raise SubscriptionError(f"{error.diag.message_primary}") from error
        for each in articles:
            results += await subscription.subscribe(trial, each.article, sites)
        app = role or node.app_role
        await subscription.register_role(trial, app, node.coordinator_role)
        await install_participant(
            trial, subscription.owner_role(node.database), node.coordinator_role
        )
        if self._wiring.distribute:
            await propagation.install(trial, node.agent_role)
            await self._installer.create_procedures(subscriber, articles, scripts, here=trial)
            await self._installer.create_routines(subscriber, routines, calls=False, here=trial)
        for each in articles:
            await grant_tables(trial, each.article.schema, each.article.table, app)
        return results

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
            SubscriptionError: the script cannot be run; nothing was changed at the Subscriber. Or a user's trigger
                fires before ours: then the subscription exists, but is inactive until `activate`.
        """
        here = await self._wiring.admin(subscriber)
        await subscription.addsynctriggers(here, script.text, script.role, script.password)
        if self._wiring.distribute and profile is not None:
            await self._agents.set_profile(subscriber, profile)
        self._installer.subscribed.append(subscriber)
        self._agents.attend(subscriber)
        if script.obstacles:
            raise SubscriptionError(subscription.inactive_message(script.obstacles))

    async def set_not_for_replication(
        self, subscriber: str, table: str, object_name: str, value: bool, *, schema: str = "public"
    ) -> None:
        """Set whether a trigger or constraint of a Subscriber's table is ignored for agents' changes.

        See `twopc.subscriber.not_for_replication`.
        """
        await not_for_replication.set_not_for_replication(
            await self._wiring.admin(subscriber), schema, table, object_name, value
        )
