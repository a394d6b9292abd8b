"""Tests of errors that stop a log reader, their messages, and how it continues after repair."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, errors

from tests.fix_link import until
from tests.log_reader.rig import SLOT, Rig, rows, value
from twopc.drivers.points import Points
from twopc.errors import ArticleError, RemoteProtocolError, ServerError, SubscriptionError
from twopc.publisher import publication, slot
from twopc.publisher.log_reader import LogReader, LogReaderProfile
from twopc.publisher.log_reader.store import ServerStore
from twopc.publisher.log_reader.wal import ServerWal

QUICK = LogReaderProfile(takeover_s=0.2, release_s=0.2)


class InterruptionError(Exception):
    """Ends a log reader in the middle of a pass."""


async def history(rig: Rig) -> list[tuple[Any, ...]]:
    """Return events and messages of the history."""
    return await rows(
        rig.dist, "select event, message from msrepl.msdistribution_history order by id"
    )


async def test_a_stale_article_stops_it_until_it_is_regenerated(both: Rig) -> None:
    await both.pub.execute("create table other (id int primary key)")
    await both.publish("other")
    async with both.reader() as reader:
        await both.pub.execute("insert into item (id) values (1)")
        await reader.run_once()
        await both.pub.execute("insert into other (id) values (1)")
        await both.pub.execute("alter table item add column more text")
        await both.pub.execute("insert into item (id, more) values (2, 'x')")
        await both.pub.execute("insert into other (id) values (2)")
        for _ in range(2):
            with pytest.raises(ArticleError, match=r"article item .*'more'.*`twopc regenerate`"):
                await reader.run_once()
        assert len(await both.texts()) <= 2
        (event, message) = (await history(both))[-1]
        assert event == "failed"
        assert "twopc regenerate" in message
        assert "'more'" in await value(
            both.dist, "select last_error from msrepl.mspublisher_databases"
        )
        await publication.regenerate(both.pub, "public", "item")
        await both.tell()
        await reader.run_once()
    keys = [text.split('"')[1] for text in await both.texts()]
    assert keys == ["1", "1", "2", "2"]
    assert not await value(both.dist, "select last_error from msrepl.mspublisher_databases")


@pytest.mark.parametrize("how", ["live", "idle"])
async def test_a_second_reader_of_a_slot_is_refused(both: Rig, how: str) -> None:
    async with both.reader(reading=QUICK) as first:
        if how == "live":
            await first.run_once()
        second = both.reader(reading=QUICK)
        with pytest.raises(ServerError, match=r"pid \d+, msrepl logreader pub, of role \w+.*18752"):
            await second.open()
        await both.pub.execute("insert into item (id) values (1)")
        assert (await first.run_once()).transactions == 1
    await second.open()
    assert (await second.run_once()).transactions == 0


async def test_a_stranger_who_holds_its_lock_keeps_no_reader_away(both: Rig) -> None:
    """An advisory lock of another role neither keeps a log reader out nor hides another log reader."""
    publisher = both.publisher
    async with await AsyncConnection.connect(publisher.dsn, autocommit=True) as admin:
        await admin.execute("create role stranger login password 'x'")
        try:
            stranger = await AsyncConnection.connect(
                publisher.server.dsn(publisher.name, "stranger", "x"), autocommit=True
            )
            async with stranger, both.reader(reading=QUICK):
                held = (
                    "select classid::bigint::bit(32)::integer, objid::bigint::integer from pg_locks"
                    " where locktype = 'advisory'"
                )
                (key,) = await (await admin.execute(held)).fetchall()
                queued = asyncio.create_task(
                    stranger.execute("select pg_advisory_lock(%s, %s)", key)
                )
                await both.closing[-1].close()
                await queued
                async with both.reader(reading=QUICK) as reader:
                    await both.pub.execute("insert into item (id) values (1)")
                    assert (await reader.run_once()).transactions == 1
                    with pytest.raises(ServerError, match=r"msrepl logreader pub, .*18752"):
                        await both.reader(reading=QUICK).open()
        finally:
            await admin.execute("drop role stranger")


@pytest.mark.parametrize("peek", [True, False], ids=["peek", "live"])
async def test_so_is_a_reader_of_a_slot_that_a_stranger_reads(both: Rig, peek: bool) -> None:
    async with both.reader() as first:
        await first.run_once()
        assert isinstance(first._wal, ServerWal)
        await first._wal.connection.execute("select pg_advisory_unlock_all()")
        second = both.reader(
            reading=LogReaderProfile(release_s=0.2, catch_up_bytes=0 if peek else 1 << 40)
        )
        await both.pub.execute("insert into item (id) values (1)")
        with pytest.raises(ServerError, match=r"is active for PID \d+ \(18752\)"):
            await second.run_once()


async def test_two_readers_with_two_slots_do_not_store_twice(both: Rig) -> None:
    """Each reader detects that the other has moved the stored position."""
    await both.pub.execute("select pg_copy_logical_replication_slot(%s, 'msrepl_b')", (SLOT,))
    async with both.reader() as first, both.reader(slot="msrepl_b") as second:
        await first.run_once()
        await second.run_once()
        await both.pub.execute("insert into item (id) values (1)")
        assert (await first.run_once()).transactions == 1
        with pytest.raises(ServerError, match="18752"):
            await second.run_once()
        assert len(await both.texts()) == 1
        assert (await second.run_once()).transactions == 0


@pytest.mark.parametrize("begun", [False, True])
async def test_two_readers_with_two_slots_do_not_store_parts_of_the_same(
    both: Rig, begun: bool
) -> None:
    """A reader that starts later removes the other's parts; the earlier reader fails.

    The later reader may have stored parts of its own by then.
    """
    await both.pub.execute("select pg_copy_logical_replication_slot(%s, 'msrepl_b')", (SLOT,))
    points, parts = Points(), LogReaderProfile(store_bytes=1)

    async def take_over(_: str) -> None:
        if not begun:
            await second.open()
            return
        with pytest.raises(InterruptionError):
            await second.run_once()

    def interrupt(_: str) -> None:
        raise InterruptionError

    async with (
        both.reader(reading=parts, points=points) as first,
        both.reader(reading=parts, points=Points(), slot="msrepl_b") as second,
    ):
        await first.run_once()
        await second.close()
        points.arm("log_reader.streamed", take_over)
        second.points.arm("log_reader.streamed", interrupt, nth=2)
        await both.pub.execute("insert into item (id) select generate_series(1, 9000)")
        with pytest.raises(ServerError, match="18752"):
            await first.run_once()
        second.points.disarm()
        await second.run_once()
    assert len(await both.texts()) == 9000


async def test_the_last_commit_of_a_predecessor_may_come_late(both: Rig) -> None:
    """A commit of a killed predecessor that arrives late is awaited, and not stored again."""
    await both.pub.execute("insert into item (id) values (1)")
    async with await AsyncConnection.connect(both.distribution.dsn) as predecessor:
        await predecessor.execute(
            "update msrepl.mspublisher_databases set read_to = %s",
            (await value(both.pub, "select pg_current_wal_insert_lsn()"),),
        )
        reading = asyncio.create_task(both.read())
        await until_waiting(both)
        await predecessor.commit()
        assert (await reading).transactions == 0
    assert await both.texts() == []


async def until_waiting(rig: Rig) -> None:
    """Wait until a session waits for a row of the distribution database."""

    def look() -> bool:
        with psycopg.connect(rig.distribution.dsn) as connection:
            found = connection.execute(
                "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            )
            return found.fetchone() is not None

    await until(look, "the log reader to wait for its predecessor")


async def test_without_a_slot_it_says_what_is_lost(both: Rig) -> None:
    with pytest.raises(ServerError, match=r"slot 'none' does not exist.*reinitialise"):
        await both.reader(slot="none").open()
    async with both.reader() as reader:
        await reader.run_once()
        await both.pub.execute(
            "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s",
            (SLOT,),
        )
        await slot.drop(both.pub, SLOT)
        with pytest.raises(ServerError, match="was dropped while it was read"):
            await reader.run_once()


@pytest.mark.parametrize("peek", [True, False], ids=["peek", "live"])
async def test_a_publication_that_was_dropped_is_not_passed_over(both: Rig, peek: bool) -> None:
    """A dropped publication stops the log reader; PostgreSQL 18 only warns, and omits the changes."""
    async with both.reader(
        reading=LogReaderProfile(catch_up_bytes=0 if peek else 1 << 40)
    ) as reader:
        if not peek:
            await reader.run_once()
        await both.pub.execute("drop publication msrepl")
        await both.pub.execute("insert into item (id) values (1)")
        with pytest.raises(ServerError, match=r"publication.*reinitialise` every Subscriber"):
            await reader.run_once()
        await publication.install(both.pub)
        with pytest.raises(ServerError, match=r"table item .*`twopc regenerate` the article"):
            await reader.run_once()
        await publication.regenerate(both.pub, "public", "item")
        with pytest.raises(ServerError, match=r"skipped loading publication"):
            await reader.run_once()
    assert await both.texts() == []


async def test_a_table_that_was_taken_out_of_the_publication_is_named(both: Rig) -> None:
    await both.pub.execute("alter publication msrepl drop table item")
    with pytest.raises(ServerError, match=r"table item of Publisher 'pub' is not in PostgreSQL's"):
        await both.reader().open()
    await publication.regenerate(both.pub, "public", "item")
    await both.reader().open()


async def test_a_publisher_that_went_back_is_refused(both: Rig) -> None:
    """A Publisher whose log ends before the stored position is refused.

    Its new transactions would be taken for stored ones.
    """
    await both.dist.execute("update msrepl.mspublisher_databases set read_to = 'FFFF/0'")
    with pytest.raises(ServerError, match=r"stored up to FFFF/0, and its log ends at 0/.*backup"):
        await both.reader().open()


async def test_a_slot_of_another_kind_is_refused(both: Rig) -> None:
    await both.pub.execute("select pg_create_logical_replication_slot('other', 'test_decoding')")
    with pytest.raises(ServerError, match="plugin test_decoding"):
        await both.reader(slot="other").open()


async def test_a_publisher_that_is_not_registered_is_refused(both: Rig) -> None:
    reader = LogReader(
        publisher="nobody",
        publisher_dsn=both.dsn(both.publisher),
        distribution_dsn=both.dsn(both.distribution),
        slot=SLOT,
    )
    with pytest.raises(SubscriptionError, match="does not know Publisher 'nobody'"):
        await reader.run_once()


@pytest.mark.parametrize("peek", [True, False], ids=["peek", "live"])
async def test_after_an_error_in_decoding_it_begins_anew(
    both: Rig, monkeypatch: pytest.MonkeyPatch, peek: bool
) -> None:
    """After an error in decoding, the log reader continues with new sessions.

    An old session could continue a half-processed message.
    """
    async with both.reader(
        reading=LogReaderProfile(catch_up_bytes=0 if peek else 1 << 40)
    ) as reader:
        await both.pub.execute("insert into item (id) values (1)")
        assert reader._planned is not None
        pids = {await pid(reader)}

        def refuse(messages: Sequence[bytes], compared: object = None) -> None:
            raise RemoteProtocolError("pgoutput: made up")

        monkeypatch.setattr(reader._planned, "feed", refuse)
        with pytest.raises(RemoteProtocolError, match="made up"):
            await reader.run_once()
        assert (await history(both))[-1] == ("failed", "pgoutput: made up")
        assert (await reader.run_once()).transactions == 1
        assert await pid(reader) not in pids


async def pid(reader: LogReader) -> int:
    """Return the pid of the log reader's session at the Publisher."""
    assert isinstance(reader._wal, ServerWal)
    return reader._wal.connection.info.backend_pid


