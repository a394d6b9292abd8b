"""Tests of publishing for distribution: the log contains what commands need, only while published."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distribution.logged import Logged
from tests.distribution.made import propagation
from twopc.errors import ArticleError
from twopc.propagation import CommandType, Propagation, record_values
from twopc.publisher import publication

IDENTITIES = """
select c.relname::text, c.relreplident::text,
       (select i.indexrelid::regclass::text from pg_index i where i.indrelid = c.oid and i.indisreplident)
from pg_class c where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace order by 1
"""
TABLES = """
select schemaname || '.' || tablename from pg_publication_tables where pubname = 'msrepl' order by 1
"""
OWN = [("msrepl.branch_marker",), ("msrepl.call_marker",), ("msrepl.log_message",)]


async def publish(logged: Logged, table: str, **options: Any) -> None:
    await publication.publish(logged.connection, "public", table, **options)


async def unpublish(logged: Logged, table: str) -> None:
    await publication.unpublish(logged.connection, "public", table)


async def test_the_logical_publication_keeps_in_step(logged: Logged) -> None:
    """The logical publication has the three internal tables and every published one, and is uninstalled."""
    await logged.execute("create table a (id int primary key); create table b (id int primary key)")
    assert await logged.execute(TABLES) == OWN
    await publish(logged, "a")
    await publish(logged, "b")
    await publication.regenerate(logged.connection, "public", "a")
    await publication.install(logged.connection)
    assert await logged.execute(TABLES) == [*OWN, ("public.a",), ("public.b",)]
    await unpublish(logged, "a")
    assert await logged.execute(TABLES) == [*OWN, ("public.b",)]
    await logged.execute("drop table b")
    await unpublish(logged, "b")
    await publication.uninstall(logged.connection)
    assert await logged.execute("select from pg_publication") == []


@pytest.mark.parametrize("form", ["SCALL", "MCALL", "XCALL"])
@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("default", ("d", None)),
        ("nothing", ("n", None)),
        ("using index t_n", ("i", "t_n")),
        ("full", ("f", None)),
    ],
)
async def test_replica_identity_is_put_back(
    logged: Logged, form: str, before: str, expected: tuple[str, str | None]
) -> None:
    """Old rows are logged while a table is published, and the previous replica identity is restored."""
    await logged.execute(
        "create table t (id int primary key, n int not null); create unique index t_n on t (n)"
    )
    await logged.execute(f"alter table t replica identity {before}")
    await publish(logged, "t", propagation=propagation(upd=form))
    assert await logged.execute(IDENTITIES) == [("t", "f", None)]
    await publication.regenerate(logged.connection, "public", "t")
    assert await logged.execute(IDENTITIES) == [("t", "f", None)]
    await unpublish(logged, "t")
    assert await logged.execute(IDENTITIES) == [("t", *expected)]


async def test_replica_identity_that_keys_are_enough_for(logged: Logged) -> None:
    """If commands need keys only, the log identifies rows by key, whatever the identity was before."""
    await logged.execute(
        "create table t (id int primary key, n int not null); create unique index t_n on t (n)"
    )
    for how in (propagation(upd="CALL"), propagation(upd="SQL"), propagation(upd="NONE")):
        for before in ("default", "nothing", "using index t_n"):
            await logged.execute(f"alter table t replica identity {before}")
            [was] = await logged.execute(IDENTITIES)
            await publish(logged, "t", propagation=how)
            assert await logged.execute(IDENTITIES) == [("t", "d", None)]
            await logged.execute(
                "insert into t values (1, 1); update t set n = 2; update t set id = 5; delete from t"
            )
            kept = [kind % 10 for _, kind, _, _ in await logged.commands()]
            updates = [] if how.upd.format == "NONE" else [2, 2]
            assert kept == [1, *updates, 3]
            await unpublish(logged, "t")
            assert await logged.execute(IDENTITIES) == [was]
    await logged.execute("alter table t replica identity full")
    await publish(logged, "t", propagation=propagation(upd="CALL"))
    assert await logged.execute(IDENTITIES) == [("t", "f", None)]


async def test_what_else_needs_old_rows(logged: Logged) -> None:
    """Old rows are needed by CALL for updates of large values, a row filter, and a deferrable key."""
    await logged.execute(
        """create table large (id int primary key, body text);
        create table part (id int primary key, n int);
        create table late (id int primary key deferrable, n int)"""
    )
    await publish(logged, "large", propagation=propagation(upd="CALL"))
    await publish(logged, "part", propagation=propagation(upd="CALL"), row_filter="n > 0")
    await publish(logged, "late", propagation=propagation(upd="CALL"))
    assert [identity for _, identity, _ in await logged.execute(IDENTITIES)] == ["f"] * 3
    await logged.execute("insert into late values (1, 1); update late set n = 2; delete from late")
    assert len(await logged.commands()) == 3


async def test_partitions_have_identities_of_their_own(logged: Logged) -> None:
    """Changes of partitions are logged as the parent's; one attached later lacks old rows until regenerated."""
    await logged.execute(
        """create table t (id int, n int, primary key (id)) partition by range (id);
        create table t1 partition of t for values from (0) to (10);
        create table t2 partition of t for values from (10) to (100) partition by range (id);
        create table t2a partition of t2 for values from (10) to (50);
        alter table t1 replica identity nothing"""
    )
    before = await logged.execute(IDENTITIES)
    await publish(logged, "t", propagation=propagation(dele="XCALL"))
    assert {identity for _, identity, _ in await logged.execute(IDENTITIES)} == {"f"}
    await logged.execute(
        "insert into t values (1, 1), (11, 1); update t set n = 2; update t set id = id + 20 where id = 1"
    )
    commands = await logged.commands()
    assert [kind for _, kind, _, _ in commands] == [
        1,
        1,
        2,
        2,
        3,
        1,
    ]  # moved to another partition
    assert [
        record_values(text)[-1] for _, kind, _, text in commands if kind == CommandType.UPDATE
    ] == [b"\\x06"] * 2

    await logged.execute("create table t3 partition of t for values from (100) to (200)")
    await publication.regenerate(logged.connection, "public", "t")
    assert {identity for _, identity, _ in await logged.execute(IDENTITIES)} == {"f"}
    known = await publication.distributed_articles(logged.connection)
    await logged.execute("create table t4 partition of t for values from (200) to (300)")
    await logged.execute("insert into t values (201, 1); update t set n = 3 where id = 201")
    changes = await logged.commands(known)
    assert (
        record_values(changes[1][3])[-1] == b"\\x07"
    )  # without the old row, every column counts as changed
    await logged.execute("delete from t where id = 201")
    with pytest.raises(ArticleError, match="the log lacks the old row"):
        await logged.commands(known)
    await unpublish(logged, "t")
    after = await logged.execute(IDENTITIES)
    assert after == [*before, ("t3", "d", None), ("t4", "d", None)]


