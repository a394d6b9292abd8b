"""Conflicts in a topology of merge replication: listing (sp_helpmergearticleconflicts), resolving and clean-up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import DataError, sql
from psycopg.abc import Buffer
from psycopg.rows import dict_row
from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader
from psycopg.types.json import JsonLoader

from twopc import names
from twopc.drivers.merge.tracking import stored_articles
from twopc.errors import ArticleError
from twopc.merge.decision import ConflictType
from twopc.sim.merge import by_hand
from twopc.sim.merge.wiring import Connection, MergeWiring


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeConflict:
    """A conflict, or a change that could not be applied."""

    id: UUID
    """Identifier, by which the conflict is resolved manually."""
    at: datetime
    """Time of the recording, by the clock of the recording node."""
    table: str
    rowguid: UUID
    type: ConflictType
    origin: str
    """Node whose change has lost, or failed."""
    winner: str | None
    """Node whose change has won; None if the change failed."""
    reason_code: str
    """The type, or the SQLSTATE of the failure."""
    reason: str
    loser: dict[str, Any] | None = field(default=None)
    """The losing row; None if it was deleted."""


class _LenientDate(DateLoader):
    def load(self, data: Buffer) -> Any:
        return _or_text(super().load, data)


class _LenientTimestamp(TimestampLoader):
    def load(self, data: Buffer) -> Any:
        return _or_text(super().load, data)


class _LenientTimestamptz(TimestamptzLoader):
    def load(self, data: Buffer) -> Any:
        return _or_text(super().load, data)


class _LenientJson(JsonLoader):
    def load(self, data: Buffer) -> Any:
        return _or_text(super().load, data)


def _or_text(load: Callable[[Buffer], Any], data: Buffer) -> Any:
    """Load a value; return its text if Python cannot represent it, such as a date ``infinity`` or a document nested
    too deeply.
    """
    try:
        return load(data)
    except (DataError, RecursionError):
        return bytes(data).decode()


_LENIENT: dict[str, Any] = {
    "date": _LenientDate,
    "timestamp": _LenientTimestamp,
    "timestamptz": _LenientTimestamptz,
    "json": _LenientJson,
    "jsonb": _LenientJson,
}
_INFO = """
select conflict_id, msrepl_create_time, rowguid, conflict_type, origin_datasource, winner, reason_code, reason_text
from msrepl.msmerge_conflicts_info where tablenick = %s order by msrepl_create_time, conflict_id
"""


async def read_conflicts(connection: Connection, table: str | None) -> list[MergeConflict]:
    """Return the conflicts that a node has recorded, by article and oldest first.

    Raises:
        ArticleError: the table is not merged.
    """
    conflicts = []
    merged = {
        names.article_name(stored.source_schema, stored.source_object): stored
        for stored in await stored_articles(connection)
    }
    if table is not None and table.removeprefix("public.") not in merged:
        raise ArticleError(f"table {table} is not merged; those that are: {', '.join(merged)}")
    for name, stored in merged.items():
        if table is not None and table.removeprefix("public.") != name:
            continue
        losers = sql.Identifier(
            names.SCHEMA,
            names.merge_conflict_table(
                stored.publication, stored.source_schema, stored.source_object
            ),
        )
        async with connection.cursor(row_factory=dict_row) as cursor:
            for kind, loader in _LENIENT.items():
                cursor.adapters.register_loader(kind, loader)
            await cursor.execute(sql.SQL("select * from {}").format(losers))
            rows = {row.pop("msrepl_conflict_id"): row for row in await cursor.fetchall()}
        answer = await connection.execute(_INFO, (stored.nickname,))
        conflicts += [
            MergeConflict(
                id=conflict_id,
                at=at,
                table=name,
                rowguid=rowguid,
                type=ConflictType(kind),
                origin=origin,
                winner=winner,
                reason_code=code,
                reason=reason,
                loser=rows.get(conflict_id),
            )
            for conflict_id, at, rowguid, kind, origin, winner, code, reason in await answer.fetchall()
        ]
    return conflicts


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
        [(count,)] = await self._wiring.execute(
            node or self._wiring.tree.root, "select msrepl.merge_clean_conflicts()"
        )
        return int(count)
