"""What a topology of merge replication does about conflicts; `twopc.sim.merge.topology.MergeTopology` is one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from twopc.merge.handlers import MergeHandler
from twopc.sim.merge import by_hand
from twopc.sim.merge.conflicts import MergeConflict, read_conflicts


class ConflictDesk(ABC):
    """Conflicts that the nodes of a topology have recorded, and who is asked about rows."""

    publisher: str
    handlers: dict[str, MergeHandler]
    """What sessions ask about each row on its way, by table (``name``, or ``schema.name``)."""

    @abstractmethod
    async def admin(self, name: str) -> AsyncConnection[Any]:
        """The administrator's connection to a node."""

    async def conflicts(
        self, table: str | None = None, *, node: str | None = None
    ) -> list[MergeConflict]:
        """Conflicts and failed changes that a node has recorded, oldest first.

        Args:
            table: only those of this table: its name, or ``schema.name``.
            node: None: the Publisher, which records all conflicts, and the changes that failed on the way up.
        """
        return await read_conflicts(await self.admin(node or self.publisher), table)

    async def resolve(
        self,
        conflict: MergeConflict | UUID,
        *,
        keep: by_hand.Keep | None = None,
        row: dict[str, Any] | None = None,
        forget: bool = False,
        node: str | None = None,
    ) -> None:
        """Resolve a conflict after the fact, by a new change; see `twopc.sim.merge.by_hand.resolve`.

        Args:
            node: that has recorded it; None: the Publisher.
        """
        number = conflict.id if isinstance(conflict, MergeConflict) else conflict
        connection = await self.admin(node or self.publisher)
        await by_hand.resolve(connection, number, keep=keep, row=row, forget=forget)

    async def clean_conflicts(self, *, node: str | None = None) -> int:
        """Forget what a node has kept for longer than the article says (14 days); how many conflicts that were.

        Args:
            node: None: the Publisher.
        """
        connection = await self.admin(node or self.publisher)
        cursor = await connection.execute("select msrepl.merge_clean_conflicts()")
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])
