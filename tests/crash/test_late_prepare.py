"""M11: Tests of a PREPARE that still runs when its transaction is aborted: no prepared branch is left.

PREPARE waits in a deferred constraint trigger until the test opens a gate; its client is dead
by then.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.by_hand import ByHand
from tests.crash.here import Here, wires_to
from tests.fix_sample import Sample
from tests.grid.cells import Kind, Seen, recovered
from tests.grid.process import CoordinatorProcess
from tests.grid.program import GATED_HERE, GATED_THERE, GATED_UNSEEN
from tests.grid.rig import PUBLISHER, SUBSCRIBER, Rig
from twopc.drivers.participant import ServerParticipant
from twopc.names import GlobalId
from twopc.protocol.effects import Outcome

VARIANTS = ("presumed_abort", "last_agent")


@pytest.mark.parametrize("commit", VARIANTS)
@pytest.mark.parametrize(
    ("ending", "node"), [(GATED_HERE, SUBSCRIBER), (GATED_THERE, PUBLISHER)], ids=str
)
def test_killed_while_it_prepares(rig: Rig, ending: str, node: str, commit: str) -> None:
    """Recovery terminates the dead process's sessions, so that they have no later effect."""
    kind = Kind(commit=commit, ending=ending)
    seen = Seen.begin(rig, kind)
    with rig.closed_gate(node) as open_gate:
        with CoordinatorProcess(
            rig.task(seen.name, row=seen.row, ending=ending, commit=commit)
        ) as p:
            pid = rig.at_gate(node)
            p.kill()
            seen.hear(p)
        seen.look(rig)
        with CoordinatorProcess(rig.task(seen.name)) as recovery:
            rig.gone(node, pid)
            assert recovery.done()
            open_gate()
            recovery.end()
    result = recovered(rig, seen, kind, "M11", "M11")
    assert result.broken == ()
    assert result.outcome == "aborted"


@pytest.mark.parametrize("commit", VARIANTS)
def test_killed_while_a_session_that_nobody_finds_prepares(rig: Rig, commit: str) -> None:
    """The sites agree in the end if a session that recovery cannot find prepares or commits late."""
    kind = Kind(commit=commit, ending=GATED_UNSEEN)
    seen = Seen.begin(rig, kind)
    with (
        CoordinatorProcess(
            rig.task(seen.name, row=seen.row, ending=GATED_UNSEEN, commit=commit)
        ) as p,
        rig.closed_gate(SUBSCRIBER) as open_gate,
    ):
        pid = rig.at_gate(SUBSCRIBER)
        p.kill()
        seen.hear(p)
        with CoordinatorProcess(rig.task(seen.name, recovery_interval_s=1.0)) as recovery:
            assert recovery.done()
            seen.look(rig)
            open_gate()
            rig.gone(SUBSCRIBER, pid)
            rig.nothing_prepared(seen.name)  # recovery runs repeatedly
            recovery.end()
    result = recovered(rig, seen, kind, "M11", "M11")
    assert result.broken == ()
    # Nothing may be presumed while a last agent's session runs: its late commit is the decision.
    assert result.outcome == ("committed" if commit == "last_agent" else "aborted")


@pytest.mark.parametrize("commit", VARIANTS)
async def test_connection_lost_while_it_prepares(rig: Rig, commit: str) -> None:
    """A live coordinator that has lost a session aborts; the session can no longer prepare."""
    here = Here(rig, Kind(commit=commit, ending=GATED_HERE))
    async with wires_to(rig, SUBSCRIBER) as wires, here.open(wires):
        with rig.closed_gate(SUBSCRIBER) as open_gate:
            asking = asyncio.create_task(here.transact())
            await asyncio.to_thread(rig.at_gate, SUBSCRIBER)
            wires[SUBSCRIBER].cut()
            answer = await asking
            open_gate()
    assert answer.outcome == "aborted"
    assert (await here.judge("M11", "M11")).broken == ()


# -- races -----------------------------------------------------------------------------------------

