"""Tests that a role without privileges blocks no transaction by its gids, locks or names, and is reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from psycopg import AsyncConnection, conninfo, sql

from tests.drivers.bank import PUB, SUB, Bank
from tests.drivers.place import Place
from tests.fix_link import until
from twopc.drivers.database import Database
from twopc.drivers.decision_log import DecisionLog
from twopc.drivers.in_doubt import in_doubt
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.errors import RejectedError
from twopc.protocol.effects import Outcome

UPDATE = "update account set balance = balance + 1 where id = 1"

#: Gids, without their ``twopc:``, that no coordinator creates.
ODD = (
    "c:{epoch}:99999999999999999999:sub1",
    "c:{epoch}:9223372036854775808:sub1",
    "c:99999999999999999999:1:sub1",
    "c:2147483648:1:sub1",
    "c:{epoch}:{longest}:sub1",
    "c:{epoch}:00000000000000000000000000000001:sub1",
    "c:{epoch}:\N{ARABIC-INDIC DIGIT THREE}:sub1",
    "c:{epoch}:-1:sub1",
    "c:{epoch}:+1:sub1",
    "c:{epoch}:1e3:sub1",
    "c:{epoch}::sub1",
    "c::1:sub1",
    ":{epoch}:1:sub1",
    "c:{epoch}:1:",
    "c:{epoch}:1:sub1/",
    "c:{epoch}:1:/sub1",
    "c:{epoch}:1:sub1'",
    'c:{epoch}:1:"sub1"',
    "c:{epoch}:1:sub1\n",
    "c:{epoch}:1:sub1%s",
    "c:{epoch}:1:\\",
)


def prepare_odd(place: Place, epoch: int) -> list[str]:
    """Prepare a transaction under each odd gid at ``sub1``, and return the gids."""
    gids = []
    for text in ODD:
        head = "twopc:" + text.format(epoch=epoch, longest="")
        gid = "twopc:" + text.format(epoch=epoch, longest="9" * (199 - len(head)))
        with closing(place.databases["sub1"].connect()) as stranger:
            stranger.execute("begin; insert into t values ('odd')")
            stranger.execute(sql.SQL("prepare transaction {}").format(sql.Literal(gid)))
        gids.append(gid)
    return gids


def roll_back(place: Place, gids: list[str]) -> None:
    for gid in gids:
        with closing(place.databases["sub1"].connect()) as stranger:
            stranger.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))


@pytest.mark.parametrize("variant", ["presumed_abort", "presumed_commit", "last_agent"])
async def test_recovery_passes_over_odd_gids(place: Place, variant: str) -> None:
    """Recovery leaves branches with odd gids alone, and settles all others."""
    epoch = place.epoch(variant)
    odd = prepare_odd(place, epoch)
    ours = f"twopc:c:{epoch}:7:sub1"
    place.prepare(ours)
    place.decide(epoch, 7, names=("sub1",))
    try:
        settled = await place.recover()
        assert [(one.gid, one.outcome) for one in settled] == [(ours, Outcome.COMMITTED)]
        assert sorted(gid for gid, *_ in place.prepared("sub1")) == sorted(odd)
    finally:
        roll_back(place, odd)


async def test_who_looks_is_shown_odd_gids(place: Place) -> None:
    epoch = place.epoch()
    odd = prepare_odd(place, epoch)
    log = Database("distribution", place.databases["log"].dsn, "test")
    site = ServerParticipant(ParticipantAddress(name="sub1", dsn=place.databases["sub1"].dsn), "c")
    try:
        found = await in_doubt(log, [site], "c")
        assert sorted(one.gid for one in found) == sorted(odd)
        assert all(one.next_action.startswith("left alone") for one in found)
    finally:
        await log.close()
        await site.close()
        roll_back(place, odd)


async def test_an_epoch_does_not_live_by_a_lock_that_anybody_can_take(place: Place) -> None:
    """Advisory locks, as coordinators once took them, neither keep a dead epoch alive nor block the next one."""
    epoch = place.epoch()
    gid = f"twopc:c:{epoch}:5:sub1"
    place.prepare(gid)
    with closing(place.databases["log"].connect()) as stranger:
        stranger.execute("select pg_advisory_lock(1836282469, g) from generate_series(1, 100) as g")
        assert [one.gid for one in await place.recover()] == [gid]
        log = DecisionLog("c", place.databases["log"].dsn, ("pub", "sub1"))
        await log.ensure()
        try:
            async with asyncio.timeout(10):
                assert (await log.epoch("presumed_abort")).epoch > epoch
        finally:
            await log.close()


async def test_whoever_has_the_process_of_a_dead_writer_is_not_the_writer(place: Place) -> None:
    """A session with the pid of a dead epoch's writer, but a later start, does not keep the epoch alive."""
    epoch = place.epoch()
    with closing(place.databases["log"].connect()) as stranger:
        place.fetch(
            "log",
            "update msrepl.coordinator_epoch e set pid = a.pid, usename = a.usename,"
            " backend_start = a.backend_start - interval '1 microsecond'"
            " from pg_stat_activity a where a.pid = %s and e.epoch = %s",
            (stranger.info.backend_pid, epoch),
        )
        assert place.fetch("log", "select epoch from msrepl.living_epoch") == []
        place.prepare(gid := f"twopc:c:{epoch}:5:sub1")
        assert [one.gid for one in await place.recover()] == [gid]


