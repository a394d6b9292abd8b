"""The distribution database's records of a topology: its Publisher, articles and subscriptions with their
positions.

They include the slot, which retains the Publisher's log from the first subscription to the end of the last one.
Independent of the log reader and the agents.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager

from twopc import names
from twopc.distributed_article import DistributedArticle
from twopc.errors import ConfigurationError, ServerError
from twopc.proc_execution import ProcArticle, beside
from twopc.publisher import proc_execution, publication, slot, subscriptions
from twopc.publisher.distribution import registry, routines
from twopc.publisher.distribution.update_modes import UpdateMode, update_modes
from twopc.sim.topology.turns import between_copies, turn
from twopc.sim.topology.wiring import TopologyWiring

_PUBLISHER = "select id, slot from msrepl.mspublisher_databases where publisher = %s"


class Registration:
    """The registered Publisher, articles and subscriptions of a topology, with the Subscribers' positions."""

    #: How long a new slot waits for copies, and for transactions that are open anywhere in the cluster.
    slot_timeout_ms = 30_000

    def __init__(self, wiring: TopologyWiring) -> None:
        self._wiring = wiring

    @asynccontextmanager
    async def turn_of(self, subscriber: str) -> AsyncIterator[None]:
        """Return a context in which no other command changes a Subscriber's subscription.

        Raises:
            ConfigurationError: another command changes it.
        """
        async with self._turn(
            f"the subscription of {subscriber!r} to {self._wiring.publisher!r}", 0.0
        ):
            yield

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Return a context in which no other command changes what is registered of the Publisher, or the slot; others
        are waited for.

        Raises:
            ConfigurationError: another command does not end in time.
        """
        async with self._turn(
            f"the registered subscriptions to {self._wiring.publisher!r}",
            2 * self.slot_timeout_ms / 1000,
        ):
            yield

    @asynccontextmanager
    async def _turn(self, what: str, timeout_s: float) -> AsyncIterator[None]:
        if not await self.can_distribute():
            yield
            return
        node = self._wiring.node(self._wiring.distribution)
        async with await node.connect() as connection, turn(connection, what, timeout_s=timeout_s):
            yield

    async def register(self) -> int:
        """Register the Publisher and its articles, as they are now, in the distribution database.

        Returns:
            The Publisher's number in the distribution database.

        Raises:
            ServerError: the slot cannot be created (the message names the obstacle), or does not exist although
                there are subscriptions.
        """
        async with self.turn():
            return await self._register()

    async def _register(self) -> int:
        here = await self._wiring.at_publisher()
        node = self._wiring.node(self._wiring.publisher)
        await publication.admit_log_reader(here, node.logreader_role)
        distribution = await self._wiring.at_distribution()
        known = await self._registered()
        taken = known[1] if known else names.slot(self._wiring.name, node.database)
        there = await slot.look(here, taken) is not None
        if known is not None and not there and await self._article_ids(known[0]):
            raise ServerError(
                f"replication slot {taken!r} of {self._wiring.publisher!r} is gone, and what was committed "
                "since is lost to the Subscribers: `twopc reinitialise` every Subscriber first"
            )
        begins = await slot.create(here, taken, timeout_ms=self.slot_timeout_ms)
        try:
            number = await registry.register_publisher(
                distribution,
                self._wiring.publisher,
                database=node.database,
                slot=taken,
                read_to=begins,
                horizon=await slot.horizon(here),
            )
        except BaseException:
            if known is None and not there:
                await slot.drop(here, taken)  # otherwise it would be registered nowhere
            raise
        await registry.put_articles(
            distribution, number, await publication.distributed_articles(here)
        )
        for routine in await proc_execution.proc_articles(here):
            await routines.put_proc_article(distribution, number, routine)
        return number

    async def restart_log(self) -> None:
        """Begin the log anew if its slot is gone, was invalidated, or does not continue what is stored.

        What was committed in between is lost to every Subscriber: all subscriptions are deactivated, and each is to
        be reinitialised. The steps can be repeated after an interruption.

        Raises:
            ServerError: the log ends before the end of the store; the slot is none of ours, or cannot be created.
            ConfigurationError: the log is to begin anew, and another command is copying rows.
        """
        async with self.turn():
            await self._restart_log()

    async def _restart_log(self) -> None:
        here, distribution = await self._wiring.at_publisher(), await self._wiring.at_distribution()
        number, name = await self._distributed()
        state = await slot.look(here, name)
        if state is not None and not state.is_lost:
            begins = slot.usable(state, here.info.dbname)
            if await registry.continues(distribution, number, begins):
                return
        node = self._wiring.node(self._wiring.distribution)
        timeout_s = self.slot_timeout_ms / 1000
        # a copy with a snapshot from before would become active without what is lost
        async with (
            await node.connect() as connection,
            between_copies(connection, timeout_s=timeout_s),
        ):
            await registry.deactivate_all(distribution, number)
            await slot.drop(here, name, end_reader=True)
            begins = await slot.create(here, name, timeout_ms=self.slot_timeout_ms)
            await registry.restart(distribution, number, begins, horizon=await slot.horizon(here))

    async def put_articles(self, articles: Sequence[DistributedArticle]) -> None:
        """Store the current definitions of articles in the distribution database."""
        number = await self.publisher_number()
        distribution = await self._wiring.at_distribution()
        async with distribution.transaction():
            for article in articles:
                await registry.put_article(distribution, number, article)

    async def publisher_number(self) -> int:
        """Return the Publisher's number in the distribution database.

        Raises:
            ConfigurationError: the Publisher is not registered: there is no subscription, or no distribution.
        """
        return (await self._distributed())[0]

    async def slot(self) -> str:
        """Return the name of the replication slot in the Publisher's database, as the distribution database records
        it.

        Raises:
            ConfigurationError: as for `publisher_number`.
        """
        return (await self._distributed())[1]

    async def _distributed(self) -> tuple[int, str]:
        known = await self._registered() if await self.can_distribute() else None
        if known is None:
            why = (
                "`twopc subscribe` first"
                if self._wiring.distribute
                else "the topology was made without"
            )
            raise ConfigurationError(f"{self._wiring.publisher!r} distributes nothing: {why}")
        return known

    async def knows_publisher(self) -> bool:
        """Whether the Publisher is registered in the distribution database, which the first subscription does."""
        return await self.can_distribute() and await self._registered() is not None

    async def _registered(self) -> tuple[int, str] | None:
        """Return number and slot of the Publisher; None if the Publisher is not registered."""
        rows = await self._wiring.execute(
            self._wiring.distribution, _PUBLISHER, (self._wiring.publisher,)
        )
        return (int(rows[0][0]), str(rows[0][1])) if rows else None

    async def update_modes(self) -> dict[str, UpdateMode]:
        """Return the update modes of the Subscribers that the distribution database records, by name."""
        if not await self.can_distribute():
            return {}
        return await update_modes(await self._wiring.at_distribution(), self._wiring.publisher)

    async def has_subscriptions(self) -> bool:
        """Whether there are subscriptions, of nodes of this topology or others."""
        return bool(await self.update_modes())

    async def left_out(self) -> list[str]:
        """Return the Subscribers that are not among the nodes, so that they cannot be connected to."""
        return sorted({*await self.update_modes()} - {*self._wiring.nodes})

    def require(self, subscribers: Iterable[str], what: str) -> None:
        """Raise unless all of these Subscribers are nodes.

        Args:
            what: action at each of the Subscribers, for the message.

        Raises:
            ConfigurationError: a Subscriber is not among the nodes.
        """
        missing = sorted({*subscribers} - {*self._wiring.nodes})
        if missing:
            raise ConfigurationError(
                f"{what} at every Subscriber concerned: give the nodes of {', '.join(missing)}, too"
            )

    async def linked(self) -> set[str]:
        """Return the Subscribers with immediate updating, as the Publisher records them."""
        known = await subscriptions.subscriptions(await self._wiring.at_publisher())
        return {each.subscriber for each in known}

    async def is_read_only(self, subscriber: str) -> bool:
        """Whether only agents change a Subscriber's copies."""
        return (await self.update_modes()).get(subscriber) == "read only"

    async def position(self, subscriber: str) -> str:
        """Return the position up to which everything is delivered to a Subscriber, a pg_lsn; ``0/0`` if nothing
        was.
        """
        rows = await self._wiring.execute(
            subscriber,
            "select transaction_timestamp::text from msrepl.msreplication_subscriptions "
            "where publisher = %s and stream = 0",
            (self._wiring.publisher,),
        )
        return str(rows[0][0]) if rows else "0/0"

    async def can_distribute(self) -> bool:
        """Whether there is a distribution database."""
        if self._wiring.distribute and self._wiring.attached:
            rows = await self._wiring.execute(
                self._wiring.distribution,
                "select to_regclass('msrepl.mspublisher_databases') is not null",
            )
            self._wiring.distribute = bool(rows[0][0])
        return self._wiring.distribute

    async def announce(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle],
        *,
        link_role: str | None,
        sync_type: str,
        routines: Sequence[ProcArticle] = (),
    ) -> None:
        """Register new articles of a Subscriber, so that the clean-up retains what the Subscriber may need.

        Args:
            link_role: role of the Subscriber's link; None: the Subscriber is read-only and has no link.
        """
        async with self.turn():
            await self._announce(subscriber, articles, link_role, sync_type, routines)

    async def _announce(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle],
        link_role: str | None,
        sync_type: str,
        routines: Sequence[ProcArticle],
    ) -> None:
        number = await self._register()
        distribution = await self._wiring.at_distribution()
        originator = None
        if link_role is not None:
            originator = await registry.add_originator(
                distribution,
                number,
                subscriber,
                database=self._wiring.node(subscriber).database,
                link_role=link_role,
            )
        here = await self._wiring.at_publisher()
        parts = await publication.parts(here)
        for article in articles:
            if article.article_id in parts:
                await subscriptions.set_part(here, subscriber, article.article_id)
        for article_id in numbers(articles, routines, calls=originator is None):
            await registry.add_subscription(
                distribution,
                number,
                article_id,
                subscriber,
                originator_id=originator,
                sync_type=sync_type,
                loopback_detection=originator is not None,
                update_mode="read only" if originator is None else "sync tran",
            )

    async def withdraw(
        self,
        subscriber: str,
        articles: Sequence[DistributedArticle] | None = None,
        routines: Sequence[ProcArticle] = (),
    ) -> bool:
        """Remove articles (default: all) from a subscription; has no effect without one.

        Articles made for single Subscribers are unpublished when no Subscriber is left.

        Returns:
            Whether that was the last subscription, so that the Publisher is to be forgotten.
        """
        distribution = await self._wiring.at_distribution()
        number = await registry.publisher_id(distribution, self._wiring.publisher)
        if number is None:
            return False
        had = await self._article_ids(number, subscriber)
        here = await self._wiring.at_publisher()
        if articles is None and {*await self.update_modes()} <= {subscriber}:
            for part in had & await publication.parts(here):
                await publication.unpublish_part(here, part)
            return True
        if articles is None:
            await registry.drop_subscription(distribution, number, subscriber)
        for article_id in numbers(articles or (), routines):
            await registry.drop_subscription(
                distribution, number, subscriber, article_id=article_id
            )
        left = await self._article_ids(number)
        # compared by number: an article that no longer fits its table, or whose table was dropped, must not
        # cause an error
        for part in (had - left) & await publication.parts(here):
            await publication.unpublish_part(here, part)
            await registry.drop_article(distribution, number, part)
        return not left

    async def switch_calls(self) -> None:
        """Send calls of the routines that every read-only Subscriber has; send the rows of all others.

        Until Publisher and distribution database agree, calls are propagated as rows.
        """
        if not await self.can_distribute():
            return
        here = await self._wiring.at_publisher()
        distribution = await self._wiring.at_distribution()
        number = await registry.publisher_id(distribution, self._wiring.publisher)
        if number is None:
            await proc_execution.set_called(here, ())
            return
        requested = await routines.wanted_calls(distribution, number)
        await proc_execution.set_called(
            here, requested & await routines.called(distribution, number)
        )
        await proc_execution.set_called(here, await routines.set_calls(distribution, number))

    async def _article_ids(self, number: int, subscriber: str | None = None) -> set[int]:
        """Return the articles to which one Subscriber, or any, subscribes."""
        cursor = await (await self._wiring.at_distribution()).execute(
            "select article_id from msrepl.mssubscriptions "
            "where publisher_database_id = %s and subscriber = coalesce(%s, subscriber)",
            (number, subscriber),
        )
        return {article_id for (article_id,) in await cursor.fetchall()}

    async def forget_publisher(self) -> None:
        """Drop the slot, even while it is read, and everything that is stored of the Publisher."""
        await slot.drop(await self._wiring.at_publisher(), await self.slot(), end_reader=True)
        await registry.forget_publisher(
            await self._wiring.at_distribution(), self._wiring.publisher
        )

    async def subscribers_of(self, numbers: Collection[int]) -> list[str]:
        """Return the Subscribers of any of these articles, as the distribution database records them."""
        if not await self.knows_publisher():
            return []
        return await registry.subscribers(
            await self._wiring.at_distribution(),
            await self.publisher_number(),
            numbers,
        )

    async def forget_articles(self, numbers: Collection[int]) -> None:
        """Delete articles without Subscribers from the distribution database."""
        if await self.knows_publisher():
            known = await self._distributed()
            for number in numbers:
                await registry.drop_article(await self._wiring.at_distribution(), known[0], number)

    async def chosen_articles(self, subscriber: str) -> list[DistributedArticle]:
        """Return a Subscriber's articles, as the Publisher defines them now."""
        own = await self._article_ids(await self.publisher_number(), subscriber)
        here = await publication.distributed_articles(await self._wiring.at_publisher())
        return [article for article in here if article.article_id in own]

    async def subscribed_articles(self, subscriber: str) -> list[DistributedArticle]:
        """Return a Subscriber's articles, as the distribution database records them."""
        number = await self.publisher_number()
        own = await self._article_ids(number, subscriber)
        known = await registry.articles(await self._wiring.at_distribution(), number)
        return [article for article in known if article.article_id in own]

    async def subscribed_routines(self, subscriber: str) -> list[ProcArticle]:
        """Return a Subscriber's routines, as the Publisher defines them now."""
        own = await self._article_ids(await self.publisher_number(), subscriber)
        known = await proc_execution.proc_articles(await self._wiring.at_publisher())
        return [routine for routine in known if beside(routine.article_id) in own]


def numbers(
    articles: Sequence[DistributedArticle], routines: Sequence[ProcArticle], *, calls: bool = True
) -> list[int]:
    """Return the numbers under which articles and routines are subscribed to; `calls`: with calls of routines."""
    results = [article.article_id for article in articles]
    for routine in routines:
        results += [routine.article_id] * calls + [beside(routine.article_id)]
    return results
