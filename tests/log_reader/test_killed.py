"""Tests of log readers that are killed, or whose slot is set back: commands are complete and unchanged."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.log_reader.killed import Killed
from tests.log_reader.rig import SLOT, Rig, rows
from twopc.drivers.points import LOG_READER_POINTS
from twopc.publisher.log_reader import LogReaderProfile

OLD_SLOT = "msrepl_test_old"
WIDTH = 3000

READINGS: dict[str, dict[str, Any]] = {
    "peek": {"catch_up_bytes": 0},
    "live": {"catch_up_bytes": 1 << 40},
    "peek little": {"catch_up_bytes": 0, "read_batch_size": 1, "peek_messages": 1},
    "live little": {"catch_up_bytes": 1 << 40, "read_batch_size": 1},
}


@pytest.fixture(scope="module")
def killed() -> Iterator[Killed]:
    """The program that forks log readers."""
    program = Killed()
    yield program
    program.close()


async def commit_some(rig: Rig, first: int) -> list[list[int]]:
    """Commit small transactions around a large one, and return the keys that each of them inserts."""
    made = [[first], [first + 1, first + 2], list(range(first + 3, first + WIDTH)), [first + WIDTH]]
    for keys in made:
        await rig.pub.execute(
            "insert into item (id, name) select unnest(%s::int[]), repeat('x', 50)", (keys,)
        )
    return made


async def stored(rig: Rig) -> list[list[int]]:
    """Return the keys that each stored transaction inserts, in order."""
    found = await rows(
        rig.dist,
        """
        select array_agg(split_part(c.command, '"', 2)::int order by command_id),
               min(t.commands) = count(*)
        from msrepl.msrepl_commands c
        join msrepl.msrepl_transactions t using (publisher_database_id, xact_seqno)
        group by xact_seqno order by xact_seqno
        """,
    )
    assert all(whole for _, whole in found)
    return [keys for keys, _ in found]


@pytest.mark.sample(1, by=("point",))
@pytest.mark.parametrize("how", READINGS)
@pytest.mark.parametrize("point", LOG_READER_POINTS)
async def test_killed_at_any_point(both: Rig, killed: Killed, point: str, how: str) -> None:
    """A log reader killed repeatedly at the same point stores each transaction once and completely."""
    reading = {**READINGS[how], "store_bytes": 20_000}
    await both.pub.execute("select pg_copy_logical_replication_slot(%s, %s)", (SLOT, OLD_SLOT))
    committed: list[list[int]] = []
    deaths = 0
    for nth in (1, 2):
        committed += await commit_some(both, len(committed) * 10_000)
        for _ in range(3):
            code = await killed.run(both.reader(), arm=f"{point}=kill@{nth}", reading=reading)
            assert code in (0, -signal.SIGKILL)
            deaths += code != 0
            found = await stored(both)
            assert found == committed[: len(found)]
    assert deaths
    await both.read(reading=LogReaderProfile(**reading))
    assert await stored(both) == committed
    contents = await both.contents()
    for slot in (SLOT, OLD_SLOT):
        read = await both.read(reading=LogReaderProfile(**reading), slot=slot)
        assert (read.transactions, read.commands) == (0, 0)
    assert await both.contents() == contents


@pytest.mark.parametrize("how", READINGS)
async def test_a_slot_that_goes_back_shows_nothing_twice(both: Rig, how: str) -> None:
    reading = LogReaderProfile(**READINGS[how])
    await both.pub.execute("select pg_copy_logical_replication_slot(%s, %s)", (SLOT, OLD_SLOT))
    committed = await commit_some(both, 0)
    await both.read(reading=reading)
    contents = await both.contents()
    committed += await commit_some(both, 100_000)
    read = await both.read(reading=reading, slot=OLD_SLOT)
    assert read.transactions == 4
    assert await stored(both) == committed
    assert [
        part[: len(old)] for part, old in zip(await both.contents(), contents, strict=True)
    ] == (contents)