async def test_an_epoch_that_is_being_resumed_is_not_fenced(place: Place) -> None:
    """An epoch is not fenced while a new session resumes it, even before that session is recorded."""
    epoch = place.epoch()
    with closing(place.databases["log"].connect()) as resuming:
        resuming.execute("begin")
        row = resuming.execute("select msrepl.resume_epoch(%s)", (epoch,)).fetchone()
        assert row == (True,)
        fence = "select epoch from msrepl.fence_epochs('c', '{}')"
        assert place.fetch("log", fence) == []
        resuming.execute("commit")
        assert place.fetch("log", fence) == []
    living = "select epoch from msrepl.living_epoch"
    await until(lambda: not place.fetch("log", living), "its session to be gone")
    assert place.fetch("log", fence) == [(epoch,)]


@pytest.fixture
async def stranger(bank: Bank) -> AsyncIterator[AsyncConnection[Any]]:
    """A session of a role without privileges, at the Publisher."""
    await bank.fetch(PUB, "create role stranger login password 'x'")
    dsn = conninfo.make_conninfo(bank.topology.node(PUB).dsn, user="stranger", password="x")
    async with await AsyncConnection.connect(dsn, autocommit=True) as made:
        yield made
        rows = await bank.fetch(PUB, "select gid from pg_prepared_xacts where owner = 'stranger'")
        for (gid,) in rows:
            await made.execute(f"rollback prepared '{gid}'".encode())
    await bank.fetch(PUB, "drop role stranger")


async def prepare(stranger: AsyncConnection[Any], gid: str) -> None:
    await stranger.execute("begin")
    await stranger.execute(f"prepare transaction '{gid}'".encode())


async def dead_epoch(bank: Bank, variant: str) -> int:
    query = "insert into msrepl.coordinator_epoch (coordinator, variant) values (%s, %s) returning epoch"
    rows = await bank.fetch(bank.topology.distribution, query, (bank.coordinator_name, variant))
    return int(rows[0][0])


@pytest.mark.parametrize("variant", ["presumed_abort", "last_agent"])
async def test_a_strangers_branch_is_told_and_nothing_is_done_for_it(
    bank: Bank, stranger: AsyncConnection[Any], variant: str
) -> None:
    """A stranger's branch with a gid of this coordinator is reported, and no branch is fenced for it.

    A fence would prevent the coordinator's own branch of that gid.
    """
    epoch = await dead_epoch(bank, variant)
    gid = f"twopc:{bank.coordinator_name}:{epoch}:7:pub"
    await prepare(stranger, gid)
    async with bank.coordinator() as coordinator:
        assert await coordinator.recover() == []
        assert await bank.markers(PUB) == await bank.markers(SUB) == {}
        (found,) = await coordinator.in_doubt()
        assert (found.gid, found.owner) == (gid, "stranger")
        assert found.next_action.startswith("left alone: prepared by stranger")
    await stranger.execute(f"rollback prepared '{gid}'".encode())


async def test_a_stranger_under_the_name_of_a_branch_that_is_over(
    bank: Bank, stranger: AsyncConnection[Any]
) -> None:
    """A decision is finished and forgotten although a stranger has prepared under a committed branch's gid."""
    epoch = await dead_epoch(bank, "presumed_abort")
    of = f"twopc:{bank.coordinator_name}:{epoch}:7"
    marker = "insert into msrepl.branch_marker (gid, xid, participants) values (%s, pg_current_xact_id(), %s)"
    await bank.fetch(PUB, marker, (f"{of}:pub", ["sub1"]))
    await bank.fetch(SUB, marker, (f"{of}:sub1", ["pub"]))
    await bank.fetch(
        bank.topology.distribution,
        "insert into msrepl.decision (epoch, sequence, coordinator, kind, participants)"
        " values (%s, 7, %s, 'commit', '{pub,sub1}')",
        (epoch, bank.coordinator_name),
    )
    await prepare(stranger, f"{of}:pub")
    async with bank.coordinator() as coordinator:
        await coordinator.recover()
        assert await bank.decisions() == []
    await stranger.execute(f"rollback prepared '{of}:pub'".encode())


async def test_a_stranger_who_takes_the_next_name(
    bank: Bank, stranger: AsyncConnection[Any]
) -> None:
    """A stranger's branch under the next gid aborts one transaction at both sites; later ones commit.

    The stranger is not remembered as the owner of the coordinator's branches.
    """
    async with bank.coordinator() as coordinator:
        done = await coordinator.run(SUB, UPDATE)
        head, _, number = done.gid.rpartition(":")
        gid = f"{head}:{int(number) + 1}:pub"
        await prepare(stranger, gid)
        with pytest.raises(RejectedError):
            await coordinator.run(SUB, UPDATE)
        await coordinator.run(SUB, UPDATE)
        assert "stranger" not in coordinator._hub.owners.values()
        await stranger.execute(f"rollback prepared '{gid}'".encode())
        await coordinator.recover()
    await bank.assert_atomic()
    assert await bank.balances() == (2, 2)