RACES = 200
SEED = 20


class Racers:
    """A session that prepares, and an aborter at each site, under one coordinator's name."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.name = rig.fresh_name()
        task = rig.task(self.name)
        self.aborters = {
            PUBLISHER: ServerParticipant(task.publisher, self.name),
            SUBSCRIBER: ServerParticipant(task.subscriber, self.name),
        }
        self._coordinator = ByHand(self.name)
        self._dsn = task.subscriber.application_dsn
        self._session: AsyncConnection[object] | None = None

    async def session(self) -> AsyncConnection[object]:
        """Return the application's session, or a new one if it was closed."""
        if self._session is None or self._session.closed:
            self._session = await AsyncConnection.connect(self._dsn, autocommit=True)
            database = self.aborters[SUBSCRIBER].database
            await database.fetch(self._coordinator.introduction)
        return self._session

    async def race(self, sequence: int, row: int, chance: random.Random) -> dict[str, Outcome]:
        """Prepare and abort concurrently; return the outcome of each branch."""
        gid = str(GlobalId(coordinator=self.name, epoch=1, sequence=sequence))
        session = await self.session()
        pid = session.info.backend_pid
        await session.execute(f"begin; {self._coordinator.naming(gid, pid)}".encode())
        await session.execute("update account set balance = -1 where id = %s", (row,))
        vote = (
            f"{self._coordinator.vote(gid, pid)}; prepare transaction '{gid}:{SUBSCRIBER}'"
        ).encode()
        # The delays are drawn; no step waits for another to end.
        asked_s, aborted_s, closed_s = (chance.uniform(0, 0.004) for _ in range(3))

        async def ask() -> None:
            await asyncio.sleep(asked_s)
            session.pgconn.send_query(vote)
            session.pgconn.flush()
            await asyncio.sleep(closed_s)
            await session.close()

        asking = asyncio.create_task(ask())
        await asyncio.sleep(aborted_s)
        ended = {name: await self._abort(name, f"{gid}:{name}") for name in self.aborters}
        await asking
        return ended

    async def _abort(self, name: str, gid: str) -> Outcome:
        while True:
            try:
                return await self.aborters[name].settle(gid, Outcome.ABORTED, [])
            except (psycopg.errors.LockNotAvailable, psycopg.errors.ObjectInUse):
                continue  # still running

    async def close(self) -> None:
        """Close all sessions."""
        for aborter in self.aborters.values():
            await aborter.close()
        if self._session is not None:
            await self._session.close()


@pytest.fixture
async def racers(rig: Rig) -> AsyncIterator[Racers]:
    made = Racers(rig)
    yield made
    await made.close()


async def test_races(rig: Rig, racers: Racers, sample: Sample) -> None:
    """An abort that has returned is final, however late PREPARE runs; nothing is left prepared."""
    chance = random.Random(SEED)
    row = rig.fresh_row()
    before = await asyncio.to_thread(rig.look, racers.name, row)
    for sequence in sample(range(1, RACES + 1), 40):
        ended = await racers.race(sequence, row, chance)
        assert set(ended.values()) == {Outcome.ABORTED}, f"seed {SEED}, race {sequence}: {ended}"
    await asyncio.to_thread(_all_gone, rig)
    after = await asyncio.to_thread(rig.look, racers.name, row)
    for site in racers.aborters:
        assert after.sites[site].prepared == ()
        assert after.sites[site].row == before.sites[site].row
        assert [fence for _, fence in after.sites[site].markers] == [True] * len(
            after.sites[site].markers
        )


def _all_gone(rig: Rig) -> None:
    """Wait until no session of the application and no link is left."""
    role = rig.node(SUBSCRIBER).app_role
    for node, query, value in (
        (SUBSCRIBER, "select pid from pg_stat_activity where usename = %s", role),
        (PUBLISHER, "select pid from pg_stat_activity where application_name like %s", "msrepl %"),
    ):
        for (pid,) in rig.fetch(node, query, (value,)):
            rig.gone(node, pid)
