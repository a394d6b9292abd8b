"""Tests of sessions in a test: their results, their waits, and what remains of them."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from twopc.errors import (
    ConfigurationError,
    ConflictError,
    InDoubtError,
    LocalProtocolError,
    LockTimeoutError,
    RejectedError,
)
from twopc.sim.faults.wires import Fate, ServerWire
from twopc.sim.report import phrases
from twopc.sim.testing.blocking_bench import TestTopology

STALE = "update account set balance = 80 where id = 1"


def test_a_stale_copy_is_refused(bank: TestTopology) -> None:
    """The manual's example: a write on a stale copy waits, and is refused."""
    alice, bob = bank.session("sub1"), bank.session("sub2")
    alice.execute("update account set balance = 90 where id = 1")
    step = bob.start(STALE)
    assert step.blocked_by(alice)
    assert step.blocked_by("sub1")
    assert not step.done
    assert "waits for sub1" in repr(step)
    alice.commit()
    with pytest.raises(bank.Conflict) as caught:
        step.result()
    assert caught.value.kind == "version_mismatch"
    bob.rollback()
    bank.settle()
    bank.assert_converged()
    bank.assert_atomic()
    bank.assert_nothing_in_doubt()


def test_what_a_statement_returns(bank: TestTopology) -> None:
    """A result has rows as mappings, one row, or one value; parameters are those of psycopg."""
    alice = bank.session("sub1", name="alice")
    found = alice.execute("select id, balance from account where id = %s", (2,))
    assert found.rows == [{"id": 2, "balance": 100}]
    assert found.one() == {"id": 2, "balance": 100}
    assert alice.execute("select count(*) from account").scalar() == 3
    with pytest.raises(LookupError, match="3 rows where one was expected"):
        alice.execute("select * from account").one()
    changed = alice.execute(
        "update account set balance = %(to)s where id = 1 returning balance", {"to": 5}
    )
    assert (changed.rowcount, changed.scalar(), changed.tag) == (1, 5, "UPDATE 1")
    assert alice.gid.startswith(f"twopc:{bank.name}:")
    alice.rollback()
    assert (alice.name, alice.node, repr(alice)) == ("alice", "sub1", "<session alice at sub1>")


def test_rows_of_a_node(bank: TestTopology) -> None:
    """Rows of a node are sorted by key, without row versions; a query returns what it selects."""
    rows = bank.node("sub1").rows("account")
    assert rows == [{"id": n, "balance": 100} for n in (1, 2, 3)]
    assert bank.node("pub").rows("public.account") == rows
    assert rows.where == "account at sub1"
    assert bank.node("pub").query("select 1 as one") == [{"one": 1}]
    with pytest.raises(ConfigurationError, match="no node 'sub9'; nodes are pub, sub1, sub2"):
        bank.node("sub9")
    with pytest.raises(psycopg.errors.UndefinedTable):
        bank.node("pub").rows("nothing")


def test_not_blocked(bank: TestTopology) -> None:
    """A statement that has ended is not blocked."""
    alice, bob = bank.session("sub1"), bank.session("sub2")
    alice.execute("update account set balance = 1 where id = 1")
    step = bob.start("update account set balance = 1 where id = 2")
    assert not step.blocked_by(alice)
    assert (step.holder, step.done) == ("", True)
    assert step.result().rowcount == 1


def test_blocked_by_somebody_else(bank: TestTopology) -> None:
    """`blocked_by` is false if another session is the holder, which `holder` names."""
    alice, bob = bank.session("sub1", name="alice"), bank.session("sub2", name="bob")
    clerk = bank.session("pub", name="clerk")
    clerk.execute(STALE)
    step = bob.start("update account set balance = 1 where id = 1")
    assert not step.blocked_by(alice)
    assert step.holder == "clerk"
    clerk.rollback()
    assert step.result().rowcount == 1


def test_what_a_session_is_asked_next_waits(bank: TestTopology) -> None:
    """The statements of a session are executed one after the other."""
    alice, bob = bank.session("sub1"), bank.session("sub2")
    alice.execute("update account set balance = 1 where id = 1")
    first = bob.start("select 1 from account where id = 2 for update")
    second = bob.start(STALE)
    third = bob.start("select 2 as two")
    assert first.result().rowcount == 1
    assert second.blocked_by(alice)
    assert not third.done
    alice.rollback()
    assert third.result().scalar() == 2


