"""Tests of any client in virtual time: its own COMMIT decides, despite faults."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.replication.test_points import both, strike
from tests.model.replication.test_system import ACCOUNT, ENTRY, make, rows, run
from twopc.errors import InDoubtError, RejectedError, TransactionError
from twopc.sim.model.any_client import ModelAnyClient
from twopc.sim.model.system import System
from twopc.sim.model.values import SqlError, Steps, SubscriberSpec

AT = (SubscriberSpec(name="sub1", any_client=True), SubscriberSpec(name="sub2"))
TAKE = "update account set balance = balance - 5 where id = 1"


def client(system: System, name: str = "alice") -> ModelAnyClient:
    """Open a session of any client at the first Subscriber."""
    made = system.session(name, "sub1", any_client=True)
    assert isinstance(made, ModelAnyClient)
    return made


def pay(system: System, told: list[Any]) -> Steps[None]:
    """Withdraw from an account and add an entry; record the outcome that the client gets."""
    alice = client(system)
    try:
        yield from alice.begin()
        yield from alice.execute(TAKE)
        yield from alice.execute("insert into entry (account, amount) values (1, 5)")
        yield from alice.commit()
        told.append("committed")
    except TransactionError as error:
        told.append(error)
        yield from alice.close()


def test_it_decides() -> None:
    """A commit of any client reaches both other nodes, and is not sent back to its Subscriber."""
    system = make(ACCOUNT, ENTRY, subscribers=AT)
    told: list[Any] = []
    run(system, pay(system, told))
    assert told == ["committed"]
    both(system)
    run(system, system.sync())
    assert rows(system, "sub2")[0][3] == "15.00"
    suppressed = [one.node for one in system.take_deliveries() if one.suppressed]
    assert suppressed == ["sub1"]


@pytest.mark.parametrize("what", ["pub", "sub1", "link"])
def test_something_is_lost_at_any_moment(what: str) -> None:
    """After a fault at any moment, Publisher and Subscriber agree, and nothing is prepared."""
    clean = make(ACCOUNT, ENTRY, subscribers=AT, distributes=False)
    run(clean, pay(clean, []))
    length = clean.kernel.now
    ends = set()
    for step in range(1, 24):
        system = make(ACCOUNT, ENTRY, subscribers=AT, distributes=False)
        told: list[Any] = []
        system.kernel.spawn(pay(system, told), "application")
        system.kernel.run(length * step / 24)
        strike(system, what)
        system.kernel.run(system.kernel.now + 8.0)
        both(system)
        paid = rows(system, "pub")[0][3] == "15.00"
        assert len(rows(system, "pub", "entry")) == paid
        for one in told:
            if not isinstance(one, InDoubtError):
                assert paid == (one == "committed"), (step, one)
        ends.add(paid)
    assert ends == {True, False}


def test_its_session_ends_with_the_branch_prepared() -> None:
    """The branch of a session that ends undecided is rolled back by the resolver."""
    system = make(ACCOUNT, ENTRY, subscribers=AT, distributes=False)
    told: list[Any] = []
    system.kernel.spawn(pay(system, told), "application")
    while not system.publisher.prepared():
        system.kernel.run(system.kernel.now + 0.0001)
    (session,) = (one for one in system.nodes["sub1"].sessions.values() if one.tx is not None)
    session.terminate()
    system.kernel.run(system.kernel.now + 8.0)
    assert isinstance(told[0], TransactionError)
    both(system)
    assert rows(system, "pub")[0][3] == "20.00"


def test_a_rollback_gives_the_publishers_locks_back() -> None:
    system = make(ACCOUNT, ENTRY, subscribers=AT)
    alice, office = client(system), system.session("office", "pub")

    def work() -> Steps[None]:
        yield from alice.begin()
        yield from alice.execute(TAKE)
        yield from alice.rollback()
        yield from office.begin()
        yield from office.execute(TAKE)
        yield from office.commit()

    run(system, work())
    run(system, system.sync())
    both(system)


def test_two_statements_of_a_savepoint_that_is_taken_back() -> None:
    """ROLLBACK TO SAVEPOINT also undoes the gid that was given within; the next change gets another."""
    system = make(ACCOUNT, ENTRY, subscribers=AT)
    alice = client(system)

    def work() -> Steps[None]:
        yield from alice.begin()
        yield from alice.execute("savepoint s")
        yield from alice.execute(TAKE)
        yield from alice.execute("rollback to s")
        yield from alice.execute("update account set note = 'kept' where id = 2")
        yield from alice.commit()

    run(system, work())
    both(system)
    assert [row[2:] for row in rows(system, "pub")] == [("none", "20.00"), ("kept", "30.00")]


def test_it_is_not_prepared_by_hand() -> None:
    system = make(ACCOUNT, ENTRY, subscribers=AT)
    session = system.nodes["sub1"].connect("app", "by hand")

    def work() -> Steps[None]:
        yield from session.execute("begin")
        yield from session.execute(TAKE)
        yield from session.execute("prepare transaction 'mine'")

    with pytest.raises(SqlError) as error:
        run(system, work())
    assert error.value.sqlstate == "0A000"
    session.close()
    system.kernel.run(system.kernel.now + 1.0)
    both(system)


def test_elsewhere_a_coordinator_is_needed() -> None:
    system = make(ACCOUNT, ENTRY, subscribers=AT)
    with pytest.raises(KeyError):
        system.session("bob", "sub2", any_client=True)
    plain = system.nodes["sub2"].connect("app", "plain")
    with pytest.raises(SqlError) as error:
        run(system, plain.execute(TAKE))
    assert error.value.sqlstate == "25000"
    plain.close()


def test_a_conflict_is_the_publishers() -> None:
    """A transaction with an outdated copy is refused by the Publisher."""
    system = make(ACCOUNT, ENTRY, subscribers=AT)
    alice, bob = client(system), system.session("bob", "sub2")

    def work() -> Steps[None]:
        yield from bob.begin()
        yield from bob.execute(TAKE)
        yield from bob.commit()
        yield from alice.begin()
        yield from alice.execute(TAKE)

    with pytest.raises(RejectedError) as error:
        run(system, work())
    assert (error.value.sqlstate, error.value.node) == ("40001", "pub")
    run(system, alice.close())
