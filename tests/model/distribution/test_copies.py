"""Tests of reinitialising while others write: no row is delivered twice, and none is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.model.distribution.rig import ACCOUNT, FIRST, Rig
from twopc.drivers.snapshot_agent import CopyMoment, SnapshotAgent
from twopc.errors import DeliveryError, LockTimeoutError, SubscriptionError
from twopc.sim.model.values import Steps, SubscriberSpec
from twopc.sim.model.wiring import Wiring

SUB1 = SubscriberSpec(name="sub1")


def copy(rig: Rig, subscriber: str = "sub1") -> None:
    """Reinitialise a Subscriber."""
    rig.run(rig.distribution.reinitialise(subscriber))


def test_rows_are_those_of_the_publisher() -> None:
    rig = Rig()
    rig.nodes["sub1"].define("delete from account where id = 1")
    rig.nodes["sub1"].define(f"insert into account values (7, 'mine', 0, '{FIRST}')")
    rig.at("pub", "update account set balance = 5 where id = 2")
    copy(rig)
    assert rig.rows("sub1") == rig.rows("pub")
    done = rig.sync()
    assert {name: each.commands for name, each in done.items()} == {"sub1": 0, "sub2": 1}
    assert rig.converged()


def test_what_was_open_during_the_copy_is_brought() -> None:
    rig = Rig()
    early, late = (rig.nodes["pub"].connect("app", "app") for _ in range(2))
    rig.run(early.execute("begin"))
    rig.run(early.execute("insert into account values (3, 'early', 3)"))
    rig.at("pub", "insert into account values (4, 'before', 4)")
    rig.run(late.execute("begin"))
    copy(rig)
    rig.run(late.execute("insert into account values (5, 'late', 5)"))
    rig.run(late.execute("commit"))
    rig.run(early.execute("commit"))
    assert rig.sync("sub1")["sub1"].commands == 2
    rig.sync()
    assert rig.converged()


def test_a_part_of_the_rows() -> None:
    rig = Rig(
        replace(SUB1, filters={"account": "balance > 50"}),
        tables=[replace(ACCOUNT, filter="id > 1")],
    )
    rig.at("pub", "insert into account values (3, 'eve', 7), (4, 'kim', 70)")
    copy(rig)
    assert rig.balances("sub1") == {"2": "100", "4": "70"}


def test_its_triggers_see_nothing_of_it() -> None:
    text = """
    create function count_it() returns trigger language plpgsql as $$
    begin insert into seen values (new.id); return new; end $$
    """
    fires = "create trigger mine after insert on account for each row execute function count_it()"
    rig = Rig(SUB1, sql={"sub1": ("create table seen (id int primary key)", text, fires)})
    copy(rig)
    assert rig.rows("sub1", "seen") == []


def test_its_own_transactions_are_waited_for() -> None:
    rig = Rig()
    session = rig.nodes["sub1"].connect("app", "app")
    rig.run(session.execute("begin"))
    rig.run(session.execute("update account set balance = 3 where id = 1"))
    with pytest.raises(LockTimeoutError, match="'sub1' are being written"):
        copy(rig)
    copying = rig.kernel.spawn(rig.distribution.reinitialise("sub1"), "copy")
    rig.until(1.0)
    assert not copying.processed
    rig.run(session.execute("rollback"))
    rig.kernel.run(copying)
    assert rig.converged()


def test_a_branch_that_does_not_end() -> None:
    rig = Rig()

    def prepare() -> Steps[None]:
        session = rig.nodes["pub"].connect("link_sub1", "link")
        yield from session.execute("begin")
        yield from session.execute("update account set balance = 3 where id = 1")
        yield from session.execute("prepare transaction 'twopc:c:1:9:pub'")

    rig.run(prepare())
    with pytest.raises(LockTimeoutError, match="twopc:c:1:9:pub"):
        copy(rig)
    assert rig.balances("sub1") == {"1": "100", "2": "100"}


def test_nobody_subscribes() -> None:
    with pytest.raises(SubscriptionError, match="does not subscribe"):
        copy(Rig(), "pub")


def workload(rig: Rig, count: int) -> Steps[None]:
    """Insert rows at the Publisher in transactions some of which commit late."""
    chance = rig.kernel.random("workload")
    for number in range(count):
        session = rig.nodes["pub"].connect("app", "app")
        yield from session.execute("begin")
        yield from session.execute(f"insert into account values ({number + 10}, 'x', {number})")
        if chance.random() < 0.3:
            rig.kernel.spawn(_slowly(rig, session, chance.uniform(0.0, 0.05)), "slow")
        else:
            yield from session.execute("commit")
            session.close()
        yield rig.kernel.env.timeout(chance.expovariate(1 / 0.002))


def _slowly(rig: Rig, session: Any, seconds: float) -> Steps[None]:
    yield rig.kernel.env.timeout(seconds)
    yield from session.execute("commit")
    session.close()


def copied_while_writing(seed: int, wiring: Wiring | None = None) -> Rig:
    """Reinitialise a Subscriber, whose agent runs, at some moment of a workload."""
    rig = Rig(seed=seed, poll_s=0.02, wiring=wiring)
    writing = rig.kernel.spawn(workload(rig, 60), "workload")
    rig.until(rig.kernel.random("when").uniform(0.0, 0.1))
    copying = rig.kernel.spawn(rig.distribution.reinitialise("sub1"), "copy")
    rig.kernel.run(writing)
    rig.kernel.run(copying)
    rig.until(0.2)
    rig.sync()
    return rig


@pytest.mark.parametrize("seed", range(8))
def test_while_others_write_and_agents_run(seed: int) -> None:
    rig = copied_while_writing(seed)
    assert len(rig.rows("pub")) == 62
    assert rig.converged()


def test_a_copy_that_is_taken_for_more_than_it_has_loses_rows() -> None:
    """Transactions open during the copy are lost if the copy claims everything that is stored."""

    class TakesAll(SnapshotAgent):
        async def start(self, moment: CopyMoment, *, delivered: int, active: bool) -> None:
            later = replace(moment, seqno=moment.seqno + 10_000)
            assert self._store is not None
            await self._store.start(later.seqno, later, active=active)

    broken = 0
    for seed in range(8):
        try:
            broken += not copied_while_writing(seed, Wiring(snapshot_agent=TakesAll)).converged()
        except DeliveryError:
            broken += 1
    assert broken
