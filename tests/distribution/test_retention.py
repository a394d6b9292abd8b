"""Tests of clean-up: by the slowest agent, within bounds of time, and deactivation."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.distribution.made import article, columns
from tests.distribution.stored import register, rows, store, store_in_part
from twopc.publisher import distribution
from twopc.publisher.distribution import retention

Connection = AsyncConnection[Any]
ARTICLES = (article(*columns(3)), article(*columns(3), number=8, table="u"))


async def subscribe(
    connection: Connection, publisher: int, subscriber: str, number: int = 7, **options: Any
) -> None:
    options = {"status": distribution.ACTIVE, "subscription_seqno": "0/0", **options}
    await distribution.add_subscription(connection, publisher, number, subscriber, **options)


async def deliver(connection: Connection, subscriber: str, seqno: str) -> None:
    await connection.execute(
        "update msrepl.msdistribution_agents set delivered = %s where subscriber = %s",
        (seqno, subscriber),
    )


async def left(connection: Connection) -> list[str]:
    """Return the remaining positions; assert that transactions and commands are complete."""
    found = await rows(
        connection,
        """
        select t.xact_seqno::text, t.commands, count(c.command_id)
        from msrepl.msrepl_transactions t
        full join msrepl.msrepl_commands c using (publisher_database_id, xact_seqno)
        group by t.publisher_database_id, t.xact_seqno, t.commands order by t.xact_seqno
        """,
    )
    assert all(commands == count for _, commands, count in found)
    return [seqno for seqno, _, _ in found]


async def removed_to(connection: Connection) -> str:
    """Return the position up to which transactions were removed."""
    found = await rows(connection, "select removed_to::text from msrepl.mspublisher_databases")
    return str(found[0][0])


async def prepare(connection: Connection, *, age: str = "0", read_to: str = "0/40") -> int:
    publisher = await register(connection, *ARTICLES)
    for place, seqno in enumerate(("0/10", "0/20", "0/30", "0/40"), 1):
        await store(connection, publisher, seqno, place, age)
    await connection.execute("update msrepl.mspublisher_databases set read_to = %s", (read_to,))
    return publisher


async def test_by_the_slowest_agent(stored: Connection) -> None:
    """Clean-up follows the slowest agent; a new Subscriber keeps no earlier transactions."""
    publisher = await prepare(stored)
    await subscribe(stored, publisher, "fast")
    await subscribe(stored, publisher, "slow")
    await deliver(stored, "fast", "0/40")
    await deliver(stored, "slow", "0/20")
    done = await distribution.clean_up(stored)
    assert (done.transactions, done.commands, done.deactivated) == (2, 3, ())
    assert str(done).startswith("Removed 2 replicated transactions consisting of 3 statements in ")
    assert await left(stored) == ["0/30", "0/40"]
    assert await removed_to(stored) == "0/20"
    await distribution.drop_subscription(stored, publisher, "slow")
    await subscribe(stored, publisher, "fresh", subscription_seqno="0/35")
    await distribution.clean_up(stored)
    assert await left(stored) == ["0/40"]
    await distribution.drop_subscription(stored, publisher, "fresh")
    await distribution.clean_up(stored)
    assert await left(stored) == []
    assert (await distribution.clean_up(stored)).transactions == 0
    assert await removed_to(stored) == "0/40"


async def test_what_is_being_stored_stays(stored: Connection) -> None:
    """A transaction that is being stored is kept, even if every Subscriber begins after it."""
    publisher = await prepare(stored, read_to="0/30")
    await store_in_part(stored, "0/40")
    await subscribe(stored, publisher, "fresh", subscription_seqno="0/50")
    assert (await distribution.clean_up(stored)).transactions == 3
    assert len(await rows(stored, "select from msrepl.msrepl_blocks")) == 1
    assert await removed_to(stored) == "0/30"


async def test_an_article_that_is_added_later(stored: Connection) -> None:
    """An article that is added later begins at its own position, and the agent continues at its own."""
    publisher = await prepare(stored)
    await subscribe(stored, publisher, "sub")
    await subscribe(stored, publisher, "sub", 8, subscription_seqno="0/30")
    await deliver(stored, "sub", "0/10")
    await distribution.clean_up(stored)
    assert await left(stored) == ["0/20", "0/30", "0/40"]


async def test_an_archive_is_waited_for(stored: Connection) -> None:
    """Clean-up waits for an archive as for a Subscriber; one not appended to in time is abandoned."""
    publisher = await prepare(stored)
    await subscribe(stored, publisher, "sub")
    await deliver(stored, "sub", "0/40")
    await stored.execute(
        "insert into msrepl.msrepl_archives (publisher_database_id, archive, folder, position)"
        " values (%s, 'a1', '/archives/bank', '0/20')",
        (publisher,),
    )
    assert (await distribution.clean_up(stored)).abandoned == ()
    assert await left(stored) == ["0/30", "0/40"]
    done = await distribution.clean_up(stored, archive_retention=timedelta(0))
    assert done.abandoned == ("/archives/bank",)
    assert await left(stored) == []
    [(message,)] = await rows(
        stored,
        "select message from msrepl.msdistribution_history where message like '%archive%'",
    )
    assert message.startswith("archive /archives/bank was not appended to for ")


async def test_a_copy_that_is_not_made_yet(stored: Connection) -> None:
    """A copy without a position keeps every transaction."""
    publisher = await prepare(stored)
    await subscribe(
        stored, publisher, "sub", status=distribution.SUBSCRIBED, subscription_seqno=None
    )
    await distribution.clean_up(stored)
    assert len(await left(stored)) == 4
    await subscribe(
        stored, publisher, "sub", status=distribution.SUBSCRIBED, subscription_seqno="0/20"
    )
    await distribution.clean_up(stored)
    assert await left(stored) == ["0/30", "0/40"]


async def test_without_subscriptions(stored: Connection) -> None:
    """Without subscriptions, everything is removed except transactions that are being stored."""
    await prepare(stored, read_to="0/30")
    await distribution.clean_up(stored)
    assert await left(stored) == ["0/40"]


async def test_min_retention(stored: Connection) -> None:
    """Young transactions and all later ones are kept, because a later subscription may need them."""
    publisher = await prepare(stored, age="2 hours")
    await store(stored, publisher, "0/18", 1)
    await distribution.clean_up(stored, min_retention=timedelta(hours=1))
    assert await left(stored) == ["0/18", "0/20", "0/30", "0/40"]
    await distribution.clean_up(stored, min_retention=timedelta(hours=3))
    assert len(await left(stored)) == 4


async def test_a_subscriber_that_fell_behind(stored: Connection) -> None:
    """A Subscriber that fell behind is deactivated (21074), recorded in the history, and keeps nothing."""
    publisher = await prepare(stored, age="73 hours")
    for number in (7, 8):
        await subscribe(stored, publisher, "gone", number)
    await subscribe(stored, publisher, "here")
    await deliver(stored, "here", "0/40")
    await deliver(stored, "gone", "0/30")
    done = await distribution.clean_up(stored)
    assert (done.deactivated, done.transactions) == (("gone",), 4)
    assert await left(stored) == []
    assert await rows(
        stored, "select subscriber, article_id, status from msrepl.mssubscriptions order by 1, 2"
    ) == [("gone", 7, 0), ("gone", 8, 0), ("here", 7, 2)]
    [(event, error, message)] = await rows(
        stored,
        "select event, error, message from msrepl.msdistribution_history where subscriber is not null",
    )
    assert (event, error) == ("deactivated", "21074")
    assert "the subscription of gone was deactivated" in message
    assert "reinitialise it" in message
    assert (await distribution.clean_up(stored)).deactivated == ()
    [status] = [each for each in await distribution.agents(stored) if each.subscriber == "gone"]
    assert status.subscription == "inactive"


async def test_a_copy_under_way_gives_up_nothing_else(stored: Connection) -> None:
    """A copy in progress, which waits for old transactions, deactivates no other article."""
    publisher = await prepare(stored, age="73 hours")
    await subscribe(stored, publisher, "sub")
    await subscribe(
        stored, publisher, "sub", 8, status=distribution.SUBSCRIBED, subscription_seqno=None
    )
    await deliver(stored, "sub", "0/40")
    await distribution.clean_up(stored)
    found = await rows(stored, "select article_id, status from msrepl.mssubscriptions order by 1")
    assert found == [(7, 2), (8, 0)]


async def test_who_keeps_waits_for_a_clean_up_with_another_key(stored: Connection) -> None:
    """`kept` waits for a clean-up with another key, which a stranger's lock made it use."""
    dsn = make_conninfo(stored.info.dsn, password=stored.info.password)
    name = f"stranger_{stored.info.backend_pid}"
    await stored.execute(f"create role {name} login password 'strange'".encode())
    strange = make_conninfo(stored.info.dsn, user=name, password="strange")
    take = "select pg_advisory_lock(%s, %s)"
    try:
        async with (
            await AsyncConnection.connect(dsn, autocommit=True) as cleaning,
            await AsyncConnection.connect(dsn, autocommit=True) as keeping,
        ):
            async with await AsyncConnection.connect(strange, autocommit=True) as stranger:
                await stranger.execute(take, await retention._key(stored))
                await cleaning.execute(take, await retention._key(cleaning))

            async def keep() -> None:
                async with retention.kept(keeping):
                    assert cleaning.closed

            kept = asyncio.create_task(keep())
            waiting = "select from pg_locks where locktype = 'advisory' and not granted"
            while not kept.done() and not await rows(stored, waiting):
                pass
            await cleaning.close()
            await kept
    finally:
        await stored.execute(f"drop role {name}".encode())


