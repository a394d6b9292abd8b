"""Rows that have the same version at both ends and differ.

Every change of a row gives it another version, so such a row was changed outside replication: by an ALTER TABLE, or
by drift. A row with different versions at both ends has a change in progress, or has drifted. The ends need not be
read at the same moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.names import VERSION_COLUMN
from twopc.publisher import membership
from twopc.sim.validation.rows import buckets, merged_rows, rows_of, values_by_key
from twopc.sql import path
from twopc.sql.checksum import ChecksumTexts
from twopc.subscriber import validation as subscriber_end
from twopc.subscriber.validation import by_column
from twopc.together import together
from twopc.validation import Key, RowDifference

Connection = AsyncConnection[Any]
Values = list[str | None]
#: Checksum and values of rows, by key.
Rowset = Mapping[Key, tuple[int, Values]]
#: A row with different versions at both ends: its key, and the Publisher's and the Subscriber's version.
Apart = tuple[Key, str | None, str | None]

_BLOCK = 1000


class ArticleRows:
    """An article's rows at both ends."""

    def __init__(
        self,
        publisher: Connection,
        subscriber: Connection,
        article: Article,
        belongs: sql.Composable,
    ) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._article = article
        self._version = [c.name for c in article.value_columns].index(VERSION_COLUMN)
        self._there = ChecksumTexts(article, belongs=belongs)
        self._here = ChecksumTexts(article)

    @classmethod
    @asynccontextmanager
    async def of(
        cls, publisher_dsn: str, subscriber_dsn: str, article: Article
    ) -> AsyncIterator[Self]:
        """Open connections as an administrator, and yield the rows."""
        there, here = path.options(publisher_dsn), path.options(subscriber_dsn)
        async with (
            await AsyncConnection.connect(
                publisher_dsn, autocommit=True, options=there
            ) as publisher,
            await AsyncConnection.connect(
                subscriber_dsn, autocommit=True, options=here
            ) as subscriber,
        ):
            belongs = await membership.condition(publisher, article)
            yield cls(publisher, subscriber, article, belongs)

    async def compare(self) -> tuple[list[Key], frozenset[Apart]]:
        """Return the keys of rows that differ under the same version, and the rows with different versions."""
        differing: list[Key] = []
        apart: list[Apart] = []
        async for there, here in self._differing():
            for key in there.keys() & here.keys():
                if there[key][0] == here[key][0]:
                    continue
                versions = self._versions(key, there, here)
                if versions[1] == versions[2]:
                    differing.append(key)
                else:
                    apart.append(versions)
        return sorted(differing), frozenset(apart)

    async def repair(self, drifted: Collection[Apart]) -> None:
        """Give the Publisher's values to these rows and to rows that differ under the same version, except rows in
        use.
        """
        async for there, here in self._differing():
            results = []
            for key in there.keys() & here.keys():
                versions = self._versions(key, there, here)
                if versions[1] == versions[2] or versions in drifted:
                    results.append(
                        RowDifference(key=key, expected=there[key][0], actual=here[key][0])
                    )
            await subscriber_end.repair(self._subscriber, self._article, results, self._fetch)

    def _versions(self, key: Key, there: Rowset, here: Rowset) -> Apart:
        return key, there[key][1][self._version], here[key][1][self._version]

    async def _differing(self) -> AsyncIterator[tuple[Rowset, Rowset]]:
        """Yield blocks of rows that differ and have the same key: checksums and values at either end."""
        keys = await self._keys()
        for at in range(0, len(keys), _BLOCK):
            block = keys[at : at + _BLOCK]
            own = by_column(self._article, block)
            there, here = await together(
                values_by_key(self._publisher, self._there, own),
                values_by_key(self._subscriber, self._here, own),
            )
            yield there, here

    async def _keys(self) -> list[Key]:
        apart = by_column(self._article, [])
        there, here = await together(
            buckets(self._publisher, self._there, apart),
            buckets(self._subscriber, self._here, apart),
        )
        unequal = sorted(b for b in there.keys() & here.keys() if there[b] != here[b])
        if not unequal:
            return []
        async with self._publisher.transaction(), self._subscriber.transaction():
            merged = merged_rows(
                rows_of(self._publisher, self._there, [*apart, unequal]),
                rows_of(self._subscriber, self._here, [*apart, unequal]),
            )
            return [
                key
                async for key, expected, actual in merged
                if expected is not None and actual is not None and expected != actual
            ]

    async def _fetch(self, keys: Sequence[Key]) -> Rowset:
        """Return the Publisher's rows with these keys."""
        return await values_by_key(self._publisher, self._there, by_column(self._article, keys))
