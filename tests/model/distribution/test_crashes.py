"""Tests of crashes at every point: each change is delivered once, and never to its originator."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.model.distribution.rig import FIRST, Rig
from twopc.drivers.points import AGENT_POINTS, LOG_READER_POINTS, Points
from twopc.drivers.virtual import AwaitableSteps, wait
from twopc.errors import DeliveryError, StoredMeanwhileError
from twopc.publisher.log_reader import LogReaderEngine, LogReaderProfile
from twopc.sim.model.distribution.log_reader import ModelLogReader
from twopc.sim.model.plants.agent import InHalves, PositionLast, made_of
from twopc.sim.model.plants.log_reader import IgnoresMarks, planned_by
from twopc.sim.model.values import Delay, ModelTiming, RequestLostError, Steps, SubscriberSpec
from twopc.sim.model.wiring import Wiring

COUNTS = (
    "create table seen (id int, balance int)",
    """
    create function count_it() returns trigger language plpgsql as $$
    begin insert into seen values (new.id, new.balance); return new; end $$
    """,
    "create trigger counts after insert or update on account for each row execute function count_it()",
    "alter table account enable always trigger counts",
)


class Counted(Points):
    """Points that count the arrivals at each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.armed = True

    async def reach(self, name: str) -> None:
        """Count the arrival."""
        self.seen[name] += 1
        await super().reach(name)
        self.armed = True


def small(streams: int, wiring: Wiring | None = None, points: Points | None = None) -> Rig:
    """Return a rig with changes for several batches, among them an own change and one to skip."""
    rig = Rig(
        SubscriberSpec(name="sub1", streams=streams, batch=2, skip_errors=("2627",)), SubscriberSpec(name="sub2"),
        wiring=wiring, sql={"sub1": COUNTS, "sub2": COUNTS},
    )  # fmt: skip
    if points is not None:
        rig.points = rig.distribution.points = points
    rig.nodes["sub1"].define(f"insert into account values (99, 'mine', 0, '{FIRST}')")
    rig.at(
        "pub",
        "update account set balance = 201 where id = 1",
        "update account set balance = 202 where id = 2",
    )
    rig.at("pub", "insert into account values (3, 'x', 203), (4, 'y', 204), (5, 'z', 205)")
    rig.own("sub1", f"insert into account values (6, 'own', 206, '{FIRST}')")
    rig.at("pub", "insert into account values (99, 'theirs', 299)")
    rig.at(
        "pub",
        "update account set balance = 301 where id = 3",
        "update account set id = 40 where id = 4",
    )
    rig.at("pub", "update account set balance = 302 where id = 5")
    return rig


#: The rows that each Subscriber sees, however many processes die.
EXPECTED = {
    "sub1": [
        (1, 201),
        (2, 202),
        (3, 203),
        (3, 301),
        (4, 204),
        (5, 205),
        (5, 302),
        (6, 206),
        (40, 204),
        (99, 0),
    ],
    "sub2": [
        (1, 201),
        (2, 202),
        (3, 203),
        (3, 301),
        (4, 204),
        (5, 205),
        (5, 302),
        (6, 206),
        (40, 204),
        (99, 299),
    ],
}


def seen(rig: Rig, node: str) -> list[tuple[int, int]]:
    """Return the rows inserted or updated at a node, by an agent or an application."""
    return sorted((row[0], row[1]) for row in rig.nodes[node].table("seen").committed())  # type: ignore[misc] # numbers


def deliver(rig: Rig) -> None:
    """Synchronise until it succeeds; processes that died are restarted."""
    for _ in range(10):
        try:
            rig.sync()
        except (DeliveryError, RequestLostError):
            rig.until(1.0)
        else:
            return
    raise AssertionError("it does not work")


def check(rig: Rig) -> None:
    """Assert that every change was delivered once."""
    for name, wanted in EXPECTED.items():
        assert seen(rig, name) == wanted
        assert not rig.nodes[name].prepared()
    assert rig.rows("pub") == rig.rows("sub2")


class Little(LogReaderEngine):
    """A log reader that peeks, and stores as little as possible at a time, even parts of transactions."""

    def __init__(self, host: ModelLogReader, *, reading: LogReaderProfile, **given: Any) -> None:
        host.block_messages = 3
        little = replace(reading, catch_up_bytes=0, store_bytes=1, read_batch_size=1)
        super().__init__(host, reading=little, **given)


#: By the number of streams: the Publisher's log is followed with one, and peeked at with three.
WIRINGS = {1: Wiring(), 3: Wiring(log_reader=Little)}


def reached(streams: int) -> Counter[str]:
    """Return the points that a run without faults reaches."""
    points = Counted()
    rig = small(streams, WIRINGS[streams], points=points)
    deliver(rig)
    check(rig)
    return points.seen


CLEAN = {streams: reached(streams) for streams in (1, 3)}
#: What dies where: processes at the first and the last arrival at each point, servers at one of them.
PLACES = [
    (streams, point, nth, what)
    for streams, counted in CLEAN.items()
    for point, count in sorted(counted.items())
    for what, arrivals in (("processes", {1, count}), ("pub", {1}), ("sub1", {count}))
    for nth in sorted(arrivals)
]


