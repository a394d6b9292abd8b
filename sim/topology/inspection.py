"""Looking at a topology that distributes: are the sites equal, what was delivered, how far is everybody?

Changes nothing but what a validation is asked to repair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.articles import Article
from twopc.publisher import publication, slot, tracer
from twopc.publisher.distribution import (
    AgentStatus,
    BrowsedCommand,
    CleanUp,
    ReaderStatus,
    agents,
    browse,
    clean_up,
    readers,
)
from twopc.publisher.posting import Posted
from twopc.publisher.slot import SlotState
from twopc.sim import validation
from twopc.sim.topology import deliveries
from twopc.sim.topology.convergence import differences
from twopc.sim.topology.deliveries import Delivery
from twopc.sim.topology.procedures import Procedures
from twopc.validation import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionStatus:
    """How far everybody is."""

    reader: ReaderStatus | None
    """None: nobody subscribes."""
    slot: SlotState | None
    """As the Publisher shows it."""
    agents: tuple[AgentStatus, ...]
    strays: tuple[SlotState, ...] = ()
    """Slots of ours in the Publisher's database that are registered nowhere, and keep its log for ever."""
    update_modes: Mapping[str, str] = field(default_factory=dict)
    """How the Subscribers are updated: ``sync tran`` or ``read only``."""


class Inspection(Procedures):
    """A topology that can be looked at."""

    def __init__(self, **wiring: Any) -> None:
        super().__init__(**wiring)
        self._told: dict[str, str] = {}
        """Up to where deliveries were told, by Subscriber."""

    async def assert_converged(self, *tables: str) -> None:
        """Fail unless every Subscriber holds the Publisher's rows, those that belong to it.

        Everything must be delivered (`sync`, `settle`). Row versions count: a Subscriber with another one
        would be refused at its next change. Not where the subscription is read only.

        Args:
            tables: ``table`` or ``schema.table``; none: all that are published.

        Raises:
            AssertionError: names the keys that differ, and how.
        """
        publisher = await self.admin(self.publisher)
        modes = await self.update_modes()
        found: list[str] = []
        for subscriber in self.subscribed or self.subscribers:
            for article in await self._articles_at(subscriber):
                if not tables or article.name in tables:
                    found += await differences(
                        publisher,
                        await self.admin(subscriber),
                        article,
                        publisher_name=self.publisher,
                        subscriber_name=subscriber,
                        versions=modes.get(subscriber) != "read only",
                    )
        if found:
            raise AssertionError("not converged:\n  " + "\n  ".join(found))

    async def _articles_at(self, subscriber: str) -> list[Article]:
        """What a Subscriber should hold, with the columns that its table has."""
        if not self.distribute:
            return list(await publication.articles(await self.admin(self.publisher)))
        return [each.article for each in await self.chosen_articles(subscriber)]

    async def take_deliveries(self) -> list[Delivery]:
        """What the agents have met since this was asked last: delivered, passed over, left out."""
        number = await self.publisher_number()
        found: list[Delivery] = []
        for subscriber in await self.distribution_subscribers():
            after = self._told.get(subscriber, "0/0")
            upto = self._told[subscriber] = await self.position(subscriber)
            found += await deliveries.between(
                await self.admin(self.distribution),
                await self.admin(self.publisher),
                number,
                subscriber,
                await self.subscribed_articles(subscriber),
                await self.subscribed_routines(subscriber),
                after=after,
                upto=upto,
            )
        return found

    def leave_untold(self, positions: Mapping[str, str]) -> None:
        """Have `take_deliveries` tell of what comes after these positions of Subscribers."""
        self._told.update(positions)

    async def distribution_status(self) -> DistributionStatus:
        """How far the log reader and the agents are, and how the slot is."""
        if not await self.can_distribute():
            return DistributionStatus(reader=None, slot=None, agents=())
        distribution = await self.admin(self.distribution)
        here = await self.admin(self.publisher)
        mine = [each for each in await readers(distribution) if each.publisher == self.publisher]
        registered = mine[0].slot if mine else None
        return DistributionStatus(
            reader=mine[0] if mine else None,
            slot=None if registered is None else await slot.look(here, registered),
            strays=tuple(await slot.strays(here, registered)),
            agents=tuple(
                each for each in await agents(distribution) if each.publisher == self.publisher
            ),
            update_modes=await self.update_modes(),
        )

    async def browse(self, **choice: Any) -> list[BrowsedCommand]:
        """The stored commands, readable; see `twopc.publisher.distribution.browse`."""
        return await browse(await self.admin(self.distribution), self.publisher, **choice)

    async def clean_up(self, **retention: Any) -> CleanUp:
        """Remove what every Subscriber has got; see `twopc.publisher.distribution.clean_up`."""
        return await clean_up(await self.admin(self.distribution), **retention)

    async def post_tracer_token(self) -> Posted:
        """Post a token that is timed on its way to every Subscriber; see `twopc.publisher.tracer`."""
        return await tracer.post_tracer_token(await self.admin(self.publisher))

    async def tracer_history(self, **choice: Any) -> Sequence[tracer.Passage]:
        """Where the tokens are, the latest first; see `twopc.publisher.tracer`."""
        return await tracer.tracer_history(
            await self.admin(self.publisher),
            await self.admin(self.distribution),
            self.publisher,
            **choice,
        )

    async def validate(
        self,
        *subscribers: str,
        tables: Sequence[str] = (),
        repair: bool = False,
        drive: bool = True,
    ) -> list[Verdict]:
        """Compare Subscribers (all) with the Publisher while both go on; see `twopc.sim.validation`.

        Args:
            tables: ``table`` or ``schema.table``; none: all.
            repair: give rows that differ the Publisher's state.
            drive: deliver meanwhile; False: agents run elsewhere.
        """
        found: list[Verdict] = []
        for subscriber in subscribers or await self.distribution_subscribers():

            async def advance(subscriber: str = subscriber) -> None:
                await self.sync(subscriber)

            ends = validation.Ends(
                publisher=self.publisher,
                subscriber=subscriber,
                publisher_dsn=self.node(self.publisher).dsn,
                distribution_dsn=self.node(self.distribution).dsn,
                subscriber_dsn=self.node(subscriber).dsn,
            )
            found += await validation.validate(
                ends, tables=tables, repair=repair, advance=advance if drive else None
            )
        return found
