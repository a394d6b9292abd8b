"""Tests of faults at points within a node and on connections: no transaction is left at one node only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model.replication.test_system import ACCOUNT, ENTRY, make, rows, run
from twopc.errors import (
    InDoubtError,
    LockTimeoutError,
    PublisherUnreachableError,
    RejectedError,
    TransactionError,
)
from twopc.sim.model.system import System
from twopc.sim.model.values import SqlError, Steps

VARIANTS = ["presumed_abort", "presumed_commit", "presumed_nothing", "last_agent"]


def pay(system: System, told: list[Any], amount: int = 5) -> Steps[None]:
    """Withdraw from an account and add an entry; record the outcome that the application gets."""
    alice = system.session("alice", "sub1")
    try:
        yield from alice.begin()
        yield from alice.execute(f"update account set balance = balance - {amount} where id = 1")
        yield from alice.execute(f"insert into entry (account, amount) values (1, {amount})")
        yield from alice.commit()
        told.append("committed")
    except TransactionError as error:
        told.append(error)
        yield from alice.rollback()


def both(system: System) -> None:
    """Assert that the Publisher and the Subscriber have the same rows, and that nothing is prepared."""
    for table in ("account", "entry"):
        own = system.nodes["sub1"].table(table).rows()
        assert own == system.publisher.table(table).rows()
    assert system.quiet()
    assert not any(node.prepared() for node in system.nodes.values())


@pytest.mark.parametrize("point", ["trigger.enter", "proc.before_compare", "proc.after_apply"])
def test_an_error_at_a_point(point: str) -> None:
    """An error at a point fails the statement; the transaction can only be rolled back."""
    system, told = make(ACCOUNT, ENTRY), []

    def fail(_: str) -> None:
        raise SqlError("53200", "out of memory")

    system.points.arm(point, fail, nth=2)
    run(system, pay(system, told))
    assert isinstance(told[0], RejectedError)
    assert told[0].sqlstate == "53200"
    assert told[0].node == ("sub1" if point == "trigger.enter" else "pub")
    both(system)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "what", ["pub", "sub1", "coordinator", "link", "distribution", "silence", "halt"]
)
def test_something_is_lost_at_any_moment(what: str, variant: str) -> None:
    """After a fault at any moment both nodes agree, nothing is prepared, and answers are correct."""
    clean: System = make(ACCOUNT, ENTRY, commit=variant, distributes=False)
    run(clean, pay(clean, []))
    length = clean.kernel.now
    for step in range(1, 16):
        system, told = make(ACCOUNT, ENTRY, commit=variant, distributes=False), []
        system.kernel.spawn(pay(system, told), "application")
        system.kernel.run(length * step / 16)
        strike(system, what)
        system.kernel.run(system.kernel.now + (80.0 if what == "silence" else 8.0))
        both(system)
        paid = rows(system, "pub")[0][3] == "15.00"
        assert len(rows(system, "pub", "entry")) == paid
        for one in told:
            if one == "committed" or not isinstance(one, InDoubtError):
                assert paid == (one == "committed"), (step, one)


@pytest.mark.parametrize("what", ["pub", "the wire", "the session"])
def test_a_plain_session_is_lost_at_any_moment(what: str) -> None:
    """A plain session that is lost gets InDoubtError at COMMIT and RejectedError before; its answers are correct."""
    moments = {"before": set[bool](), "at COMMIT": set[bool]()}

    def work(system: System, told: list[Any]) -> Steps[None]:
        office = system.session("office", "pub")
        try:
            yield from office.begin()
            yield from office.execute("update account set balance = balance - 5 where id = 1")
            told.append("at COMMIT")
            yield from office.commit()
            told.append("committed")
        except TransactionError as error:
            told.append(error)

    def paid(system: System) -> bool:
        return rows(system, "pub")[0][3] == "15.00"

    clean = make(ACCOUNT, distributes=False)
    run(clean, work(clean, []))
    length = clean.kernel.now
    for step in range(1, 24):
        system, told = make(ACCOUNT, distributes=False), []
        system.kernel.spawn(work(system, told), "application")
        system.kernel.run(length * step / 24)
        if told[-1:] == ["committed"]:
            continue
        if what == "the wire":
            system.cut("client:office", "pub")
        elif what == "the session":
            for one in [*system.publisher.sessions.values()]:
                if one.application_name == "office":
                    one.terminate()
        else:
            strike(system, what)
        system.kernel.run(system.kernel.now + 8.0)
        if told[-1] == "committed":
            assert paid(system)
            continue
        moment = "at COMMIT" if told[0] == "at COMMIT" else "before"
        assert isinstance(told[-1], InDoubtError if moment == "at COMMIT" else RejectedError), step
        moments[moment].add(paid(system))
    assert moments["before"] == {False}
    assert moments["at COMMIT"]


def move(system: System, told: list[Any], amount: int = 5) -> Steps[None]:
    """Withdraw at one Subscriber and add an entry at the other, in one transaction."""
    alice = system.session("alice", "sub1", ("sub2",))
    try:
        yield from alice.begin()
        yield from alice.execute(f"update account set balance = balance - {amount} where id = 1")
        yield from alice.execute(
            f"insert into entry (account, amount) values (1, {amount})", at="sub2"
        )
        yield from alice.commit()
        told.append("committed")
    except TransactionError as error:
        told.append(error)
        yield from alice.rollback()


@pytest.mark.parametrize("variant", VARIANTS[:3])
@pytest.mark.parametrize(
    "what", ["pub", "sub1", "sub2", "coordinator", "link", "distribution", "halt"]
)
def test_something_is_lost_under_several(what: str, variant: str) -> None:
    """After a fault, both branches at the Publisher and both Subscribers agree, and nothing is prepared."""
    clean: System = make(ACCOUNT, ENTRY, commit=variant, distributes=False)
    run(clean, move(clean, []))
    length = clean.kernel.now
    for step in range(1, 16):
        system, told = make(ACCOUNT, ENTRY, commit=variant, distributes=False), []
        system.kernel.spawn(move(system, told), "application")
        system.kernel.run(length * step / 16)
        strike(system, what)
        system.kernel.run(system.kernel.now + 8.0)
        assert system.quiet()
        assert not any(node.prepared() for node in system.nodes.values())
        paid = rows(system, "pub")[0][3] == "15.00"
        effects = [len(rows(system, node, "entry")) for node in ("pub", "sub2")]
        assert effects == [paid, paid], (step, told)
        assert (rows(system, "sub1")[0][3] == "15.00") == paid, (step, told)
        for one in told:
            if one == "committed" or not isinstance(one, InDoubtError):
                assert paid == (one == "committed"), (step, one)


def strike(system: System, what: str) -> None:
    """Inject a fault that is healed after half a second."""
    kernel, seat = system.kernel, system.coordinators()["model"]
    halted = seat.process

    def after() -> Steps[None]:
        yield kernel.env.timeout(0.5)
        if what == "coordinator":
            seat.restart()
        elif what in ("link", "silence"):
            system.heal("sub1", "pub")
        elif what == "halt":
            halted.go_on()
        else:
            yield from system.restart_node(what)

    if what == "coordinator":
        seat.crash()
    elif what in ("link", "silence"):
        system.cut("sub1", "pub", silent=what == "silence")
    elif what == "halt":
        halted.pause()
        seat.restart()
    else:
        system.crash_node(what)
    kernel.spawn(after(), "heal")


def test_the_publisher_cannot_be_reached() -> None:
    """If the Publisher cannot be reached, the error is SQL Server's 21054, and nothing is begun there."""
    system, told = make(ACCOUNT, ENTRY), []
    system.cut("sub1", "pub")
    run(system, pay(system, told))
    (error,) = told
    assert isinstance(error, PublisherUnreachableError)
    assert (error.number, error.sqlstate, error.node) == (21054, "08001", "pub")
    both(system)


