"""Publishing and subscribing: what needs both ends at once.

Knows nothing of transactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import sql

from publisher import publication, subscriptions
from sim.script import SyncScript, script_synctran_commands
from sim.topology import initial
from sim.topology.nodes import grant_tables, revoke_tables
from sim.topology.wiring import Wiring
from subscriber import subscription, tables
from subscriber.triggers import Sites
from twopc.articles import Article
from twopc.drivers.install import install_participant
from twopc.errors import ConfigurationError, SubscriptionError
from twopc.sql.describe import describe


class Replication(Wiring):
    """A topology that publishes and subscribes."""

    def __init__(self, **wiring: Any) -> None:
        super().__init__(**wiring)
        self._published: list[tuple[str, str]] = []
        self._subscribed: list[str] = []

    def sites(self, subscriber: str) -> Sites:
        """The names under which a Subscriber and the Publisher take part in transactions."""
        return Sites(publisher=self.publisher, subscriber=subscriber)

    async def publish(
        self,
        table: str,
        *,
        schema: str = "public",
        columns: Sequence[str] | None = None,
        row_filter: str | None = None,
    ) -> Article:
        """Publish a table; see `publisher.publication.publish`."""
        connection = await self.admin(self.publisher)
        article = await publication.publish(
            connection,
            schema,
            table,
            columns=tuple(columns) if columns is not None else None,
            row_filter=row_filter,
        )
        await grant_tables(connection, schema, table, self.node(self.publisher).app_role)
        self._published.append((schema, table))
        return article

    async def take_away(self) -> None:
        """As `Wiring.take_away`: subscriptions, then articles, then what they stand on."""
        for name in [n for n in self._subscribed if not self.node(n).embedded]:
            await self.unsubscribe(name)
        if self.nodes and not self.node(self.publisher).embedded:
            for schema, table in [*self._published]:
                await self.unpublish(table, schema=schema)
            if self.publisher in self._brought:
                await publication.uninstall(await self.admin(self.publisher))
        await super().take_away()

    async def unpublish(self, table: str, *, schema: str = "public") -> None:
        """Take an article back; see `publisher.publication.unpublish`."""
        await publication.unpublish(await self.admin(self.publisher), schema, table)
        if (schema, table) in self._published:
            self._published.remove((schema, table))

    async def subscribe(self, subscriber: str) -> None:
        """Give a Subscriber every article: tables, rows, link and triggers.

        Raises:
            SubscriptionError: it subscribes already, or a table of its own is in the way: nothing is
                left half-installed at either end. Or a user's trigger fires before ours: then the
                subscription is there, but inactive until `activate`.
        """
        node, publisher = self.node(subscriber), await self.admin(self.publisher)
        if node.kind != "subscriber":
            raise ConfigurationError(f"{subscriber!r} is the {node.kind}, not a Subscriber")
        here = await self.admin(subscriber)
        articles = await publication.articles(publisher)
        if not articles:
            raise SubscriptionError("nothing is published yet: publish a table first")
        link, sites = await self._register(subscriber), self.sites(subscriber)
        try:
            async with here.transaction():
                await subscription.install(here, sites, link)
                async with initial.reading(publisher):
                    copies = await initial.bring(
                        publisher, here, articles, node.app_role, rows=True
                    )
                found = [
                    obstacle
                    for article, copy in zip(articles, copies, strict=True)
                    for obstacle in await subscription.subscribe(here, article, sites, **copy)
                ]
                await subscription.register_role(here, node.app_role, node.coordinator_role)
                await install_participant(
                    here, subscription.owner_role(node.database), node.coordinator_role
                )
        except BaseException:
            await subscriptions.drop_subscription(publisher, subscriber)
            raise
        self._subscribed.append(subscriber)
        if found:
            raise SubscriptionError(subscription.inactive_message(found))

    async def _register(self, subscriber: str) -> subscription.LinkAddress:
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

    async def script(self, subscriber: str, *, role: str | None = None) -> SyncScript:
        """What a Subscriber must run that has the tables and rows already; see `sim.script`.

        The Publisher knows the Subscriber from then on.

        Args:
            role: the application's role there; None: the topology's.

        Raises:
            SubscriptionError: it subscribes already, or a table of it does not match.
        """
        node, here = self.node(subscriber), await self.admin(subscriber)
        link, sites = await self._register(subscriber), self.sites(subscriber)
        try:
            commands = []
            for article in await publication.articles(await self.admin(self.publisher)):
                tables.check_same_shape(
                    article, await describe(here, article.schema, article.table)
                )
                texts, _ = await subscription.article_commands(here, article, sites)
                commands.append(texts)
        except BaseException:
            await subscriptions.drop_subscription(await self.admin(self.publisher), subscriber)
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

    async def add_sync_triggers(self, subscriber: str, script: SyncScript) -> None:
        """Run the script of a subscription; see `subscriber.subscription.addsynctriggers`.

        Raises:
            SubscriptionError: it cannot be run; nothing was changed at the Subscriber.
        """
        here, role = await self.admin(subscriber), self.node(subscriber).app_role
        await subscription.addsynctriggers(here, script.text, script.role, script.password)
        for article in await publication.articles(await self.admin(self.publisher)):
            await grant_tables(here, article.schema, article.table, role)
        self._subscribed.append(subscriber)

    async def regenerate(self, table: str, *, schema: str = "public") -> Article:
        """Make the objects of an article fit its table again, at the Publisher and every Subscriber.

        After an ALTER TABLE at the Publisher, and the same at each Subscriber. A table that was renamed
        goes by its new name.

        Raises:
            ArticleError: the table is not published, or can no longer be published so.
            SubscriptionError: a Subscriber's table does not match: nothing is changed anywhere. Or a
                user's trigger fires before ours there: then that subscription is inactive.
        """
        publisher = await self.admin(self.publisher)
        there = [s.subscriber for s in await subscriptions.subscriptions(publisher)]
        known = [name for name in there if name in self.nodes]
        async with publisher.transaction():
            article = await publication.regenerate(publisher, schema, table)
            for subscriber in known:
                await subscription.check_fit(await self.admin(subscriber), article)
        found = [
            obstacle
            for subscriber in known
            for obstacle in await subscription.regenerate(
                await self.admin(subscriber), article, self.sites(subscriber)
            )
        ]
        if found:
            raise SubscriptionError(subscription.inactive_message(found))
        return article

    async def activate(self, subscriber: str) -> None:
        """Let a Subscriber's changes through again once nothing keeps our triggers from firing first.

        Raises:
            SubscriptionError: something still does.
        """
        articles = await publication.articles(await self.admin(self.publisher))
        await subscription.activate(await self.admin(subscriber), articles, self.sites(subscriber))

    async def unsubscribe(self, subscriber: str) -> None:
        """Take a subscription away at both ends; the rows stay."""
        here, role = await self.admin(subscriber), self.node(subscriber).app_role
        for schema, table in await subscription.uninstall(here):
            await revoke_tables(here, schema, table, role)
        await subscriptions.drop_subscription(await self.admin(self.publisher), subscriber)
        if subscriber in self._subscribed:
            self._subscribed.remove(subscriber)
