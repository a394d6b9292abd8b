"""How the nodes of a topology come to have the same rows; `twopc.sim.merge.topology.MergeTopology` is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from psycopg import AsyncConnection, sql

from twopc.drivers.merge import neighbours, partitions, tracking
from twopc.drivers.merge.engine import MergeReport
from twopc.errors import ConfigurationError
from twopc.sim.merge.shape import MergeTree
from twopc.sql.fragments import identifiers, qualified


class MergeConvergence(ABC):
    """Sessions until nothing travels, and whether every node then has what it is to have."""

    publisher: str
    tree: MergeTree

    @abstractmethod
    async def admin(self, name: str) -> AsyncConnection[Any]:
        """The administrator's connection to a node."""

    @abstractmethod
    async def execute(self, node: str, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Run SQL at a node."""

    @abstractmethod
    async def sync(self, subscriber: str) -> MergeReport:
        """A session."""

    async def settle(self, rounds_max: int = 10) -> int:
        """Sessions with every Subscriber, until a round brings nothing; how many rounds it took.

        Raises:
            ConfigurationError: it is not over after `rounds_max` rounds: changes that fail are tried again each time.
        """
        subscribed = await self.subscribed()
        for number in range(1, rounds_max + 1):
            reports = [await self.sync(subscriber) for subscriber in subscribed]
            if not any(r.uploaded or r.downloaded or r.conflicts or r.deferred for r in reports):
                return number
        raise ConfigurationError(f"the nodes still change after {rounds_max} rounds of sessions")

    async def subscribed(self) -> list[str]:
        """Those that subscribe now, those of a republisher before it: so changes go up in one round."""
        held = {
            name: await neighbours.subscriber_names(await self.admin(name))
            for name in self.tree.publishers
            if await self.merges(name)
        }
        return [
            name for name in self.tree.upwards if name in held.get(self.tree.publisher_of(name), ())
        ]

    async def merges(self, node: str) -> bool:
        """Whether a node tracks changes now."""
        [(is_there,)] = await self.execute(
            node, "select to_regclass('msrepl.sysmergesubscriptions') is not null"
        )
        return bool(is_there)

    async def assert_converged(self) -> None:
        """Assert that every Subscriber has the Publisher's rows in every table: of a filtered one, those of its partition.

        Rows that have left a partition, and stay, because the article does not realign, are left out.
        """
        above = await self.admin(self.publisher)
        subscribed = await self.subscribed()
        for article in await tracking.articles(above):
            table = qualified(article.schema, article.table)
            columns = identifiers([article.rowguid, *[c.name for c in article.columns]], "t")
            query = sql.SQL("select row({})::text from {} as t where {} order by 1")
            for node in subscribed:
                left = await partitions.left_behind(above, article, node)
                kept = sql.SQL("t.{} <> all ({}::uuid[])").format(
                    sql.Identifier(article.rowguid), sql.Literal(left)
                )
                belongs = await partitions.part(above, article, node)
                below = await self.admin(node)
                held = await below.execute(query.format(columns, table, kept))
                expected = await above.execute(query.format(columns, table, belongs))
                assert await held.fetchall() == await expected.fetchall(), (
                    f"{article.name} at {node} differs"
                )
