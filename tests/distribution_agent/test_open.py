"""Tests of large transactions that an agent begins to apply before the log reader has stored all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import errors

from tests.distribution.blocks import LoggedTransaction, add, begin, commit, moment_us
from tests.distribution_agent.ends import PUBLISHER, SUBSCRIBER, Does, Ends, ins
from tests.distribution_agent.test_running import NEVER_MS, TABLE, running
from twopc.core import CommandScanner
from twopc.drivers.points import Points
from twopc.errors import DeliveryError
from twopc.publisher.log_reader import rows
from twopc.publisher.log_reader.planner import StoredBatch
from twopc.publisher.log_reader.store import ServerStore
from twopc.subscriber.distribution_agent.pipe import PipeAnswer, Query
from twopc.subscriber.distribution_agent.planner import ArticleTerms, BatchPlanner, Window
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.source import ServerSource


class LargeTransaction:
    """A transaction that a log reader stores in parts."""

    def __init__(self, ends: Ends, store: ServerStore) -> None:
        ends.at += 0x100
        self.store = store
        self.now = LoggedTransaction(ends.at, 5, moment_us(time.time()))
        self.begin()

    def begin(self) -> None:
        """Begin with none of its commands stored."""
        self.scanner = CommandScanner(0, 1, pauses=True)
        begin(self.scanner, self.now)

    async def part(self, *commands: Does) -> None:
        """Store a further part."""
        self._add(commands)
        part = rows.parts(self.store.publisher, self.scanner)
        await self.store.write(part)
        self.scanner.forget_part(len(commands), len(part.blocks))

    async def end(self, *commands: Does, originator: int = 0) -> None:
        """Store the last part."""
        scanner = self.scanner
        scanner.originator = originator
        self._add(commands)
        commit(scanner)
        await self.store.commit(
            StoredBatch(
                transactions=1,
                commands=scanner.counts[0],
                blocks=list(rows.blocks(self.store.publisher, scanner)),
                read_to=self.now.seqno,
                time_us=self.now.time_us,
                remarked=[(self.now.seqno, originator)] if originator else [],
            )
        )

    def _add(self, commands: tuple[Does, ...]) -> None:
        texts = ["(" + ",".join(f'"{value}"' for value in each.values) + ")" for each in commands]
        made = [
            (1, each.article_id, each.hashkey, text)
            for each, text in zip(commands, texts, strict=True)
        ]
        add(self.scanner, made)


@asynccontextmanager
async def storing(ends: Ends) -> AsyncIterator[ServerStore]:
    """Open the store of a log reader."""
    store = await ServerStore.open(
        ends.config().distribution_dsn, "msrepl log reader", PUBLISHER, Points()
    )
    try:
        await store.registry()
        yield store
    finally:
        await store.close()


async def until_session_is(ends: Ends, state: str) -> None:
    """Wait until the agent's session at the Subscriber is in this state."""
    query = """
        select count(*) from pg_stat_activity
        where datname = %s and application_name like 'msrepl agent%%' and state = %s
    """
    await ends._until(query, (ends.subscriber.name, state), lambda seen: seen[0] == 1)


async def is_in_transaction(ends: Ends) -> bool:
    """Return whether the agent has an open transaction at the Subscriber."""
    query = """
        select from pg_stat_activity
        where datname = %s and application_name like 'msrepl agent%%' and xact_start is not null
    """
    cursor = await ends.admin.execute(query, (ends.subscriber.name,))
    return cursor.rowcount > 0


def some(first: int, count: int = 3) -> list[Does]:
    return [ins(n, "", n) for n in range(first, first + count)]