def test_the_link_breaks_between_two_statements() -> None:
    """A link that breaks after a change was sent fails the transaction."""
    system = make(ACCOUNT, ENTRY)
    alice = system.session("alice", "sub1")

    def work() -> Steps[None]:
        yield from alice.begin()
        yield from alice.execute("update account set balance = 1 where id = 1")
        system.cut("sub1", "pub")
        system.heal("sub1", "pub")
        yield from alice.execute("update account set balance = 1 where id = 2")

    with pytest.raises(PublisherUnreachableError) as error:
        run(system, work())
    assert error.value.sqlstate == "08006"
    run(system, alice.rollback())
    both(system)


def test_the_link_is_opened_again() -> None:
    """A link that broke before anything was sent is opened again, and the message is repeated."""
    system = make(ACCOUNT, ENTRY)
    alice = system.session("alice", "sub1")

    def work() -> Steps[None]:
        yield from alice.begin()
        yield from alice.execute("savepoint s")
        yield from alice.execute("update account set balance = 1 where id = 1")
        yield from alice.execute("rollback to savepoint s")
        system.cut("sub1", "pub")
        system.heal("sub1", "pub")
        yield from alice.execute("update account set balance = 2 where id = 1")
        yield from alice.commit()

    run(system, work())
    assert rows(system, "pub")[0][3] == "2.00"
    both(system)


