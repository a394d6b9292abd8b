"""No row version is ever used again, whoever writes; otherwise a stale copy would pass the check."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fix_topology import MakePair, Pair
from twopc.errors import ArticleError, SubscriptionError

PLAIN = "create table item (id int primary key, v int)"
PARTITIONED = (
    "create table item (id int primary key, v int) partition by range (id);"
    "create table item_1 partition of item for values from (0) to (100);"
    "create table item_2 partition of item for values from (100) to (200)"
)
ROWS = "insert into item values (1, 1), (2, 2)"
#: A table whose rows may have to wait for each other has additional triggers.
DEFERRABLE = "create table item (id int primary key, v int, unique (id, v) deferrable)"
TABLES = {"plain": PLAIN, "deferrable": DEFERRABLE, "partitioned": PARTITIONED}

#: Statements that write an earlier version {0} of row 1.
WAYS = {
    "UPDATE": "update item set v = 77, msrepl_tran_version = '{0}' where id = 1",
    "UPDATE twice": "update item set v = 7 where id = 1;"
    " update item set v = 77, msrepl_tran_version = '{0}' where id = 1",
    "INSERT again": "delete from item where id = 1; insert into item values (1, 77, '{0}')",
    "ON CONFLICT": "insert into item as t values (1, 77, '{0}') on conflict (id) do update"
    " set v = 77, msrepl_tran_version = excluded.msrepl_tran_version",
    "MERGE, matched": "merge into item as t using (select 1 as id) as s on t.id = s.id"
    " when matched then update set v = 77, msrepl_tran_version = '{0}'",
    "MERGE, not matched": "delete from item where id = 1;"
    " merge into item as t using (select 1 as id) as s on t.id = s.id"
    " when not matched then insert values (1, 77, '{0}')",
    "another row": "update item set id = 50 where id = 1; insert into item values (1, 77, '{0}')",
    "COPY": "delete from item where id = 1; copy item from stdin",
}
#: Settings with which a writer may try to appear as another role or process.
SETTINGS = {
    "": "",
    "replica role": "set session_replication_role = replica;",
    "our settings": "set msrepl.gid = 'twopc:x:1:1'; set msrepl.syncing = 'item'; set msrepl.any_client = 'yes';",
}


async def execute(connection: psycopg.AsyncConnection[Any], way: str, version: str) -> None:
    """Execute one of `WAYS`, statement by statement."""
    for statement in way.split(";"):
        if "stdin" in statement:
            async with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
                await copy.write_row((1, 77, version))
        else:
            await connection.execute(statement.format(version).encode())


async def version_of(pair: Pair, node: str) -> str:
    found = await pair.topology.execute(
        node, "select msrepl_tran_version::text from item where id = 1"
    )
    return str(found[0][0])


@pytest.mark.parametrize("table", ["plain", "partitioned"])
@pytest.mark.parametrize("setting", SETTINGS)
async def test_writers_at_the_publisher(make_pair: MakePair, table: str, setting: str) -> None:
    """A version that the writer specifies is replaced by a new one, and the stale copy is refused."""
    pair = await make_pair(TABLES[table], ROWS, publish=["item"])
    copied = await version_of(pair, "sub1")
    seen = {copied}
    async with await psycopg.AsyncConnection.connect(
        pair.topology.node("pub").dsn, autocommit=True
    ) as writer:
        if setting:
            await writer.execute(SETTINGS[setting].encode())
        for name, way in WAYS.items():
            await execute(writer, way, copied)
            given = await version_of(pair, "pub")
            assert given not in seen, name
            seen.add(given)
            for change in ("update item set v = 3 where id = 1", "delete from item where id = 1"):
                assert (await pair.refused(change)).sqlstate == "40001", name
            assert await pair.topology.execute("pub", "select v from item where id = 1") == [(77,)]
            await writer.execute("delete from item where id = 50")


@pytest.mark.parametrize("table", TABLES)
async def test_writers_at_a_subscriber(make_pair: MakePair, table: str) -> None:
    """A version that the Subscriber's application specifies is not used either."""
    definition = TABLES[table]
    pair = await make_pair(
        definition, ROWS, publish=["item"], at_subscriber=[definition] * (table == "partitioned")
    )
    for partition in ("item_1", "item_2") * (table == "partitioned"):
        await pair.topology.execute("sub1", f"grant all on {partition} to public")
    first = await version_of(pair, "pub")
    seen = {first}
    for name, way in WAYS.items():
        await pair.begin()
        await execute(pair.app, way, first)
        await pair.commit()
        given = await version_of(pair, "pub")
        assert given not in seen, name
        seen.add(given)
        await pair.same("item")
        await pair.run("delete from item where id = 50")