def test_closing_in_the_middle(make_bank: Callable[..., TestTopology]) -> None:
    """Closing cancels a waiting statement, drops unsent ones, and rolls back the transaction."""
    bank = make_bank(lock_timeout_ms=60_000)
    clerk, alice = bank.session("pub"), bank.session("sub1", name="alice")
    clerk.execute(STALE)
    waits = alice.start("update account set balance = 1 where id = 1")
    assert waits.blocked_by(clerk)
    never = alice.start("update account set balance = 1 where id = 2")
    bank.call(bank.bed.close_sessions)
    with pytest.raises(RejectedError, match="canceling statement"):
        waits.result()
    with pytest.raises(LocalProtocolError, match="session alice is closed"):
        never.result()
    with pytest.raises(LocalProtocolError, match="session alice is closed"):
        alice.execute("select 1")
    assert bank.node("pub").rows("account")[0]["balance"] == 100


def test_the_levels(bank: TestTopology) -> None:
    """The isolation level decides how a change is refused; an unknown level is refused at once."""
    alice = bank.session("sub1", isolation="serializable")
    clerk = bank.session("pub")
    alice.execute("select * from account")
    alice.execute("update account set balance = 2 where id = 2")
    clerk.execute("update account set balance = 3 where id = 1")
    clerk.commit()
    with pytest.raises(RejectedError) as caught:
        alice.execute(STALE)
    assert getattr(caught.value, "kind", "") in ("serialization_failure", "version_mismatch")
    with pytest.raises(ConfigurationError, match="isolation 'chaos'"):
        bank.session("sub1", isolation="chaos")


def test_what_the_node_refuses_is_psycopgs(bank: TestTopology) -> None:
    """Errors other than replication's are psycopg's, and a failed transaction is not committed."""
    for node in ("sub1", "pub"):
        session = bank.session(node)
        with pytest.raises(psycopg.errors.UndefinedTable):
            session.execute("select * from nothing")
        with pytest.raises(RejectedError):
            session.commit()


def test_a_lock_that_is_not_given(make_bank: Callable[..., TestTopology]) -> None:
    """The topology's lock timeout holds at both nodes; the error names the holder's statement."""
    bank = make_bank(lock_timeout_ms=1000)
    clerk = bank.session("pub", name="clerk")
    clerk.execute("select 1")
    clerk.execute(STALE)
    clerk.execute("select 1")
    pid = clerk.execute("select pg_backend_pid()").scalar()
    holder = rf"waits at pub for clerk \(a row of account\); clerk\.2: {STALE}, process {pid}"
    for node in ("sub1", "pub"):
        late = bank.session(node, name=f"late at {node}")
        with pytest.raises(LockTimeoutError, match=f"{late.name} {holder}") as caught:
            late.execute(STALE)
        assert caught.value.holder == "clerk"
        assert caught.value.sqlstate == "55P03"
        late.rollback()
    told = [record.wait for record in bank.history if record.kind == "blocked"]
    assert [each and each["step"] for each in told] == ["clerk.2", "clerk.2"]
    clerk.rollback()


def test_a_wait_that_nobody_ends(make_bank: Callable[..., TestTopology]) -> None:
    """A wait that does not end fails the test, and the error names the holder and its statement."""
    bank = make_bank(lock_timeout_ms=60_000)
    clerk = bank.session("pub", name="clerk")
    clerk.execute(STALE)
    alice = bank.session("sub1", name="alice")
    alice.execute("select 1")
    step = alice.start(STALE)
    assert step.blocked_by(clerk)
    bank.bed.surroundings.timeout_s = 0.1
    with pytest.raises(
        AssertionError, match=rf"waits at pub for clerk \(a row of account\); clerk.1: {STALE}"
    ):
        step.result()
    bank.bed.surroundings.timeout_s = 60