async def test_it_is_begun_before_it_is_whole(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    agent = ends.agent(polling_interval_ms=NEVER_MS)
    async with storing(ends) as store, running(agent) as task:
        large = LargeTransaction(ends, store)
        await large.part(*some(1))
        await until_session_is(ends, "idle in transaction")
        await large.part(*some(4))
        for view in ("msrepl_transactions", "msrepl_commands"):
            cursor = await ends.admin.execute(f"select from msrepl.{view}".encode())
            assert not cursor.rowcount
        assert await ends.rows() == []
        await large.end(*some(7))
        await ends.until_at(ends.at, task)
        await ends.store(ins(10, "", 10))
        await ends.until_at(ends.at, task)
    assert [key for key, _, _ in await ends.rows()] == [*range(1, 11)]
    done = task.result()
    assert (done.transactions, done.commands, done.batches) == (2, 10, 2)
    assert [row["event"] for row in await ends.history()] == ["started", "succeeded"]


async def test_what_is_not_stored_any_further_is_rolled_back(ends: Ends) -> None:
    """A begun transaction that its log reader does not complete is rolled back.

    The next log reader stores it with other commands, because articles have changed meanwhile.
    """
    await ends.subscribe(TABLE)
    async with running(ends.agent(polling_interval_ms=NEVER_MS)) as task:
        async with storing(ends) as store:
            large = LargeTransaction(ends, store)
            await large.part(*some(1))
            await until_session_is(ends, "idle in transaction")
        async with storing(ends) as store:
            large.store = store
            large.begin()
            await large.part(*some(101))
            await large.part(*some(104))
            await until_session_is(ends, "idle")
            await large.end(*some(107))
        await ends.until_at(ends.at, task)
    assert [key for key, _, _ in await ends.rows()] == [*range(101, 110)]


async def test_the_next_one_is_begun_before_it_ends(ends: Ends) -> None:
    """An agent that is slower than the log reader continues with transactions that are complete."""
    await ends.subscribe(TABLE)
    sent, points = 0, Points()
    async with storing(ends) as store:
        first, second = LargeTransaction(ends, store), LargeTransaction(ends, store)

        async def store_more(point: str) -> None:
            nonlocal sent
            sent += 1
            points.arm(point, store_more)
            if sent == 1:
                await first.end(*some(4))
                await second.part(*some(7))

        points.arm("agent.sent", store_more)
        agent = ends.agent(points=points, polling_interval_ms=NEVER_MS)
        async with running(agent) as task:
            await first.part(*some(1))
            await ends.until_at(first.now.seqno, task)
            await until_session_is(ends, "idle in transaction")
            await second.end(*some(10))
            await ends.until_at(second.now.seqno, task)
    assert [key for key, _, _ in await ends.rows()] == [*range(1, 13)]
    assert sent == 6  # for each transaction: a part, the last part, and the end


async def test_news_of_others_are_no_part(ends: Ends) -> None:
    """Unrelated notifications are not taken for a further part; the agent rolls back and releases its locks."""
    await ends.subscribe(TABLE)
    async with storing(ends) as store, running(ends.agent(polling_interval_ms=NEVER_MS)) as task:
        large = LargeTransaction(ends, store)
        await large.part(*some(1))
        await until_session_is(ends, "idle in transaction")
        deadline = time.monotonic() + 5
        while await is_in_transaction(ends):
            await ends.admin.execute("notify msrepl_distribution, 'another Publisher'")
            assert time.monotonic() < deadline
        await large.end(*some(4))
        await ends.until_at(ends.at, task)
    assert [key for key, _, _ in await ends.rows()] == [*range(1, 7)]


async def test_what_is_stored_before_it_is_delivered_before_it(ends: Ends) -> None:
    """A complete transaction is delivered before an open one that follows it.

    Both are stored between two statements of the agent: the first finds nothing to deliver, the
    second finds an open transaction.
    """
    await ends.subscribe(TABLE)
    news = asyncio.Event()
    source = await ServerSource.open(
        ends.config().distribution_dsn, publisher=PUBLISHER, subscriber=SUBSCRIBER, profile=None, news=news
    )  # fmt: skip
    async with storing(ends) as store:
        run = source.pipe.run

        async def run_slowly(*statements: Query) -> PipeAnswer:
            answer = await run(*statements[:2])
            if len(statements) > 2:
                before = LargeTransaction(ends, store)
                await before.end(*some(1))
                await LargeTransaction(ends, store).part(*some(4))
                answer.results += (await run(*statements[2:])).results
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source.pipe, "run", run_slowly)
            _, window = await source.window(0, may_be_open=True)
        assert not len(window)
        assert news.is_set()
        _, window = await source.window(0, may_be_open=True)
        assert not window.is_open
        _, window = await source.window(window.seqnos[0], may_be_open=True)
        assert window.is_open
    await source.close()


