"""Validation of a subscription: the rows of both ends are compared while both continue to work, and optionally
repaired.

Two snapshots are compared: the Publisher's and, once the agent has delivered everything that it includes, the
Subscriber's. No locks are taken that others wait for. The transactions that one snapshot includes and the other
does not are known by their IDs; the rows that they touch are left out and compared at a later moment, and so is a
row that differs, so that no change in progress is reported as a difference.

These transactions are:

* those that the agent delivers: the Subscriber's snapshot includes all that the Publisher's does, since it is
  taken once a message posted after the Publisher's snapshot was delivered. Transactions delivered beyond that are
  in the distribution database, and the Publisher's snapshot does not include them;
* the Subscriber's own, which no agent delivers: if only the Subscriber's snapshot includes them, they end at the
  Publisher before a second message is posted, whose arrival shows that they are in the distribution database too;
  if only the Publisher's does, they are prepared at the Subscriber just before its snapshot is taken.

Independent of agents and topologies.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import AsyncConnection, sql

from twopc.distributed_article import DistributedArticle
from twopc.errors import SubscriptionError
from twopc.lsn import lsn_value
from twopc.names import BranchId, branch_gid, further_branch, node_of
from twopc.publisher import membership
from twopc.publisher import validation as publisher_end
from twopc.publisher.distribution import kept
from twopc.publisher.distribution.update_modes import update_modes
from twopc.publisher.posted_messages import PostedMessage
from twopc.sim.validation.rows import buckets, by_key, merged_rows, rows_of, values_by_key
from twopc.sql import path
from twopc.sql.checksum import ChecksumTexts
from twopc.subscriber import validation as subscriber_end
from twopc.subscriber.validation import Values, by_column
from twopc.together import together
from twopc.validation import ArticleVerdict, Key, RowDifference, Total

Connection = AsyncConnection[Any]
#: Drives the log reader and the agent, if they do not run continuously.
Advance = Callable[[], Awaitable[object]]

#: Maximum number of rows that are named; further ones are counted.
NAMED_MAX = 10_000
#: Number of rows that are compared or repaired by key at a time.
_BLOCK = 1000
#: Maximum number of moments at which rows are compared.
LOOKS_MAX = 20
_NOTICE_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationEnds:
    """The nodes of a validation, with administrators' connection strings."""

    publisher: str
    """The Publisher's node name."""
    subscriber: str
    """The Subscriber's node name."""
    publisher_dsn: str = field(repr=False)
    distribution_dsn: str = field(repr=False)
    subscriber_dsn: str = field(repr=False)


async def validate(
    ends: ValidationEnds,
    *,
    tables: Sequence[str] = (),
    repair: bool = False,
    advance: Advance | None = None,
    timeout_s: float = 60.0,
) -> list[ArticleVerdict]:
    """Compare every article of a subscription, or those of some tables.

    Args:
        tables: as in messages: ``orders``, ``sales.orders``.
        repair: give rows that differ the Publisher's state.
        advance: called while waiting for the agent; None: the agent runs continuously.
        timeout_s: for one wait for the agent.

    Raises:
        SubscriptionError: there is no such subscription or table, or the agent does not deliver.
    """
    async with AsyncExitStack() as stack:

        async def connect(dsn: str) -> Connection:
            connection = await AsyncConnection.connect(
                dsn, autocommit=True, options=path.options(dsn)
            )
            return await stack.enter_async_context(connection)

        session = _Validation(
            ends=ends,
            reader=await connect(ends.publisher_dsn),
            poster=await connect(ends.publisher_dsn),
            distribution=await connect(ends.distribution_dsn),
            subscriber=await connect(ends.subscriber_dsn),
            advance=advance,
            timeout_s=timeout_s,
        )
        async with kept(session.distribution):
            return await session.run(tables, repair=repair)