async def test_virtual_generated_columns(logged: Logged) -> None:
    """PostgreSQL logs no old rows of these tables: SCALL works without them, other uses are refused."""
    await logged.execute(
        "create table t (id int primary key, n int, v int generated always as (n * 2) virtual)"
    )
    for how, what in (
        (propagation(upd="XCALL"), "XCALL"),
        (propagation(dele="XCALL"), "XCALL"),
    ):
        with pytest.raises(
            ArticleError, match=f"old rows are needed by {what}.*make column 'v' STORED"
        ):
            await publish(logged, "t", propagation=how)
    with pytest.raises(ArticleError, match="old rows are needed by its row filter"):
        await publish(logged, "t", row_filter="n > 1")
    await publish(logged, "t")
    await logged.execute("insert into t (id, n) values (1, 1); update t set n = 2; delete from t")
    commands = await logged.commands()
    assert [record_values(text)[:2] for _, _, _, text in commands[:2]] == [
        [b"1", b"1"],
        [b"1", b"2"],
    ]
    await unpublish(logged, "t")
    await logged.execute("alter table t add column body text")
    with pytest.raises(
        ArticleError, match="old rows are needed by CALL, by unchanged large values"
    ):
        await publish(logged, "t", propagation=propagation(upd="CALL"))


async def test_stored_generated_columns(logged: Logged) -> None:
    """Stored generated columns are not sent, because a Subscriber computes them."""
    await logged.execute(
        "create table t (id int primary key, s int generated always as (n * 2) stored, n int)"
    )
    await publish(logged, "t", row_filter="s > 2")
    await logged.execute(
        "insert into t (id, n) values (1, 1), (2, 2); update t set n = 3; update t set n = 0; delete from t"
    )
    found = [(kind, record_values(text)[:2]) for _, kind, _, text in await logged.commands()]
    assert found == [
        (1, [b"2", b"2"]),
        (1, [b"1", b"3"]),
        (2, [None, b"3"]),
        (3, [b"1"]),
        (3, [b"2"]),
    ]


