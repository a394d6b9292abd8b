"""Tests that committed changes are stored completely, in order and once, by either source."""

from __future__ import annotations

import pytest

from tests.log_reader.rig import Rig, rows, value
from twopc.publisher.log_reader import LogReaderProfile

#: Profiles that always use one source.
PEEKING = LogReaderProfile(catch_up_bytes=0)
LIVE = LogReaderProfile(catch_up_bytes=1 << 40)
#: Smallest amounts per step.
SMALL = {"read_batch_size": 1, "store_bytes": 1, "peek_messages": 1}


@pytest.fixture(
    params=[
        PEEKING,
        LIVE,
        LogReaderProfile(catch_up_bytes=0, **SMALL),
        LogReaderProfile(catch_up_bytes=1 << 40, **SMALL),
    ],
    ids=["peek", "live", "peek little", "live little"],
)
def reading(request: pytest.FixtureRequest) -> LogReaderProfile:
    """The profile of the log reader."""
    found: LogReaderProfile = request.param
    return found


async def test_changes_arrive_in_the_order_of_their_commits(
    both: Rig, reading: LogReaderProfile
) -> None:
    await both.pub.execute("insert into item (id, name) values (1, 'a'), (2, null)")
    cursor = await both.pub.execute("select msrepl_tran_version::text from item order by id")
    (first,), (second,) = await cursor.fetchall()
    await both.pub.execute("update item set name = 'b' where id = 1")
    await both.pub.execute("delete from item where id = 2")
    read = await both.read(reading=reading)
    assert (read.transactions, read.commands) == (3, 4)
    assert read.caught_up is (reading.catch_up_bytes == 0)
    commands = await both.commands()
    assert [(at, kind) for at, _, kind, _ in commands] == [(1, 1), (1, 1), (2, 2), (3, 3)]
    assert commands[0][3] == f'("1","a",,"{first}")'
    assert commands[1][3] == f'("2",,,"{second}")'
    assert commands[3][3] == '("2")'
    xids = [row[0] for row in await both.transactions()]
    assert xids == sorted(xids)
    now = await value(both.pub, "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    assert 0 < xids[-1] < now
    for row in await both.transactions():
        assert row[1:] == (None, 0, row[3], True, True, [True])


async def test_nothing_is_stored_twice(both: Rig, reading: LogReaderProfile) -> None:
    await both.pub.execute("insert into item (id) values (1)")
    assert (await both.read(reading=reading)).transactions == 1
    stored = await both.contents()
    assert (await both.read(reading=reading)).transactions == 0
    assert await both.contents() == stored
    await both.pub.execute("insert into item (id) values (2)")
    assert (await both.read(reading=reading)).transactions == 1
    assert len(await both.texts()) == 2


async def test_what_is_rolled_back_does_not_appear(both: Rig, reading: LogReaderProfile) -> None:
    async with both.pub.transaction(force_rollback=True):
        await both.pub.execute("insert into item (id) values (1)")
    async with both.pub.transaction():
        await both.pub.execute("insert into item (id) values (2)")
        async with both.pub.transaction(force_rollback=True):
            await both.pub.execute("insert into item (id) values (3)")
        await both.pub.execute("insert into item (id) values (4)")
    await both.pub.execute("begin; insert into item (id) values (5); prepare transaction 'x'")
    await both.pub.execute("rollback prepared 'x'")
    await both.read(reading=reading)
    assert [text.split('"')[1] for text in await both.texts()] == ["2", "4"]


async def test_a_prepared_branch_appears_when_it_is_committed(
    both: Rig, reading: LogReaderProfile
) -> None:
    for number in (1, 2):
        await both.pub.execute(
            f"begin; insert into item (id) values ({number}); prepare transaction 'x{number}'".encode()
        )
    await both.pub.execute("insert into item (id) values (3)")
    async with both.reader(reading=reading) as reader:
        await reader.run_once()
        assert [text.split('"')[1] for text in await both.texts()] == ["3"]
        await both.pub.execute("commit prepared 'x2'")
        await both.pub.execute("insert into item (id) values (4)")
        await both.pub.execute("commit prepared 'x1'")
        await reader.run_once()
    assert [text.split('"')[1] for text in await both.texts()] == ["3", "2", "4", "1"]
    xids = [row[0] for row in await both.transactions()]
    assert xids[3] < xids[1] < xids[0] < xids[2]


async def test_one_reader_goes_on_for_long(both: Rig, reading: LogReaderProfile) -> None:
    async with both.reader(reading=reading) as reader:
        for number in range(5):
            await both.pub.execute("insert into item (id) values (%s)", (number,))
            assert (await reader.run_once()).transactions == 1
            assert (await reader.run_once()).transactions == 0
    assert len(await both.texts()) == 5


async def test_commits_that_wait_for_no_flush_are_read(
    both: Rig, reading: LogReaderProfile
) -> None:
    async with both.reader(reading=reading) as reader:
        for number in range(20):
            async with both.pub.transaction():
                await both.pub.execute("set local synchronous_commit = off")
                await both.pub.execute("insert into item (id) values (%s)", (number,))
            assert (await reader.run_once()).transactions == 1


async def test_a_transaction_of_any_size_is_stored_whole(
    both: Rig, reading: LogReaderProfile
) -> None:
    await both.pub.execute("insert into item (id) values (-1)")
    await both.pub.execute(
        "insert into item (id, name) select n, repeat('x', 100) from generate_series(1, 20000) n"
    )
    await both.pub.execute("insert into item (id) values (-2)")
    await both.read(reading=reading)
    counts = await rows(
        both.dist, "select commands from msrepl.msrepl_transactions order by xact_seqno"
    )
    assert counts == [(1,), (20000,), (1,)]
    assert (await both.transactions())[1][4:] == (True, True, [True])
    assert await value(
        both.dist,
        "select array_agg(command_id order by command_id) = array_agg(row_number::int order by command_id) from (select command_id, "
        "row_number() over (order by command_id) from msrepl.msrepl_commands "
        "where xact_seqno = (select xact_seqno from msrepl.msrepl_transactions where commands > 1)) c",
    )
