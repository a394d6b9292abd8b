"""Tests of the decision log: epochs, groups, fences, and outcomes whose answer was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from tests.fix_link import Wire, until
from tests.fix_server import Database
from twopc.drivers.decision_log import DecisionLog
from twopc.drivers.install import install_decision_log
from twopc.drivers.log_client import LogEntry
from twopc.protocol.effects import Record, RecordKind

COMMIT = Record(kind=RecordKind.COMMIT, participants=("pub", "sub1"))
COLLECTING = Record(kind=RecordKind.COLLECTING, participants=("pub", "sub1"))


@pytest.fixture
async def place(fresh_database: Database) -> Database:
    """A database with a decision log."""
    async with await psycopg.AsyncConnection.connect(
        fresh_database.dsn, autocommit=True
    ) as connection:
        await install_decision_log(connection, "postgres")
        await install_decision_log(connection, "postgres")  # idempotent
    return fresh_database


@pytest.fixture
async def log(place: Database) -> AsyncIterator[DecisionLog]:
    """An open decision log of coordinator ``c``."""
    made = DecisionLog("c", place.dsn, ("pub", "sub1"))
    await made.ensure()
    yield made
    await made.close()


async def logged(*entries: LogEntry) -> list[str]:
    for entry in entries:
        await entry.wait()
    return [entry.state for entry in entries]


def fetch(place: Database, query: str, params: Any = None) -> list[tuple[Any, ...]]:
    with place.connect() as connection:
        cursor = connection.execute(query.encode(), params)
        return cursor.fetchall() if cursor.description else []


async def test_an_epoch_is_taken_once_per_variant_and_never_again(place: Database) -> None:
    taken = []
    for _ in range(2):
        log = DecisionLog("c", place.dsn, ("pub",))
        await log.ensure()
        first = await log.epoch("presumed_abort")
        assert await log.epoch("presumed_abort") is first
        other = await log.epoch("last_agent")
        taken += [first.epoch, other.epoch]
        await log.close()
        fetch(place, "delete from msrepl.coordinator_epoch")
    assert taken == sorted(set(taken))


async def test_a_decision_is_there_when_it_is_logged(log: DecisionLog, place: Database) -> None:
    ids = await log.epoch("presumed_abort")
    assert await logged(log.append(ids.epoch, 7, COMMIT)) == ["logged"]
    rows = fetch(
        place, "select epoch, sequence, coordinator, kind, participants from msrepl.decision"
    )
    assert rows == [(ids.epoch, 7, "c", "commit", ["pub", "sub1"])]


async def test_decisions_that_arrive_meanwhile_go_out_together(
    log: DecisionLog, place: Database
) -> None:
    epoch = (await log.epoch("presumed_abort")).epoch
    entries = [log.append(epoch, sequence, COMMIT) for sequence in range(1, 101)]
    assert set(await logged(*entries)) == {"logged"}
    groups = fetch(place, "select count(*) from msrepl.decision group by xmin::text order by 1")
    assert groups == [(1,), (99,)]


async def test_a_decision_of_a_fenced_epoch_fails_with_its_whole_group(
    log: DecisionLog, place: Database
) -> None:
    epoch = (await log.epoch("presumed_abort")).epoch
    fetch(place, "update msrepl.coordinator_epoch set fenced = true")
    first = log.append(epoch, 1, COMMIT)
    rest = [log.append(epoch, sequence, COMMIT) for sequence in (2, 3)]
    assert await logged(first, *rest) == ["failed"] * 3
    assert "fenced" in first.reason
    assert fetch(place, "select sequence from msrepl.decision") == []
    assert log.current("presumed_abort") is None
    assert (await log.epoch("presumed_abort")).epoch > epoch


async def test_the_same_decision_twice_fails_and_the_first_stands(
    log: DecisionLog, place: Database
) -> None:
    epoch = (await log.epoch("presumed_abort")).epoch
    abort = Record(kind=RecordKind.ABORT, participants=("pub",))
    assert await logged(log.append(epoch, 1, COMMIT)) == ["logged"]
    assert await logged(log.append(epoch, 1, abort)) == ["failed"]
    assert fetch(place, "select kind from msrepl.decision") == [("commit",)]


async def test_a_decision_replaces_the_collected_names(log: DecisionLog, place: Database) -> None:
    epoch = (await log.epoch("presumed_commit")).epoch
    assert await logged(log.append(epoch, 1, COLLECTING)) == ["logged"]
    assert await logged(log.append(epoch, 1, COMMIT)) == ["logged"]
    assert fetch(place, "select kind from msrepl.decision") == [("commit",)]


async def test_what_is_forgotten_is_deleted_in_one_batch(log: DecisionLog, place: Database) -> None:
    epoch = (await log.epoch("presumed_abort")).epoch
    await logged(*(log.append(epoch, sequence, COMMIT) for sequence in range(1, 6)))
    for sequence in (1, 2, 4):
        log.forget(epoch, sequence)
    assert await log.forget_now() == 3
    assert await log.forget_now() == 0
    assert fetch(place, "select sequence from msrepl.decision order by 1") == [(3,), (5,)]


async def test_closing_lets_the_epochs_go(place: Database) -> None:
    log = DecisionLog("c", place.dsn, ("pub",))
    await log.ensure()
    epoch = (await log.epoch("presumed_abort")).epoch
    assert not fetch(place, "select epoch from msrepl.fence_epochs('c', '{}')")
    await log.close()
    found = await until(
        lambda: fetch(place, "select epoch from msrepl.fence_epochs('c', '{}')"),
        "the epoch to be free",
    )
    assert found == [(epoch,)]


async def test_an_epoch_of_another_coordinator_or_of_ones_own_is_not_fenced(
    place: Database,
) -> None:
    log = DecisionLog("c", place.dsn, ("pub",))
    await log.ensure()
    epoch = (await log.epoch("presumed_abort")).epoch
    await log.close()
    living = "select epoch from msrepl.living_epoch"
    await until(lambda: not fetch(place, living), "its session to be gone")
    assert fetch(place, "select epoch from msrepl.fence_epochs('d', '{}')") == []
    assert fetch(place, "select epoch from msrepl.fence_epochs('c', %s)", ([epoch],)) == []
    assert fetch(place, "select fenced from msrepl.coordinator_epoch") == [(False,)]


# -- failures --------------------------------------------------------------------------------------


async def blocked_insert(place: Database) -> None:
    """Wait until the insert of a decision waits for the table's lock."""
    query = """
        select pid from pg_stat_activity
        where application_name like 'twopc decisions%' and wait_event_type = 'Lock'
    """
    await until(lambda: fetch(place, query.replace("%", "%%"), ()), "the insert to wait")


