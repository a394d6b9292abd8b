"""The Subscriber's part of a validation: its rows once a position is reached, and their repair.

A repair gives a row the Publisher's values, including the row version, in the replica role: no capture trigger
takes the repair for a change of the application's, so nothing is sent to the Publisher.

The module knows nothing of logs and of distribution; it is given the Publisher's rows.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.articles import Article, Table
from twopc.names import PREFIX
from twopc.sql import fragments as f
from twopc.sql.checksum import PINNED, ChecksumTexts
from twopc.sql.describe import describe
from twopc.subscriber.table_changes import Change, changing
from twopc.validation import Key, RowDifference, parse_key

Connection = AsyncConnection[Any]
Values = Sequence[str | None]
#: Returns the Publisher's current rows for keys: checksum and values.
Fetch = Callable[[Sequence[Key]], Awaitable[Mapping[Key, tuple[int, Values]]]]

#: Time that a repair waits for a row that another session is changing.
LOCK_TIMEOUT = "2s"


async def position(subscriber: Connection, publisher: str) -> str | None:
    """Return the commit LSN of the last transaction that the agent has delivered; None if there is none yet."""
    cursor = await subscriber.execute(
        "select p.transaction_timestamp::text from msrepl.msreplication_subscriptions p "
        "where (p.publisher, p.stream) = (%s, 0)",
        (publisher,),
    )
    row = await cursor.fetchone()
    return row[0] if row is not None else None


async def open_branches(subscriber: Connection) -> list[str]:
    """Return the gids of the product's branches that are prepared at the Subscriber."""
    cursor = await subscriber.execute(
        "select gid from pg_prepared_xacts "
        "where database = current_database() and starts_with(gid, %s) order by gid",
        (f"{PREFIX}:",),
    )
    return [gid for (gid,) in await cursor.fetchall()]


@asynccontextmanager
async def reading(subscriber: Connection) -> AsyncIterator[None]:
    """Return a context that reads the Subscriber in one snapshot, without blocking other sessions."""
    await subscriber.execute(PINNED)
    async with subscriber.transaction():
        await subscriber.execute("set transaction isolation level repeatable read, read only")
        await subscriber.execute("select pg_current_snapshot()")
        yield


async def committed(subscriber: Connection, gids: Collection[str]) -> set[str]:
    """Return which of these branches are visible in the snapshot, by their branch markers."""
    cursor = await subscriber.execute(
        "select gid from msrepl.branch_marker where gid = any (%s) and not fence", (list(gids),)
    )
    return {gid for (gid,) in await cursor.fetchall()}


# -- repair ---------------------------------------------------------------------------------------


async def repair(
    subscriber: Connection,
    article: Article,
    differences: Sequence[RowDifference],
    fetch: Fetch,
    *,
    versions: bool = True,
) -> list[Key]:
    """Give rows the Publisher's state; return the keys of the repaired rows.

    Only rows that have not changed at either end since the comparison are repaired: every change of a row gives
    it another version, so for an unchanged row no change is on its way. Other rows are left for the next
    validation. If versions are not compared, a row may have changed and changed back: the changes on their way
    then end with the state that the repair gives.

    Args:
        subscriber: an administrator's connection, in autocommit mode.
        fetch: reads the Publisher's rows of an article by key.
        versions: whether row versions are compared.
    """
    local = await describe(subscriber, article.schema, article.table)
    await subscriber.execute(PINNED)
    try:
        async with subscriber.transaction():
            await subscriber.execute("set local session_replication_role = replica")
            await subscriber.execute(
                sql.SQL("set local lock_timeout = {}").format(sql.Literal(LOCK_TIMEOUT))
            )
            return await _Repair(subscriber, article, local, versions).run(differences, fetch)
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        return []  # another session is changing one of the rows


