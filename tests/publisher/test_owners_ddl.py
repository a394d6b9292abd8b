"""DDL by a table's owner: it cannot disable objects that replication needs, nor bypass them."""

from __future__ import annotations

import psycopg
import pytest

from tests.fix_topology import MakePair, Pair
from twopc.errors import SubscriptionError

PLAIN = "create table item (id int primary key, v int not null unique)"
PARTITIONED = (
    "create table item (id int primary key, v int) partition by range (id);"
    "create table item_1 partition of item for values from (0) to (100);"
    "create table item_2 partition of item for values from (100) to (200)"
)
ROWS = "insert into item values (1, 1), (2, 2)"
MINE = "create function mine() returns trigger language plpgsql as $$ begin return null; end $$;"

#: Table, node and statements, the last of which is refused.
SWITCHES = {
    "a version that is not renewed in the replica role": (PLAIN, "pub", "alter table item enable trigger user"),
    "a version that is not renewed in a partition": (
        PARTITIONED, "pub", 'alter table item_1 disable trigger "~sp_mssync_upd_trig_item"'),
    "a version that is renewed too early": (
        PLAIN, "pub", 'alter trigger "~sp_mssync_upd_trig_item" on item rename to early'),
    "TRUNCATE at the Publisher": (PLAIN, "pub", "drop trigger trg_mssync_truncate_item on item"),
    "TRUNCATE of a partition": (PARTITIONED, "pub", "alter table item_2 disable trigger user"),
    "old rows of another key": (PLAIN, "pub", "alter table item replica identity using index item_v_key"),
    "no old rows": (PARTITIONED, "pub", "alter table item_1 replica identity nothing"),
    "inserts": (PLAIN, "sub1", MINE + 'create or replace trigger "!trg_mssync_ins_item" after insert on item'
                " for each statement execute function mine()"),
    "updates": (PLAIN, "sub1", MINE + 'create or replace trigger "!trg_mssync_upd_item" after update on item'
                " for each statement execute function mine()"),
    "deletes": (PARTITIONED, "sub1", MINE + 'create or replace trigger "!trg_mssync_del_item" after delete on item_1'
                " for each statement execute function mine()"),
    "new versions": (PLAIN, "sub1", MINE + 'create or replace trigger "~trg_mssync_new_item" before insert on item'
                     " for each row execute function mine()"),
    "the first place": (PLAIN, "sub1", 'alter trigger "!trg_mssync_upd_item" on item rename to late'),
    "what agents bring": (PLAIN, "sub1", 'alter table item enable always trigger "!trg_mssync_upd_item"'),
    "changes made through a parent": (PLAIN, "sub1", "create table elder (v int); alter table item inherit elder"),
    "changes made through a partitioned table": (
        PLAIN, "sub1", "create table elder (like item) partition by range (id);"
        "alter table elder attach partition item for values from (0) to (100)"),
    "a table in its place": (PLAIN, "sub1", "alter table item rename to old; create table item (like old including all)"),
    "another table in its place": (PLAIN, "sub1", "drop table item; create table item (id int primary key, v int)"),
}  # fmt: skip


async def own(pair: Pair, node: str, *tables: str) -> psycopg.AsyncConnection[tuple[object, ...]]:
    """Return a session of an ordinary role that owns the tables."""
    role = pair.topology.node(node).app_role
    await pair.topology.execute(node, f'grant create on schema public to "{role}"')
    for table in tables:
        await pair.topology.execute(node, f'alter table {table} owner to "{role}"')
    return await psycopg.AsyncConnection.connect(pair.topology.node(node).app_dsn)


@pytest.mark.parametrize("switch", SWITCHES)
async def test_what_the_owner_may_not_do(make_pair: MakePair, switch: str) -> None:
    """The statement is refused at once with a reason, and replication continues to work."""
    table, node, statements = SWITCHES[switch]
    pair = await make_pair(table, ROWS, publish=["item"], at_subscriber=[table])
    tables = ["item"] if table == PLAIN else ["item", "item_1", "item_2"]
    async with await own(pair, node, *tables) as owner:
        *before, last = statements.removesuffix(";").rsplit(";", 1)
        for statement in before:
            await owner.execute(statement.encode())
        with pytest.raises(psycopg.errors.DependentObjectsStillExist) as caught:
            await owner.execute(last.encode())
    assert "item" in str(caught.value)
    assert "twopc un" in str(caught.value.diag.message_hint)
    await pair.run("update item set v = v + 10", "insert into item values (3, 3)")
    await pair.same("item")


