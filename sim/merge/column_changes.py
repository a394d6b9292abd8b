"""Columns of merged tables, changed while there are Subscribers; `twopc.sim.merge.topology.MergeTopology` has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from psycopg import AsyncConnection

from twopc.merge.schema_changes import SchemaChange
from twopc.publisher.merge import schema_changes
from twopc.sim.merge.shape import MergeTree


class MergeAltering(ABC):
    """What changes columns, at the topmost Publisher; the next session with each Subscriber brings it there."""

    tree: MergeTree
    """Who subscribes at whom."""

    @abstractmethod
    async def admin(self, name: str) -> AsyncConnection[Any]:
        """The administrator's connection to a node."""

    async def add_column(
        self, table: str, column: str, type_: str, *, default: str | None = None
    ) -> SchemaChange:
        """Add a column to a merged table; see `twopc.publisher.merge.schema_changes.add_column`.

        Raises:
            ArticleError: it cannot be added; nothing is changed.
        """
        root = await self.admin(self.tree.root)
        return await schema_changes.add_column(root, table, column, type_, default=default)

    async def drop_column(self, table: str, column: str) -> SchemaChange:
        """Drop a column of a merged table; see `twopc.publisher.merge.schema_changes.drop_column`.

        Raises:
            ArticleError: it cannot be dropped; nothing is changed.
        """
        return await schema_changes.drop_column(await self.admin(self.tree.root), table, column)

    async def widen_column(self, table: str, column: str, type_: str) -> SchemaChange:
        """Widen the type of a merged table's column; see `twopc.publisher.merge.schema_changes.widen_column`.

        Raises:
            ArticleError: it cannot have that type; nothing is changed.
        """
        root = await self.admin(self.tree.root)
        return await schema_changes.widen_column(root, table, column, type_)
