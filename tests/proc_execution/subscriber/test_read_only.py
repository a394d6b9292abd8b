"""Tests of read-only subscriptions, whose copies are changed by agents only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import psycopg
import pytest

from tests.topology.test_topology import ACCOUNT, BALANCES, CATALOG, ROWS
from twopc.drivers import Points
from twopc.drivers.database import Database
from twopc.drivers.participant import ServerParticipant
from twopc.drivers.recorded_decisions import DecisionReader
from twopc.drivers.recovery import Recovery
from twopc.errors import ConfigurationError, SubscriptionError
from twopc.names import VERSION_COLUMN
from twopc.sim import Topology, operate

MakeTopology = Callable[..., Awaitable[Topology]]


@pytest.fixture
async def topology(make_topology: MakeTopology) -> Topology:
    """Return a topology with an account table, a read-only Subscriber and an updating one."""
    topology = await make_topology(subscribers=("reader", "writer"))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", ROWS)
    await topology.publish("account")
    await topology.subscribe("reader", update_mode="read only")
    await topology.subscribe("writer")
    return topology


async def test_changes_of_others_arrive(topology: Topology) -> None:
    """A read-only Subscriber gets the changes of the Publisher and of other Subscribers, each once."""
    await topology.assert_converged()
    await topology.execute("pub", "update account set balance = balance + 1")
    await topology.sync("writer")
    async with topology.transaction("writer") as transaction:
        await transaction.execute("insert into account values (6, 6)")
        await transaction.execute("delete from account where id = 1")
    await topology.recover()

    await topology.settle()
    done = (await topology.inspect.status()).agents

    await topology.assert_converged()
    assert await topology.execute("reader", BALANCES) == [
        (2, 101),
        (3, 101),
        (4, 101),
        (5, 101),
        (6, 6),
    ]
    assert {each.subscriber for each in done} == {"reader", "writer"}
    assert await topology.registration.update_modes() == {
        "reader": "read only",
        "writer": "sync tran",
    }


async def test_nobody_else_may_write(topology: Topology) -> None:
    """The application can only read; there is no trigger, no link, and no role for one."""
    node = topology.node("reader")
    async with await psycopg.AsyncConnection.connect(node.app_dsn, autocommit=True) as app:
        assert len(await (await app.execute("select from account")).fetchall()) == 5
        for statement in (
            "insert into account values (9, 9)",
            "update account set balance = 0",
            "delete from account",
            "truncate account",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await app.execute(statement.encode())
    found = await topology.execute(
        "reader",
        "select (select count(*) from pg_trigger where not tgisinternal), "
        "(select count(*) from pg_foreign_server), (select count(*) from pg_event_trigger), "
        "to_regclass('msrepl.branch_marker')",
    )
    assert found == [(0, 0, 0, None)]
    linked = await topology.execute("pub", "select subscriber from msrepl.syssubscriptions")
    assert linked == [("writer",)]
    origins = await topology.execute(
        "distribution", "select srvname from msrepl.msrepl_originators"
    )
    assert origins == [("writer",)]


async def test_versions_are_not_compared(topology: Topology) -> None:
    """Row versions of a read-only copy are not compared; other values are, and are repaired."""
    change = f"set session_replication_role = replica; update account set {VERSION_COLUMN} = gen_random_uuid()"
    await topology.execute("reader", change)
    await topology.assert_converged()
    assert [each.passed for each in await topology.validate("reader")] == [True]
    await topology.execute("writer", f"{change}; reset session_replication_role")
    assert [each.passed for each in await topology.validate("writer")] == [False]

    await topology.execute("reader", "update account set balance = 7 where id = 3")
    with pytest.raises(AssertionError, match="account id=3 at reader differs"):
        await topology.assert_converged("account")
    verdict = (await topology.validate("reader", repair=True))[0]

    assert ([each.key for each in verdict.differences], verdict.repaired) == ([("3",)], (("3",),))
    assert [each.passed for each in await topology.validate("reader")] == [True]


async def test_unsubscribing_leaves_nothing(make_topology: MakeTopology) -> None:
    """Unsubscribing leaves only the rows, and allows a subscription of the other kind."""
    topology = await make_topology(subscribers=("reader",))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", ROWS)
    await topology.publish("account")
    before = await topology.execute("reader", CATALOG)
    publisher = await topology.execute("pub", CATALOG)
    await topology.subscribe("reader", update_mode="read only")

    await topology.unsubscribe("reader")

    kept = {line for (line,) in await topology.execute("reader", CATALOG)}
    added = kept - {line for (line,) in before}
    assert {line for line in added if "account" not in line} == set()
    assert "column account.balance" in added
    assert await topology.execute("pub", CATALOG) == publisher
    await topology.execute("reader", "drop table account")
    await topology.subscribe("reader")
    assert await topology.registration.update_modes() == {"reader": "sync tran"}


async def test_a_new_copy_and_further_articles(topology: Topology) -> None:
    """A new copy removes drift; later articles are delivered, and altered ones continue."""
    await topology.execute("reader", "delete from account where id < 3")
    await topology.reinitialise("reader")
    await topology.assert_converged()
    await topology.execute("pub", "create table note (id int primary key, text text)")
    await topology.execute("pub", "insert into note values (1, 'one')")
    await topology.publish("note")
    await topology.refresh_subscriptions()
    for node in ("pub", "reader", "writer"):
        await topology.execute(node, "alter table account add column remark text default 'none'")
    await topology.regenerate("account")
    await topology.execute("pub", "update account set remark = 'some' where id = 2")
    await topology.execute("pub", "insert into note values (2, 'two')")

    await topology.sync()

    await topology.assert_converged()
    assert await topology.execute("reader", "select remark from account where id = 2") == [
        ("some",)
    ]
    assert await topology.execute(
        "reader",
        "select has_table_privilege(%s, 'note', 'select'), has_table_privilege(%s, 'note', 'insert')",
        (topology.node("reader").app_role,) * 2,
    ) == [(True, False)]


async def test_what_it_cannot_be(make_topology: MakeTopology, topology: Topology) -> None:
    """An invalid request is refused with its reason, and changes nothing."""
    with pytest.raises(SubscriptionError, match=r"subscribes already, read only \(21058\)"):
        await topology.subscribe("reader")
    with pytest.raises(SubscriptionError, match=r"subscribes already, sync tran \(21058\)"):
        await topology.subscribe("writer", update_mode="read only")
    with pytest.raises(SubscriptionError, match="no triggers to activate"):
        await topology.activate("reader")
    with pytest.raises(SubscriptionError, match="no subscription with immediate updating"):
        await topology.allow_any_client("reader")
    await topology.execute("pub", "update account set balance = 0")
    await topology.sync()
    await topology.assert_converged()
    other = await make_topology(subscribers=("reader",), distribute=False)
    await other.execute("pub", ACCOUNT)
    await other.publish("account")
    with pytest.raises(ConfigurationError, match="need distribution"):
        await other.subscribe("reader", update_mode="read only")
    with pytest.raises(ConfigurationError, match="use 'sync tran' or 'read only'"):
        await topology.subscribe("reader", update_mode="readonly")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="no triggers to script"):
        await topology.subscribe("reader", update_mode="read only", sync="none")


async def test_an_operator_finds_it(topology: Topology) -> None:
    """Operations attached by connection strings alone include a read-only Subscriber."""
    dsns = {name: topology.node(name).dsn for name in ("pub", "reader", "writer", "distribution")}
    await topology.execute("pub", "update account set balance = 3 where id = 3")
    async with await operate.attach(dsns) as found:
        await found.sync()
        assert [each.passed for each in await found.validate()] == [True, True]
        await found.assert_converged()
        assert await operate.recover(found) == []


async def test_old_epochs_are_forgotten(topology: Topology) -> None:
    """Old epochs are forgotten although a read-only Subscriber has no branch markers."""
    async with topology.transaction("writer") as transaction:
        await transaction.execute("update account set balance = 7 where id = 1")
    await topology.stop_coordinator()
    nodes = (topology.publisher, *topology.subscribers)
    participants = {
        name: ServerParticipant(topology.address(name), topology.name) for name in nodes
    }
    node = topology.node(topology.distribution)
    database = Database("distribution", node.dsn, "test")
    recovery = Recovery(
        topology.name,
        publisher="pub",
        participants=participants,
        decisions=DecisionReader(database),
        points=Points(),
        retention_s=0.0,
    )
    epochs = "select count(*) from msrepl.coordinator_epoch"
    assert await topology.execute("distribution", epochs) == [(1,)]
    try:
        await recovery.run()
    finally:
        await recovery.close()
        await database.close()
    assert await topology.execute("distribution", epochs) == [(0,)]
    for name in ("pub", "writer"):
        assert await topology.execute(name, "select gid from msrepl.branch_marker") == []
