"""Tests of each protection: an anomaly is prevented with it, and occurs without it."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from twopc.errors import ConfigurationError, ConflictError, DeliveryError
from twopc.sim.topology import Topology
from twopc.sim.topology.nodes import fresh_name
from twopc.sim.topology.protections import SUPPORTED, switch_off

#: A composite key, a unique column, and names that need quoting: the code to be replaced must still
#: be found.
TABLES = (
    "create table account (id int primary key, balance int)",
    "insert into account values (1, 100), (2, 100)",
    'create table "Line and More" ("a and b" int, place int, code text unique, "not" text, '
    'primary key ("a and b", place))',
    """insert into "Line and More" values (1, 1, 'x', 'y')""",
)


@asynccontextmanager
async def topology_without(server, *off):
    async with Topology(server=server, name=fresh_name()) as topology:
        for text in TABLES:
            await topology.execute("pub", text)
        for table in ("account", "Line and More"):
            await topology.publish(table)
        for subscriber in topology.subscribers:
            await topology.subscribe(subscriber)
        await switch_off(topology, frozenset(off))
        yield topology


async def rows(topology, node, table="account"):
    """Return a table's rows by key, without row versions."""
    found = await topology.execute(
        node, f"select (to_jsonb(t) - 'msrepl_tran_version') from \"{table}\" t order by 1"
    )
    return [row for (row,) in found]


async def stale(topology, statement):
    """Change rows at the first Subscriber; then run `statement` on the second one's stale copy."""
    await topology.run("sub1", "update account set balance = 90 where id = 1")
    await topology.run("sub1", """update "Line and More" set "not" = 'z'""")
    await topology.run("sub2", statement)


STALE = [
    ("update account set balance = balance - 20 where id = 1", "account", {"id": 1, "balance": 80}),
    ("delete from account where id = 1", "account", None),
    ("""update "Line and More" set code = 'c'""", "Line and More",
     {"a and b": 1, "place": 1, "code": "c", "not": "y"}),
    ('delete from "Line and More"', "Line and More", None),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "table", "row"), STALE)
async def test_version_check(server, statement, table, row):
    async with topology_without(server) as topology:
        with pytest.raises(ConflictError):
            await stale(topology, statement)
    async with topology_without(server, "version_check") as topology:
        await stale(topology, statement)
        found = await rows(topology, "pub", table)
        assert [each for each in found if 1 in each.values()] == ([row] if row else [])
        await topology.run("sub1", "insert into account values (3, 3)")  # other statements work
        await topology.run("sub2", "delete from account where id = 2")


WRITES = (
    "update account set balance = 1 where id = 1",
    "insert into account values (3, 3)",
    "delete from account where id = 2",
)


@pytest.mark.parametrize("statement", WRITES)
async def test_marker(server, statement):
    async with topology_without(server) as topology:
        await topology.run("sub1", statement)
        await topology.sync()
        found = await topology.inspect.take_deliveries()
        assert {(each.node, each.origin, each.suppressed) for each in found} == {
            ("sub1", "sub1", True),
            ("sub2", "sub1", False),
        }
    async with topology_without(server, "marker") as topology:
        await topology.run("sub1", statement)
        if statement.startswith("update"):  # the echo has no effect
            await topology.sync()
            found = await topology.inspect.take_deliveries()
            assert {(each.node, each.origin, each.suppressed) for each in found} == {
                ("sub1", "pub", False),
                ("sub2", "pub", False),
            }
        else:  # the echo inserts an existing row, or deletes a missing one
            with pytest.raises(DeliveryError):
                await topology.sync()


async def with_savepoint(topology, shipping):
    async with topology.transaction("sub1", shipping=shipping) as t:
        await t.execute("update account set balance = 1 where id = 1")
        await t.execute("savepoint here")
        await t.execute("update account set balance = 2 where id = 2")
        await t.execute("insert into account values (3, 3)")
        await t.execute("rollback to here")
        await t.execute("""update "Line and More" set code = 'c'""")


KEPT = [{"id": 1, "balance": 1}, {"id": 2, "balance": 100}]
TOO_MUCH = [{"id": 1, "balance": 1}, {"id": 2, "balance": 2}, {"id": 3, "balance": 3}]


async def test_savepoint_mirror(server):
    async with topology_without(server) as topology:
        await with_savepoint(topology, "eager")
        assert await rows(topology, "pub") == await rows(topology, "sub1") == KEPT
    async with topology_without(server, "savepoint_mirror") as topology:
        await with_savepoint(topology, "eager")
        assert await rows(topology, "pub") == TOO_MUCH
        assert await rows(topology, "sub1") == KEPT


async def test_not_for_replication(server):
    async with topology_without(server) as topology:
        await topology.run("sub1", "update account set balance = 1 where id = 1")
        await topology.sync()
        assert (await rows(topology, "sub2"))[0]["balance"] == 1
    async with topology_without(server, "not_for_replication") as topology:
        await topology.run("sub1", "update account set balance = 1 where id = 1")
        with pytest.raises(DeliveryError, match="in a global transaction only"):
            await topology.sync()


async def test_what_cannot_be_switched_off(server):
    async with topology_without(server) as topology:
        with pytest.raises(ConfigurationError, match="'fence' cannot be switched off"):
            await switch_off(topology, {"fence"})
        await topology.execute(
            "pub",
            "create function msrepl.mssync_change_upd_account() returns void language sql begin atomic end",
        )
        with pytest.raises(
            AssertionError, match=r"msrepl.mssync_change_upd_account is there 2 times"
        ):
            await switch_off(topology, SUPPORTED.keys())
