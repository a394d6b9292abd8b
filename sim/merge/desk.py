"""Conflicts in a topology of merge replication: listing, resolving and clean-up."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twopc.sim.merge import by_hand
from twopc.sim.merge.conflicts import MergeConflict, read_conflicts
from twopc.sim.merge.wiring import Connection, MergeWiring


class ConflictDesk:
    """Conflicts that the nodes of a topology have recorded."""

    def __init__(self, wiring: MergeWiring) -> None:
        self._wiring = wiring

    async def _admin(self, node: str | None) -> Connection:
        return await self._wiring.admin(node or self._wiring.tree.root)

    async def conflicts(
        self, table: str | None = None, *, node: str | None = None
    ) -> list[MergeConflict]:
        """Return the conflicts and failed changes that a node has recorded, oldest first.

        Args:
            table: only those of this table: its name, or ``schema.name``.
            node: None: the Publisher, which records all conflicts, and the changes that failed during upload.
        """
        return await read_conflicts(await self._admin(node), table)

    async def resolve(
        self,
        conflict: MergeConflict | UUID,
        *,
        keep: by_hand.Keep | None = None,
        row: dict[str, Any] | None = None,
        forget: bool = False,
        node: str | None = None,
    ) -> None:
        """Resolve a conflict manually, by a new change; see `twopc.sim.merge.by_hand.resolve`.

        Args:
            node: the node that has recorded the conflict; None: the Publisher.
        """
        number = conflict.id if isinstance(conflict, MergeConflict) else conflict
        connection = await self._admin(node)
        await by_hand.resolve(connection, number, keep=keep, row=row, forget=forget)

    async def clean_conflicts(self, *, node: str | None = None) -> int:
        """Delete a node's conflicts that are older than the article's retention (14 days); return their number.

        Args:
            node: None: the Publisher.
        """
        connection = await self._admin(node)
        cursor = await connection.execute("select msrepl.merge_clean_conflicts()")
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])