@pytest.mark.parametrize("kind", ["view", "materialized view", "foreign table"])
@pytest.mark.parametrize("node", ["pub", "sub1"])
async def test_a_column_renamed_by_another_command(
    make_pair: MakePair, node: str, kind: str
) -> None:
    """PostgreSQL renames a table's columns by each of these commands, which could exchange two columns."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    await pair.topology.execute(node, f"alter {kind} item rename column v to w")
    error = await pair.refused("delete from item where id = 1")
    assert error.sqlstate == "55000"
    assert "regenerate" in str(error.diag.message_hint)


ATTACHED = {
    "made": "create table item_3 partition of item for values from (200) to (300)",
    "made with a schema": "create schema more create table item_3 partition of public.item for values from (200) to (300)",
    "attached": "create table item_3 (id int not null, v int, msrepl_tran_version uuid not null);"
    "insert into item_3 values (201, 1, gen_random_uuid());"
    "alter table item attach partition item_3 for values from (200) to (300)",
    "of another": "create table item_3 partition of item for values from (200) to (300) partition by range (id);"
    "create table item_31 partition of item_3 for values from (200) to (250)",
}


@pytest.mark.parametrize("way", ATTACHED)
async def test_a_new_partition_at_a_subscriber(make_pair: MakePair, way: str) -> None:
    """A statement on a new partition fires no trigger of its parent, so it is refused until triggers exist."""
    pair = await make_pair(PARTITIONED, ROWS, publish=["item"], at_subscriber=[PARTITIONED])
    await pair.topology.execute("sub1", ATTACHED[way])
    found = await pair.topology.execute(
        "sub1",
        "select relid::regclass::text from pg_partition_tree('item') where relid::text ~ '_3'",
    )
    rows = "select count(*) from item"
    before = await pair.topology.execute("sub1", rows)
    for (name,) in found:
        await pair.topology.execute("sub1", f"grant all on {name} to public")
        if "." in name:
            await pair.topology.execute("sub1", "grant usage on schema more to public")
        for statement in (
            f"insert into {name} values (202, 2, gen_random_uuid())",
            f"update {name} set v = 3",
            f"delete from {name}",
            f"truncate {name}",
        ):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as caught:
                await pair.app.execute(statement.encode())
            assert "regenerate" in str(caught.value.diag.message_hint)
    assert await pair.topology.execute("sub1", rows) == before

    if way == "made":
        more = ATTACHED["made"]
        await pair.topology.execute("pub", more)
        await pair.topology.regenerate("item")
        await pair.run("insert into item_3 values (202, 2)", "update item set v = 4")
        await pair.same("item")


async def test_a_partition_that_is_detached(make_pair: MakePair) -> None:
    """Changes of a detached partition are not replicated; after it is attached again they are captured as before."""
    pair = await make_pair(PARTITIONED, ROWS, publish=["item"], at_subscriber=[PARTITIONED])
    await pair.topology.execute("sub1", "grant all on item_1 to public")
    await pair.topology.execute("sub1", "alter table item detach partition item_1")
    await pair.topology.regenerate("item")
    await pair.app.execute(
        "update item_1 set v = 5 where id = 1; update item_1 set v = 1 where id = 1"
    )
    assert await pair.topology.execute("pub", "select id, v from item order by id") == [
        (1, 1),
        (2, 2),
    ]

    await pair.topology.execute(
        "sub1", "alter table item attach partition item_1 for values from (0) to (100)"
    )
    await pair.topology.regenerate("item")
    await pair.run("update item_1 set v = 6 where id = 1", "delete from item where id = 2")
    await pair.same("item")


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        ("create table elder (id int not null); create table item (id int primary key, v int) inherits (elder)", "INHERITS"),
        ("create table item (id int primary key, v int); create table young () inherits (item)", "INHERITS"),
        ("create table item (id int primary key, v int); create rule r as on delete to item do instead nothing", "rules"),
    ],
)  # fmt: skip
async def test_a_way_in_that_was_there_before(
    make_pair: MakePair, before: str, reason: str
) -> None:
    """A table with inheritance or rules cannot be subscribed to."""
    with pytest.raises(SubscriptionError, match=reason):
        await make_pair("create table item (id int primary key, v int)", publish=["item"], at_subscriber=[before])  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    ["create table young () inherits (item)", "create rule r as on update to item do instead nothing"],
)  # fmt: skip
async def test_a_way_in_that_comes_later(make_pair: MakePair, statement: str) -> None:
    """Inheritance or a rule that is added later makes the table refuse changes until it is removed."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    await pair.topology.execute("sub1", statement)
    for _ in range(2):
        error = await pair.refused("delete from item where id = 1")
        assert "regenerate" in str(error.diag.message_hint)
        with pytest.raises(SubscriptionError, match=r"INHERITS|rules"):
            await pair.topology.regenerate("item")
    await pair.topology.execute("sub1", "drop table if exists young; drop rule if exists r on item")
    await pair.topology.regenerate("item")
    await pair.run("delete from item where id = 1")
    await pair.same("item")
