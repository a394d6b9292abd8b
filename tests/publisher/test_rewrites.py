"""ALTER TABLE can change rows without changing their versions; this must not cause lost updates."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakePair, Pair
from twopc.errors import SubscriptionError

PLAIN = "create table item (id int primary key, v int, note text default 'n')"
PARTITIONED = PLAIN + (
    " partition by range (id); create table item_1 partition of item for values from (0) to (100)"
)
ROWS = "insert into item select g, g from generate_series(1, 5) as g"
CHANGE = "update item set note = 'changed' where id = 1"

#: Statements that rewrite rows, and whether they run at both ends, where the rows then differ.
REWRITES = {
    "the same type": ("alter table item alter column v type int using v + 7", False),
    "another type": ("alter table item alter column v type bigint using v + (random() * 1e9)::int", True),
    "a volatile default": ("alter table item add column more uuid default gen_random_uuid()", True),
    "a default of the moment": ("alter table item add column more timestamptz default statement_timestamp()", True),
    "dropped and added": ("alter table item drop column note, add column note text default random()::text", True),
}  # fmt: skip


async def assert_stale(pair: Pair) -> None:
    before = await pair.rows("select t::text from item as t order by id")
    error = await pair.refused(CHANGE)
    assert error.sqlstate == "55000"
    assert "regenerate" in str(error.diag.message_hint)
    assert await pair.rows("select t::text from item as t order by id") == before


@pytest.mark.sample(1, by=("rewrite", "node"))
@pytest.mark.parametrize("table", ["plain", "partitioned"])
@pytest.mark.parametrize("node", ["pub", "sub1"])
@pytest.mark.parametrize("rewrite", REWRITES)
async def test_rows_that_differ(make_pair: MakePair, rewrite: str, node: str, table: str) -> None:
    """Rows that differ cannot be changed at the Subscriber before they have the Publisher's values."""
    definition = {"plain": PLAIN, "partitioned": PARTITIONED}[table]
    pair = await make_pair(definition, ROWS, publish=["item"], at_subscriber=[definition])
    statement, at_both = REWRITES[rewrite]
    for each in ("pub", "sub1") if at_both else (node,):
        await pair.topology.execute(each, statement)
    # a row with a change that is not yet delivered has another version, and is no difference
    await pair.topology.execute("pub", "update item set v = 50 where id = 5")
    await assert_stale(pair)
    with pytest.raises(
        SubscriptionError, match=r"item .*same version.* twopc regenerate item --repair"
    ):
        await pair.topology.regenerate("item")
    await assert_stale(pair)

    await pair.topology.regenerate("item", repair=True)
    await pair.topology.sync()
    await pair.same("item")
    await pair.run(CHANGE)
    await pair.same("item")


async def test_rows_that_were_rewritten_alike(make_pair: MakePair) -> None:
    """Rows that are rewritten equally at both ends need no repair."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    for node in ("pub", "sub1"):
        await pair.topology.execute(node, "alter table item alter column v type int using v * 2")
        await assert_stale(pair)
    await pair.topology.regenerate("item")
    await pair.run(CHANGE)
    await pair.same("item")


async def test_activate_lets_no_rewritten_row_through(make_pair: MakePair) -> None:
    """Activating, which also recreates the triggers, is refused if rows were rewritten."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    await pair.topology.execute("sub1", REWRITES["dropped and added"][0])
    with pytest.raises(SubscriptionError, match="same version"):
        await pair.topology.activate("sub1")
    await assert_stale(pair)


async def test_a_rewrite_that_is_rolled_back(make_pair: MakePair) -> None:
    """A rewrite that is rolled back has no effect."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    for node in ("pub", "sub1"):
        await pair.topology.execute(node, f"begin; {REWRITES['the same type'][0]}; rollback")
    await pair.run(CHANGE)
    await pair.same("item")


async def test_rewrites_that_change_no_row(make_pair: MakePair) -> None:
    """A command that only replaces the table's file has no effect."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    for node in ("pub", "sub1"):
        for statement in (
            "vacuum full item",
            "cluster item using item_pkey",
            "alter table item set access method heap",
        ):
            await pair.topology.execute(node, statement)
    await pair.run(CHANGE)
    await pair.same("item")


async def test_a_rewrite_of_a_neighbour(make_pair: MakePair) -> None:
    """A rewrite of a table, such as by publishing it later, does not affect the tables that it refers to."""
    neighbour = "; create table part (id int primary key, item int references item)"
    pair = await make_pair(PLAIN + neighbour, ROWS, publish=["item", "part"])
    await pair.run(CHANGE)
    await pair.same("item")


@pytest.mark.parametrize(
    "cause",
    [
        "set session_replication_role = replica;"
        " update item set v = 9, msrepl_tran_version = gen_random_uuid() where id = 1;"
        " reset session_replication_role",
        "alter table item alter column msrepl_tran_version type uuid using gen_random_uuid()",
    ],
)
async def test_rows_that_have_drifted(make_pair: MakePair, cause: str) -> None:
    """Rows with different versions and no change on the way are reported, and can be repaired."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    await pair.topology.execute("sub1", cause)
    for node in ("pub", "sub1"):
        await pair.topology.execute(node, "alter table item add column more int default 1")
    await pair.topology.execute("pub", "update item set v = 50 where id = 5")
    with pytest.raises(
        SubscriptionError, match=r"another version .*nothing is under way.* twopc regenerate item --repair"
    ):  # fmt: skip
        await pair.topology.regenerate("item")
    await assert_stale(pair)
    await pair.topology.regenerate("item", repair=True)
    await pair.run(CHANGE)
    await pair.same("item")
