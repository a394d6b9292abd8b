"""Creation of subscriptions, which needs both ends at once.

Independent of transactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from twopc.distributed_article import DistributedArticle
from twopc.errors import ConfigurationError, SubscriptionError
from twopc.names import article_name
from twopc.proc_execution import ProcArticle
from twopc.publisher import proc_execution
from twopc.publisher.distribution import registry
from twopc.publisher.distribution.update_modes import UpdateMode
from twopc.sim.topology import routine_warnings
from twopc.sim.topology.article_names import by_article
from twopc.sim.topology.copies import Copies, FirstCopy, ServerCopyTarget, SyncType
from twopc.sim.topology.installer import Installer, TopologyComponent
from twopc.sim.topology.subscription_scripts import SubscriptionScripts
from twopc.subscriber import subscription
from twopc.subscriber.distribution_agent.profile import Profile


class Subscriptions(TopologyComponent):
    """Creates, refreshes and reinitialises subscriptions."""

    def __init__(
        self, installer: Installer, scripting: SubscriptionScripts, copies: Copies
    ) -> None:
        super().__init__(installer)
        self._scripting = scripting
        self._copies = copies

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
        """Give a Subscriber every article: tables, rows, link, triggers, and the procedures that agents call.

        Other transactions may write meanwhile: changes that the copy's snapshot does not include are delivered by
        the first `sync`.

        Args:
            sync: ``automatic`` copies tables and rows; ``replication support only`` requires them there, equal to
                the Publisher's, row versions included; ``none`` does too, and the triggers are created by a script
                (see `script`).
            filters: a condition by table: only rows that fulfil it are delivered.
            profile: profile of the Subscriber's agent.
            scripts: SQL that creates the user's own procedures, which `publish` names, by table.
            update_mode: ``sync tran``: the Subscriber changes its copy too, and the Publisher with it in one
                transaction; ``read only``: only agents change the copy, without link and triggers.

        Raises:
            SubscriptionError: the node subscribes already, or a table of its own has the name of an article:
                nothing is left half-installed at either end. Or a user's trigger fires before ours: then the
                subscription exists, but is inactive until `activate`.
            ServerError: a prepared transaction (named) prevents the log from being read from here on.
            ConfigurationError: another command changes the subscription.
        """
        node = self._wiring.node(subscriber)
        if node.kind != "subscriber":
            raise ConfigurationError(f"{subscriber!r} is the {node.kind}, not a Subscriber")
        await self._wiring.admit(subscriber)
        if sync == "none":
            await self._check_new(subscriber, sync, filters, update_mode)
            script = await self._scripting.script(subscriber, filters=filters, scripts=scripts)
            await self._scripting.add_sync_triggers(subscriber, script, profile=profile)
            return
        async with self._registration.turn_of(subscriber):
            await self._check_new(subscriber, sync, filters, update_mode)
            result = await self._make(
                subscriber, sync, filters, profile, scripts, reads=update_mode == "read only"
            )
        if result:
            raise SubscriptionError(subscription.inactive_message(result))

    async def _make(
        self,
        subscriber: str,
        sync: SyncType,
        filters: Mapping[str, str] | None,
        profile: Profile | None,
        scripts: Mapping[str, Sequence[str]] | None,
        *,
        reads: bool,
    ) -> list[Any]:
        """Make a subscription that does not exist; return triggers of the user that would fire before ours."""
        articles = await self._installer.choose(filters or {})
        if not articles:
            raise SubscriptionError("nothing is published yet: `twopc publish` a table first")
        scripts = by_article(scripts or {}, articles)
        routines = await proc_execution.proc_articles(await self._wiring.at_publisher())
        link = None if reads else await self._installer.register_link(subscriber)
        try:
            if self._wiring.distribute:
                role = None if link is None else link.role
                await self._registration.announce(
                    subscriber, articles, link_role=role, sync_type=sync, routines=routines
                )
                if profile is not None:
                    await self._agents.set_profile(subscriber, profile)
            result = await self._bring(
                subscriber, articles, routines, sync, scripts, link=link, reads=reads
            )
        except BaseException:
            await self._installer.forget_subscriber(subscriber)
            raise
        self._installer.subscribed.append(subscriber)
        await self._registration.switch_calls()
        self._agents.attend(subscriber)
        return result

    async def _check_new(
        self,
        subscriber: str,
        sync: SyncType,
        filters: Mapping[str, str] | None,
        update_mode: UpdateMode,
    ) -> None:
        """Refuse a subscription whose options are invalid, or that exists."""
        if update_mode not in get_args(UpdateMode):
            raise ConfigurationError(
                f"update_mode={update_mode!r}: use {' or '.join(map(repr, get_args(UpdateMode)))}"
            )
        reads = update_mode == "read only"
        if not self._wiring.distribute and (filters or sync != "automatic" or reads):
            raise ConfigurationError(
                f"{subscriber!r}: filters, sync={sync!r} and update_mode={update_mode!r} need "
                "distribution, which this topology was made without"
            )
        if reads and sync == "none":
            raise ConfigurationError(
                f"{subscriber!r}: a subscription that is read only has no triggers to script: take "
                "sync='replication support only' for rows that are there already"
            )
        known = await self._registration.update_modes()
        if subscriber in known:
            raise SubscriptionError(
                f"{subscriber!r} subscribes already, {known[subscriber]} (21058): "
                f"`twopc unsubscribe {subscriber}` first"
            )
        if sync not in get_args(SyncType):
            raise ConfigurationError(
                f"sync={sync!r}: use {', '.join(map(repr, get_args(SyncType)))}"
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
        """Create everything that a Subscriber needs for some articles, in one transaction there.

        Args:
            link: the link of a new subscription that is not read-only.
            reads: the subscription is read-only.
            new: the Subscriber has no articles yet.

        Returns:
            Triggers of the user that would fire before ours.
        """
        copy = FirstCopy(
            self._installer,
            subscriber,
            articles,
            routines,
            sync=sync,
            scripts=scripts,
            link=link,
            new=new,
            reads=reads,
        )
        await (await self._copies.agent(copy)).bring()
        return copy.obstacles

    async def refresh(self, *subscribers: str) -> dict[str, list[str]]:
        """Give Subscribers (default: all) the articles that were published after they subscribed.

        Corresponds to sp_refreshsubscriptions and the snapshot agent: tables and rows are copied while other
        transactions write. Routines are defined.

        Returns:
            The new articles and routines of each Subscriber.
        """
        done: dict[str, list[str]] = {}
        await routine_warnings.tell(await self._wiring.at_publisher())
        for subscriber in subscribers or await self._agents.subscribers():
            async with self._registration.turn_of(subscriber):
                done[subscriber] = await self._refresh(subscriber)
        return done

    async def _refresh(self, subscriber: str) -> list[str]:
        """Give a Subscriber the articles and routines that it lacks; return their names."""
        published = await proc_execution.proc_articles(await self._wiring.at_publisher())
        tables, ids = await self._there(subscriber)
        known = {
            each.article.name for each in await self._registration.subscribed_articles(subscriber)
        } & tables
        articles = [
            each for each in await self._installer.choose({}) if each.article.name not in known
        ]
        own = {
            each.article_id for each in await self._registration.subscribed_routines(subscriber)
        } & ids
        routines = [each for each in published if each.article_id not in own]
        names = [each.article.name for each in articles] + [each.identity for each in routines]
        if not names:
            return []
        reads = await self._registration.is_read_only(subscriber)
        role = None if reads else await self._installer.link_role(subscriber)
        await self._registration.announce(
            subscriber, articles, link_role=role, sync_type="automatic", routines=routines
        )
        try:
            result = await self._bring(
                subscriber, articles, routines, "automatic", {}, link=None, reads=reads, new=False
            )
        except BaseException:
            await self._agents.withdraw(subscriber, articles, routines)
            raise
        await self._registration.switch_calls()
        if result:
            raise SubscriptionError(subscription.inactive_message(result))
        return names

    async def _there(self, subscriber: str) -> tuple[set[str], set[int]]:
        """Return names of the articles and numbers of the routines that exist at a Subscriber.

        An article whose copy was interrupted does not exist there, although it is registered.
        """
        known = await self._registration.update_modes()
        if subscriber not in known:
            raise SubscriptionError(
                f"{subscriber!r} does not subscribe; Subscribers are {', '.join(sorted(known)) or 'none'}"
            )
        catalogs = await self._wiring.execute(
            subscriber,
            "select to_regclass('msrepl.msreplication_objects') is not null,"
            " to_regclass('msrepl.msreplication_proc_articles') is not null",
        )
        if not catalogs[0][0]:
            raise SubscriptionError(
                f"nothing of the subscription of {subscriber!r} is there: its first copy was cut off: "
                f"`twopc unsubscribe {subscriber}`, and subscribe it again"
            )
        tables = await self._wiring.execute(
            subscriber, "select dest_schema, article from msrepl.msreplication_objects"
        )
        routines = (
            await self._wiring.execute(
                subscriber, "select article_id from msrepl.msreplication_proc_articles"
            )
            if catalogs[0][1]
            else []
        )
        return {article_name(*each) for each in tables}, {number for (number,) in routines}

    async def reinitialise(self, subscriber: str) -> None:
        """Replace every row of a Subscriber's copies while others continue to work; waits for its own transactions.

        If the log cannot be continued (`Registration.restart_log`), every other subscription is deactivated.

        Raises:
            SubscriptionError: the node does not subscribe, or its rows were not copied by us (21070).
            LockTimeoutError: a transaction there does not end.
            ServerError: see `Registration.restart_log`.
            ConfigurationError: another command changes the subscription.
        """
        async with self._registration.turn_of(subscriber):
            await self._reinitialise(subscriber)

    async def _reinitialise(self, subscriber: str) -> None:
        articles = await self._registration.chosen_articles(subscriber)
        if not articles:
            raise SubscriptionError(
                f"{subscriber!r} does not subscribe: `twopc subscribe {subscriber}` first"
            )
        await self._refuse_without_rows(subscriber)
        if self._wiring.distribute:
            await self._registration.restart_log()
        copy = ServerCopyTarget(
            self._installer,
            subscriber,
            articles,
            await self._registration.subscribed_routines(subscriber),
            reads=await self._registration.is_read_only(subscriber),
        )
        await (await self._copies.agent(copy)).reinitialise()
        await self._registration.switch_calls()

    async def _refuse_without_rows(self, subscriber: str) -> None:
        """Raise SubscriptionError if a Subscriber's rows were not copied by us."""
        types = await registry.sync_types(
            await self._wiring.at_distribution(),
            await self._registration.publisher_number(),
            subscriber,
        )
        others = types - {"automatic"}
        if others:
            raise SubscriptionError(
                f"{subscriber!r} subscribes with sync={min(others)!r} and brought its rows itself, which are "
                "not ours to replace (21070): `twopc unsubscribe` it, give it the Publisher's rows and subscribe it "
                "again"
            )