async def test_a_lost_connection_leaves_the_outcome_open_until_it_is_read_back(
    log: DecisionLog, place: Database
) -> None:
    epoch = (await log.epoch("presumed_abort")).epoch
    with place.connect() as blocker:
        blocker.execute("begin; lock msrepl.decision in share mode")
        flying, waiting = log.append(epoch, 1, COMMIT), log.append(epoch, 2, COMMIT)
        await blocked_insert(place)
        blocker.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name like 'twopc decisions%'"
        )
        assert await logged(flying, waiting) == ["unknown", "failed"]
        blocker.execute("rollback")
    assert await log.read_back(epoch, 1) is None
    assert await logged(log.append(epoch, 3, COMMIT)) == ["logged"]


async def test_an_insert_that_is_still_under_way_is_ended_before_it_is_judged(
    log: DecisionLog, place: Database
) -> None:
    """An insert whose client has lost its connection is terminated before the log is read back.

    Until the server notices the loss, the insert could still commit.
    """
    epoch = (await log.epoch("presumed_abort")).epoch
    with place.connect() as blocker:
        blocker.execute("begin; lock msrepl.decision in share mode")
        entry = log.append(epoch, 1, COMMIT)
        await blocked_insert(place)
        lean = log.lean
        assert lean is not None
        lean.abort("cut for the test")
        assert await logged(entry) == ["unknown"]
        reading = asyncio.create_task(log.read_back(epoch, 1))
        gone = """
            select pid from pg_stat_activity
            where application_name like 'twopc decisions%%' and wait_event_type = 'Lock'
              and query like 'call%%'
        """
        await until(lambda: not fetch(place, gone, ()), "the old session to be ended")
        blocker.execute("rollback")
    assert await reading is None
    assert fetch(place, "select sequence from msrepl.decision") == []


async def test_a_decision_whose_acknowledgement_was_lost_is_found(place: Database) -> None:
    wire = Wire(place.server.port)
    await wire.open()
    log = DecisionLog("c", f"{place.dsn} host=127.0.0.1 port={wire.port}", ("pub", "sub1"))
    await log.ensure()
    try:
        epoch = (await log.epoch("presumed_abort")).epoch
        wire.lost_answer = b"log_decisions"
        assert await logged(log.append(epoch, 1, COMMIT)) == ["unknown"]
        assert await log.read_back(epoch, 1) == COMMIT
    finally:
        await log.close()
        await wire.close()


async def test_an_epoch_fenced_while_we_were_away_is_not_written_for_again(
    log: DecisionLog, place: Database
) -> None:
    epoch = (await log.epoch("presumed_abort")).epoch
    lean = log.lean
    assert lean is not None
    fetch(place, "select pg_terminate_backend(%s, 5000)", (lean.connection.info.backend_pid,))
    assert fetch(place, "select epoch from msrepl.fence_epochs('c', '{}')") == [(epoch,)]
    await until(lambda: lean.lost, "the loss to be noticed")
    assert await logged(log.append(epoch, 1, COMMIT)) == ["failed"]
    with pytest.raises(LookupError, match="fenced"):
        await log.read_back(epoch, 1)
    assert epoch in log.fenced
    assert epoch not in log.own
    assert await logged(log.append(epoch, 1, COMMIT)) == ["failed"]
    assert (await log.epoch("presumed_abort")).epoch != epoch


async def test_without_its_database_the_log_says_so(place: Database) -> None:
    log = DecisionLog("c", place.dsn.replace(place.name, "nowhere"), ("pub",))
    with pytest.raises(psycopg.OperationalError):
        await log.ensure()
    assert await logged(log.append(1, 1, COMMIT)) == ["failed"]
    await log.close()
