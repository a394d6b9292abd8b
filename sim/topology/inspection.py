"""Inspection of a topology with distribution: whether nodes are equal, what was delivered, how far delivery is.

Changes nothing, except that a validation can repair rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.articles import Article
from twopc.lsn import lsn_value
from twopc.publisher import publication, slot, tracer
from twopc.publisher.distribution import (
    AgentStatus,
    BrowsedCommand,
    CleanUp,
    ReaderStatus,
    agents,
    browse,
    clean_up,
    counting_unread,
    readers,
)
from twopc.publisher.posted_messages import PostedMessage
from twopc.publisher.slot import SlotState
from twopc.sim import validation
from twopc.sim.deliveries import ReportedDelivery
from twopc.sim.topology import deliveries
from twopc.sim.topology.convergence import differences
from twopc.sim.topology.installer import Installer, TopologyComponent
from twopc.validation import ArticleVerdict

#: Stale articles of one node, by the table that lists its articles.
_STALE = {
    "sysarticles": "select source_schema, source_object, stale from msrepl.sysarticles where stale is not null order by 1, 2",
    "msreplication_objects": (
        "select dest_schema, article, stale from msrepl.msreplication_objects where stale is not null order by 1, 2"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleArticle:
    """An article whose procedures or triggers no longer fit its table: changes of it are refused at the node."""

    node: str
    schema: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionStatus:
    """The progress of log reader and agents, and the state of the slot."""

    reader: ReaderStatus | None
    """Status of the log reader; None: the Publisher has no subscriptions."""
    slot: SlotState | None
    """State of the slot as the Publisher shows it."""
    agents: tuple[AgentStatus, ...]
    strays: tuple[SlotState, ...] = ()
    """Slots of ours in the Publisher's database that are registered nowhere and retain its log forever."""
    update_modes: Mapping[str, str] = field(default_factory=dict)
    """Update mode of each Subscriber: ``sync tran`` or ``read only``."""
    stale: tuple[StaleArticle, ...] = ()
    """Articles of which changes are refused until `regenerate`."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Nodes that could not be queried, with the reason; their data is missing from this status."""

    @property
    def slot_problem(self) -> str | None:
        """Why the log cannot be read from the slot, or would be read with a gap; None if it can, or is not known."""
        reader, there = self.reader, self.slot
        if reader is None or there is None or there.problem is not None:
            return None if there is None else there.problem
        begins, limit = there.confirmed_flush or "0/0", reader.slot_limit
        if 0 < lsn_value(limit) < lsn_value(begins):
            return slot.gap_text(reader.publisher, begins, limit)
        return None


