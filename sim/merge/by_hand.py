"""Conflicts resolved after the fact (the original's conflict viewer): a new change of the node, with a new lineage.

What is written is an ordinary local transaction of an administrator, so it travels like any other change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.drivers.merge.tracking import StoredMergeArticle, stored_articles
from twopc.errors import MergeError
from twopc.merge.decision import ConflictType
from twopc.sql.fragments import identifiers, qualified

Connection = AsyncConnection[Any]
Keep = Literal["winner", "loser"]

#: The row of the loser was never there, or is not there because a deletion has won: it may be inserted.
_INSERTED = {
    ConflictType.DELETE_WINS,
    ConflictType.UPLOAD_INSERT_FAILED,
    ConflictType.DOWNLOAD_INSERT_FAILED,
}
_READ = """
select c.rowguid, c.conflict_type, c.tablenick from msrepl.msmerge_conflicts_info as c
where c.conflict_id = %s for update
"""
_DONE = """
update msrepl.msmerge_conflicts_info
set conflict_type = 11, reason_code = '11', reason_text = reason_text || %s, msrepl_create_time = clock_timestamp()
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
    """Resolve one conflict that a node has recorded, and note it as type 11.

    Args:
        connection: an administrator's, to that node.
        keep: ``winner``: what is there stays. ``loser``: the row that has lost is written again; if it was a
            deletion, the row is deleted.
        row: values that the row gets instead, by column.
        forget: take the conflict off the records, with the loser's row.

    Raises:
        MergeError: there is no such conflict, it was resolved before, its row is not there any more, or the change
            breaks a constraint; nothing is changed.
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
    articles = {stored.nickname: stored for stored in await stored_articles(connection)}
    if record is None or record[2] not in articles:
        raise MergeError(
            f"there is no conflict {conflict_id} in database {connection.info.dbname!r}: it was resolved and "
            "forgotten, or has been cleaned up"
        )
    rowguid, kind, nickname = record
    case = _Case(connection, articles[nickname], conflict_id, rowguid, ConflictType(kind))
    if case.type is ConflictType.RESOLVED_BY_HAND:
        raise MergeError(f"{case.where} was resolved before")
    return case


@dataclass(frozen=True, slots=True)
class _Case:
    """A conflict, in the transaction that resolves it."""

    connection: Connection
    article: StoredMergeArticle
    conflict_id: UUID
    rowguid: UUID
    type: ConflictType

    @property
    def where(self) -> str:
        """For messages."""
        name = names.article_name(self.article.source_schema, self.article.source_object)
        return f"conflict {self.conflict_id} of row {self.rowguid} of {name}"

    @property
    def _table(self) -> sql.Identifier:
        return qualified(self.article.source_schema, self.article.source_object)

    @property
    def _losers(self) -> sql.Identifier:
        a = self.article
        name = names.merge_conflict_table(a.publication, a.source_schema, a.source_object)
        return sql.Identifier(names.SCHEMA, name)

    async def _is_there(self) -> bool:
        cursor = await self.connection.execute(
            sql.SQL("select from {} where {} = %s for update").format(
                self._table, sql.Identifier(self.article.rowguid)
            ),
            (self.rowguid,),
        )
        return cursor.rowcount == 1

    async def _has_loser(self) -> bool:
        cursor = await self.connection.execute(
            sql.SQL("select from {} where msrepl_conflict_id = %s").format(self._losers),
            (self.conflict_id,),
        )
        return cursor.rowcount == 1

    async def _columns(self) -> list[str]:
        """Those that an UPDATE may set."""
        cursor = await self.connection.execute(
            "select attname::text from pg_attribute where attrelid = %s::text::regclass and attidentity <> 'a'"
            " and attname = any (%s)",
            (self._table.as_string(self.connection), self.article.columns),
        )
        free = {name for (name,) in await cursor.fetchall()}
        return [name for name in self.article.columns if name in free]

    def _missing(self) -> MergeError:
        return MergeError(
            f"{self.where}: the row is not there any more: it was deleted after the conflict, which can only be "
            "resolved with keep='winner'"
        )

    async def keep_loser(self) -> None:
        """Write the loser's row again, or delete the row if it was a deletion."""
        is_there = await self._is_there()
        if not await self._has_loser():
            if not is_there:
                raise self._missing()
            await self.connection.execute(
                sql.SQL("delete from {} where {} = %s").format(
                    self._table, sql.Identifier(self.article.rowguid)
                ),
                (self.rowguid,),
            )
        elif is_there:
            columns = await self._columns()
            await self.connection.execute(
                sql.SQL(
                    "update {} as t set ({}) = (select {} from {} as c where c.msrepl_conflict_id = %s)"
                    " where t.{} = %s"
                ).format(
                    self._table,
                    identifiers(columns),
                    identifiers(columns, "c"),
                    self._losers,
                    sql.Identifier(self.article.rowguid),
                ),
                (self.conflict_id, self.rowguid),
            )
        else:
            await self._insert_loser()

    async def _insert_loser(self) -> None:
        if self.type not in _INSERTED:
            raise self._missing()
        columns = [self.article.rowguid, *self.article.columns]
        await self.connection.execute(
            sql.SQL(
                "insert into {} ({}) overriding system value select {} from {} as c"
                " where c.msrepl_conflict_id = %s"
            ).format(self._table, identifiers(columns), identifiers(columns, "c"), self._losers),
            (self.conflict_id,),
        )

    async def write(self, row: dict[str, Any]) -> None:
        """Put values on the row; on the loser's where none is there because a deletion has won."""
        if unknown := sorted(set(row) - set(self.article.columns)):
            raise MergeError(f"{self.where}: there is no column {unknown[0]!r}")
        if not await self._is_there():
            if not await self._has_loser():
                raise self._missing()
            await self._insert_loser()
        if row:
            await self.connection.execute(
                sql.SQL("update {} set {} where {} = %s").format(
                    self._table,
                    sql.SQL(", ").join(
                        sql.SQL("{} = %s").format(sql.Identifier(column)) for column in row
                    ),
                    sql.Identifier(self.article.rowguid),
                ),
                (*row.values(), self.rowguid),
            )

    async def forget(self) -> None:
        """Take the conflict off the records."""
        await self.connection.execute(
            sql.SQL("delete from {} where msrepl_conflict_id = %s").format(self._losers),
            (self.conflict_id,),
        )
        await self.connection.execute(
            "delete from msrepl.msmerge_conflicts_info where conflict_id = %s", (self.conflict_id,)
        )
