"""Tests of the log reader's costs: none while nothing is committed, and bounded memory."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.log_reader.rig import ROLE, SLOT, Rig, rows, value
from twopc.publisher.log_reader import LogReader, LogReaderProfile
from twopc.publisher.log_reader.sources import SlotPeek
from twopc.publisher.log_reader.wal import ServerWal

_log = logging.getLogger(__name__)

#: Number of rows, about 450 bytes each, of a transaction with a tenth of a gigabyte of WAL.
HUGE = 200_000
#: Additional memory of a process: blocks of messages and of rows, and libpq's buffers.
MEMORY_MB = 32

_MEASURED = """
import asyncio, json, resource, sys, tracemalloc
from twopc.publisher.log_reader import LogReader, LogReaderProfile

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

async def main(order):
    async with LogReader(**order["reader"], reading=LogReaderProfile(**order["reading"])) as reader:
        before = peak_mb()
        if order["trace"]:
            tracemalloc.start()
        read = await reader.run_once()
        traced = tracemalloc.get_traced_memory()[1] / 2**20 if order["trace"] else 0
        print(json.dumps([read.transactions, read.commands, peak_mb() - before, traced]))

asyncio.run(main(json.loads(sys.argv[1])))
"""


async def decoded(rig: Rig) -> tuple[Any, ...]:
    """Return the slot's decoding statistics of the server."""
    await rig.pub.execute("select pg_stat_force_next_flush()")
    return (
        await rows(
            rig.pub,
            "select total_txns, total_bytes, spill_bytes, stream_bytes "
            "from pg_stat_replication_slots where slot_name = %s",
            SLOT,
        )
    )[0]


async def mean_pass_ms(reader: LogReader, passes: int) -> float:
    """Return the mean duration of passes that find nothing."""
    began = time.perf_counter()
    for _ in range(passes):
        assert (await reader.run_once()).transactions == 0
    return (time.perf_counter() - began) / passes * 1000