def test_a_cancel_reaches_the_publisher() -> None:
    """Cancelling a statement that waits at the Publisher ends its wait and its locks there."""
    system = make(ACCOUNT, ENTRY)
    office, alice = system.session("office", "pub"), system.session("alice", "sub1")
    told: list[Any] = []

    def waits() -> Steps[None]:
        yield from alice.begin()
        try:
            yield from alice.execute("update account set balance = 1 where id = 1")
        except TransactionError as error:
            told.append(error.sqlstate)
            yield from alice.rollback()

    def holds() -> Steps[None]:
        yield from office.begin()
        yield from office.execute("update account set note = 'held' where id = 1")

    run(system, holds())
    system.kernel.spawn(waits(), "alice")
    system.kernel.run(system.kernel.now + 0.1)
    assert [wait.holder_pid for wait in system.publisher.waits()] == [office.pid]
    alice.cancel()
    system.kernel.run(system.kernel.now + 0.1)
    assert told == ["57014"]
    assert system.publisher.waits() == []
    run(system, office.rollback())
    both(system)


@pytest.mark.parametrize(("proven", "sqlstate"), [(True, "55000"), (False, "42501")])
def test_nobody_commits_past_the_coordinator(proven: bool, sqlstate: str) -> None:
    """A client cannot commit without the coordinator.

    A transaction that has sent a change must be prepared at the Publisher first (55000); one without the coordinator's
    proof cannot send any (42501).
    """
    system = make(ACCOUNT, ENTRY)
    session = system.nodes["sub1"].connect("app", "by hand")

    def work() -> Steps[None]:
        yield from session.execute("begin")
        yield from session.execute("set local msrepl.gid = 'twopc:by-hand:1:1'")
        if proven:
            yield from session.execute("set local msrepl.proof = ''")
        yield from session.execute("update account set balance = 1 where id = 1")
        # changed settings have no effect
        yield from session.execute("set local msrepl.marker = '(0,0)'")
        yield from session.execute("commit")

    with pytest.raises(SqlError) as error:
        run(system, work())
    assert error.value.sqlstate == sqlstate
    session.close()
    both(system)


def test_changes_need_a_global_transaction() -> None:
    system = make(ACCOUNT, ENTRY)
    session = system.nodes["sub1"].connect("app", "plain")
    with pytest.raises(SqlError) as error:
        run(system, session.execute("update account set balance = 1 where id = 1"))
    assert error.value.sqlstate == "25000"
    assert '"number": 20512' in error.value.detail
    session.close()
    owner = system.nodes["sub1"].connect("postgres", "plain")
    with pytest.raises(SqlError) as error:
        run(system, owner.execute("truncate entry"))
    assert error.value.sqlstate == "0A000"
    owner.close()
    both(system)


def test_a_lock_is_not_granted() -> None:
    """The error of a lock timeout names the table, and the sessions that have locks on it."""
    system = make(ACCOUNT, ENTRY, lock_timeout_s=0.5)
    office, alice = system.session("office", "pub"), system.session("alice", "sub1")

    def work() -> Steps[None]:
        yield from office.begin()
        yield from office.execute("update account set note = 'held' where id = 1")
        yield from alice.begin()
        yield from alice.execute("update account set balance = 1 where id = 1")

    with pytest.raises(LockTimeoutError) as error:
        run(system, work())
    facts = json.loads(error.value.detail)
    assert facts["article"] == "public.account"
    assert facts["holders"] == [f"session {office.pid} (office)"]
    assert error.value.node == "pub"
    run(system, alice.rollback())
    run(system, office.rollback())
    both(system)


def test_a_deadlock_within_the_publisher() -> None:
    """The Publisher resolves a deadlock among its own sessions; the first that checks is the victim."""
    system = make(ACCOUNT, ENTRY)
    told: list[tuple[str, str]] = []

    def client(name: str, node: str, first: int, then: int) -> Steps[None]:
        one = system.session(name, node)
        yield from one.begin()
        yield from one.execute(f"update account set note = '{name}' where id = {first}")
        yield system.kernel.env.timeout(0.1)
        try:
            yield from one.execute(f"update account set note = '{name}' where id = {then}")
            yield from one.commit()
            told.append((name, "committed"))
        except TransactionError as error:
            told.append((name, type(error).__name__))
            yield from one.rollback()

    system.kernel.spawn(client("alice", "sub1", 1, 2), "alice")
    system.kernel.spawn(client("bob", "sub2", 2, 1), "bob")
    system.kernel.run(4.0)
    assert sorted(told) == [("alice", "DeadlockError"), ("bob", "committed")]