class Inspection(TopologyComponent):
    """Inspects a topology."""

    def __init__(self, installer: Installer) -> None:
        super().__init__(installer)
        self._reported: dict[str, str] = {}
        """Position up to which deliveries were reported, by Subscriber."""

    async def assert_converged(self, *tables: str) -> None:
        """Fail unless every Subscriber holds exactly the Publisher's rows that belong to it.

        Everything must be delivered (`sync`, `settle`). Row versions are compared, since a Subscriber with another
        version would be refused at its next change; not for subscriptions that are read-only.

        Args:
            tables: ``table`` or ``schema.table``; none: all published tables.

        Raises:
            AssertionError: names the keys that differ, and how.
        """
        publisher = await self._wiring.at_publisher()
        modes = await self._registration.update_modes()
        results: list[str] = []
        for subscriber in self._installer.subscribed or self._wiring.subscribers:
            for article in await self._articles_at(subscriber):
                if not tables or article.name in tables:
                    results += await differences(
                        publisher,
                        await self._wiring.admin(subscriber),
                        article,
                        publisher_name=self._wiring.publisher,
                        subscriber_name=subscriber,
                        versions=modes.get(subscriber) != "read only",
                    )
        if results:
            results.append(
                "changes that are not delivered yet differ too: deliver by sync() or settle()"
            )
            raise AssertionError("not converged:\n  " + "\n  ".join(results))

    async def _articles_at(self, subscriber: str) -> list[Article]:
        """Return the articles that a Subscriber should hold, with the columns that its tables have."""
        if not self._wiring.distribute:
            return list(await publication.articles(await self._wiring.at_publisher()))
        return [each.article for each in await self._registration.chosen_articles(subscriber)]

    async def take_deliveries(self) -> list[ReportedDelivery]:
        """Return the transactions that agents have delivered, suppressed or skipped since the last call."""
        number = await self._registration.publisher_number()
        results: list[ReportedDelivery] = []
        for subscriber in await self._agents.subscribers():
            after = self._reported.get(subscriber, "0/0")
            upto = self._reported[subscriber] = await self._registration.position(subscriber)
            results += await deliveries.between(
                await self._wiring.at_distribution(),
                await self._wiring.at_publisher(),
                number,
                publisher_name=self._wiring.publisher,
                subscriber=subscriber,
                after=after,
                upto=upto,
            )
        return results

    def leave_untold(self, positions: Mapping[str, str]) -> None:
        """Make `take_deliveries` report only what comes after these positions of Subscribers."""
        self._reported.update(positions)

    async def status(self) -> DistributionStatus:
        """Return the progress of the log reader and the agents, and the state of the slot.

        Nodes that cannot be reached (`TopologyWiring.unreachable`) are not queried.
        """
        unreachable = self._wiring.unreachable
        if (
            self._wiring.distribution in unreachable
            or not await self._registration.can_distribute()
        ):
            return DistributionStatus(reader=None, slot=None, agents=(), unreachable=unreachable)
        distribution = await self._wiring.at_distribution()
        own = [
            each for each in await readers(distribution) if each.publisher == self._wiring.publisher
        ]
        registered = own[0].slot if own else None
        state, strays = None, []
        if self._wiring.publisher not in unreachable:
            here = await self._wiring.at_publisher()
            state = None if registered is None else await slot.look(here, registered)
            strays = await slot.strays(here, registered)
        modes = await self._registration.update_modes()
        return DistributionStatus(
            reader=own[0] if own else None,
            slot=state,
            strays=tuple(strays),
            agents=counting_unread(
                (
                    each
                    for each in await agents(distribution)
                    if each.publisher == self._wiring.publisher
                ),
                state,
            ),
            update_modes=modes,
            stale=tuple(await self._stale(modes)),
            unreachable=unreachable,
        )

    async def _stale(self, modes: Mapping[str, str]) -> list[StaleArticle]:
        lists = {self._wiring.publisher: "sysarticles"}
        lists |= dict.fromkeys(
            (n for n in modes if modes[n] != "read only"), "msreplication_objects"
        )
        return [
            StaleArticle(node=node, schema=schema, name=name, reason=reason)
            for node, table in lists.items()
            if node in self._wiring.nodes and node not in self._wiring.unreachable
            for schema, name, reason in await self._wiring.execute(node, _STALE[table])
        ]

    async def browse(self, **choice: Any) -> list[BrowsedCommand]:
        """Return the stored commands in readable form; see `twopc.publisher.distribution.browse`."""
        return await browse(await self._wiring.at_distribution(), self._wiring.publisher, **choice)

    async def clean_up(self, **retention: Any) -> CleanUp:
        """Remove what every Subscriber has received; see `twopc.publisher.distribution.clean_up`."""
        return await clean_up(await self._wiring.at_distribution(), **retention)

    async def post_tracer_token(self) -> PostedMessage:
        """Post a tracer token, which is timed on its way to every Subscriber; see `twopc.publisher.tracer`."""
        return await tracer.post_tracer_token(await self._wiring.at_publisher())

    async def tracer_history(self, **choice: Any) -> Sequence[tracer.Passage]:
        """Return the progress of tracer tokens, the latest first; see `twopc.publisher.tracer`."""
        return await tracer.tracer_history(
            await self._wiring.at_publisher(),
            await self._wiring.at_distribution(),
            self._wiring.publisher,
            **choice,
        )

    async def validate(
        self,
        *subscribers: str,
        tables: Sequence[str] = (),
        repair: bool = False,
        drive: bool = True,
    ) -> list[ArticleVerdict]:
        """Compare Subscribers (default: all) with the Publisher while both continue to work; see
        `twopc.sim.validation`.

        Args:
            tables: ``table`` or ``schema.table``; none: all.
            repair: give rows that differ the Publisher's state.
            drive: deliver meanwhile; False: agents run in other processes.
        """
        results: list[ArticleVerdict] = []
        for subscriber in subscribers or await self._agents.subscribers():

            async def advance(subscriber: str = subscriber) -> None:
                await self._agents.sync(subscriber)

            ends = validation.ValidationEnds(
                publisher=self._wiring.publisher,
                subscriber=subscriber,
                publisher_dsn=self._wiring.node(self._wiring.publisher).dsn,
                distribution_dsn=self._wiring.node(self._wiring.distribution).dsn,
                subscriber_dsn=self._wiring.node(subscriber).dsn,
            )
            results += await validation.validate(
                ends, tables=tables, repair=repair, advance=advance if drive else None
            )
        return results