@pytest.mark.slow
async def test_idle_passes_behind_a_large_open_transaction_are_cheap(
    both: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle passes neither decode nor peek while a large transaction is open."""
    async with both.reader() as reader:
        await reader.run_once()
        async with both.pub.transaction(force_rollback=True):
            await both.pub.execute(
                "insert into item (id, name) select n, repeat(md5(n::text), 20) "
                "from generate_series(1, 150000) n"
            )
            await reader.run_once()
            behind = await value(
                both.dist,
                "select pg_current_wal_lsn() - restart_lsn from pg_replication_slots "
                "where slot_name = 'msrepl_test'",
            )
            assert behind > 100 << 20

            async def refused(*_: object, **__: object) -> None:
                raise AssertionError("it peeks")

            monkeypatch.setattr(SlotPeek, "begin", refused)
            before = await decoded(both)
            means_ms = [await mean_pass_ms(reader, 200) for _ in range(3)]
            assert await decoded(both) == before
            _log.info("idle passes take %s ms", ", ".join(f"{mean:.2f}" for mean in means_ms))
            # a commit of another session is read at once
            writer = both.publisher.connect()
            with writer:
                writer.execute("insert into item (id) values (-1)")
            assert (await reader.run_once()).transactions == 1


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "count", "trace"),
    [("live", HUGE, False), ("peek", HUGE, False), ("live", HUGE // 4, True)],
    ids=str,
)
async def test_a_huge_transaction_needs_little_memory(
    both: Rig, how: str, count: int, trace: bool
) -> None:
    """A huge transaction is stored in several commits, in bounded memory."""
    await both.pub.execute(
        f"insert into item (id, name) select n, repeat('x', 400) from generate_series(1, {count}) n".encode()
    )
    reader = both.reader()
    order = {
        "reader": {
            "publisher": "pub",
            "publisher_dsn": reader.publisher_dsn,
            "distribution_dsn": reader.distribution_dsn,
            "slot": SLOT,
        },
        "reading": {"catch_up_bytes": 0 if how == "peek" else 1 << 40},
        "trace": trace,
    }
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", _MEASURED, json.dumps(order)],
        stdout=subprocess.PIPE,
        check=True,
    )
    transactions, commands, grown_mb, traced_mb = json.loads(ended.stdout)
    _log.info("%s: %.0f MB more, %.0f MB traced", how, grown_mb, traced_mb)
    assert (transactions, commands) == (1, count)
    assert max(grown_mb, traced_mb) < MEMORY_MB
    commits = await value(both.dist, "select count(distinct xmin::text) from msrepl.msrepl_blocks")
    assert commits > 1
    assert await value(both.dist, "select open_seqno is null from msrepl.mspublisher_databases")
    assert await value(both.dist, "select max(command_id) from msrepl.msrepl_commands") == count


@pytest.mark.parametrize("catch_up_bytes", [1 << 40, 0], ids=["live", "peek"])
async def test_the_server_decodes_in_the_memory_of_the_profile(
    both: Rig, catch_up_bytes: int
) -> None:
    """A transaction that fits into the profile's memory is not spilled, and a higher setting is kept."""
    for place, (setting, asked, spilled) in enumerate(
        (
            ("64kB", LogReaderProfile().decoding_bytes, False),
            ("64kB", 0, True),
            ("256MB", 0, False),
            ("256MB", 64 << 10, False),
        )
    ):
        await both.pub.execute(
            f"alter role {ROLE} set logical_decoding_work_mem = '{setting}'".encode()
        )
        before = await decoded(both)
        await both.pub.execute(
            "insert into item (id, name) select n, repeat('x', 400) from generate_series(%s::int, %s::int) n",
            (2000 * place + 1, 2000 * place + 2000),
        )
        reading = LogReaderProfile(catch_up_bytes=catch_up_bytes, decoding_bytes=asked)
        assert (await both.read(reading=reading)).commands == 2000
        deadline = time.monotonic() + 60
        while (after := await decoded(both))[1] == before[1]:  # sent after the messages
            assert time.monotonic() < deadline
        assert (after[2] > before[2]) is spilled


async def test_a_new_session_decodes_little_of_what_is_stored(
    both: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new session does not decode a large stored transaction, even if nothing of it was sent.

    The log reader logs a snapshot, from which the slot can restart.
    """
    snapshots = []
    log_snapshot = ServerWal.log_snapshot

    async def counted(wal: ServerWal) -> None:
        snapshots.append(wal)
        await log_snapshot(wal)

    monkeypatch.setattr(ServerWal, "log_snapshot", counted)
    async with both.reader(reading=LogReaderProfile(snapshot_bytes=1 << 20)) as reader:
        await reader.run_once()
        snapshots.clear()  # the server itself logs one only every 15 seconds
        await both.pub.execute("create table unpublished (text text)")
        await both.pub.execute(
            "insert into unpublished select repeat(md5(n::text), 10) from generate_series(1, 10000) n"
        )
        large = await value(both.pub, "select pg_current_wal_lsn()")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not await value(
            both.pub,
            "select restart_lsn > %s::pg_lsn from pg_replication_slots where slot_name = %s",
            large,
            SLOT,
        ):
            await reader.run_once()
        assert 1 <= len(snapshots) <= 3
    before = await decoded(both)
    async with both.reader() as reader:
        await reader.run_once()
    assert (await decoded(both))[1] - before[1] < 1 << 20


async def test_a_long_backlog_is_peeked_at_and_then_followed(both: Rig) -> None:
    """A long backlog is read by peeking, both at the start and when it grows between passes."""
    small_transactions = """
        do $$ begin for n in {}..{} loop
            insert into item (id, name) values (n, repeat('x', 100)); commit;
        end loop; end $$
    """
    await both.pub.execute(small_transactions.format(1, 5000).encode())
    async with both.reader(reading=LogReaderProfile(catch_up_bytes=1 << 18)) as reader:
        read = await reader.run_once()
        assert (read.caught_up, read.transactions) == (True, 5000)
        assert not (await reader.run_once()).caught_up
        await both.pub.execute(small_transactions.format(5001, 15000).encode())
        read = await reader.run_once()
        assert (read.caught_up, read.transactions) == (True, 10000)
        await both.pub.execute("insert into item (id) values (0)")
        read = await reader.run_once()
        assert (read.caught_up, read.transactions) == (False, 1)
    keys = [int(text.split('"')[1]) for text in await both.texts()]
    assert keys == [*range(1, 15001), 0]
