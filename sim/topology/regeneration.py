"""Regeneration of objects that no longer fit their tables, after an ALTER TABLE or while a subscription is
inactive.

An ALTER TABLE may have changed rows at one end and left their versions: a change of such a row would pass the check
and overwrite the other end's values. Rows are therefore compared before changes are allowed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from twopc.articles import Article
from twopc.errors import SubscriptionError
from twopc.publisher import publication, subscriptions
from twopc.sim.topology import initial
from twopc.sim.topology.installer import TopologyComponent
from twopc.sim.validation.same_versions import Apart, ArticleRows
from twopc.subscriber import subscription
from twopc.subscriber.trigger_order import Obstacle
from twopc.validation import Key

Connection = AsyncConnection[Any]

#: Maximum number of keys that an error names.
_NAMED_MAX = 5
#: Maximum number of comparisons while changes of the compared rows are being delivered.
_LOOKS_MAX = 5


class Regeneration(TopologyComponent):
    """Regenerates the objects of tables, after comparing rows."""

    async def regenerate(
        self, table: str, *, schema: str = "public", repair: bool = False
    ) -> Article:
        """Regenerate the objects of an article to fit its table, at the Publisher and every Subscriber.

        For use after an ALTER TABLE at the Publisher, and the same at each Subscriber. A table that was renamed is
        identified by its new name. Changes made before the ALTER TABLE are delivered first, unless agents run
        continuously: they have the old shape. The rows of an altered table are compared before changes are allowed
        again. A distribution database that an earlier version has installed is upgraded.

        Args:
            repair: rows that differ under the same version get the Publisher's values.

        Raises:
            ArticleError: the table is not published, or no longer can be with these columns.
            SubscriptionError: a Subscriber's table does not match: nothing is changed anywhere. Or its rows differ:
                the table stays stale. Or a user's trigger fires before ours: that subscription is inactive.
        """
        if await self._registration.can_distribute():
            await self._wiring.install_distribution()
        publisher = await self._wiring.at_publisher()
        there = [s.subscriber for s in await subscriptions.subscriptions(publisher)]
        known = [name for name in there if name in self._wiring.nodes]
        modes = await self._registration.update_modes()
        readers = [
            name
            for name, mode in modes.items()
            if mode == "read only" and name in self._wiring.nodes
        ]
        altered = await publication.is_stale(publisher, schema, table)
        if altered:
            self._registration.require(
                {*there, *modes}, f"table {schema}.{table} was altered, and its rows are compared"
            )
        if await self._registration.has_subscriptions():
            await self._agents.deliver_before_change([*known, *readers])
        async with publisher.transaction():
            article = await publication.regenerate(publisher, schema, table)
            for subscriber in (*known, *readers):
                await subscription.check_fit(await self._wiring.admin(subscriber), article)
            for subscriber in known if altered else ():
                here = await self._wiring.admin(subscriber)
                async with here.transaction():
                    await initial.lock_out(here, [article], self._wiring.lock_timeout_ms)
                    await subscription.hold(here, article)
        if await self._registration.has_subscriptions():
            # only this article: other articles may still be stale
            changed = await publication.distributed_articles(publisher, of=(schema, table))
            await self._registration.put_articles(changed)
            for subscriber in (*known, *readers):
                own = {
                    each.article_id
                    for each in await self._registration.subscribed_articles(subscriber)
                }
                await self._installer.create_procedures(
                    subscriber, [each for each in changed if each.article_id in own]
                )
        results: list[Obstacle] = []
        for subscriber in known:
            results += await self._regenerate_at(subscriber, article, repair=repair)
        for subscriber in readers if altered or repair else ():
            await self._compare(subscriber, article, repair=repair)
        if results:
            raise SubscriptionError(subscription.inactive_message(results))
        return article

    async def _regenerate_at(
        self, subscriber: str, article: Article, *, repair: bool
    ) -> Sequence[Obstacle]:
        here = await self._wiring.admin(subscriber)
        mark = await subscription.stale_mark(here, article)
        if mark is not None:
            await self._compare(subscriber, article, repair=repair)
        async with here.transaction():
            await _expect(here, article, mark)
            return await subscription.regenerate(here, article, self._installer.sites(subscriber))

    async def activate(self, subscriber: str) -> None:
        """Allow a Subscriber's changes again once no user's trigger fires before ours.

        Raises:
            SubscriptionError: a user's trigger still fires before ours, rows of an altered table differ, or the
                subscription is read-only.
        """
        if await self._registration.is_read_only(subscriber):
            raise SubscriptionError(
                f"the subscription of {subscriber!r} is read only: it has no triggers to activate"
            )
        articles = await publication.articles(await self._wiring.at_publisher())
        here = await self._wiring.admin(subscriber)
        marks = [await subscription.stale_mark(here, article) for article in articles]
        for article, mark in zip(articles, marks, strict=True):
            if mark is not None:
                await subscription.check_fit(here, article)
                await self._compare(subscriber, article, repair=False)
        async with here.transaction():
            for article, mark in zip(articles, marks, strict=True):
                await _expect(here, article, mark)
            result = await subscription.activate(here, articles, self._installer.sites(subscriber))
        # raised after the transaction, which has to commit that the subscription is inactive
        if result:
            raise SubscriptionError(subscription.inactive_message(result))

    async def _compare(self, subscriber: str, article: Article, *, repair: bool) -> None:
        """Refuse or repair rows that differ under the same version, or have drifted.

        Changes in progress are delivered first, since such a change may explain a difference of versions. A
        difference that remains after a delivery, with the same versions at both ends as before, is drift.
        """
        where = f"rows of {article.name} at {subscriber!r}"
        ends = self._wiring.node(self._wiring.publisher).dsn, self._wiring.node(subscriber).dsn
        async with ArticleRows.of(*ends, article) as rows:
            seen: frozenset[Apart] = frozenset()
            for _ in range(_LOOKS_MAX):
                differing, apart = await rows.compare()
                if repair:
                    await rows.repair(apart & seen)
                    differing, apart = await rows.compare()
                drifted, seen = apart & seen, apart
                if apart == drifted or not await self._registration.has_subscriptions():
                    break
                await self._agents.sync(subscriber)
            else:
                raise SubscriptionError(
                    f"{len(apart)} {where} are changed whenever they are compared with the Publisher's, after an "
                    "ALTER TABLE: try again while fewer changes are made"
                )
        _refuse(
            article,
            differing,
            f"{where} have the same version as the Publisher's and other values, because an ALTER TABLE has changed them",
        )
        _refuse(
            article,
            sorted(key for key, _, _ in drifted),
            f"{where} have another version than the Publisher's, and nothing is under way to them",
        )


def _refuse(article: Article, keys: Sequence[Key], what: str) -> None:
    if keys:
        named = "; ".join(", ".join(key) for key in keys[:_NAMED_MAX])
        raise SubscriptionError(
            f"{len(keys)} {what} ({', '.join(article.key)}: {named}); give them the Publisher's values: "
            f"twopc regenerate {article.name} --repair"
        )


async def _expect(here: Connection, article: Article, mark: str | None) -> None:
    """Raise if DDL has changed the table since its rows were compared; lock out further DDL until the transaction
    ends.
    """
    if mark != await subscription.stale_mark(here, article, lock=True):
        raise SubscriptionError(
            f"table {article.name} at {here.info.dbname!r} was altered once more: try again"
        )