def test_every_point_is_come_by() -> None:
    names = {name.partition("(")[0] for counted in CLEAN.values() for name in counted}
    wanted = {name.partition("(")[0] for name in (*AGENT_POINTS, *LOG_READER_POINTS)}
    assert wanted == names


def strike_at(rig: Rig, point: str, nth: int, act: Callable[[], Any]) -> None:
    """Perform an action at an arrival, while the process at the point stands still."""

    def strike() -> Steps[None]:
        act()
        yield rig.kernel.event().succeed()

    def action(_: str) -> Any:
        event = rig.kernel.event()
        rig.kernel.spawn(strike(), "strike")
        rig.kernel.spawn(_later(rig, event), "later")
        return AwaitableSteps(wait(event))

    rig.points.arm(point, action, nth=nth)


def _later(rig: Rig, event: Any) -> Steps[None]:
    yield rig.kernel.env.timeout(0.01)
    event.succeed()


def victims(rig: Rig) -> None:
    """Crash every process of distribution."""
    for seat in (rig.distribution.reader, *rig.distribution.seats.values()):
        seat.crash()


@pytest.mark.parametrize(("streams", "point", "nth", "what"), PLACES)
def test_something_dies(streams: int, point: str, nth: int, what: str) -> None:
    rig = small(streams, WIRINGS[streams], points=Counted())

    def act() -> None:
        if what == "processes":
            victims(rig)
        else:
            rig.crash_node(what)

    strike_at(rig, point, nth, act)
    deliver(rig)
    check(rig)


def test_the_next_log_reader_meets_the_last_commit_of_a_killed_one() -> None:
    """A log reader that began before the last commit of a killed one reads again, and stores nothing twice."""
    met: list[str] = []

    class Watched(LogReaderEngine):
        async def _keep(self) -> None:
            try:
                await super()._keep()
            except StoredMeanwhileError as error:
                met.append(str(error))
                raise

    for after in range(1, 60, 2):
        rig = Rig(timing=ModelTiming(flush=Delay(a=0.02)), wiring=Wiring(log_reader=Watched))
        rig.at("pub", "update account set balance = 50 where id = 1")
        rig.kernel.spawn(_quietly(rig), "sync")
        rig.until(0.001 * after)
        rig.distribution.reader.crash()
        rig.sync()
        assert rig.converged()
        assert len(rig.distribution.store.transactions) == 1
    assert met


def test_a_commit_that_nobody_waited_for_is_lost_with_its_position() -> None:
    rig = small(1)
    strike_at(rig, "agent.before_report", 1, lambda: rig.crash_node("sub1"))
    lost: list[int] = []
    before = rig.distribution.receivers["sub1"].position

    def crash() -> None:
        there = before("pub") or 0
        rig.crash_node("sub1")
        lost.append(there - (before("pub") or 0))

    rig.points.disarm()
    strike_at(rig, "agent.before_report", 1, crash)
    deliver(rig)
    check(rig)
    assert lost[0] > 0


# -- without a protection the same tests must fail ----------------------------------------------------


@pytest.mark.parametrize("delivery", [PositionLast, InHalves])
def test_without_the_position_in_the_same_commit_something_comes_twice(delivery: type) -> None:
    wiring = made_of(delivery=delivery)(Wiring())
    broken = 0
    for after in range(40):
        rig = small(1, wiring=wiring)
        sync = rig.kernel.spawn(_quietly(rig), "sync")
        rig.until(0.004 + after * 0.0004)
        if not sync.processed:
            rig.crash_node("sub1", kept_lsn=rig.nodes["sub1"].wal.end)
        rig.kernel.run(sync)
        try:
            deliver(rig)
            check(rig)
        except AssertionError:
            broken += 1
    assert broken


def _quietly(rig: Rig) -> Steps[None]:
    with contextlib.suppress(DeliveryError, RequestLostError):
        yield from rig.distribution.sync()


def test_without_marks_changes_come_back() -> None:
    rig = small(1, wiring=Wiring(log_reader=planned_by(IgnoresMarks)))
    deliver(rig)
    assert rig.history("sub1", "skipped")  # its own row exists already
    assert [one.suppressed for one in rig.distribution.take_deliveries()].count(True) == 0


def test_an_agent_that_is_no_replica_fires_triggers() -> None:
    from twopc.sim.model.distribution.target import settings_of

    def settings(profile: Any) -> dict[str, str]:
        return {**settings_of(profile), "session_replication_role": "origin"}

    rig = Rig(
        replace(SubscriberSpec(name="sub1")), wiring=Wiring(parts={"agent_settings": settings}),
        sql={"sub1": COUNTS[:3]},
    )  # fmt: skip
    rig.at("pub", "update account set balance = 1 where id = 1")
    rig.sync()
    assert seen(rig, "sub1") == [(1, 1)]
