"""Tests of a running log reader: it stores changes, survives lost servers, and stops on request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest

from tests.fix_link import until
from tests.fix_server import Database
from tests.log_reader.rig import ROLE, SLOT, Rig, rig, rows, value
from twopc.errors import ArticleError
from twopc.publisher.log_reader import LogReader, LogReaderProfile
from twopc.server import EmbeddedServer


@asynccontextmanager
async def running(reader: LogReader) -> AsyncIterator[asyncio.Task[None]]:
    """Run a log reader inside the block."""
    stop = asyncio.Event()
    task = asyncio.create_task(reader.run(stop))
    try:
        yield task
    finally:
        stop.set()
        await asyncio.wait_for(task, 60)


def stored_in(database: Database) -> list[int]:
    """Return the stored keys, in order."""
    with psycopg.connect(database.dsn) as connection:
        return [
            int(text.split('"')[1])
            for (text,) in connection.execute(
                "select command from msrepl.msrepl_commands order by xact_seqno, command_id"
            )
        ]


async def arrives(rig: Rig, *keys: int) -> None:
    """Wait until exactly these keys are stored."""

    def look() -> bool:
        return stored_in(rig.distribution) == list(keys)

    await until(look, f"{keys} to be stored")


async def test_it_stores_what_comes_and_wakes_who_listens(both: Rig) -> None:
    async with (
        running(both.reader()),
        await psycopg.AsyncConnection.connect(both.distribution.dsn, autocommit=True) as agent,
    ):
        await agent.execute("listen msrepl_distribution")
        for key in range(5):
            await both.pub.execute("insert into item (id) values (%s)", (key,))
            async for notice in agent.notifies(timeout=60, stop_after=1):
                assert notice.payload == "pub"
        await arrives(both, *range(5))
    events = [event for (event,) in await history(both)]
    assert events == ["started", "succeeded"]


async def history(rig: Rig) -> list[tuple[str]]:
    """Return the log reader's events."""
    return await rows(
        rig.dist,
        "select event from msrepl.msdistribution_history where subscriber is null order by id",
    )  # type: ignore[return-value] # rows of one text


async def test_it_lets_the_slot_move_and_the_log_go(both: Rig) -> None:
    async with running(both.reader(reading=LogReaderProfile(snapshot_bytes=1))):
        await both.pub.execute("insert into item (id) values (1)")
        await arrives(both, 1)
        await both.pub.execute("create table unpublished as select generate_series(1, 50000)")
        there = await value(both.pub, "select pg_current_wal_lsn()")

        def moved() -> bool:
            with psycopg.connect(both.publisher.dsn) as connection:
                row = connection.execute(
                    "select confirmed_flush_lsn >= %s from pg_replication_slots where slot_name = %s",
                    (there, SLOT),
                ).fetchone()
                return row is not None and bool(row[0])

        await until(moved, "the slot to move past what nobody gets")


async def test_it_stops_for_what_trying_again_does_not_mend(both: Rig) -> None:
    reader = both.reader()
    task = asyncio.create_task(reader.run(asyncio.Event()))
    await both.pub.execute("alter table item add column more text")
    await both.pub.execute("insert into item (id) values (1)")
    with pytest.raises(ArticleError, match="twopc regenerate"):
        await asyncio.wait_for(task, 60)
    assert [event for (event,) in await history(both)] == ["started", "failed"]