# -- propagation ----------------------------------------------------------------------------------


async def test_propagation_is_kept(logged: Logged) -> None:
    """The formats and custom procedures of an article are kept by `regenerate`."""
    await logged.execute("create table t (id int primary key, body text)")
    how = propagation("CALL sp_mine", "MCALL audit.sp_upd", "NONE", large=("body",))
    await publish(logged, "t", propagation=how)
    await publication.regenerate(logged.connection, "public", "t")
    [article] = await publication.distributed_articles(logged.connection)
    assert article.propagation == how
    assert article.procedure("ins") == "sp_mine"
    assert article.procedure("del") == "sp_msdel_t"
    await unpublish(logged, "t")
    await publish(logged, "t")
    [article] = await publication.distributed_articles(logged.connection)
    assert article.propagation == Propagation()
    await unpublish(logged, "t")
    with pytest.raises(
        ArticleError, match="'secret' is named as a large column and is not published"
    ):
        await publish(logged, "t", propagation=propagation(large=("secret",)))


async def test_names_of_default_procedures_differ(logged: Logged) -> None:
    """If names of schemas and tables would give equal procedure names, a hash makes them different."""
    await logged.execute("create schema sales; create table salesorders (id int primary key)")
    await logged.execute("create table sales.orders (id int primary key)")
    await publish(logged, "salesorders")
    await publication.publish(logged.connection, "sales", "orders")
    first, second = await publication.distributed_articles(logged.connection)
    assert first.procedures == {
        "ins": "sp_msins_salesorders", "upd": "sp_msupd_salesorders", "del": "sp_msdel_salesorders",
    }  # fmt: skip
    assert second.procedures["ins"].startswith("sp_msins_salesorders_")
    await publication.regenerate(logged.connection, "public", "salesorders")
    again = await publication.distributed_articles(logged.connection)
    assert [each.procedures for each in again] == [first.procedures, second.procedures]


async def test_column_filters_and_later_columns(logged: Logged) -> None:
    """Unpublished columns are not sent, and a column added later stops commands until regenerated."""
    await logged.execute("create table t (id int primary key, secret text, n int)")
    await publish(logged, "t", columns=("id", "n"))
    await logged.execute("insert into t values (1, 's', 2)")
    [(_, _, _, text)] = await logged.commands()
    assert record_values(text)[:2] == [b"1", b"2"]
    known = await publication.distributed_articles(logged.connection)
    await logged.execute("alter table t add column more int")
    await logged.execute("insert into t values (2, 's', 2, gen_random_uuid(), 3)")
    with pytest.raises(
        ArticleError, match=r"column 'more' was not there when .* `twopc regenerate`"
    ):
        await logged.commands(known)
    with pytest.raises(ArticleError, match="cannot be subscribed to: the table was altered"):
        await publication.distributed_articles(logged.connection)
    await publication.regenerate(logged.connection, "public", "t")
    await logged.execute("insert into t values (3, 's', 2, gen_random_uuid(), 3)")
    [(_, _, _, text)] = await logged.commands()
    assert record_values(text)[:2] == [b"3", b"2"]


async def test_markers_come_and_go(logged: Logged) -> None:
    """Inserts and deletes of markers are logged, and yield no commands."""
    await logged.execute("create table t (id int primary key)")
    await publish(logged, "t")
    await logged.execute(
        "insert into msrepl.branch_marker (gid, xid, participants) values ('x', pg_current_xact_id(), '{}')"
    )
    await logged.execute("delete from msrepl.branch_marker")
    changes = await logged.changes()
    assert [(c.relation.name, c.operation) for c in changes] == [
        ("branch_marker", "ins"),
        ("branch_marker", "del"),
    ]
    assert changes[1].old is not None
    assert changes[1].old[0] == b"x"
    await logged.execute(
        "insert into msrepl.branch_marker values ('y', pg_current_xact_id(), '{}')"
    )
    await logged.execute("delete from msrepl.branch_marker")
    assert await logged.commands() == []
