"""Changes from the Publisher's log to the Subscriber's procedures, through every part in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from twopc.errors import DeliveryError
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]
TABLE = "create table item (id int primary key, name text unique, n int)"


async def published(make_topology: MakeTopology, *rows: str, **propagate: str) -> Topology:
    """Return a topology of two Subscribers with one article."""
    topology = await make_topology()
    await topology.execute("pub", TABLE)
    for row in rows:
        await topology.execute("pub", f"insert into item values ({row})")
    await topology.publish(
        "item", propagate={"del" if k == "dele" else k: v for k, v in propagate.items()}
    )
    return topology


async def test_a_procedure_that_ends_the_transaction(make_topology: MakeTopology) -> None:
    """A procedure that ends the transaction fails when called: the agent stops, names it, and gives advice."""
    topology = await published(make_topology, "1, 'a', 1", dele="CALL ends")
    create = "create or replace procedure ends(int) language plpgsql as $$ begin delete from item where id = $1;"
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber, scripts={"item": [f"{create} end $$"]})
    await topology.execute("sub1", f"{create} commit; end $$")
    await topology.execute("pub", "delete from item")
    with pytest.raises(DeliveryError) as caught:
        await topology.sync()
    for part in (
        "{CALL ends (1)}",
        "invalid transaction termination",
        "take COMMIT and ROLLBACK out",
    ):
        assert part in str(caught.value)
    assert len(await topology.execute("sub1", "select id from item")) == 1
    await topology.execute("sub1", f"{create} end $$")
    await topology.sync()
    await topology.assert_converged()


async def test_altered_and_regenerated(make_topology: MakeTopology) -> None:
    """After all ends are altered and regenerated, delivery continues; a replaced procedure is in use until then."""
    topology = await published(make_topology, "1, 'a', 1", "2, 'b', 2", upd="MCALL")
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber)
    await topology.execute(
        "sub2",
        "create or replace function sp_msdel_item(pkc1 int) returns void begin atomic"
        " update item set n = -1 where id = pkc1; end",
    )
    await topology.execute("pub", "delete from item where id = 2")
    await topology.sync()
    assert await topology.execute("sub2", "select n from item where id = 2") == [(-1,)]
    for node in ("pub", *topology.subscribers):
        await topology.execute(node, "alter table item add more text default 'x'")
        await topology.execute(node, "alter table item rename n to number")
    await topology.regenerate("item")
    await topology.execute("sub2", "set session_replication_role = replica")
    await topology.execute("sub2", "delete from item where id = 2")
    await topology.execute("sub2", "reset session_replication_role")
    await topology.execute("pub", "update item set more = 'new', number = 5")
    await topology.execute("pub", "insert into item (id, name) values (7, 'g')")
    await topology.sync()
    async with topology.transaction("sub1") as transaction:
        await transaction.execute("update item set more = 'own' where id = 1")
    await topology.sync()
    await topology.assert_converged()


async def test_altered_at_a_subscriber_only(make_topology: MakeTopology) -> None:
    """An error caused by a table that was altered only at the Subscriber names the command to run."""
    topology = await published(make_topology, "1, 'a', 1")
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber)
    await topology.execute("sub1", "alter table item rename name to title")
    await topology.execute("pub", "update item set name = 'b'")
    with pytest.raises(DeliveryError) as caught:
        await topology.sync()
    for part in ("table item, id = 1", "name does not exist", "twopc regenerate item"):
        assert part in str(caught.value)
    await topology.execute("sub1", "alter table item rename title to name")
    await topology.sync()
    await topology.assert_converged()


@pytest.mark.parametrize("upd", ["SCALL", "XCALL"])
async def test_own_rows_that_are_newer_than_what_is_delivered(
    make_topology: MakeTopology, upd: str
) -> None:
    """The Subscriber's rows may reuse a key and a unique value that the Publisher has used and freed."""
    topology = await published(make_topology, "1, 'a', 1", upd=upd)
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber)
    await topology.execute("pub", "insert into item values (9, 'key', 0)")
    await topology.execute("pub", "delete from item where id = 9")
    await topology.execute("pub", "update item set name = 'value' where id = 1")
    await topology.execute("pub", "update item set name = 'another', n = 2 where id = 1")
    async with topology.transaction("sub1") as transaction:
        await transaction.execute("insert into item values (9, 'own', 9), (10, 'value', 10)")
    await topology.execute("pub", "update item set n = n + 1")
    await topology.sync()
    await topology.assert_converged()
    assert await topology.execute("sub1", "select id, name, n from item order by 1") == [
        (1, "another", 3), (9, "own", 10), (10, "value", 11),
    ]  # fmt: skip
