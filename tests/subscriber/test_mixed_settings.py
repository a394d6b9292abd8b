"""Statements that change our settings between rows: old and new rows are paired, and row versions are new."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakePair, MakeTopology

#: The key cannot be sent, so rows that are paired wrongly would get each other's values.
TABLES = """
create table item (id int generated always as identity primary key, n int);
create table part (id int generated always as identity primary key, n int unique deferrable, item int references item);
insert into item (n) select 0 from generate_series(1, 8);
insert into part (n, item) select g, g from generate_series(1, 8) as g;
"""
MIXED = "returning set_config('msrepl.gid', 'x' || id, true), set_config('msrepl.any_client', 'no', true)"
STATEMENTS = (
    "update item set n = 1 where id = 1",
    f"update item set n = id * 10 {MIXED}",
    f"update part set n = id * 10 {MIXED}",
)
PARTITIONED = """
create table item (id int primary key, n int) partition by range (id);
create table low partition of item for values from (0) to (100);
create table high partition of item for values from (100) to (200);
insert into item select g, 0 from generate_series(1, 8) as g;
"""


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_rows_are_paired(make_pair: MakePair, shipping: str) -> None:
    pair = await make_pair(TABLES, publish=["item", "part"])
    await pair.run(*STATEMENTS, shipping=shipping)
    await pair.equal("item", "part")


async def test_rows_of_any_client_are_paired(make_topology: MakeTopology) -> None:
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", TABLES)
    for table in ("item", "part"):
        await topology.publish(table)
    await topology.subscribe("sub1")
    await topology.allow_any_client("sub1")
    admin = await topology.admin("sub1")
    async with admin.transaction():
        for statement in STATEMENTS:
            await admin.execute(statement.encode())
    await topology.any_client.resolvers["sub1"].settle()
    for table in ("item", "part"):
        query = f"select t::text from {table} as t order by 1"
        assert await topology.execute("pub", query) == await topology.execute("sub1", query)


async def test_an_old_version_does_not_come_back(make_pair: MakePair) -> None:
    """A row version is not used again, even if an insert sets the gid of the transaction that created it."""
    there = PARTITIONED.split("insert")[0]
    pair = await make_pair(PARTITIONED, publish=["item"], at_subscriber=[there])
    was = await pair.begin()
    await pair.execute("update item set n = 5 where id = 1")
    await pair.commit()
    version = "select msrepl_tran_version::text from item where id = 1"
    ((old,),) = await pair.execute(version)
    await pair.run("delete from item where id = 1")
    now = await pair.begin()
    await pair.execute("update item set n = 1 where id = 2")
    await pair.execute(
        "insert into item (id, n, msrepl_tran_version)"
        f" select 1, length(set_config('msrepl.gid', '{was}', true)), '{old}'::uuid"
        f" returning set_config('msrepl.gid', '{now}', true)"
    )
    await pair.commit()
    await pair.equal("item")
    assert await pair.execute(version) != [(old,)]
