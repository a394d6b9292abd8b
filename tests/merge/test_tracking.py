"""What the triggers of merge replication record, for every way to change rows in PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from tests.fix_server import Database
from tests.merge.nodes import tracked
from twopc.server.polling import wait_for

ITEM = "create table item (id int primary key, name text, amount numeric)"


async def test_each_change_is_a_version(fresh_database: Database) -> None:
    """A row has one row of metadata, with a new version for each change.

    A row that is inserted again continues above the version of its deletion.
    """
    async with tracked(fresh_database, ITEM) as node:
        await node.run("insert into item values (9, 'old', 1)")
        await node.publish("item")
        await node.run("insert into item values (1, 'a', 1), (2, 'b', 2)")
        assert await node.versions("item") == [("1", False, 1, 1), ("2", False, 1, 1)]
        await node.run("update item set name = 'c'")
        assert await node.versions("item") == [
            ("1", False, 2, 2), ("2", False, 2, 2), ("9", False, 1, 1),
        ]  # fmt: skip
        [(guid,)] = await node.run("delete from item where id = 1 returning rowguid::text")
        assert ("gone", True, 3, 3) in await node.versions("item")
        await node.run(f"insert into item (id, rowguid) values (1, '{guid}')")
        assert ("1", False, 4, 4) in await node.versions("item")
        contents = await node.run("select count(*) from msrepl.msmerge_contents")
        tombstones = await node.run("select count(*) from msrepl.msmerge_tombstone")
        assert (contents, tombstones) == ([(3,)], [(0,)])


@pytest.mark.parametrize(
    "statement",
    [
        "insert into item values (1, 'x', 1), (2, 'x', 1) on conflict (id) do update set name = 'x'",
        "merge into item using (values (1), (2)) as s(i) on id = i when matched then update set name = 'x'"
        " when not matched then insert values (i, 'x', 1)",
        "with u as (update item set name = 'x' where id = 1) insert into item values (2, 'x', 1)",
        "begin; savepoint s; insert into item values (2, 'x', 1); release s; savepoint s;"
        " insert into item values (3, 'x', 1); rollback to s; update item set name = 'x' where id = 1; commit",
    ],
)
async def test_ways_to_change_rows(fresh_database: Database, statement: str) -> None:
    """An update and an insert are recorded; what is rolled back leaves no record."""
    async with tracked(fresh_database, ITEM) as node:
        await node.publish("item")
        await node.run("insert into item values (1, 'a', 1)", statement)
        assert await node.versions("item") == [("1", False, 2, 2), ("2", False, 1, 1)]


async def test_copy_is_tracked(fresh_database: Database) -> None:
    async with tracked(fresh_database, ITEM) as node:
        await node.publish("item")
        async with (
            node.connection.cursor() as cursor,
            cursor.copy("copy item (id, name) from stdin") as copy,
        ):
            await copy.write("1\ta\n2\tb\n")
        assert len(await node.versions("item")) == 2


async def test_column_versions(fresh_database: Database) -> None:
    """Each column has the version of its last change, also of one from or to NULL.

    An insert changes all columns.
    """
    async with tracked(fresh_database, ITEM) as node:
        await node.publish("item", tracking_level="column")
        colv = "select colv from msrepl.msmerge_metadata"
        await node.run("insert into item values (1, null, 1)")
        assert await node.run(colv) == [([1, 1, 1],)]
        await node.run("update item set name = 'a', amount = 1")
        assert await node.run(colv) == [([1, 2, 1],)]
        await node.run("update item set name = null, amount = 2")
        assert await node.run(colv) == [([1, 3, 3],)]
        await node.run("update item set amount = 2")
        assert await node.run(colv) == [([1, 3, 3],)]
        replica = await node.run("select replica from msrepl.msmerge_replica")
        seen = await node.run("select colv1, lineage from msrepl.msmerge_contents")
        mine = replica[0][0] << 31
        assert seen == [([mine | 1, mine | 3, mine | 3], [mine | 4])]


async def test_a_row_that_one_statement_changes_twice(fresh_database: Database) -> None:
    """Two foreign keys that cascade one update put a row into a transition table twice."""
    parent = "create table parent (id int primary key, x int unique, y int unique)"
    child = "create table child (id int primary key, a int, b int)"
    async with tracked(fresh_database, parent, child) as node:
        await node.publish("child", tracking_level="column")
        await node.run(
            "alter table child add foreign key (a) references parent (x) on update cascade",
            "alter table child add foreign key (b) references parent (y) on update cascade",
            "insert into parent values (1, 1, 1)",
            "insert into child values (1, 1, 1)",
            "update parent set x = 2, y = 2",
        )
        assert await node.run("select a, b from child") == [(2, 2)]
        [(own, colv)] = await node.run("select own, colv from msrepl.msmerge_metadata")
        assert own > 1
        assert colv[0] == 1
        assert colv[1:] == [own, own]


async def test_agents_bring_the_metadata_themselves(fresh_database: Database) -> None:
    """In the replica role nothing is recorded except the changes of a user's trigger."""
    async with tracked(fresh_database, ITEM, "create table log (id int primary key)") as node:
        await node.publish("item")
        await node.publish("log")
        await node.run(
            "create function note() returns trigger language plpgsql as"
            " $$ begin insert into log values (new.id); return null; end $$",
            "create trigger note after insert on item for each row execute function note()",
            "alter table item enable always trigger note",
            "begin; set local session_replication_role = replica; insert into item values (1, 'a', 1); commit",
        )
        assert await node.run("select tablenick from msrepl.msmerge_metadata") == [(2,)]


