"""Routines as articles: calls are delivered to Subscribers that are read-only, definitions to all Subscribers.

Independent of transactions.
"""

from __future__ import annotations

from collections.abc import Sequence

from twopc.proc_execution import ProcArticle, ProcType, beside
from twopc.publisher import proc_execution
from twopc.publisher.distribution import routines
from twopc.sim.topology import routine_warnings
from twopc.sim.topology.agents import Agents
from twopc.sim.topology.registration import Registration
from twopc.sim.topology.wiring import TopologyWiring
from twopc.subscriber import proc_execution as routines_here


class Procedures:
    """Publishes the execution of routines."""

    def __init__(self, wiring: TopologyWiring, registration: Registration, agents: Agents) -> None:
        self._wiring = wiring
        self._registration = registration
        self._agents = agents

    async def publish(
        self,
        name: str,
        *,
        schema: str = "public",
        signature: str | None = None,
        type: str = "serializable proc exec",
        reads: Sequence[str] | None = None,
        writes: Sequence[str] | None = None,
        xact_abort: bool = True,
        commits: bool | None = None,
        replicate_ddl: bool = True,
    ) -> ProcArticle:
        """Publish a procedure or function; see `twopc.publisher.proc_execution.publish_procedure`.

        Existing Subscribers receive the routine by `refresh_subscriptions`. Until every Subscriber that is
        read-only has it, its calls are propagated as rows. Reasons for which sites may differ after a call are
        logged as warnings, and returned in the article's `warnings`.
        """
        article = await proc_execution.publish_procedure(
            await self._wiring.at_publisher(),
            schema,
            name,
            signature=signature,
            type=ProcType(type),
            reads=reads,
            writes=writes,
            xact_abort=xact_abort,
            commits=commits,
            replicate_ddl=replicate_ddl,
        )
        routine_warnings.log(article.identity, article.warnings)
        if await self._registration.has_subscriptions():
            await self._registration.register()
        return article

    async def published(self) -> tuple[ProcArticle, ...]:
        """Return every published routine, with the current reasons for which sites may differ after a call."""
        await routine_warnings.tell(await self._wiring.at_publisher())
        return await proc_execution.proc_articles(await self._wiring.at_publisher())

    async def alter(
        self,
        name: str,
        *,
        schema: str = "public",
        signature: str | None = None,
        replicate_ddl: bool,
    ) -> ProcArticle:
        """Start or stop the propagation of a routine's new definitions to Subscribers.

        Raises:
            ArticleError: the routine is not published.
        """
        publisher = await self._wiring.at_publisher()
        article = await proc_execution.find(publisher, schema, name, signature)
        article = await proc_execution.alter_procedure(
            publisher, article.article_id, replicate_ddl=replicate_ddl
        )
        if await self._registration.has_subscriptions():
            await self._registration.register()
        return article

    async def unpublish(
        self, name: str, *, schema: str = "public", signature: str | None = None
    ) -> None:
        """Unpublish a routine, and remove its registration from the Subscribers.

        Stored calls of the routine are delivered first.

        Raises:
            ArticleError: the routine is not published.
            DeliveryError: a Subscriber cannot receive what is stored; the routine's calls are propagated as rows
                from now on.
        """
        publisher = await self._wiring.at_publisher()
        article = await proc_execution.find(publisher, schema, name, signature)
        if await self._registration.has_subscriptions():
            await self._take_back(article)
        await proc_execution.unpublish_procedure(publisher, article.article_id)

    async def _take_back(self, article: ProcArticle) -> None:
        number = await self._registration.publisher_number()
        distribution = await self._wiring.at_distribution()
        having = await self._registration.subscribers_of(
            [article.article_id, beside(article.article_id)]
        )
        self._registration.require(having, f"routine {article.identity} is taken away")
        called = await routines.called(distribution, number)
        await proc_execution.set_called(
            await self._wiring.at_publisher(), called - {article.article_id}
        )
        await distribution.execute(
            "update msrepl.msarticles set calls = false "
            "where (publisher_database_id, article_id) = (%s, %s)",
            (number, article.article_id),
        )
        if having:
            await self._agents.sync(*having)
        for subscriber in having:
            await routines_here.drop(await self._wiring.admin(subscriber), article.article_id)
        await routines.drop_proc_article(distribution, number, article.article_id)
        await self._registration.switch_calls()