async def test_being_behind_is_not_being_idle(stored: Connection) -> None:
    """A Subscriber without waiting commands is not deactivated, however long nothing changes."""
    publisher = await prepare(stored, age="100 days")
    await subscribe(stored, publisher, "sub")
    await deliver(stored, "sub", "0/40")
    assert (await distribution.clean_up(stored)).deactivated == ()


async def test_in_blocks(stored: Connection) -> None:
    """Many transactions are removed in several commits."""
    publisher = await register(stored, *ARTICLES)
    await stored.execute(
        """
        insert into msrepl.msrepl_blocks
        select %(p)s, s, s, 0, 1, 1, 1,
            array[s], array[xid8 '1'], array[now()], array[0], array[0], array[1], array[1::bigint],
            array[s], array[1], array[701], array[0], array[0], array['x']
        from (select '0/0'::pg_lsn + n as s from generate_series(1, 12000) n) t
        """,
        {"p": publisher},
    )
    await stored.execute("update msrepl.mspublisher_databases set read_to = '0/0'::pg_lsn + 11000")
    done = await distribution.clean_up(stored)
    assert (done.transactions, done.commands) == (11000, 11000)
    assert len(await left(stored)) == 1000


async def test_history(stored: Connection) -> None:
    """Old rows of the history are removed, and clean-up records its work there."""
    publisher = await prepare(stored)
    await stored.execute(
        """
        insert into msrepl.msdistribution_history (publisher_database_id, subscriber, event, at)
        values (%(p)s, 's', 'old', now() - interval '49 hours'), (%(p)s, 's', 'young', now())
        """,
        {"p": publisher},
    )
    await stored.execute(
        """
        insert into msrepl.mstracer_tokens values (%(p)s, 1, now() - interval '3 days', now() - interval '3 days'),
            (%(p)s, 2, now(), now())
        """,
        {"p": publisher},
    )
    await stored.execute(
        "insert into msrepl.mstracer_history values (%(p)s, 1, 's', now()), (%(p)s, 2, 's', now())",
        {"p": publisher},
    )
    await distribution.clean_up(stored)
    events = await rows(
        stored,
        "select event, transactions, commands from msrepl.msdistribution_history order by id",
    )
    assert events == [("young", None, None), ("removed", 4, 10)]
    assert await rows(stored, "select tracer_id from msrepl.mstracer_history") == [(2,)]
    await distribution.clean_up(stored)
    assert len(await rows(stored, "select from msrepl.msdistribution_history")) == 2


async def test_again_and_again(stored: Connection) -> None:
    """Clean-up repeats until it is stopped, even after errors or without a server."""
    await prepare(stored)
    away = "alter table msrepl.{} rename to {}".format
    await stored.execute(away("msrepl_blocks", "away").encode())
    stop = asyncio.Event()
    dsn = make_conninfo(stored.info.dsn, password=stored.info.password)
    running = asyncio.create_task(
        distribution.keep_clean(dsn, stop, every_s=0.01, max_retention=timedelta(1))
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await asyncio.shield(running)
    await stored.execute(away("away", "msrepl_blocks").encode())
    async with asyncio.timeout(20):
        while await left(stored):
            assert not running.done()
    stop.set()
    await running
    stop.clear()
    with pytest.raises(TimeoutError):  # it waits for its next pass
        async with asyncio.timeout(1):
            await distribution.keep_clean("host=127.0.0.1 port=1 dbname=none", stop, every_s=3600)