async def test_what_is_refused(fresh_database: Database) -> None:
    """A change of `rowguid` is refused, as is TRUNCATE, which names no rows."""
    async with tracked(fresh_database, ITEM) as node:
        await node.publish("item")
        await node.run("insert into item values (1, 'a', 1)")
        for statement, message in (
            ("update item set rowguid = gen_random_uuid()", "20062"),
            ("truncate item", "TRUNCATE is refused"),
        ):
            with pytest.raises(Exception, match=message):
                await node.run(statement)
        assert await node.versions("item") == [("1", False, 1, 1)]


async def test_a_generation_is_a_snapshot(fresh_database: Database) -> None:
    """A transaction that commits late is in the next generation, even if it was prepared.

    Without changes no generation is closed.
    """
    async with tracked(fresh_database, ITEM) as node, tracked(fresh_database) as other:
        await node.publish("item")
        generation = "select t.id, c.generation from msrepl.msmerge_contents as c join item as t using (rowguid) order by 1"
        assert await node.close() == (0, 0)
        await other.run("begin", "insert into item values (1, 'late', 1)")
        await node.run("insert into item values (2, 'early', 1)")
        assert await node.close() == (0, 1)
        await other.run("prepare transaction 'late'")
        assert await node.close() == (1, 1)
        await node.run("commit prepared 'late'")
        assert await node.run(generation) == [(1, 2), (2, 1)]  # the open one has the next number
        assert await node.close() == (1, 2)
        assert await node.run(generation) == [(1, 2), (2, 1)]
        await node.run("update item set name = 'changed' where id = 2")
        assert await node.run(generation) == [(1, 2), (2, 3)]


async def test_closing_hinders_nobody(fresh_database: Database) -> None:
    """Transactions at REPEATABLE READ and SERIALIZABLE write rows of a generation closed since."""
    async with tracked(fresh_database, ITEM) as node, tracked(fresh_database) as other:
        await node.publish("item")
        await node.run("insert into item select i, 'a', i from generate_series(1, 100) as i")
        for level in ("repeatable read", "serializable"):
            await other.run(
                f"begin isolation level {level}", "select count(*) from item where id = 1"
            )
            before, now = await node.close()
            assert now == before + 1
            await other.run("update item set name = 'b' where id = 1", "commit")


async def test_the_second_closer_sees_the_first(fresh_database: Database) -> None:
    """An agent that waits for another close takes its snapshot later, so that generations nest."""
    async with tracked(fresh_database, ITEM) as node, tracked(fresh_database) as other:
        await node.publish("item")
        await node.run("insert into item values (1, 'a', 1)")
        lock = "lock table msrepl.msmerge_genhistory in share row exclusive mode"
        await node.run("begin isolation level repeatable read", lock, "select msrepl.merge_close()")
        await other.run("begin isolation level repeatable read", "set local lock_timeout = 0")
        waiting = asyncio.create_task(
            other.run(lock, "select generation from msrepl.merge_close()")
        )
        blocked = (
            f"select where cardinality(pg_blocking_pids({other.connection.info.backend_pid})) > 0"
        )
        with fresh_database.connect() as eyes:
            await asyncio.to_thread(
                wait_for,
                lambda: eyes.execute(blocked).rowcount,
                what="the second closer to wait",
                timeout_s=60,
            )
        await node.run("insert into item values (2, 'b', 1)")
        await node.run("commit")
        assert await waiting == [(2,)]
        await other.run("commit")


async def test_closing_reads_what_is_new(fresh_database: Database) -> None:
    """Closing a generation does not scan older metadata, even if no table was ever analysed."""
    async with tracked(fresh_database, ITEM) as node:
        await node.publish("item")
        await node.run("insert into item select i, 'a', 1 from generate_series(1, 5000) as i")
        await node.close()
        scans = "select sum(seq_scan) from pg_stat_xact_all_tables where relname like 'msmerge_metadata_%'"
        async with node.connection.transaction():
            await node.run("update item set amount = 2 where id = 1")
            [before] = await node.run(scans)
            await node.run("select msrepl.merge_close()")
            assert await node.run(scans) == [before]