async def test_articles_that_change_while_it_reads_are_those_used(both: Rig) -> None:
    """A transaction committed after its article was registered has commands, even during a session."""
    await both.pub.execute("create table late (id int primary key)")
    async with both.reader() as reader:
        await reader.run_once()
        await both.publish("late")
        await both.pub.execute("insert into late (id) values (1)")
        await reader.run_once()
        assert [text.split('"')[1] for text in await both.texts()] == ["1"]
        await both.pub.execute("create table later (id int primary key)")
        await both.publish("later")
        await both.pub.execute("insert into later (id) values (2)")
        await both.pub.execute("insert into item (id) values (3)")
        await reader.run_once()
    assert [text.split('"')[1] for text in await both.texts()] == ["1", "2", "3"]


async def test_an_article_that_is_regenerated_while_it_reads(both: Rig) -> None:
    """When an article is regenerated during a session, changes before and after it have their own shapes."""
    async with both.reader() as reader:
        await both.pub.execute("insert into item (id) values (1)")
        await reader.run_once()
        before = len((await both.texts())[0].split(","))
        await both.pub.execute("alter table item add more text")
        await publication.regenerate(both.pub, "public", "item")
        await both.tell()
        await both.pub.execute("insert into item (id, more) values (2, 'more')")
        await reader.run_once()
    first, second = await both.texts()
    assert len(first.split(",")) == before
    assert len(second.split(",")) == before + 1


async def test_it_may_do_no_more_than_it_must(both: Rig) -> None:
    """The log reader's role cannot read application tables or change what is stored."""
    await both.pub.execute("insert into item (id) values (1)")
    async with both.reader() as reader:
        await reader.run_once()
        assert isinstance(reader._wal, ServerWal)
        assert isinstance(reader._store, ServerStore)
        for connection, attempt in (
            (reader._wal.connection, "select * from public.item"),
            (reader._wal.connection, "insert into msrepl.branch_marker (gid) values ('x')"),
            (
                reader._wal.connection,
                "insert into msrepl.log_message (kind, body) values ('validation', '{}')",
            ),
            (reader._store.connection, "delete from msrepl.msrepl_blocks"),
            (reader._store.connection, "update msrepl.msrepl_blocks set texts = '{}'"),
            (reader._store.connection, "update msrepl.mspublisher_databases set read_to = '0/0'"),
            (reader._store.connection, "update msrepl.mspublisher_databases set slot = ''"),
            (reader._store.connection, "delete from msrepl.msarticles"),
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                await connection.execute(attempt.encode())
