"""A slot, a store or a Publisher that does not continue what the others hold: nothing is lost without an error."""

from __future__ import annotations

import asyncio

import pytest

from tests.log_reader.rig import SLOT, Rig, rows, value
from tests.log_reader.test_running import arrives, running
from twopc.errors import ServerError
from twopc.publisher import slot

_STATE = (
    "select read_to::text, last_seqno::text, slot_limit::text from msrepl.mspublisher_databases"
)


async def _insert(both: Rig, key: int) -> None:
    await both.pub.execute("insert into item (id) values (%s)", (key,))


async def test_a_slot_that_was_created_again(both: Rig) -> None:
    """Also if nothing has been stored since the first one was made."""
    for key in (1, 2):
        await slot.drop(both.pub, SLOT)
        await _insert(both, key)
        await slot.create(both.pub, SLOT)
        with pytest.raises(ServerError, match=r"begins at .*created again.*`twopc reinitialise`"):
            await both.read()
        # as reinitialising every Subscriber does
        await both.dist.execute(
            "update msrepl.mspublisher_databases set read_to = %(at)s, slot_limit = %(at)s",
            {"at": await _confirmed(both)},
        )
        await _insert(both, key + 10)
        await both.read()
        assert await value(both.dist, "select count(*) from msrepl.msrepl_commands") == key


async def test_a_slot_that_was_moved_by_hand(both: Rig) -> None:
    await _insert(both, 1)
    await both.pub.execute(
        "select pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", (SLOT,)
    )
    with pytest.raises(ServerError, match="created again or moved"):
        await both.read()


async def test_a_distribution_database_that_was_restored(both: Rig) -> None:
    await _insert(both, 1)
    await both.read()
    ((read_to, last, limit),) = await rows(both.dist, _STATE)
    await _insert(both, 2)
    await both.read()
    await both.dist.execute(
        "delete from msrepl.msrepl_blocks where last_seqno > %s::pg_lsn", (read_to,)
    )
    await both.dist.execute(
        "update msrepl.mspublisher_databases set read_to = %s, last_seqno = %s, slot_limit = %s",
        (read_to, last, limit),
    )
    await _insert(both, 3)
    with pytest.raises(ServerError, match="distribution database was restored from a backup"):
        await both.read()


@pytest.mark.parametrize("catch_up", [False, True])
async def test_a_publisher_that_was_restored(both: Rig, catch_up: bool) -> None:
    """Its log has grown past the end of the store, and has another transaction at the end of the store, or none."""
    await _insert(both, 1)
    await both.read()
    await _insert(both, 2)
    await both.pub.execute("create table unpublished as select generate_series(1, 1000)")
    between = await value(both.pub, "select pg_current_wal_insert_lsn()::text")
    if catch_up:
        await _insert(both, 3)
    # the store of a Publisher whose log went on otherwise after the backup
    await both.dist.execute(
        "update msrepl.mspublisher_databases set read_to = %(at)s, last_seqno = %(at)s, slot_limit = %(at)s",
        {"at": between},
    )
    await both.pub.execute("insert into unpublished values (0)")
    with pytest.raises(ServerError, match=r"no such transaction.*restored from a backup"):
        await both.read()
    ((read_to, last, _),) = await rows(both.dist, _STATE)
    assert (read_to, last) == (between, between)


async def test_a_publisher_that_was_restored_and_did_the_same_again(both: Rig) -> None:
    """The transaction at the end of the store has the same position and the same id, and is another one."""
    old = f"{SLOT}_old"
    await both.pub.execute("select pg_copy_logical_replication_slot(%s, %s)", (SLOT, old))
    try:
        await _insert(both, 1)
        await both.read()
        await both.dist.execute(
            "update msrepl.mspublisher_databases set last_commit = last_commit - interval '1 us'"
        )
        await _insert(both, 2)
        with pytest.raises(ServerError, match="no such transaction"):
            await both.read(slot=old)
        assert len(await both.texts()) == 1
    finally:
        await slot.drop(both.pub, old)


async def test_a_store_of_an_earlier_version_is_continued(both: Rig) -> None:
    """Its limit is not known, and is known from then on."""
    await _insert(both, 1)
    await both.read()
    await both.dist.execute(
        "update msrepl.mspublisher_databases set last_seqno = '0/0', slot_limit = '0/0'"
    )
    await _insert(both, 2)
    await both.read()
    await slot.drop(both.pub, SLOT)
    await _insert(both, 3)
    await slot.create(both.pub, SLOT)
    with pytest.raises(ServerError, match="created again"):
        await both.read()


async def test_the_slot_is_never_beyond_its_limit(both: Rig) -> None:
    """Whatever else is in the log, and with every reader that goes on from there."""
    for key in range(1, 6):
        await _insert(both, key)
        await both.pub.execute("create table if not exists unpublished as select 1 as n")
        await both.pub.execute("insert into unpublished select generate_series(1, 100)")
        if key % 2:
            await both.read()
        else:
            async with running(both.reader()):
                await arrives(both, *range(1, key + 1))
                await asyncio.sleep(0)
        ((_, _, limit),) = await rows(both.dist, _STATE)
        assert await value(
            both.pub, "select %s::pg_lsn <= %s::pg_lsn", await _confirmed(both), limit
        )


async def _confirmed(both: Rig) -> str:
    query = "select confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
    return str(await value(both.pub, query, SLOT))