class _Comparison:
    """The results for one article so far."""

    def __init__(
        self, article: DistributedArticle, belongs: sql.Composable, *, versions: bool
    ) -> None:
        self.article = article
        self.there = ChecksumTexts(article.article, belongs=belongs, versions=versions)
        self.here = ChecksumTexts(article.article, versions=versions)
        self.expected, self.actual = Total(), Total()
        self.differences: list[RowDifference] = []
        self.more = 0
        #: Rows to compare again, and whether they have differed already.
        self.pending: dict[Key, bool] = {}

    def take(self, key: Key, expected: int | None, actual: int | None) -> None:
        """Record the checksums of a row that no transaction in progress touches."""
        if expected != actual and not self.pending.get(key, False):
            self.pending[key] = True
            return
        if expected != actual:
            self.differences.append(RowDifference(key=key, expected=expected, actual=actual))
        self.expected.count(expected)
        self.actual.count(actual)
        self.pending.pop(key, None)

    def verdict(self, subscriber: str, looks: int) -> ArticleVerdict:
        """Return the verdict on the article."""
        return ArticleVerdict(
            subscriber=subscriber,
            article=self.article.article.name,
            expected=self.expected,
            actual=self.actual,
            key=self.article.article.key,
            differences=tuple(sorted(self.differences, key=lambda each: each.key)),
            more=self.more,
            undecided=tuple(sorted(self.pending)),
            looks=looks,
        )