class _Repair:
    """A transaction that repairs rows of an article."""

    def __init__(
        self, connection: Connection, article: Article, local: Table, versions: bool
    ) -> None:
        self._connection = connection
        self._article = article
        self._table = f.table_of(article)
        self._texts = ChecksumTexts(article, versions=versions)
        self._execute: Change
        held = {column.name: column for column in local.columns}
        self._columns = [c for c in article.value_columns if not held[c.name].generated]
        #: Whether rows are replaced whole, since an identity column outside the key takes a value at INSERT only.
        self._as_a_whole = any(
            held[c.name].identity == "a" for c in self._columns if c.name not in article.key
        )

    async def run(self, differences: Sequence[RowDifference], fetch: Fetch) -> list[Key]:
        """Repair the rows that have not changed since the comparison."""
        held = await self._held([each.key for each in differences])
        same = [each for each in differences if held.get(each.key) == each.actual]
        there = await fetch([each.key for each in same])
        same = [each for each in same if there.get(each.key, (None,))[0] == each.expected]
        by_kind = {
            kind: [each.key for each in same if each.kind == kind]
            for kind in ("extra", "changed", "missing")
        }
        async with changing(self._connection, self._article) as self._execute:
            return await self._repair(same, by_kind, there, fetch)

    async def _repair(
        self,
        same: Sequence[RowDifference],
        by_kind: Mapping[str, Sequence[Key]],
        there: Mapping[Key, tuple[int, Values]],
        fetch: Fetch,
    ) -> list[Key]:
        await self._delete(by_kind["extra"])
        await self._change(by_kind["changed"], there)
        await self._insert([there[key][1] for key in by_kind["missing"]])
        # a missing row could not be locked: the Publisher's later changes of it were not delivered
        repeated = await fetch(by_kind["missing"]) if by_kind["missing"] else {}
        gone = [k for k in by_kind["missing"] if repeated.get(k, (None,))[0] != there[k][0]]
        await self._delete(gone)
        return [each.key for each in same if each.key not in gone]

    async def _held(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Lock the Subscriber's rows; return their checksums."""
        cursor = await self._connection.execute(
            self._texts.rows_by_key(lock=True), by_column(self._article, keys)
        )
        return {parse_key(key): checksum for key, checksum in await cursor.fetchall()}

    def _same_key(self, key: Key) -> sql.Composed:
        return f.AND.join(
            [
                f.equal(sql.Identifier(column.name), sql.Literal(value), column.equality)
                for column, value in zip(self._article.key_columns, key, strict=True)
            ]
        )

    async def _delete(self, keys: Sequence[Key]) -> None:
        for key in keys:
            await self._execute(
                sql.SQL("delete from {} where {}").format(self._table, self._same_key(key))
            )

    async def _change(self, keys: Sequence[Key], there: Mapping[Key, tuple[int, Values]]) -> None:
        if self._as_a_whole:
            await self._replace(keys, there)
            return
        columns = [c for c in self._columns if c.name not in self._article.key]
        try:
            async with self._connection.transaction():
                for key in keys:
                    values = self._values(there[key][1], columns)
                    await self._execute(
                        sql.SQL("update {} set {} where {}").format(
                            self._table,
                            f.COMMA.join(
                                [
                                    sql.SQL("{} = {}").format(
                                        sql.Identifier(column.name), sql.Literal(value)
                                    )
                                    for column, value in zip(columns, values, strict=True)
                                ]
                            ),
                            self._same_key(key),
                        )
                    )
        except psycopg.errors.UniqueViolation:
            # unique values were exchanged between rows
            await self._replace(keys, there)

    async def _replace(self, keys: Sequence[Key], there: Mapping[Key, tuple[int, Values]]) -> None:
        await self._delete(keys)
        await self._insert([there[key][1] for key in keys])

    async def _insert(self, rows: Sequence[Values]) -> None:
        for row in rows:
            await self._execute(
                sql.SQL("insert into {} ({}) overriding system value values ({})").format(
                    self._table,
                    f.identifiers(column.name for column in self._columns),
                    f.COMMA.join(list(map(sql.Literal, self._values(row, self._columns)))),
                )
            )

    def _values(self, row: Values, columns: Sequence[Any]) -> list[str | None]:
        expected = {column.name for column in columns}
        return [
            value
            for column, value in zip(self._article.value_columns, row, strict=True)
            if column.name in expected
        ]


def by_column(article: Article, keys: Sequence[Key]) -> list[list[str]]:
    """Return keys in the form that the queries of `ChecksumTexts` take: an array per key column."""
    return [[key[place] for key in keys] for place in range(len(article.key))]
