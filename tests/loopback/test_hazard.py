"""Two subscription databases in one transaction: the hazard of which SQL Server's documentation warns.

"The last entry will overwrite all previous entries" (seed 002): one branch marker is lost, and its
changes are delivered to the Subscriber that made them. Such transactions are refused here; the last
test shows what happens without the check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from tests.by_hand import ByHand
from tests.loopback.conftest import seen
from tests.loopback.count import compare
from tests.loopback.workload import Ledger
from tests.validation.ends import ends
from twopc.errors import ConfigurationError
from twopc.sim.topology import Topology
from twopc.sim.validation import validate

MakeTopology = Callable[..., Awaitable[Topology]]

GUARD_OFF = "alter table msrepl.branch_marker drop constraint branch_marker_xid_key"


async def queued(topology: Topology, subscriber: str, key: int, token: int) -> tuple[str, str]:
    """Update a row at a Subscriber; return the calls that it would send, and the gid of its prepared branch."""
    gid = f"twopc:{topology.name}:0:{key}"
    coordinator = ByHand(topology.name, 0)
    await topology.execute(subscriber, coordinator.introduction)
    async with await topology.node(subscriber).connect() as connection:
        await connection.execute(
            f"begin; {coordinator.naming(gid, connection.info.backend_pid)}; set local msrepl.shipping = 'lazy';"
            f"update item set token = {token} where id = {key}"
        )
        cursor = await connection.execute(
            "select pending from msrepl.branch_marker where xid = pg_current_xact_id()"
        )
        row = await cursor.fetchone()
        assert row is not None
        # as prepare_publisher leaves it: the queued calls are sent in another way
        await connection.execute(
            "update msrepl.branch_marker set prepared = true where not prepared"
        )
        await connection.execute(f"prepare transaction '{gid}:{subscriber}'")
    return row[0], f"{gid}:{subscriber}"


async def one_transaction(topology: Topology, calls: dict[str, str]) -> None:
    """Execute the calls of several Subscribers in one transaction of the Publisher, each under its link's role."""
    async with await topology.node("pub").connect() as connection, connection.transaction():
        for subscriber, call in calls.items():
            roles = await topology.execute(
                "pub",
                "select link_role from msrepl.syssubscriptions where subscriber = %s",
                (subscriber,),
            )
            await connection.execute(f"set local session authorization {roles[0][0]}")
            await connection.execute(call.encode())


async def test_refused(make_witnessed: MakeTopology) -> None:
    """Both the topology and the unique key of branch markers refuse a second Subscriber in a transaction."""
    topology = await make_witnessed("a", "b")
    with pytest.raises(ConfigurationError, match="the last overwrites the others"):
        async with topology.transaction("a", "b"):
            pytest.fail("it began")

    await topology.execute("pub", "insert into item (id, token) values (1, 0), (2, 0)")
    await topology.sync()
    sent = {name: await queued(topology, name, key, 7) for key, name in enumerate("ab", 1)}
    with pytest.raises(psycopg.errors.UniqueViolation, match="branch_marker_xid_key"):
        await one_transaction(topology, {name: call for name, (call, _) in sent.items()})
    for name, (_, gid) in sent.items():
        await topology.execute(name, f"rollback prepared '{gid}'")


async def test_a_branch_for_each_keeps_both_marks(make_witnessed: MakeTopology) -> None:
    """With a separate branch for each Subscriber, no change is echoed, and none is missing."""
    topology = await make_witnessed("a", "b", "c")
    await topology.execute("pub", "insert into item (id, token) values (1, 0), (2, 0)")
    await topology.sync()
    for subscriber in topology.subscribers:
        await seen(topology, subscriber)
    async with topology.transaction("a", "b", several_subscriptions=True) as transaction:
        await transaction.at("a").execute("update item set token = 1 where id = 1")
        await transaction.at("b").execute("update item set token = 1 where id = 2")
    await topology.sync()
    assert await seen(topology, "a") == [("item", "upd", 2)]
    assert await seen(topology, "b") == [("item", "upd", 1)]
    assert await seen(topology, "c") == [("item", "upd", 1), ("item", "upd", 2)]
    await topology.assert_converged("item")


async def test_without_the_guard(make_witnessed: MakeTopology) -> None:
    """Without the unique key, the last marker wins: a gets its own change, b never gets a's. This is detected."""
    topology = await make_witnessed("a", "b", "c")
    await topology.execute("pub", "insert into item (id, token) values (1, 0), (2, 0)")
    await topology.sync()
    for subscriber in topology.subscribers:
        await seen(topology, subscriber)
    await topology.execute("pub", GUARD_OFF)

    sent = {name: await queued(topology, name, key, 7) for key, name in enumerate("ab", 1)}
    await one_transaction(topology, {name: call for name, (call, _) in sent.items()})
    for name, (_, gid) in sent.items():
        await topology.execute(name, f"commit prepared '{gid}'")
    await topology.sync()

    ledger = Ledger()
    ledger.enter("a", [("item", "upd", 1, 7)])
    ledger.enter("b", [("item", "upd", 2, 7)])
    counted = {}
    for name in topology.subscribers:
        found = [(what, op, key, 7) for what, op, key in await seen(topology, name)]
        counted[name] = compare(name, Counter(found), ledger)
    assert [len(counted[name].echoed) for name in "abc"] == [1, 0, 0]
    assert [len(counted[name].missing) for name in "abc"] == [0, 1, 0]
    assert not any(counted[name].twice or counted[name].strange for name in "abc")

    marks = "select max(marks) from msrepl.msrepl_transactions"
    assert await topology.execute("distribution", marks) == [(2,)]
    # no further echo: changes made by an agent are not delivered again
    for _ in range(2):
        await topology.sync()
        assert [await seen(topology, name) for name in "abc"] == [[], [], []]
    with pytest.raises(AssertionError, match="id"):
        await topology.assert_converged("item")
    (found,) = await validate(
        ends(topology, "b"), tables=["item"], repair=True, advance=topology.sync
    )
    assert found.named() == ["changed (id = 1)"]
    await topology.assert_converged("item")
