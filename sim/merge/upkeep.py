"""What a topology of merge replication needs from time to time; `twopc.sim.merge.topology.MergeTopology` is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from twopc.drivers.merge import retention
from twopc.drivers.merge.engine import MergeReport
from twopc.errors import SubscriptionError
from twopc.sim.merge import subscriptions
from twopc.sim.merge.shape import MergeTree
from twopc.sim.merge.subscriptions import MergePair

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reinitialisation:
    """What became of a Subscriber's own changes when it began anew."""

    uploaded: MergeReport | None
    """The session before it; None: there was none."""
    lost: Mapping[str, Mapping[str, int]]
    """For each node that began anew, and each table, how many rows had changes that its Publisher never got."""


class MergeUpkeep(ABC):
    """What keeps the nodes of a topology going."""

    tree: MergeTree
    """Who subscribes at whom."""

    @abstractmethod
    async def admin(self, name: str) -> Connection:
        """The administrator's connection to a node."""

    @abstractmethod
    async def sync(self, subscriber: str) -> MergeReport:
        """A session."""

    @abstractmethod
    async def pair(self, subscriber: str) -> MergePair:
        """A Subscriber and its Publisher."""

    @abstractmethod
    async def merges(self, node: str) -> bool:
        """Whether a node tracks changes now."""

    async def set_retention(self, days: int) -> str | None:
        """Set the publication's retention, at every Publisher; see `twopc.drivers.merge.retention.set_retention`."""
        advice = None
        for name in self.tree.publishers:
            if await self.merges(name):
                advice = await retention.set_retention(await self.admin(name), days)
        return advice

    async def clean_up(self) -> dict[str, int]:
        """Forget at every node what nobody needs any more, as sessions do; of how many rows, by node."""
        return {
            name: await retention.clean_up(await self.admin(name))
            for name in (self.tree.root, *self.tree.subscribers)
            if await self.merges(name)
        }

    async def age(self, days: float) -> None:
        """Make all that the nodes have noted older, as if so many days had passed. For tests and lessons."""
        for name in (self.tree.root, *self.tree.subscribers):
            if await self.merges(name):
                await retention.age(await self.admin(name), days)

    async def reinitialise(
        self, subscriber: str, *, upload_first: bool = False
    ) -> Reinitialisation:
        """Have a Subscriber begin anew, with the rows that its Publisher has now; so do those that subscribe at it.

        Its tables stay, and what is in them is replaced. No trigger of the user's fires. Conflicts that it has
        recorded itself go.

        Args:
            upload_first: a session comes first, so that its own changes are not lost. One that has expired cannot
                have it.

        Raises:
            SubscriptionError: it does not subscribe, or a table that is not merged refers to one that is.
            MergeError: the session failed; nothing else was done.
        """
        order = [subscriber]
        kinds: dict[str, tuple[bool, float]] = {}
        for name in order:
            pair = await self.pair(name)
            kind = await subscriptions.subscription_kind(pair.above, name)
            if kind is not None and await self.merges(name):
                kinds[name] = kind
                order += self.tree.subscribers_of(name)
            elif name == subscriber:
                raise SubscriptionError(f"{subscriber} does not subscribe: `subscribe` it")
        uploaded = None
        if upload_first:
            for name in reversed(kinds):
                uploaded = await self.sync(name)
        lost = {name: await subscriptions.unsent(await self.admin(name)) for name in kinds}
        for name, (is_server, priority) in kinds.items():
            await subscriptions.renew(await self.pair(name), is_server=is_server, priority=priority)
        return Reinitialisation(uploaded=uploaded, lost=lost)
