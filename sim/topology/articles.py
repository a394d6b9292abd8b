"""Articles: publishing and unpublishing tables, and changing how their changes are propagated.

Independent of how subscriptions begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from twopc import names
from twopc.articles import Article
from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError
from twopc.propagation import Propagation
from twopc.publisher import publication
from twopc.sim.topology import initial, routine_warnings
from twopc.sim.topology.grants import grant_tables
from twopc.sim.topology.installer import Installer, TopologyComponent
from twopc.sql.fragments import qualified
from twopc.subscriber.propagation import SubscriberSide, script_procedure


class Articles(TopologyComponent):
    """Publishes tables, and changes how their changes are propagated."""

    def __init__(self, installer: Installer) -> None:
        super().__init__(installer)
        self._published: list[tuple[str, str]] = []

    async def publish(
        self,
        table: str,
        *,
        schema: str = "public",
        columns: Sequence[str] | None = None,
        row_filter: str | None = None,
        propagate: Mapping[str, str | Sequence[str]] | None = None,
        propagation: Propagation | None = None,
    ) -> Article:
        """Publish a table; see `twopc.publisher.publication.publish`.

        Existing Subscribers receive the table by `refresh_subscriptions`.

        Args:
            propagate: how each operation is propagated, as ``{"ins": "CALL", "upd": "XCALL sp_mine"}``; operations
                that are left out are propagated as by default. ``large`` lists the columns whose old values XCALL
                omits.
            propagation: the same settings as a `Propagation`.
        """
        connection = await self._wiring.at_publisher()
        article = await publication.publish(
            connection,
            schema,
            table,
            columns=tuple(columns) if columns is not None else None,
            row_filter=row_filter,
            propagation=propagation or _propagation(propagate or {}),
        )
        await grant_tables(
            connection, schema, table, self._wiring.node(self._wiring.publisher).app_role
        )
        self._published.append((schema, table))
        await routine_warnings.tell(connection)
        if await self._registration.has_subscriptions():
            await self._registration.register()
        return article

    async def take_away(self) -> None:
        """Unpublish the tables that this topology has published in a database that it did not create."""
        if self._wiring.nodes and not self._wiring.node(self._wiring.publisher).embedded:
            for schema, table in [*self._published]:
                await self.unpublish(table, schema=schema)

    async def unpublish(self, table: str, *, schema: str = "public") -> None:
        """Unpublish a table; see `twopc.publisher.publication.unpublish`.

        Raises:
            ArticleError: the table is not published, or has Subscribers (14046).
        """
        publisher = await self._wiring.at_publisher()
        numbers = await publication.numbers(publisher, schema, table)
        subscribers = await self._registration.subscribers_of(numbers)
        await publication.unpublish(publisher, schema, table, subscribers=subscribers)
        await self._registration.forget_articles(numbers)
        if (schema, table) in self._published:
            self._published.remove((schema, table))

    async def published(self, *, of: tuple[str, str] | None = None) -> Sequence[DistributedArticle]:
        """Return the published articles, parts after their base.

        Args:
            of: schema and name of one table; None: all tables.

        Raises:
            ArticleError: a table is not published, or its article no longer fits the table.
        """
        return await publication.distributed_articles(await self._wiring.at_publisher(), of=of)

    async def change(
        self,
        table: str,
        propagate: Mapping[str, str | Sequence[str]],
        *,
        schema: str = "public",
        scripts: Sequence[str] = (),
    ) -> Propagation:
        """Change how an article's changes are propagated (sp_changearticle).

        Earlier changes are delivered first; transactions that write the table meanwhile wait.

        Args:
            propagate: as for `publish`; operations that are left out keep their format.
            scripts: SQL that creates the user's own procedures at the Subscribers.

        Returns:
            The article's new propagation.

        Raises:
            ArticleError, SubscriptionError: the propagation is not possible; nothing is changed anywhere.
            DeliveryError: earlier changes cannot be delivered; nothing is changed anywhere.
            LockTimeoutError: a transaction that writes the table does not end; nothing is changed anywhere.
        """
        here = await self._wiring.at_publisher()
        numbers = await publication.numbers(here, schema, table)
        changed = await publication.distributed_articles(here, of=(schema, table))
        propagation = _propagation(propagate, changed[0].propagation)
        subscribers = await self._registration.subscribers_of(numbers)
        self._registration.require(subscribers, f"table {schema}.{table} changes")
        if subscribers:
            await self._agents.sync(*subscribers)
        async with AsyncExitStack() as together:
            # entered first, so that its lock is released after all nodes have the new propagation
            publisher = await together.enter_async_context(
                await self._wiring.node(self._wiring.publisher).connect()
            )
            await together.enter_async_context(publisher.transaction())
            await initial.lock_out(publisher, [changed[0].article], self._wiring.lock_timeout_ms)
            if subscribers:
                await self._agents.sync(*subscribers)
            await publication.change(publisher, schema, table, propagation)
            changed = await publication.distributed_articles(publisher, of=(schema, table))
            if await self._registration.knows_publisher():
                distribution = await self._wiring.at_distribution()
                await together.enter_async_context(distribution.transaction())
                await self._registration.put_articles(changed)
            for subscriber in subscribers:
                own_ids = {
                    each.article_id
                    for each in await self._registration.subscribed_articles(subscriber)
                }
                await together.enter_async_context(
                    (await self._wiring.admin(subscriber)).transaction()
                )
                await self._installer.create_procedures(
                    subscriber,
                    [each for each in changed if each.article_id in own_ids],
                    {changed[0].article.name: scripts},
                )
        await routine_warnings.tell(here)
        return propagation

    async def script_procedure(self, script: str, table: str, *, schema: str = "public") -> str:
        """Return the script of the default procedure that a Subscriber would get for a published table.

        Args:
            script: ``sp_scriptinsproc`` or another name in `twopc.subscriber.propagation.SCRIPTS`.

        Raises:
            ArticleError: the table is not published.
        """
        [result, *_] = await self.published(of=(schema, table))
        there = self._wiring.node(self._wiring.publisher)
        [(owner,)] = await self._wiring.execute(
            self._wiring.publisher,
            "select relowner::regrole::text from pg_class where oid = %s::regclass",
            (qualified(schema, table).as_string(None),),
        )
        place = SubscriberSide(
            owner=names.role("owner", there.database), agent=there.agent_role, table_owner=owner
        )
        return script_procedure(script, result.article, result.article_id, place)


def _propagation(
    propagate: Mapping[str, str | Sequence[str]], before: Propagation | None = None
) -> Propagation:
    """Return an article's propagation from its differences to `before`, or to the defaults."""
    default = (before or Propagation()).as_json()
    unknown = sorted(set(propagate) - {*default, "large"})
    if unknown:
        raise ArticleError(
            f"propagation of {unknown[0]!r}: operations are {', '.join(map(repr, default))}"
        )
    return Propagation.from_json(default | dict(propagate))
