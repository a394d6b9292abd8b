"""M25: Tests of the warnings about a transaction that stays prepared, and its effects on its server."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from twopc.drivers.age import STOPS_AT_XIDS, Age, duration, size
from twopc.drivers.database import Database
from twopc.drivers.in_doubt import in_doubt
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.server import EmbeddedServer

YOUNG = Age(age_s=2.0, xids=10, freeze_xids=200_000_000, log_bytes=4096, slot="reader")
#: The minimum that a server accepts.
FREEZE_XIDS = 100_000
BURN = """
do $$ begin for n in 1..%s loop begin perform pg_current_xact_id(); insert into burnt values (n);
exception when division_by_zero then null; end; end loop; end $$
"""
GID = "month_end"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ()),
        ({"age_s": 3599.0}, ()),
        ({"age_s": 3600.0}, ("prepared for 1.0 h: no vacuum",)),
        ({"age_s": 200_000.0}, ("prepared for 2.3 days: no vacuum",)),
        ({"log_bytes": 3 << 30}, ("slot reader keeps 3.0 GB of log",)),
        ({"xids": 99_999_999}, ()),
        ({"xids": 150_000_000}, ("150,000,000 transactions old, 75% of",)),
        ({"xids": 200_000_000}, ("freeze nothing; the server takes no more changes in 1,944,483,648",)),
        ({"xids": STOPS_AT_XIDS + 1}, ("no more changes in 0 transactions",)),
        ({"age_s": 7200.0, "xids": 150_000_000}, ("prepared for 2.0 h", "75% of")),
    ],
)  # fmt: skip
def test_warnings(changed: dict[str, int], words: tuple[str, ...]) -> None:
    said = replace(YOUNG, **changed).warnings()  # type: ignore[arg-type] # by field
    assert len(said) == len(words)
    for sentence, expected in zip(said, words, strict=True):
        assert expected in sentence


def test_figures() -> None:
    assert [duration(one) for one in (0.4, 90, 7200, 172800)] == [
        "0.4 s",
        "1.5 min",
        "2.0 h",
        "2.0 days",
    ]
    assert [size(one) for one in (0, 2048, 5 << 20, 7 << 40)] == [
        "0 bytes",
        "2.0 kB",
        "5.0 MB",
        "7.0 TB",
    ]


async def test_a_server_that_grows_old_behind_it() -> None:
    """A prepared transaction holds back vacuum, freezing and the slot until it is finished."""
    settings = {"autovacuum_freeze_max_age": str(FREEZE_XIDS), "autovacuum": "off"}
    with EmbeddedServer.start(settings=settings) as server:
        server.create_database("pub")
        dsn = server.superuser_dsn("pub")
        with psycopg.connect(dsn, autocommit=True) as one:
            one.execute("create schema msrepl")
            one.execute(
                "create table msrepl.coordinator_epoch (epoch int, variant text, fenced bool, coordinator text)"
            )
            one.execute("create table msrepl.living_epoch (epoch int)")
            one.execute("create table held (id int primary key, n int)")
            one.execute("create table burnt (id int)")
            one.execute("insert into held select g, 0 from generate_series(1, 1000) as g")
            one.execute("select pg_create_logical_replication_slot('reader', 'pgoutput')")
            for command in (
                "begin",
                "delete from held where id = 1",
                f"prepare transaction '{GID}'",
            ):
                one.execute(command.encode())
            participant = ServerParticipant(ParticipantAddress(name="pub", dsn=dsn), "c")
            database = Database("pub", dsn, "a test")

            async def look() -> Age:
                (found,) = await in_doubt(database, [participant], "c")
                assert found.gid == GID
                return found.age

            young = await look()
            assert young.freeze_xids == FREEZE_XIDS
            assert young.slot == "reader"
            assert young.xids < 100
            assert young.warnings() == ()
            one.execute("update held set n = n + 1 where id > 1")
            one.execute((BURN % (FREEZE_XIDS * 6 // 10)).encode())
            half = await look()
            assert FREEZE_XIDS * 0.6 <= half.xids < FREEZE_XIDS * 0.7
            assert half.log_bytes > young.log_bytes + 60_000 * 50
            (said,) = half.warnings()
            assert "% of autovacuum_freeze_max_age" in said
            one.execute((BURN % (FREEZE_XIDS * 5 // 10)).encode())
            over = await look()
            assert over.xids > FREEZE_XIDS
            (said,) = over.warnings()
            assert "forced vacuums run and freeze nothing" in said
            # As the warning says: dead rows are not removed, and the table's age does not decrease.
            one.execute("vacuum freeze held")
            assert _dead(one) == 999
            assert _table_age(one) > FREEZE_XIDS
            one.execute(f"rollback prepared '{GID}'".encode())
            assert await in_doubt(database, [participant], "c") == []
            one.execute("vacuum freeze held")
            assert _dead(one) == 0
            assert _table_age(one) < 100
            await participant.close()
            await database.close()


def _dead(one: psycopg.Connection[tuple[object, ...]]) -> int:
    """Return the number of dead rows that are still in the table."""
    one.execute("create extension if not exists pgstattuple")
    row = one.execute("select dead_tuple_count from pgstattuple('held')").fetchone()
    assert row is not None
    return int(str(row[0]))


def _table_age(one: psycopg.Connection[tuple[object, ...]]) -> int:
    row = one.execute("select age(relfrozenxid) from pg_class where relname = 'held'").fetchone()
    assert row is not None
    return int(str(row[0]))