def test_names(bank: TestTopology) -> None:
    """Sessions of a node have different names, and a name can be used only once."""
    assert [bank.session("sub1").name for _ in range(3)] == ["sub1", "sub1#2", "sub1#3"]
    bank.session("pub", name="clerk")
    with pytest.raises(ConfigurationError, match="a session 'clerk' already"):
        bank.session("sub1", name="clerk")


def test_begin(bank: TestTopology) -> None:
    """`begin` begins a transaction at a certain moment, and is refused in an open one."""
    alice = bank.session("sub1", isolation="repeatable read")
    alice.begin()
    with pytest.raises(LocalProtocolError, match="open already"):
        alice.begin()
    alice.commit()
    alice.rollback()  # no transaction is open: no effect


def test_an_application_of_its_own(bank: TestTopology) -> None:
    """An application is identified by its `application_name`, in any thread or process."""
    alice = bank.session("pub", name="alice")
    alice.execute(STALE)
    with (
        psycopg.connect(bank.url("pub", "", application_name="web"), autocommit=True) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        work = pool.submit(connection.execute, "update account set balance = 7 where id = 1")
        web = bank.watch("pub", application_name="web", work=work)
        assert web.blocked_by(alice)
        assert web.holder == "alice"
        alice.commit()
        assert work.result().rowcount == 1
        assert not web.blocked_by(alice)
        assert repr(web) == "<application 'web' at pub>"


def test_a_session_waits_for_an_application(bank: TestTopology) -> None:
    """An application that blocks a session is identified by its name, without being watched."""
    with psycopg.connect(bank.dsn("pub", application_name="web")) as connection:
        connection.execute(STALE)
        step = bank.session("sub1").start("update account set balance = 1 where id = 1")
        assert step.blocked_by("web")
        (wait,) = (record.wait for record in bank.history if record.kind == "blocked")
        assert wait is not None
        assert phrases.holder(wait) == f"web (process {connection.info.backend_pid}) at pub"
        connection.rollback()
        assert step.result().rowcount == 1


def test_watching_a_thread(bank: TestTopology) -> None:
    """After a watched thread has ended it cannot be blocked."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    web = bank.watch("pub", application_name="nobody", work=thread)
    assert not web.blocked_by("alice")


def test_watching_a_thread_holds_nobody_up(bank: TestTopology) -> None:
    """Watching a thread, however often, occupies no thread of the event loop's executor."""
    alice = bank.session("pub", name="alice")
    alice.execute(STALE)
    with psycopg.connect(bank.url("pub", "", application_name="web")) as connection:
        thread = threading.Thread(target=connection.execute, args=(STALE,))
        web = bank.watch("pub", application_name="web", work=thread)
        thread.start()
        for _ in range(33):  # more than asyncio's executor has threads
            assert web.blocked_by(alice)
        other = bank.submit(asyncio.to_thread, thread.is_alive)
        try:
            assert other.result(60)
        finally:
            alice.rollback()
            thread.join()
        assert not web.blocked_by(alice)


def test_savepoints_of_a_rollback_fixture_are_refused(bank: TestTopology) -> None:
    """An outer transaction that never ends, as in tests of SQLAlchemy or Django, is refused."""
    with psycopg.connect(bank.dsn("pub", application_name="django")) as connection:
        connection.execute("savepoint s1")
        connection.execute(STALE)
        connection.execute("release savepoint s1")
        for ask in (bank.settle, bank.sync, bank.assert_converged):
            with pytest.raises(
                ConfigurationError, match=r"2PC commits for real.*\(django\) at pub"
            ):
                ask()
        connection.rollback()
    bank.settle()


def test_urls(bank: TestTopology) -> None:
    """`url` returns an address over TCP for a driver, or for none; both kinds connect."""
    assert re.fullmatch(
        r"postgresql\+asyncpg://\w+:\S+@127.0.0.1:\d+/\w+_sub1", bank.url("sub1", "asyncpg")
    )
    assert bank.url("pub").startswith("postgresql+psycopg://")
    with psycopg.connect(bank.url("sub1", "", application_name="a b&c")) as connection:
        row = connection.execute(
            "select current_setting('application_name'), current_database()"
        ).fetchone()
        assert row == ("a b&c", f"{bank.name}_sub1")
    with psycopg.connect(bank.dsn("sub1")) as connection:
        assert connection.execute("show application_name").fetchone() == ("twopc test",)
    with pytest.raises(ConfigurationError, match="no node"):
        bank.url("sub9")


def test_other_forms_of_an_address(bank: TestTopology) -> None:
    """`django` returns Django's settings; an application's name is refused for asyncpg."""
    django = bank.django("sub1", application_name="web")
    assert django["ENGINE"] == "django.db.backends.postgresql"
    assert django["OPTIONS"] == {"application_name": "web"}
    names = {
        "HOST": "host",
        "PORT": "port",
        "NAME": "dbname",
        "USER": "user",
        "PASSWORD": "password",
    }
    with psycopg.connect(**{key: django[name] for name, key in names.items()}) as connection:
        row = connection.execute("select current_database()").fetchone()
        assert row == (f"{bank.name}_sub1",)
    with pytest.raises(ConfigurationError, match=r"leave it out and say .*server_settings"):
        bank.url("sub1", "asyncpg", application_name="web")


def test_what_must_hold_and_does_not(bank: TestTopology) -> None:
    """Each assertion that fails reports what it has found."""
    bank.node("sub1").query(
        "begin; set local session_replication_role = replica; "
        "update account set balance = 0 where id = 3; commit"
    )
    with pytest.raises(AssertionError, match="account id=3 at sub1 differs from pub"):
        bank.assert_converged()
    gid = f"twopc:{bank.name}:9:9:pub"
    bank.node("pub").query(f"begin; select 1; prepare transaction '{gid}'")
    with pytest.raises(AssertionError, match=rf"{gid} is prepared at pub"):
        bank.assert_nothing_in_doubt()
    assert bank.left_prepared() == [f"{gid} at pub"]
    assert bank.left_prepared() == []
    bank.node("pub").query(
        "insert into msrepl.branch_marker (gid, xid, participants) "
        f"values ('{gid}', pg_current_xact_id(), '{{pub,sub1}}')"
    )
    with pytest.raises(AssertionError, match="took effect at pub and not at sub1"):
        bank.assert_atomic()


def test_what_it_tells(bank: TestTopology) -> None:
    """`history` has the records of a test for every report, and `explain` tells its story."""
    alice, bob = bank.session("sub1", name="alice"), bank.session("sub2", name="bob")
    alice.execute("update account set balance = 90 where id = 1")
    step = bob.start(STALE)
    assert step.blocked_by(alice)
    alice.commit()
    with pytest.raises(ConflictError):
        step.result()
    bob.rollback()
    bank.sync()
    kinds = [record.kind for record in bank.history]
    assert kinds[:2] == ["header", "order"]
    assert {"invoke", "ok", "blocked", "rejected", "outcome", "deliver", "suppress"} <= set(kinds)
    assert [record.seq for record in bank.history] == list(range(len(kinds)))
    told = bank.explain()
    assert "bob" in told
    assert "refused (version mismatch)" in told
    assert "alice committed and bob was rolled back" in told


def test_the_publishers_client_is_lost_at_its_commit(
    bank: TestTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit at the Publisher whose answer is lost is in doubt."""
    node = bank.bed.topology.node("pub")
    wire = ServerWire(node.app_dsn)
    bank.call(wire.open)
    through = wire.through(node.app_dsn)
    monkeypatch.setattr(type(node), "app_dsn", property(lambda _: through))

    async def lose(_: str) -> Fate:
        return "lose"

    clerk = bank.session("pub", name="clerk")
    clerk.execute(STALE)
    wire.watch(b"commit", lose)
    with pytest.raises(bank.InDoubt, match="the connection to pub is lost"):
        clerk.commit()
    assert bank.node("pub").rows("account")[0]["balance"] == 80
    assert [one.message for one in bank.history if one.kind == "outcome"] == ["in doubt"]
    bank.call(wire.close)


def test_a_coordinator_dies(make_bank: Callable[..., TestTopology]) -> None:
    """A transaction whose coordinator crashes is in doubt, and another process recovers it.

    Afterwards both sites are equal. A second crash is recovered in the same way.
    """
    bank = make_bank()
    early = bank.session("sub2", name="early")  # runs in this process, which faults do not affect
    early.execute("update account set balance = 60 where id = 3")
    with pytest.raises(ConfigurationError, match="session early has begun a transaction before"):
        bank.crash_at("coordinator.decision_logged", session="alice")
    early.commit()
    bank.sync()
    bank.crash_at("coordinator.decision_logged", session="alice")
    alice, bob = bank.session("sub1", name="alice"), bank.session("sub2", name="bob")
    bob.execute("update account set balance = 70 where id = 2")
    bob.commit()
    alice.execute("update account set balance = %s where id = %s", (90, 1))
    with pytest.raises(bank.InDoubt):
        alice.commit()
    with pytest.raises(AssertionError, match="prepared"):
        bank.assert_nothing_in_doubt()
    bank.settle()
    bank.assert_nothing_in_doubt()
    assert bank.node("pub").rows("account")[0]["balance"] == 90
    bank.assert_converged()
    bank.assert_atomic()
    bank.crash_at("coordinator.after_commit(pub)", session="bob")
    bob.execute("update account set balance = 50 where id = 2")
    with pytest.raises(bank.InDoubt):
        bob.commit()
    bank.settle()
    assert [row["balance"] for row in bank.node("pub").rows("account")] == [90, 50, 60]
    bank.assert_converged()
    told = [record.message for record in bank.history if record.kind == "fault"]
    assert told == ["coordinator.decision_logged", "coordinator.after_commit(pub)"]
    with pytest.raises(psycopg.errors.UndefinedTable):
        alice.execute("select * from nowhere")
    alice.rollback()


def test_a_fault_that_has_nothing_to_act_on(bank: TestTopology) -> None:
    """A required fault that has no effect is reported, since the test has not exercised it."""
    at, do = "coordinator.before_prepare(pub)", "finish pub commit"
    bank.fault(at=at, do=do)
    bank.fault(at=at, do="forget marker", required=False)
    alice = bank.session("sub1")
    alice.execute("update account set balance = 90 where id = 1")
    alice.commit()
    reason = "no effect, since the transaction has no prepared branch at pub"
    assert bank.faults_not_reached() == [f"finish at {at}, arrival 1: {reason}"]
    faults = bank.bed.surroundings.faults
    assert faults is not None
    faults._required.clear()  # otherwise this test would fail


FAULTS_THAT_CANNOT_HAPPEN = [
    ("coordinator.nowhere", "crash coordinator", "no protocol point"),
    ("coordinator.before_commit(sub9)", "crash coordinator", "no protocol point"),
    ("coordinator.decision_logged", "explode", "nothing that a fault does"),
    ("coordinator.decision_logged", "restart node pub", "other tests"),
    ("coordinator.decision_logged", "pause agent sub1", "agents of a test work in its own process"),
    ("trigger.enter", "crash coordinator", "scenario files"),
    ("coordinator.begin(sub1)", "lose reply", "not performed there"),
    ("coordinator.decision_logged", "skew clock pub +1s", "time of its machine"),
]


def test_faults_that_cannot_happen(bank: TestTopology) -> None:
    """A fault that cannot happen is refused with the reason, and is not expected to strike."""
    for at, do, match in FAULTS_THAT_CANNOT_HAPPEN:
        with pytest.raises(ConfigurationError, match=match):
            bank.fault(at=at, do=do)
    assert bank.faults_not_reached() == []
    assert bank.InDoubt is InDoubtError


def test_creating_more(make_bank: Callable[..., TestTopology]) -> None:
    """Tables that a test creates are published and subscribed at once, for applications as well."""
    bank = make_bank(load=())
    bank.create("create table first (id int primary key, n int)", "insert into first values (1, 1)")
    bank.create(
        "create table second (id int primary key); create table apart (id int primary key)",
        publish=["second"],
    )
    assert bank.node("sub2").rows("first") == [{"id": 1, "n": 1}]
    assert bank.node("sub2").rows("second") == []
    assert bank.node("sub2").query("select to_regclass('apart') as apart") == [{"apart": None}]
    session = bank.session("sub1")
    session.execute("insert into second values (1)")
    session.commit()
    bank.session("pub").execute("insert into apart values (1)")
    bank.settle()
    assert bank.node("sub2").rows("second") == [{"id": 1}]
