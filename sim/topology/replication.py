"""Publishing and subscribing: what needs both ends at once.

Knows nothing of transactions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from psycopg import AsyncConnection

from publisher import proc_execution, publication, subscriptions
from publisher.distribution.update_modes import UpdateMode
from sim.topology import initial
from sim.topology.leaving import Leaving
from sim.topology.nodes import grant_tables
from subscriber import propagation as procedures
from subscriber import read_only, subscription
from subscriber.distribution_agent.profile import Profile
from twopc.articles import Article
from twopc.distributed import DistributedArticle
from twopc.drivers.install import install_participant
from twopc.drivers.points import Points
from twopc.errors import ArticleError, ConfigurationError, SubscriptionError
from twopc.proc_execution import ProcArticle
from twopc.propagation import Propagation

SyncType = Literal["automatic", "replication support only", "none"]
Connection = AsyncConnection[Any]


class Replication(Leaving):
    """A topology that publishes and subscribes."""

    def __init__(self, **wiring: Any) -> None:
        super().__init__(**wiring)
        self._published: list[tuple[str, str]] = []
        self.copying_points = Points(os.environ)
        """What is armed there acts where a Subscriber's rows are copied."""
        self.copied = ""
        """The Subscriber that is being copied to now."""

    # -- articles ----------------------------------------------------------------------------------

    async def publish(
        self,
        table: str,
        *,
        schema: str = "public",
        columns: Sequence[str] | None = None,
        row_filter: str | None = None,
        propagate: Mapping[str, str] | None = None,
        propagation: Propagation | None = None,
    ) -> Article:
        """Publish a table; see `publisher.publication.publish`.

        Subscribers that are there already get it by `refresh_subscriptions`.

        Args:
            propagate: how each operation travels, as ``{"ins": "CALL", "upd": "XCALL sp_mine"}``; what is
                left out travels as in the original.
            propagation: the same as a value.
        """
        connection = await self.admin(self.publisher)
        article = await publication.publish(
            connection,
            schema,
            table,
            columns=tuple(columns) if columns is not None else None,
            row_filter=row_filter,
            propagation=propagation or _propagation(propagate or {}),
        )
        await grant_tables(connection, schema, table, self.node(self.publisher).app_role)
        self._published.append((schema, table))
        if await self.distributes_already():
            await self.register()
        return article

    async def take_away(self) -> None:
        """As `Wiring.take_away`: subscriptions, then articles, then what they stand on."""
        for name in [n for n in self.subscribed if not self.node(n).embedded]:
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

    async def regenerate(self, table: str, *, schema: str = "public") -> Article:
        """Make the objects of an article fit its table again, at the Publisher and every Subscriber.

        After an ALTER TABLE at the Publisher, and the same at each Subscriber. A table that was renamed
        goes by its new name. Changes that were made before are delivered first, unless agents are running by
        themselves: they have the old shape.

        Raises:
            ArticleError: the table is not published, or can no longer be published so.
            SubscriptionError: a Subscriber's table does not match: nothing is changed anywhere. Or a
                user's trigger fires before ours there: then that subscription is inactive.
        """
        publisher = await self.admin(self.publisher)
        there = [s.subscriber for s in await subscriptions.subscriptions(publisher)]
        known = [name for name in there if name in self.nodes]
        modes = await self.update_modes()
        readers = [
            name for name, mode in modes.items() if mode == "read only" and name in self.nodes
        ]
        if await self.distributes_already():
            await self.deliver_before_change([*known, *readers])
        async with publisher.transaction():
            article = await publication.regenerate(publisher, schema, table)
            for subscriber in (*known, *readers):
                await subscription.check_fit(await self.admin(subscriber), article)
        found = [
            obstacle
            for subscriber in known
            for obstacle in await subscription.regenerate(
                await self.admin(subscriber), article, self.sites(subscriber)
            )
        ]
        if await self.distributes_already():
            # others may be stale still, and wait for their turn
            changed = await publication.distributed_articles(publisher, of=(schema, table))
            await self.put_articles(changed)
            for subscriber in (*known, *readers):
                mine = {each.article_id for each in await self.subscribed_articles(subscriber)}
                await self.create_procedures(
                    subscriber, [each for each in changed if each.article_id in mine]
                )
        if found:
            raise SubscriptionError(subscription.inactive_message(found))
        return article

    # -- subscriptions -----------------------------------------------------------------------------

    async def subscribe(
        self,
        subscriber: str,
        *,
        sync: SyncType = "automatic",
        filters: Mapping[str, str] | None = None,
        profile: Profile | None = None,
        scripts: Mapping[str, Sequence[str]] | None = None,
        update_mode: UpdateMode = "sync tran",
    ) -> None:
        """Give a Subscriber every article: tables, rows, link, triggers, and what agents call.

        Others may go on writing meanwhile: what the copy has not seen is delivered by the first `sync`.

        Args:
            sync: ``automatic`` copies tables and rows; ``replication support only`` finds them there, as
                the Publisher has them now, row versions included; ``none`` too, and its triggers are made
                by a script (see `script`).
            filters: by table, a condition: only rows that fulfil it come here.
            profile: what its agent is set to.
            scripts: by table, SQL that makes procedures of the user's own, which `publish` names.
            update_mode: ``sync tran``: the Subscriber changes its copy too, and the Publisher with it in one
                transaction; ``read only``: agents alone change it, without link and triggers.

        Raises:
            SubscriptionError: it subscribes already, or a table of its own is in the way: nothing is
                left half-installed at either end. Or a user's trigger fires before ours: then the
                subscription is there, but inactive until `activate`.
            ServerError: a prepared transaction (named) keeps the log from being read from here on.
        """
        node = self.node(subscriber)
        if node.kind != "subscriber":
            raise ConfigurationError(f"{subscriber!r} is the {node.kind}, not a Subscriber")
        reads = update_mode == "read only"
        await self._check_new(subscriber, sync, filters, update_mode)
        if sync == "none":
            script = await self.script(subscriber, filters=filters)
            await self.add_sync_triggers(subscriber, script, profile=profile, scripts=scripts)
            return
        articles = await self.choose(filters or {})
        if not articles:
            raise SubscriptionError("nothing is published yet: publish a table first")
        routines = await proc_execution.proc_articles(await self.admin(self.publisher))
        link = None if reads else await self.register_link(subscriber)
        self.profiles[subscriber] = profile or Profile()
        try:
            if self.distribute:
                role = None if link is None else link.role
                await self.announce(
                    subscriber, articles, link_role=role, sync_type=sync, routines=routines
                )
            found = await self._bring(
                subscriber, articles, routines, sync, scripts or {}, link=link, reads=reads
            )
        except BaseException:
            await self.forget_subscriber(subscriber)
            raise
        self.subscribed.append(subscriber)
        await self.switch_calls()
        self.attend(subscriber)
        if found:
            raise SubscriptionError(subscription.inactive_message(found))

    async def _check_new(
        self,
        subscriber: str,
        sync: SyncType,
        filters: Mapping[str, str] | None,
        update_mode: UpdateMode,
    ) -> None:
        """Refuse a subscription that cannot be."""
        if update_mode not in get_args(UpdateMode):
            raise ConfigurationError(
                f"update_mode={update_mode!r}: use {' or '.join(map(repr, get_args(UpdateMode)))}"
            )
        reads = update_mode == "read only"
        if not self.distribute and (filters or sync != "automatic" or reads):
            raise ConfigurationError(
                f"{subscriber!r}: filters, sync={sync!r} and update_mode={update_mode!r} need "
                "distribution, which this topology was made without"
            )
        if reads and sync == "none":
            raise ConfigurationError(
                f"{subscriber!r}: a subscription that is read only has no triggers to script: take "
                "sync='replication support only' for rows that are there already"
            )
        known = await self.update_modes()
        if subscriber in known and (reads or known[subscriber] == "read only"):
            raise SubscriptionError(
                f"{subscriber!r} subscribes already, {known[subscriber]} (21058): unsubscribe it first"
            )

    async def _bring(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle],
        routines: Sequence[ProcArticle],
        sync: SyncType,
        scripts: Mapping[str, Sequence[str]],
        *,
        link: subscription.LinkAddress | None,
        reads: bool,
        new: bool = True,
    ) -> list[Any]:
        """Everything that a Subscriber needs for some articles, in one transaction there.

        Args:
            link: of a new subscription that is not read only.
            reads: it is read only.
            new: it has no articles yet.

        Returns:
            What keeps our triggers from firing first.
        """
        node, sites = self.node(subscriber), self.sites(subscriber)
        await self._reach("snapshot.begin", subscriber)
        here, publisher = await self.admin(subscriber), await self.admin(self.publisher)
        plain = [each.article for each in articles]
        async with here.transaction():
            if link is not None:
                await subscription.install(here, sites, link)
            elif new:
                await read_only.install(here, sites, self.node(self.publisher).database)
            if self.distribute:
                await procedures.install(here, node.agent_role)
                await self.hold_agent(subscriber)
            async with initial.reading(publisher) as moment:
                await self._reach("snapshot.taken", subscriber)
                routines = await self._as_they_are(routines)
                copies = await initial.bring(
                    publisher,
                    here,
                    plain,
                    node.app_role,
                    rows=sync == "automatic",
                    read_only=reads,
                )
            await self._reach("snapshot.copied", subscriber)
            found: list[Any] = []
            for article, copy in zip(plain, copies, strict=True):
                if reads:
                    await read_only.subscribe(here, article, **copy)
                else:
                    found += await subscription.subscribe(here, article, sites, **copy)
            if link is not None:
                await subscription.register_role(here, node.app_role, node.coordinator_role)
                await install_participant(
                    here, subscription.owner_role(node.database), node.coordinator_role
                )
            if self.distribute:
                await self.create_procedures(subscriber, articles, scripts)
                await self.create_routines(subscriber, routines, calls=reads)
                # before the commit: an agent that sees it too soon waits for us, and finds it changed
                delivered = await self.position(subscriber)
                await self.start_from(
                    subscriber, articles, moment, routines=routines, delivered=delivered
                )
            await self._reach("snapshot.started", subscriber)
        return found

    async def _reach(self, point: str, subscriber: str) -> None:
        """Come by a point of the copy that a Subscriber gets."""
        if self.copying_points.armed:
            self.copied = subscriber
            await self.copying_points.reach(point)

    async def _as_they_are(self, routines: Sequence[ProcArticle]) -> list[ProcArticle]:
        """Routines as the Publisher has them, in the snapshot of a copy."""
        wanted = {routine.article_id for routine in routines}
        found = await proc_execution.proc_articles(await self.admin(self.publisher))
        return [routine for routine in found if routine.article_id in wanted]

    async def refresh_subscriptions(self, *subscribers: str) -> None:
        """Give Subscribers (all) the articles that were published after they subscribed.

        As sp_refreshsubscriptions and the snapshot agent: tables and rows are copied while others write.
        Routines are defined.
        """
        published = await proc_execution.proc_articles(await self.admin(self.publisher))
        for subscriber in subscribers or tuple(self.subscribed):
            known = {each.article.name for each in await self.subscribed_articles(subscriber)}
            articles = [each for each in await self.choose({}) if each.article.name not in known]
            mine = {each.article_id for each in await self.subscribed_routines(subscriber)}
            routines = [each for each in published if each.article_id not in mine]
            if not articles and not routines:
                continue
            reads = await self.is_read_only(subscriber)
            role = None if reads else await self.link_role(subscriber)
            await self.announce(
                subscriber, articles, link_role=role, sync_type="automatic", routines=routines
            )
            try:
                found = await self._bring(
                    subscriber,
                    articles,
                    routines,
                    "automatic",
                    {},
                    link=None,
                    reads=reads,
                    new=False,
                )
            except BaseException:
                await self.withdraw(subscriber, articles, routines)
                raise
            await self.switch_calls()
            if found:
                raise SubscriptionError(subscription.inactive_message(found))

    async def reinitialise(self, subscriber: str) -> None:
        """Copy everything to a Subscriber anew, while others go on; its own transactions are waited for.

        Raises:
            SubscriptionError: it does not subscribe, or came without rows (21070).
            LockTimeoutError: a transaction there does not end.
        """
        articles = await self.chosen_articles(subscriber)
        if not articles:
            raise SubscriptionError(f"{subscriber!r} does not subscribe: subscribe it first")
        await self._reach("snapshot.begin", subscriber)
        here, publisher = await self.admin(subscriber), await self.admin(self.publisher)
        plain = [each.article for each in articles]
        async with here.transaction():
            await self.hold_agent(
                subscriber
            )  # first, as the agent does, or they wait for each other
            await initial.lock_out(here, plain, self.lock_timeout_ms)
            if not await self.is_read_only(subscriber):
                await initial.until_finished(
                    publisher, await self.link_role(subscriber), self.lock_timeout_ms
                )
            reads = await self.is_read_only(subscriber)
            routines = await self.subscribed_routines(subscriber)
            async with initial.reading(publisher) as moment:
                await self._reach("snapshot.taken", subscriber)
                routines = await self._as_they_are(routines)
                await initial.bring_again(publisher, here, plain)
            await self._reach("snapshot.copied", subscriber)
            await self.create_routines(subscriber, routines, calls=reads)
            # the agent stands still until the copy is committed, or it would skip what this one has
            delivered = await self.position(subscriber)
            await self.start_from(
                subscriber,
                articles,
                moment,
                routines=routines,
                delivered=delivered,
                active=False,
            )
            await self._reach("snapshot.started", subscriber)
        await self.set_active(subscriber, articles, routines)
        await self.switch_calls()


def _propagation(propagate: Mapping[str, str]) -> Propagation:
    """How an article travels, from what differs from the original's defaults."""
    default = Propagation().as_json()
    unknown = sorted(set(propagate) - set(default))
    if unknown:
        raise ArticleError(
            f"propagation of {unknown[0]!r}: operations are {', '.join(map(repr, default))}"
        )
    return Propagation.from_json({**default, **propagate})