@pytest.mark.parametrize("is_own", [True, False])
async def test_the_mark_that_counts_came_later(ends: Ends, is_own: bool) -> None:
    """The originator of a large transaction counts as stored with its last part.

    Earlier parts were stored with another originator: with the Subscriber's own, or without it.
    """
    await ends.subscribe(TABLE)
    first, last = 0, ends.originator_id
    if not is_own:
        first, last = ends.other_originator_id, ends.other_originator_id
    async with storing(ends) as store, running(ends.agent(polling_interval_ms=NEVER_MS)) as task:
        large = LargeTransaction(ends, store)
        large.scanner.originator = first
        await large.part(*some(1))
        await until_session_is(ends, "idle in transaction")
        large.scanner.originator = ends.originator_id
        await large.part(*some(4))
        large.scanner.originator = last
        await large.end(*some(7), originator=last)
        await ends.until_at(ends.at, task)
    assert [key for key, _, _ in await ends.rows()] == ([] if is_own else [*range(1, 10)])


async def test_a_command_that_fails_waits_until_it_is_whole(ends: Ends) -> None:
    """The agent reports a failed command of an open transaction only when the transaction is complete."""
    await ends.subscribe(TABLE)
    await ends.sub.execute("alter table t add constraint odd check (id <> 2)")
    sent, points = asyncio.Event(), Points()
    points.arm("agent.sent", lambda _: sent.set())
    agent = ends.agent(points=points, polling_interval_ms=NEVER_MS)
    with pytest.raises(DeliveryError, match="odd") as raised:
        async with storing(ends) as store, running(agent) as task:
            large = LargeTransaction(ends, store)
            await large.part(*some(1))
            await sent.wait()
            await until_session_is(ends, "idle")
            assert not task.done()
            assert not await ends.history("failed", "retry")
            await large.end(*some(4))
            await ends.until_event("failed", 1)
    assert raised.value.sqlstate == "23514"
    assert await ends.rows() == []


@pytest.mark.parametrize("ends_it", [False, True])
async def test_of_two_log_readers_one_stores_it(ends: Ends, ends_it: bool) -> None:
    """A log reader that starts later stores the transaction anew; the earlier one fails."""
    async with storing(ends) as before:
        async with storing(ends) as other:
            large = LargeTransaction(ends, before)
            await large.part(*some(1))
            with pytest.raises(errors.ObjectInUse, match="18752"):
                await LargeTransaction(ends, other).end(*some(100))
        async with storing(ends) as after:
            with pytest.raises(errors.ObjectInUse, match="18752"):
                await (large.end if ends_it else large.part)(*some(4))
            large.begin()
            large.store = after
            await large.part(*some(1))
            await large.end(*some(4))
    cursor = await ends.admin.execute("select command from msrepl.msrepl_commands")
    assert len(await cursor.fetchall()) == 6


def test_what_is_worth_beginning() -> None:
    """An agent begins no open transaction of its own Subscriber, and none without commands for it."""
    planner = BatchPlanner((ArticleTerms(article_id=7, after=0x100, own=3),), Profile())
    window = Window(seqnos=(0x200,), xids=(5,), commands=(9,), originators=(1,), is_open=True)
    assert planner.may_begin(window)
    assert not planner.may_begin(
        Window(seqnos=(0x200,), xids=(5,), commands=(9,), originators=(3,), is_open=True)
    )
    assert not planner.may_begin(
        Window(seqnos=(0x100,), xids=(5,), commands=(9,), originators=(1,), is_open=True)
    )
