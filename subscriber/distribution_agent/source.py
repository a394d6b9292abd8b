"""The agent's side of the distribution database: the transactions to deliver, and the agent's history.

The module must not know the Subscriber's database.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

from twopc.distributed_article import DistributedArticle
from twopc.errors import DeliveryError, OutdatedError, SubscriptionError
from twopc.lsn import lsn_text, lsn_value
from twopc.proc_execution import ProcArticle
from twopc.subscriber.distribution_agent import queries
from twopc.subscriber.distribution_agent.arrays import int4, int4s, lsn8, lsn8s
from twopc.subscriber.distribution_agent.failures import may_pass
from twopc.subscriber.distribution_agent.history import AgentHistory
from twopc.subscriber.distribution_agent.loads import (
    BatchLoad,
    DecodedCommand,
    SubscribedArticles,
    block_of,
    split_rows,
    subscription_of,
    window_of,
)
from twopc.subscriber.distribution_agent.pipe import Pipe, PipeAnswer, Query, Statement
from twopc.subscriber.distribution_agent.planner import Batch, OwnCommands, Window
from twopc.subscriber.distribution_agent.ports import LostError, UnfinishedError
from twopc.subscriber.distribution_agent.profile import Profile

CHANNEL = "msrepl_distribution"
#: Number of transactions that are planned at once.
WINDOW = 40_000
#: Maximum number of commands in small batches that are read together.
_READ_COMMANDS = 2_000
#: Seconds to wait for the next part of a transaction that is being stored.
_PART_WAIT_S = 1.0
#: Number of commands from which `queries.CUT_OUT` is faster than extracting commands one by one.
_CUT_OUT_MIN = 100


class ServerSource:
    """See `twopc.subscriber.distribution_agent.ports.SourcePort`: the distribution database on a server.

    Args:
        pipe: for reading, and for notifications of new transactions.
        publisher_database_id, subscriber: source and destination of the changes.
        news: set when transactions are stored.
    """

    def __init__(
        self, pipe: Pipe, publisher_database_id: int, subscriber: str, profile: Profile, news: asyncio.Event
    ) -> None:  # fmt: skip
        self.pipe = pipe
        self._news = news
        self._open_count: bytes | None = None
        """If the last window is a partly stored transaction: the number that distinguishes one attempt to store it
        from the next.
        """
        self.publisher_database_id = publisher_database_id
        self.subscriber = subscriber
        self.profile = profile
        self.history = AgentHistory(pipe, publisher_database_id, subscriber)
        self._id = int4(publisher_database_id)
        self._text_id = str(publisher_database_id).encode()
        self._rows: list[tuple[str | None, ...]] | None = None
        self.subscription = SubscribedArticles()
        self.publisher_db = ""

    @classmethod
    async def open(
        cls,
        dsn: str,
        *,
        publisher: str,
        subscriber: str,
        profile: Profile | None,
        news: asyncio.Event,
    ) -> ServerSource:
        """Connect, and listen for notifications.

        Args:
            profile: None for the profile stored with the subscription.

        Raises:
            SubscriptionError: the distribution database does not know the Publisher.
        """
        pipe = await Pipe.connect(
            dsn,
            on_notify=news.set,
            application_name=f"msrepl\\ agent\\ {subscriber}",
            # The log is read in the order of an index, even if statistics describe its tables as
            # empty.
            plan_cache_mode="force_generic_plan",
            enable_seqscan="off",
            enable_bitmapscan="off",
            jit="off",
        )
        try:
            answer = checked(
                await pipe.run(
                    (Statement(f"listen {CHANNEL}", kept=False), ()),
                    (
                        Statement(
                            "select d.id, d.publisher_db, a.profile from msrepl.mspublisher_databases d"
                            " left join msrepl.msdistribution_agents a"
                            " on a.publisher_database_id = d.id and a.subscriber = $2"
                            " where d.publisher = $1",
                            kept=False,
                        ),
                        (publisher.encode(), subscriber.encode()),
                    ),
                )
            )
            rows = answer.rows(1)
            if not rows:
                raise SubscriptionError(
                    f"the distribution database has nothing of Publisher {publisher!r}: subscribe"
                    f" {subscriber!r} first, or name another Publisher"
                )
            number, publisher_db, kept = rows[0]
            profile = profile or Profile.from_json(json.loads(kept or "{}"))
            timeout = f"set statement_timeout = {profile.query_timeout_ms}"
            checked(await pipe.run((Statement(timeout, kept=False), ())))
            result = cls(pipe, int(str(number)), subscriber, profile, news)
            result.publisher_db = str(publisher_db)
            return result
        except BaseException:
            await pipe.close()
            raise

    async def window(self, position: int, *, may_be_open: bool = False) -> tuple[bool, Window]:
        questions: list[Query] = [
            (queries.SUBSCRIPTIONS, (self._text_id, self.subscriber.encode())),
            (queries.WINDOW, (self._id, lsn8(position), int4(WINDOW))),
        ]
        if may_be_open:
            questions.append((queries.OPEN, (self._id, lsn8(position))))
        answer = checked(await self.pipe.run(*questions))
        changed = (rows := answer.rows(0)) != self._rows
        if changed:
            if not rows:
                await self._check_subscribed()
            self._rows = rows
            self.subscription = subscription_of(rows)
            await self._check_kept(position)
        window, self._open_count = window_of(answer.results[1], position), None
        if may_be_open and not len(window) and answer.results[2].ntuples:
            window = replace(window_of(answer.results[2], position), is_open=True)
            self._open_count = answer.results[2].get_value(0, 5)
        return changed, window

    async def _check_subscribed(self) -> None:
        answer = checked(
            await self.pipe.run((queries.SUBSCRIBES, (self._text_id, self.subscriber.encode())))
        )
        if not answer.rows(0):
            raise SubscriptionError(
                f"{self.subscriber!r} does not subscribe any more: `twopc subscribe {self.subscriber}`, and "
                "start its agent again"
            )

    async def _check_kept(self, position: int) -> None:
        """Check that the Subscriber is not behind what it has reported: it was then restored from a backup.

        Clean-up may have removed what it lacks; and it lacks its own transactions, which are not sent back to it.
        """
        if not (terms := self.subscription.terms):
            return
        first = max(position, min(each.after for each in terms))
        names = (self._text_id, self.subscriber.encode())
        rows = checked(await self.pipe.run((queries.EARLIEST, names))).rows(0)
        earliest = max(lsn_value(str(lsn)) for lsn in rows[0]) if rows else 0
        if earliest > first:
            raise DeliveryError(
                f"{self.subscriber} is at {lsn_text(first)}, and had reported that it has what was committed up to "
                f"{lsn_text(earliest)}: it lacks at least its own transactions since, which are not sent back to it. "
                f"Was it restored from a backup? `twopc reinitialise {self.subscriber}`",
                node=self.subscriber,
            )

    async def loads(
        self,
        batches: Sequence[Batch],
        *,
        own: OwnCommands,
        streams: int,
        apart: Sequence[int] = (),
    ) -> AsyncGenerator[BatchLoad, None]:
        """See `SourcePort.loads`; a large batch comes in several blocks, each a load of its own.

        The next read is under way while the caller works on a load.
        """
        owner = -1 if own.originator is None else own.originator
        terms = (int4(owner), int4s(own.echoed), int4(streams), int4s(apart))
        if self._open_count is not None:
            async for load in self._open_loads(batches[0], self._open_count, terms):
                yield load
            return
        reads = list(self._reads(batches))
        ahead = self._ask(reads[0], terms) if reads else None
        for at, read in enumerate(reads):
            assert ahead is not None
            answer, after = checked(await ahead), None
            if len(read) > 1 or not self._is_large(read[0]):
                ahead = self._ask(reads[at + 1], terms) if at + 1 < len(reads) else None
                for load in split_rows(read, answer.results[0], apart if streams == 1 else ()):
                    yield load
                continue
            while True:
                first = after is None
                block, after = block_of(read[0], answer.results[0], first)
                if after is None:
                    ahead = self._ask(reads[at + 1], terms) if at + 1 < len(reads) else None
                    yield block
                    break
                ahead = self._ask(read, terms, after)
                yield block
                answer = checked(await ahead)

    async def _open_loads(
        self, batch: Batch, count: bytes, terms: tuple[bytes, ...]
    ) -> AsyncGenerator[BatchLoad, None]:
        """Yield the parts of a transaction as they are stored, and a last load once it is complete.

        Raises:
            UnfinishedError: no further part arrives in time, or the stored parts have changed.
        """
        after, first, clock = 0, True, asyncio.get_running_loop().time
        until = clock() + _PART_WAIT_S
        state = (queries.OPEN_STATE, (self._id, count, lsn8(batch.upto)))
        while True:
            self._news.clear()
            block = (queries.BLOCK, self._block_params(batch, terms, after))
            answer = checked(await self.pipe.run(state, block))
            if not answer.results[0].ntuples:
                raise UnfinishedError
            is_whole = answer.results[0].get_value(0, 0) == b"\0"
            load, upto = block_of(batch, answer.results[1], first)
            if upto is not None or is_whole:
                yield load
                if upto is None:
                    return
                after, first, until = upto, False, clock() + _PART_WAIT_S
                continue
            if clock() >= until:
                raise UnfinishedError
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._news.wait()

    def _is_large(self, batch: Batch) -> bool:
        """Whether a batch is delivered in blocks, as only a single transaction can be."""
        return len(batch.seqnos) == 1 and (
            batch.commands > self.profile.block_commands or batch.bytes > self.profile.block_bytes
        )

    def _reads(self, batches: Sequence[Batch]) -> list[list[Batch]]:
        """Group adjacent small batches that want the same articles, to be read together."""
        reads: list[list[Batch]] = []
        commands = length = 0
        for batch in batches:
            if (
                reads
                and reads[-1][-1].articles == batch.articles
                and not self._is_large(reads[-1][-1])
                and not self._is_large(batch)
                and commands + batch.commands <= _READ_COMMANDS
                and length + batch.bytes <= self.profile.block_bytes
            ):
                reads[-1].append(batch)
            else:
                reads.append([batch])
                commands = length = 0
            commands += batch.commands
            length += batch.bytes
        return reads

    def _ask(
        self, read: Sequence[Batch], terms: tuple[bytes, ...], after: int = 0
    ) -> asyncio.Future[PipeAnswer]:
        first, last = read[0], read[-1]
        if len(read) == 1 and self._is_large(first):
            return self.pipe.send((queries.BLOCK, self._block_params(first, terms, after)))
        params = (self._id, int4s(first.articles), *terms)
        # the first position of every batch but the first; positions count by bytes
        bounds = lsn8s([batch.after + 1 for batch in read[1:]])
        commands, one_stream = sum([batch.commands for batch in read]), terms[2] == int4(1)
        whole = one_stream and commands >= _CUT_OUT_MIN
        query = queries.CUT_OUT if whole else queries.BATCHES
        return self.pipe.send((query, (*params, bounds, lsn8(first.after), lsn8(last.upto))))

    def _block_params(
        self, batch: Batch, terms: tuple[bytes, ...], after: int
    ) -> tuple[bytes, ...]:
        """Return the parameters of `queries.BLOCK` for the commands after a command of a transaction."""
        limits = (self.profile.block_commands, self.profile.block_bytes)
        return (
            self._id,
            int4s(batch.articles),
            *terms,
            lsn8(batch.upto),
            int4(after),
            *(int4(limit) for limit in limits),
        )

    async def uniform(
        self, after: int, upto: int, articles: Sequence[int], commands: int
    ) -> dict[int, int]:
        params = (self._id, lsn8(after), lsn8(upto), int4s(articles), int4(commands))
        result = checked(await self.pipe.run((queries.UNIFORM, params))).results[0]
        return {
            int.from_bytes(result.get_value(row, 0) or b""): int.from_bytes(
                result.get_value(row, 1) or b""
            )
            for row in range(result.ntuples)
        }

    async def own_transactions(self, position: int, originator: int) -> list[int]:
        params = (self._text_id, lsn_text(position).encode(), str(originator).encode())
        answer = checked(await self.pipe.run((queries.OWN, params)))
        return [lsn_value(str(seqno)) for (seqno,) in answer.rows(0)]

    async def commands(self, after: int, upto: int) -> AsyncIterator[DecodedCommand]:
        seqno, command_id = after, 2**31 - 1
        while True:
            params = (lsn_text(seqno), str(command_id), lsn_text(upto))
            answer = checked(
                await self.pipe.run(
                    (queries.COMMANDS, (self._text_id, *(each.encode() for each in params)))
                )
            )
            rows = answer.rows(0)
            for row in rows:
                at, xid, number, article_id, kind, originator, command = row
                seqno, command_id = lsn_value(str(at)), int(str(number))
                yield DecodedCommand(
                    seqno=seqno,
                    xid=int(str(xid)),
                    command_id=command_id,
                    article_id=int(str(article_id)),
                    type=int(str(kind)),
                    originator=int(originator) if originator else None,
                    command=str(command),
                )
            if not rows:
                return

    async def articles(self) -> dict[int, DistributedArticle]:
        rows = checked(await self.pipe.run((queries.ARTICLES, (self._text_id,)))).rows(0)
        results = [DistributedArticle.from_row(json.loads(str(row))) for (row,) in rows]
        return {each.article_id: each for each in results}

    async def proc_articles(self) -> dict[int, ProcArticle]:
        rows = checked(await self.pipe.run((queries.PROC_ARTICLES, (self._text_id,)))).rows(0)
        results = [ProcArticle.from_json(json.loads(str(row))) for (row,) in rows]
        return {each.article_id: each for each in results}

    async def close(self) -> None:
        await self.pipe.close()


def checked(answer: PipeAnswer) -> PipeAnswer:
    """Return an answer of the distribution database if it is no failure.

    Raises:
        LostError: a new session may help.
        DeliveryError: the failure is permanent.
        OutdatedError: the distribution database was installed by an earlier version.
    """
    failure = answer.failure
    if failure is None:
        return answer
    if may_pass(failure):
        raise LostError(f"the distribution database: {failure}")
    if failure.sqlstate in OutdatedError.SQLSTATES:
        raise OutdatedError.for_missing(failure.message)
    raise DeliveryError(
        f"the distribution database refuses the agent: {failure.message}", sqlstate=failure.sqlstate
    )
