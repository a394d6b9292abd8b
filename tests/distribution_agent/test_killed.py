"""Tests of agents that are killed, cancelled, or lose their sessions at any point: each command is applied once.

The Subscriber records every change of its rows with a trigger that is not NOT FOR REPLICATION.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.distribution_agent.ends import Does, Ends, dele, ins, upd
from tests.distribution_agent.killing import Killing
from tests.distribution_agent.test_delivery import AUDIT
from tests.fix_sample import Sample
from tests.propagation.here import mask
from twopc.drivers import Points
from twopc.drivers.points import AGENT_POINTS
from twopc.subscriber.distribution_agent import session

TABLE = "create table t (id integer primary key, v text, n integer)"
ONE: dict[str, Any] = {"block_commands": 10, "commit_batch_size": 2, "commit_batch_threshold": 10}
KINDS: dict[str, dict[str, Any]] = {
    "one": ONE,
    "streams": {**ONE, "subscription_streams": 3},
}


class Recording(Points):
    """Records every point that is reached."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__()
        self.armed = True
        self.seen: list[str] = []

    async def reach(self, name: str) -> None:
        self.seen.append(name)


class Work:
    """Transactions that are stored repeatedly with new keys, and a check of their result."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._base = 0

    async def store(self) -> None:
        """Store transactions of each kind, with new keys.

        Small ones, one in blocks, one whose key moves between streams, one of the Subscriber's own,
        and one to be skipped.
        """
        self._base = base = self._base + 1000
        many = [ins(base + n, "", n, hashkey=n % 7 + 1) for n in range(10, 35)]
        bad: list[Does] = [ins(base + 100, "", 0, hashkey=1), dele(base + 999, hashkey=2)]
        await self._ends.store_all(
            [
                [ins(base + n, "", 0, hashkey=n + 1) for n in range(3)],
                [upd(None, None, 5, base + 1, mask(3, 3), hashkey=2)],
                many,
                [upd(base + 4, None, None, base + 2, mask(3, 1), hashkey=3)],
                [upd(base + 5, None, None, base + 4, mask(3, 1), hashkey=5)],
            ]
        )
        await self._ends.store(ins(base + 500, "", 0), own=True)
        await self._ends.store_all([bad, [ins(base + 6, "", 0, hashkey=1), dele(base, hashkey=1)]])

    async def check(self, where: str) -> None:
        """Check that every command was applied once."""
        ends, base = self._ends, self._base
        found = await ends.rows(f"t where id >= {base}", f"id - {base}, n")
        wanted = {1: 5, 5: 0, 6: 0} | {n: n for n in range(10, 35)}
        assert dict(found) == wanted, where
        done = Counter(
            operation
            for _, operation in await ends.rows(f"audit where id >= {base}", "n, operation")
        )
        assert done == {"INSERT": 29, "UPDATE": 3, "DELETE": 1}, where
        assert await ends.prepared() == [], where
        assert await ends.position() == ends.at, where
        skipped = {row["xact_seqno"] for row in await ends.history("skipped")}
        assert len(skipped) == base // 1000, where


@pytest.fixture(autouse=True)
def _some_as_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_SET_MIN", 8)


@pytest.fixture
def killing() -> Iterator[Killing]:
    """A program that runs agents which can be killed."""
    made = Killing()
    yield made
    made.close()


@pytest.fixture
async def work(ends: Ends) -> AsyncIterator[Work]:
    """Return the work, on a table whose changes are recorded."""
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.encode())
    yield Work(ends)


async def points_of(ends: Ends, work: Work, profile: dict[str, Any]) -> list[str]:
    """Return every point of a run without faults, as ``name@n``."""
    recording = Recording()
    agent = ends.agent(points=recording, skip_errors=("20598",), **profile)
    await work.store()
    await agent.run_once()
    await agent.close()
    await work.check("clean")
    counts: Counter[str] = Counter()
    found = []
    for name in recording.seen:
        counts[name] += 1
        found.append(f"{name}@{counts[name]}")
    return found


async def test_every_point_is_reached(ends: Ends, work: Work) -> None:
    seen = {
        name.split("@")[0].split("(")[0]
        for profile in KINDS.values()
        for name in await points_of(ends, work, profile)
    }
    assert seen == {name.split("(")[0] for name in AGENT_POINTS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_killed_at_every_point(
    ends: Ends, work: Work, killing: Killing, kind: str, sample: Sample
) -> None:
    profile = KINDS[kind] | {"skip_errors": ["20598"]}
    for place in sample(await points_of(ends, work, KINDS[kind]), 6):
        await work.store()
        arm = place.replace("@", "=kill@")
        assert (await killing.run(ends.config(), profile, arm)).code == -signal.SIGKILL, place
        assert (await killing.run(ends.config(), profile)).code == 0, place
        await work.check(place)


async def test_killed_while_a_block_is_on_its_way(ends: Ends, killing: Killing) -> None:
    """An agent killed while it sends a block, of which the server gets only a part, leaves no effect."""
    await ends.subscribe(TABLE)
    await ends.store_many(2000, "y" * 10_000)
    for nth in (1, 2, 3):
        profile = {"block_bytes": 9_000_000}
        ended = await killing.run(ends.config(), profile, f"agent.sent=kill@{nth}")
        assert ended.code == -signal.SIGKILL
        assert (await ends.rows(), await ends.position()) == ([], 0)
    assert (await killing.run(ends.config(), {})).code == 0
    assert await ends.rows("t", "count(*)") == [(2000,)]


@pytest.mark.slow
async def test_a_large_transaction_needs_little_memory(ends: Ends, killing: Killing) -> None:
    """The memory of an agent does not grow with a transaction: 80 MB of commands, in blocks of 1 MB."""
    await ends.subscribe(TABLE)
    await ends.store(ins(-1, "", 0))
    little = await killing.run(ends.config(), {})
    await ends.store_many(200_000, "y" * 400)
    large = await killing.run(ends.config(), {"block_bytes": 1_000_000})
    assert (little.code, large.code) == (0, 0)
    assert await ends.rows("t", "count(*)") == [(200_001,)]
    assert large.memory_kb - little.memory_kb < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_sessions_lost_at_every_point(
    ends: Ends, work: Work, kind: str, sample: Sample
) -> None:
    """An agent continues after its sessions at the Subscriber, or at the distribution database, are lost.

    They are lost at the first or the last arrival at each point, in turn.
    """

    async def cut(_: str) -> None:
        connection, name = cuts[0]
        await connection.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = %s and usename = 'delivering_agent'",
            (name,),
        )
        cuts.reverse()

    cuts = [(ends.sub, ends.subscriber.name), (ends.admin, ends.distribution.name)]
    found = {place.split("@")[0]: place for place in await points_of(ends, work, KINDS[kind])}
    for place in sample([*(f"{name}@1" for name in found), *found.values()], 6):
        await work.store()
        points = Points()
        name, _, nth = place.partition("@")
        points.arm(name, cut, nth=int(nth))
        agent = ends.agent(points=points, skip_errors=("20598",), **KINDS[kind])
        stop = asyncio.Event()
        running = asyncio.create_task(agent.run(stop))
        await ends.until_at(ends.at, running)
        stop.set()
        await running
        await work.check(place)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_cancelled_at_every_point(ends: Ends, work: Work, kind: str, sample: Sample) -> None:
    """After an agent's task is cancelled at any point, the next run completes the delivery."""
    found = {place.split("@")[0]: place for place in await points_of(ends, work, KINDS[kind])}
    for place in sample([*(f"{name}@1" for name in found), *found.values()], 6):
        await work.store()
        points = Points()
        name, _, nth = place.partition("@")
        agent = ends.agent(points=points, skip_errors=("20598",), **KINDS[kind])
        running = asyncio.create_task(agent.run(asyncio.Event()))
        points.arm(name, lambda _, task=running: task.cancel(), nth=int(nth))
        if name == "agent.before_report":
            running.cancel()  # otherwise it would take a second until it reports
        with pytest.raises(asyncio.CancelledError):
            await running
        agent = ends.agent(skip_errors=("20598",), **KINDS[kind])
        await agent.run_once()
        await agent.close()
        await work.check(place)