@pytest.mark.parametrize("keys", ["", "deferrable"])
async def test_rows_that_move_between_partitions(make_pair: MakePair, keys: str) -> None:
    """A row that moves to another partition is inserted there, and is still paired with its old row."""
    table = PARTITIONED
    if keys:
        table = table.replace("v int)", "v int, unique (id, v) deferrable)")
    pair = await make_pair(
        table.replace("v int", "v int, first_id int"),
        "insert into item select g, g, g from generate_series(1, 40) as g",
        publish=[{"table": "item", "columns": ["id", "v"]}],
        at_subscriber=[table],
    )
    moved = "select count(*) from item where first_id = case when id > 90 then id - 90 else id end"
    for change in (
        "update item set id = id + 90, v = 0 where id > 5",
        "update item set id = id - 90 where id > 110",
    ):
        await pair.run(change)
        there, here = await pair.rows("select id, v, msrepl_tran_version from item order by id")
        assert there == here
        assert await pair.topology.execute("pub", moved) == [(40,)]


SET_BACK = """
create table kept as select * from item;
create function set_back() returns trigger language plpgsql security definer set search_path = public as $$
begin
    if new.v = 77 then
        new.msrepl_tran_version := (select k.msrepl_tran_version from kept as k where k.id = new.id);
    end if;
    return new;
end $$;
"""
SET_BACK_TRIGGER = (
    "create trigger {} before insert or update on item for each row execute function set_back()"
)


@pytest.mark.parametrize("node", ["pub", "sub1"])
async def test_triggers_of_the_user(make_pair: MakePair, node: str) -> None:
    """A BEFORE trigger that restores an old version fires before ours; one that would fire after it is refused."""
    pair = await make_pair(PLAIN, ROWS, publish=["item"])
    seen = {await version_of(pair, "pub")}
    await pair.topology.execute(node, SET_BACK + SET_BACK_TRIGGER.format("zzz"))
    if node == "pub":
        await pair.topology.regenerate("item")
    else:
        await pair.topology.activate("sub1")
    for change in (
        "update item set v = 77 where id = 1",
        "update item set v = 77 where id = 1",
        "delete from item where id = 1",
        "insert into item values (1, 77)",
    ):
        if node == "pub":
            await pair.topology.execute("pub", change)
        else:
            await pair.run(change)
        if not change.startswith("delete"):
            given = await version_of(pair, "pub")
            assert given not in seen, change
            seen.add(given)

    late = SET_BACK_TRIGGER.format('"~~late"')
    if node == "pub":
        await pair.topology.execute("pub", late)
        with pytest.raises(ArticleError, match=r"'~~late' fires after .*rename"):
            await pair.topology.regenerate("item")
        await pair.topology.execute("pub", 'alter trigger "~~late" on item rename to late')
        await pair.topology.regenerate("item")
    else:
        await pair.topology.execute("sub1", late.replace("insert or update", "insert"))
        with pytest.raises(SubscriptionError, match=r"21128"):
            await pair.topology.activate("sub1")


async def test_what_a_trigger_changes_in_rows_that_were_sent(make_pair: MakePair) -> None:
    """An AFTER trigger that writes the old version within a sync procedure also gets a new version."""
    pair = await make_pair(
        PLAIN,
        ROWS,
        "create function again() returns trigger language plpgsql as $$ begin"
        " if pg_trigger_depth() = 1 then"
        "  update item set v = new.v + 1, msrepl_tran_version = old.msrepl_tran_version where id = new.id;"
        " end if; return null; end $$;"
        "create trigger again after update on item for each row execute function again()",
        publish=["item"],
    )
    first = await version_of(pair, "pub")
    await pair.run("update item set v = 5 where id = 1")
    assert await version_of(pair, "pub") != first
    await pair.same("item")
    await pair.topology.execute("pub", "update item set v = 6 where id = 1")
    assert await version_of(pair, "pub") != first


@pytest.mark.parametrize(
    ("table", "events"),
    [
        *((table, "insert or update") for table in TABLES),
        *(("plain", event) for event in ("insert", "update")),
    ],
)
async def test_a_trigger_that_changes_rows_that_were_sent(
    make_pair: MakePair, table: str, events: str
) -> None:
    """A BEFORE trigger of the Publisher that restores an old version in a sync procedure gets a new one."""
    trigger = SET_BACK_TRIGGER.format("back").replace("insert or update", events)
    pair = await make_pair(
        TABLES[table],
        ROWS,
        SET_BACK.replace("77", "77 or new.v = 78") + trigger,
        publish=["item"],
        at_subscriber=[TABLES[table]],
    )
    await pair.topology.execute("pub", "drop table kept; create table kept as select * from item")
    seen = {await version_of(pair, "pub")}
    for change in (
        "update item set v = 5 where id = 1",
        "update item set v = 77 where id = 1",
        "update item set v = 78 where id = 1",
        "delete from item where id = 1",
        "insert into item values (1, 77)",
        "insert into item values (1, 5) on conflict (id) do update set v = 77",
    ):
        await pair.run(change)
        await pair.same("item")
        if not change.startswith("delete"):
            given = await version_of(pair, "pub")
            assert given not in seen, change
            seen.add(given)