@dataclass(kw_only=True)
class _Validation:
    ends: ValidationEnds
    reader: Connection
    poster: Connection
    distribution: Connection
    subscriber: Connection
    advance: Advance | None
    timeout_s: float
    read_only: bool = False

    async def run(self, tables: Sequence[str], *, repair: bool) -> list[ArticleVerdict]:
        """Compare, compare differing rows again, repair, and record the verdicts in the distribution history."""
        await self.distribution.execute("listen msrepl_distribution")
        modes = await update_modes(self.distribution, self.ends.publisher)
        self.read_only = modes.get(self.ends.subscriber) == "read only"
        chosen, versions = await self._articles(tables), not self.read_only
        results = [
            _Comparison(
                article, await membership.condition(self.reader, article.article), versions=versions
            )
            for article in chosen
        ]
        looks, left = 0, list(results)
        while any(each in left or each.pending for each in results) and looks < LOOKS_MAX:
            looks += 1
            async with self._moment(results) as touched:
                for each in results:
                    keys = touched[each.article.article_id]
                    if keys is None:
                        continue  # a call may have touched any row
                    if each not in left:
                        await self._look_again(each, keys)
                        continue
                    left.remove(each)
                    await self._compare(each, keys)
        if left:
            raise SubscriptionError(
                f"{left[0].article.article.name} is changed by calls of routines whenever it is looked at: "
                "validate again while fewer are made"
            )
        verdicts = []
        for each in results:
            verdict = each.verdict(self.ends.subscriber, looks)
            if repair and verdict.differences:
                verdict = replace(verdict, repaired=tuple(await self._repair(each)))
            await publisher_end.record(self.distribution, self.ends.publisher, verdict)
            verdicts.append(verdict)
        return verdicts

    async def _articles(self, tables: Sequence[str]) -> list[DistributedArticle]:
        ends = self.ends
        result = await publisher_end.subscribed_articles(
            self.distribution, ends.publisher, ends.subscriber
        )
        names = [each.article.name for each in result]
        if not result:
            raise SubscriptionError(
                f"{ends.subscriber!r} has no active subscription that is distributed to: `twopc subscribe {ends.subscriber}` first"
            )
        for table in tables:
            if table not in names:
                raise SubscriptionError(
                    f"{ends.subscriber!r} has no subscription to {table!r}; it has {', '.join(names)}"
                )
        return [each for each in result if not tables or each.article.name in tables]

    # -- moments ----------------------------------------------------------------------------------
    @asynccontextmanager
    async def _moment(
        self, comparisons: Sequence[_Comparison]
    ) -> AsyncIterator[dict[int, set[Key] | None]]:
        """Take snapshots of both ends, the Subscriber's with everything that the Publisher's includes.

        Yields, by article, the keys of rows touched by transactions that only one snapshot may include; None: any
        row.
        """
        async with publisher_end.reading(self.reader) as snapshot:
            request = await publisher_end.post_request(self.poster, self.ends.subscriber)
            await self._until(lambda: self._delivered(request), "deliver a request for validation")
            prepared = await subscriber_end.open_branches(self.subscriber)
            async with subscriber_end.reading(self.subscriber):
                await self._until(self._settled, "finish its branches at the Publisher")
                request = await publisher_end.post_request(self.poster, self.ends.subscriber)
                await self._until(lambda: self._stored(request), "have its transactions stored")
                yield await publisher_end.touched(
                    self.distribution,
                    self.ends.publisher,
                    [each.article for each in comparisons],
                    snapshot,
                    await publisher_end.xids_of(self.poster, self._publisher_gids(prepared)),
                )

    async def _stored(self, request: PostedMessage) -> str | None:
        return await publisher_end.stored_message(self.distribution, self.ends.publisher, request)

    async def _delivered(self, request: PostedMessage) -> bool:
        stored = await self._stored(request)
        reached = await subscriber_end.position(self.subscriber, self.ends.publisher)
        return (
            stored is not None and reached is not None and lsn_value(reached) >= lsn_value(stored)
        )

    async def _settled(self) -> bool:
        """Whether no transaction of the Subscriber that its snapshot includes is still prepared at the Publisher."""
        if self.read_only:
            return True
        prepared = [BranchId.parse(gid) for gid in await publisher_end.open_branches(self.poster)]
        there = [
            branch_gid(str(branch.global_id), self.ends.subscriber)
            for branch in prepared
            if branch is not None and branch.node == self.ends.publisher
        ]
        return not await subscriber_end.committed(self.subscriber, there)

    def _publisher_gids(self, prepared: Sequence[str]) -> list[str]:
        """Return the gids of the Publisher's branches of transactions that are prepared at the Subscriber."""
        results: list[str] = []
        for gid in prepared:
            branch = BranchId.parse(gid)
            if branch is None or node_of(branch.branch) != self.ends.subscriber:
                continue
            name = self.ends.publisher
            either = (name, further_branch(name, self.ends.subscriber))
            results += [branch_gid(str(branch.global_id), each) for each in either]
        return results

    async def _until(self, look: Callable[[], Awaitable[object]], what: str) -> None:
        end = time.monotonic() + self.timeout_s
        while not await look():
            if time.monotonic() >= end:
                raise SubscriptionError(
                    f"waited {self.timeout_s:g} s for {self.ends.subscriber!r} to {what}: see `twopc "
                    "status` whether the log reader and its agent run, and `twopc indoubt`"
                )
            await (self.advance or self._notice)()

    async def _notice(self) -> None:
        """Wait briefly for a notification that the distribution database has stored transactions."""
        async for _ in self.distribution.notifies(timeout=_NOTICE_S, stop_after=1):
            pass

    # -- comparing --------------------------------------------------------------------------------

    async def _compare(self, each: _Comparison, touched: set[Key]) -> None:
        """Compare all rows except those touched: by buckets, then the rows of the buckets that differ."""
        apart = by_column(each.article.article, sorted(touched))
        each.pending.update(dict.fromkeys(touched, False))
        there, here = await together(
            buckets(self.reader, each.there, apart), buckets(self.subscriber, each.here, apart)
        )
        for total, result in ((each.expected, there), (each.actual, here)):
            for rows, checksum in result.values():
                total.count(checksum, rows)
        differing = sorted(
            bucket for bucket in there.keys() | here.keys() if there.get(bucket) != here.get(bucket)
        )
        if not differing:
            return
        parameters = [*apart, differing]
        merged = merged_rows(
            rows_of(self.reader, each.there, parameters),
            rows_of(self.subscriber, each.here, parameters),
        )
        async for key, expected, actual in merged:
            if expected == actual:
                continue
            if len(each.pending) - len(touched) >= NAMED_MAX:
                each.more += 1
                continue
            each.take(key, expected, actual)
            each.expected.count(expected, -1)
            each.actual.count(actual, -1)

    async def _look_again(self, each: _Comparison, touched: set[Key]) -> None:
        """Compare the undecided rows by key."""
        article = each.article.article
        keys = sorted(each.pending.keys() - touched)
        for at in range(0, len(keys), _BLOCK):
            block = keys[at : at + _BLOCK]
            parameters = by_column(article, block)
            there, here = await together(
                by_key(self.reader, each.there, parameters),
                by_key(self.subscriber, each.here, parameters),
            )
            for key in block:
                each.take(key, there.get(key), here.get(key))

    async def _repair(self, each: _Comparison) -> list[Key]:
        article = each.article.article

        async def fetch(keys: Sequence[Key]) -> Mapping[Key, tuple[int, Values]]:
            return await values_by_key(self.poster, each.there, by_column(article, keys))

        repaired: list[Key] = []
        for at in range(0, len(each.differences), _BLOCK):
            block = each.differences[at : at + _BLOCK]
            repaired += await subscriber_end.repair(
                self.subscriber, article, block, fetch, versions=not self.read_only
            )
        return repaired
