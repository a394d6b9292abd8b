"""Manual resolution of recorded conflicts (the original's conflict viewer): a new change of the node, with a new
lineage.

The change is an ordinary local transaction, and is propagated like any other. It is made with the table's role:
code that the table's owner has attached to it must not be run with an administrator's privileges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from twopc import names
from twopc.drivers.merge import tracking
from twopc.errors import MergeError
from twopc.merge.articles import MergeArticle
from twopc.merge.decision import ConflictType
from twopc.sql.fragments import identifiers, qualified
from twopc.subscriber.table_changes import changing

Connection = AsyncConnection[Any]
Keep = Literal["winner", "loser"]

#: Conflicts whose losing row may be inserted: it was never there, or a deletion has won.
_INSERTED = {
    ConflictType.DELETE_WINS,
    ConflictType.UPLOAD_INSERT_FAILED,
    ConflictType.DOWNLOAD_INSERT_FAILED,
}
_READ = """
select c.rowguid, c.conflict_type, a.artid, a.publication, array(
    select k.name from unnest(a.columns, a.column_numbers) as k(name, number) where k.number = any (c.missing_columns))
from msrepl.msmerge_conflicts_info as c join msrepl.sysmergearticles as a on a.nickname = c.tablenick
where c.conflict_id = %s for update of c
"""
_DONE = """
update msrepl.msmerge_conflicts_info
set conflict_type = 11, reason_code = '11', is_pending = false, reason_text = reason_text || %s, msrepl_create_time = clock_timestamp()
where conflict_id = %s
"""


async def resolve(
    connection: Connection,
    conflict_id: UUID,
    *,
    keep: Keep | None = None,
    row: dict[str, Any] | None = None,
    forget: bool = False,
) -> None:
    """Resolve one conflict that a node has recorded, and record it as type 11.

    Args:
        connection: an administrator's, to that node.
        keep: ``winner``: the present row stays. ``loser``: the losing row is written again; if the loser was a
            deletion, the row is deleted.
        row: values that the row gets instead, by column.
        forget: delete the conflict's record, with the losing row.

    Raises:
        MergeError: there is no such conflict, it was resolved before, its row no longer exists, or the change
            violates a constraint; nothing is changed.
    """
    if (keep is None) == (row is None):
        raise MergeError(f"conflict {conflict_id}: say which row to keep, or give the row's values")
    try:
        async with connection.transaction():
            case = await _read(connection, conflict_id)
            if row is not None:
                await case.write(row)
            elif keep == "loser":
                await case.keep_loser()
            elif keep != "winner":
                raise MergeError(f"{case.where}: keep {keep!r}: use 'winner' or 'loser'")
            if forget:
                await case.forget()
            else:
                what = "its values were given" if keep is None else f"the {keep}'s row was kept"
                await connection.execute(_DONE, (f"; resolved by hand: {what}", conflict_id))
    except psycopg.Error as error:
        raise MergeError(
            f"conflict {conflict_id} cannot be resolved so: {error}", sqlstate=error.sqlstate or ""
        ) from error


async def _read(connection: Connection, conflict_id: UUID) -> _Case:
    cursor = await connection.execute(_READ, (conflict_id,))
    record = await cursor.fetchone()
    if record is None:
        raise MergeError(
            f"there is no conflict {conflict_id} in database {connection.info.dbname!r}: it was resolved and "
            "forgotten, or has been cleaned up"
        )
    rowguid, kind, artid, publication, missing = record
    [article] = [each for each in await tracking.articles(connection) if each.artid == artid]
    case = _Case(
        connection,
        article,
        publication,
        conflict_id,
        rowguid,
        ConflictType(kind),
        frozenset(missing),
    )
    if case.type is ConflictType.RESOLVED_BY_HAND:
        raise MergeError(f"{case.where} was resolved before")
    return case


@dataclass(frozen=True, slots=True)
class _Case:
    """A conflict, in the transaction that resolves it."""

    connection: Connection
    article: MergeArticle
    publication: str
    conflict_id: UUID
    rowguid: UUID
    type: ConflictType
    missing: frozenset[str]
    """Columns that were added after the conflict, of which the losing row has no values."""

    @property
    def where(self) -> str:
        """The conflict as text, for messages."""
        return f"conflict {self.conflict_id} of row {self.rowguid} of {self.article.name}"

    @property
    def _table(self) -> sql.Identifier:
        return qualified(self.article.schema, self.article.table)

    @property
    def _losers(self) -> sql.Identifier:
        a = self.article
        name = names.merge_conflict_table(self.publication, a.schema, a.table)
        return sql.Identifier(names.SCHEMA, name)

    @property
    def _is_row(self) -> sql.Composed:
        rowguid, value = sql.Identifier(self.article.rowguid), sql.Literal(str(self.rowguid))
        return sql.SQL("t.{} operator(pg_catalog.=) {}::pg_catalog.uuid").format(rowguid, value)

    @property
    def _is_loser(self) -> sql.Composed:
        value = sql.Literal(str(self.conflict_id))
        return sql.SQL("c.msrepl_conflict_id operator(pg_catalog.=) {}::pg_catalog.uuid").format(
            value
        )

    async def _change(self, statement: sql.Composable) -> None:
        async with changing(self.connection, self.article) as change:
            await change(statement)

    async def _is_there(self) -> bool:
        cursor = await self.connection.execute(
            sql.SQL("select from {} as t where {} for update").format(self._table, self._is_row)
        )
        return cursor.rowcount == 1

    async def _has_loser(self) -> bool:
        cursor = await self.connection.execute(
            sql.SQL("select from {} as c where {}").format(self._losers, self._is_loser)
        )
        return cursor.rowcount == 1

    @property
    def _columns(self) -> list[str]:
        """Columns of the losing row that an UPDATE may set."""
        return [
            column.name
            for column in self.article.columns
            if column.identity != "a" and column.name not in self.missing
        ]

    def _missing(self) -> MergeError:
        return MergeError(
            f"{self.where}: the row is not there any more: it was deleted after the conflict, which can only be "
            "resolved with keep='winner'"
        )

    async def keep_loser(self) -> None:
        """Write the losing row again, or delete the row if the loser was a deletion."""
        is_there = await self._is_there()
        if not await self._has_loser():
            if not is_there:
                raise self._missing()
            await self._change(
                sql.SQL("delete from {} as t where {}").format(self._table, self._is_row)
            )
        elif is_there:
            await self._change(
                sql.SQL(
                    "update {} as t set ({}) = (select {} from {} as c where {}) where {}"
                ).format(
                    self._table,
                    identifiers(self._columns),
                    identifiers(self._columns, "c"),
                    self._losers,
                    self._is_loser,
                    self._is_row,
                )
            )
        else:
            await self._insert_loser()

    async def _insert_loser(self) -> None:
        if self.type not in _INSERTED:
            raise self._missing()
        named = [column.name for column in self.article.columns]
        columns = [self.article.rowguid, *[name for name in named if name not in self.missing]]
        await self._change(
            sql.SQL(
                "insert into {} ({}) overriding system value select {} from {} as c where {}"
            ).format(
                self._table,
                identifiers(columns),
                identifiers(columns, "c"),
                self._losers,
                self._is_loser,
            )
        )

    async def write(self, row: dict[str, Any]) -> None:
        """Set values in the row; if a deletion has won, insert the losing row first."""
        if unknown := sorted(set(row) - {column.name for column in self.article.columns}):
            raise MergeError(f"{self.where}: there is no column {unknown[0]!r}")
        if not await self._is_there():
            if not await self._has_loser():
                raise self._missing()
            await self._insert_loser()
        if row:
            await self._change(
                sql.SQL("update {} as t set {} where {}").format(
                    self._table,
                    sql.SQL(", ").join(
                        sql.SQL("{} = {}").format(
                            sql.Identifier(column),
                            sql.Literal(Jsonb(value) if isinstance(value, dict) else value),
                        )
                        for column, value in row.items()
                    ),
                    self._is_row,
                )
            )

    async def forget(self) -> None:
        """Delete the conflict's record."""
        await self.connection.execute(
            sql.SQL("delete from {} as c where {}").format(self._losers, self._is_loser)
        )
        await self.connection.execute(
            "delete from msrepl.msmerge_conflicts_info where conflict_id = %s", (self.conflict_id,)
        )