async def test_a_right_that_is_missing_is_no_reason_to_try_again(both: Rig) -> None:
    await both.dist.execute(f"revoke select on msrepl.msarticles from {ROLE}".encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await asyncio.wait_for(both.reader().run(asyncio.Event()), 60)
    assert [event for (event,) in await history(both)] == ["started", "failed"]


async def test_it_goes_on_without_the_right_to_log_snapshots(both: Rig) -> None:
    """The log reader continues when it loses the privilege to log snapshots."""
    async with running(both.reader(reading=LogReaderProfile(snapshot_bytes=1))):
        await both.pub.execute("insert into item (id) values (1)")
        await arrives(both, 1)
        await both.pub.execute(
            f"revoke execute on function pg_log_standby_snapshot() from {ROLE}".encode()
        )
        for key in (2, 3):
            await both.pub.execute("insert into item (id) values (%s)", (key,))
            await arrives(both, *range(1, key + 1))


async def test_articles_may_change_while_it_runs(both: Rig) -> None:
    async with running(both.reader()):
        await both.pub.execute("insert into item (id) values (1)")
        await arrives(both, 1)
        for number in range(2, 6):
            await both.pub.execute(f"create table late{number} (id int primary key)".encode())
            await both.publish(f"late{number}")
            await both.pub.execute(f"insert into late{number} values ({number})".encode())
        await arrives(both, *range(1, 6))


async def test_sessions_that_are_ended_are_opened_again(both: Rig) -> None:
    async with running(both.reader(reading=LogReaderProfile(retry_s_min=0.01))):
        for key in range(4):
            await both.pub.execute("insert into item (id) values (%s)", (key,))
            await arrives(both, *range(key + 1))
            await both.pub.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'msrepl logreader pub' and datname = %s "
                "and (backend_type = 'walsender') = %s",
                ((both.publisher, both.distribution)[key // 2].name, key == 0),
            )
    assert ("retry",) in await history(both)


async def test_between_passes_sessions_may_end(both: Rig) -> None:
    """Any session may end between passes; the next pass opens what it needs."""
    async with both.reader() as reader:
        await reader.run_once()
        for key, database in enumerate((both.publisher, both.distribution)):
            ended = await rows(
                both.pub,
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                "where usename = %s and datname = %s",
                ROLE,
                database.name,
            )
            assert len(ended) == 2 - key
            await both.pub.execute("insert into item (id) values (%s)", (key,))
            assert (await reader.run_once()).transactions == 1


async def test_a_server_shuts_down_while_nobody_reads() -> None:
    """A server shuts down while no pass runs, even with unread changes.

    It waits until replication sessions have received everything, so an idle session must confirm
    or end.
    """
    with EmbeddedServer.start() as server:
        for name in ("pub", "dist"):
            server.create_database(name)
        pub, dist = Database(server=server, name="pub"), Database(server=server, name="dist")
        async with rig(pub, dist) as made:
            await made.pub.execute("create table item (id int primary key)")
            await made.publish("item")
            reader = made.reader()
            for key, pending in enumerate((False, True, False, True)):
                await made.pub.execute("insert into item values (%s)", (2 * key,))
                assert (await reader.run_once()).transactions == (2 if key == 2 else 1)
                if pending:
                    await made.pub.execute("insert into item values (%s)", (2 * key + 1,))
                await asyncio.to_thread(server.restart)
                assert was_shut_down(server)
                await made.reconnect()
            await reader.run_once()
            assert stored_in(dist) == [0, 2, 3, 4, 6, 7]


async def test_a_session_that_is_left_alone_keeps_little(both: Rig) -> None:
    """A replication session without a pass ends before it keeps many messages; the next pass peeks."""
    async with both.reader(reading=LogReaderProfile(catch_up_bytes=1 << 18)) as reader:
        await reader.run_once()
        live = reader._live
        assert live is not None
        await both.pub.execute("insert into item (id) select n from generate_series(1, 10000) n")

        await until(lambda: live.ended, "the session to be ended")
        read = await reader.run_once()
        assert (read.transactions, read.commands, read.caught_up) == (1, 10000, True)


async def test_a_large_transaction_that_is_sent_is_not_decoded_once_more(both: Rig) -> None:
    """A large transaction that is being sent is read by the same session, however long the log grows.

    A session that peeks would have to decode it again.
    """
    counted = "select count(*) = {} from msrepl.msrepl_commands"
    reader = both.reader(reading=LogReaderProfile(catch_up_bytes=1 << 18, store_bytes=1 << 30))
    async with running(reader):
        await both.pub.execute("insert into item (id) values (0)")
        await until_asked(both, counted.format(1))
        sessions = reader.sessions
        await both.pub.execute("insert into item (id) select n from generate_series(1, 30000) n")
        await until_asked(both, counted.format(30001))
        assert reader.sessions == sessions


async def test_servers_may_crash_or_shut_down_and_come_back() -> None:
    with EmbeddedServer.start() as first, EmbeddedServer.start() as second:
        first.create_database("pub")
        second.create_database("dist")
        pub, dist = Database(server=first, name="pub"), Database(server=second, name="dist")
        # separate servers need roles of their own
        with dist.connect() as connection:
            connection.execute(
                "create role test_logreader login password 'p'; create role test_link"
            )
        async with rig(pub, dist) as made:
            await made.pub.execute("create table item (id int primary key)")
            await made.publish("item")
            async with running(
                made.reader(reading=LogReaderProfile(retry_s_min=0.01, retry_s_max=0.1))
            ):
                await made.pub.execute("insert into item values (1)")
                await arrives(made, 1)
                for at, server in enumerate((first, second, first, second)):
                    if at < 2:
                        await asyncio.to_thread(server.crash)
                    await asyncio.to_thread(server.restart)
                    assert was_shut_down(server) == (at >= 2)
                    await made.reconnect()
                    await made.pub.execute("insert into item values (%s)", (at + 2,))
                    await arrives(made, *range(1, at + 3))


async def test_each_commit_is_stored_and_announced_without_another(both: Rig) -> None:
    """Each commit is stored and announced without waiting for another one.

    The delay is measured by a benchmark.
    """
    async with (
        running(both.reader()),
        await psycopg.AsyncConnection.connect(both.distribution.dsn, autocommit=True) as agent,
    ):
        await agent.execute("listen msrepl_distribution")
        for key in range(20):
            await both.pub.execute("insert into item (id) values (%s)", (key,))
            assert [notice async for notice in agent.notifies(timeout=60, stop_after=1)]


async def test_it_waits_for_whoever_takes_its_slot_between_two_sessions(both: Rig) -> None:
    """A log reader that finds its slot in use waits until the other one ends, and continues.

    Such a reader can be that of `twopc sync`.
    """
    async with running(
        both.reader(reading=LogReaderProfile(takeover_s=0.1, retry_s_max=0.1))
    ) as task:
        await both.pub.execute("insert into item (id) values (1)")
        await arrives(both, 1)
        other = both.reader(reading=LogReaderProfile(takeover_s=60))
        opening = asyncio.create_task(other.open())
        await until_asked(both, "select exists (select from pg_locks where not granted)")
        await both.pub.execute(
            """
            select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted
            union all select pg_terminate_backend(active_pid) from pg_replication_slots
            where active_pid is not null
            """
        )
        await opening
        refused = "select from msrepl.msdistribution_history where message like '%18752%'"
        await until_asked(both, f"select exists ({refused})")
        await other.close()
        await both.pub.execute("insert into item (id) values (2)")
        await arrives(both, 1, 2)
        assert not task.done()


def was_shut_down(server: EmbeddedServer) -> bool:
    """Return whether the server was shut down before its last start; a late one would be killed."""
    starts = re.findall(r"database system was (shut down|interrupted)", server.log_tail(100))
    return starts[-1] == "shut down"


async def until_asked(rig: Rig, query: str) -> None:
    """Wait until a query at the distribution database returns true."""

    def look() -> bool:
        with psycopg.connect(rig.distribution.dsn) as connection:
            return connection.execute(query.encode()).fetchone() == (True,)

    await until(look, query)
