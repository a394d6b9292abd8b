"""Upkeep on servers: rows at each node, status, sessions, checks, validation and repair."""

from __future__ import annotations

import asyncio
from collections import Counter
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.fix_merge import converge, customer
from tests.fix_topology import share
from twopc.drivers.merge.engine import MergeReport
from twopc.errors import ArticleError, MergeError
from twopc.sim.merge import MergeTopology
from twopc.sim.merge.agent import keep_merging
from twopc.sim.merge.validation import CHECKSUMS, COUNTS


async def test_a_row_at_each_node(merge_shop: MergeTopology) -> None:
    """The versions of a row at each node are shown, and a dummy update sends the row again."""
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    await merge_shop.sync("anna")
    above, anna, ben = await merge_shop.show_row("customer", {"id": 1})
    assert (above.lineage, above.source, above.writer) == ({"anna": 1}, "anna", "anna")
    assert (anna.lineage, anna.source, anna.columns) == ({"anna": 1}, None, {"phone": ("anna", 1)})
    assert above.row is not None and above.row["phone"] == "2"
    assert (ben.state, ben.lineage) == ("unchanged", {})

    await merge_shop.dummy_update("customer", {"id": 1})
    assert (await merge_shop.sync("anna")).downloaded == 1
    for row in (await merge_shop.show_row("customer", above.rowguid))[:2]:
        assert (row.lineage, row.writer) == ({"anna": 1, "pub": 2}, "pub")

    await merge_shop.execute("ben", "delete from purchase")
    [guid] = {row.rowguid for row in await merge_shop.show_row("purchase", {"id": 1})}
    assert [row.state for row in await merge_shop.show_row("purchase", guid)] == [
        "unchanged", "unchanged", "tombstone",
    ]  # fmt: skip
    await converge(merge_shop)
    for key, message in (({"id": 9}, "no node has a row"), (uuid4(), "20513")):
        with pytest.raises(MergeError, match=message):
            await (
                merge_shop.show_row("customer", key)
                if isinstance(key, dict)
                else merge_shop.dummy_update("customer", key)
            )
    with pytest.raises(ArticleError, match="table nothing is not merged"):
        await merge_shop.show_row("nothing", {"id": 1})


async def test_status_and_sessions(merge_shop: MergeTopology) -> None:
    """Status shows what waits and what blocks, and sessions show their results and errors."""
    await merge_shop.execute("anna", "update customer set credit = 11")
    await merge_shop.execute("anna", "insert into purchase values (7, 1, 'a2'), (8, 1, 'b')")
    await merge_shop.execute("pub", "insert into purchase values (9, 1, 'b')")
    await merge_shop.execute("pub", "delete from purchase where id = 1")
    await merge_shop.sync("anna")
    [session] = await merge_shop.sessions("anna")
    assert (session.uploaded, session.downloaded, session.retried, session.error) == (3, 1, 2, None)
    done = {(each.table, each.is_upload): each for each in session.articles}
    assert done["public.customer", True].rows == 2
    upload, download = done["public.purchase", True], done["public.purchase", False]
    assert (upload.rows, upload.retried) == (1, 1)
    assert (download.rows, download.deletes, download.retried) == (1, 1, 1)

    statuses = await merge_shop.status()
    waiting = {each.neighbour: each.waiting for each in statuses["pub"].neighbours}
    assert waiting == {"anna": 1, "ben": 5}
    assert [each.waiting for each in statuses["anna"].neighbours] == [1]
    assert (statuses["pub"].publisher, statuses["anna"].publisher) == (None, "pub")
    assert statuses["pub"].tombstones == 1

    async with await psycopg.AsyncConnection.connect(merge_shop.node("pub").dsn) as application:
        await application.execute("update customer set phone = 'held' where id = 1")
        async with application.cursor() as cursor:
            await cursor.execute("prepare transaction 'in doubt'")
    [holder] = (await merge_shop.status())["pub"].open_transactions
    assert (holder.name, holder.is_prepared) == ("in doubt", True)
    assert holder.tables == ["public.customer"]
    merge_shop.lock_timeout_ms = 50
    await merge_shop.execute("anna", "update customer set phone = 'too' where id = 1")
    with pytest.raises(MergeError, match="ended early"):
        await merge_shop.sync("anna")
    await merge_shop.execute("pub", "rollback prepared 'in doubt'")
    assert "lock" in str((await merge_shop.sessions("anna"))[0].error)
    assert (await merge_shop.status())["pub"].open_transactions == []
    await merge_shop.sync("anna")
    assert [s.error is None for s in await merge_shop.sessions()] == [True, False, True]


async def test_validation_and_repair(merge_shop: MergeTopology) -> None:
    """Rows that were changed without tracking are reported, and sent again by a repair.

    Changes that are not merged yet are not reported.
    """
    await merge_shop.execute("pub", "update customer set credit = 5 where id = 2")
    await merge_shop.execute("anna", "insert into customer values (6, 'unsent', 1)")
    assert all(each.passed for each in await merge_shop.validate("anna"))
    await merge_shop.settle()
    async with await psycopg.AsyncConnection.connect(merge_shop.node("anna").dsn) as drift:
        await drift.execute("set session_replication_role = replica")
        await drift.execute("update customer set phone = 'drift' where id = 1")
        await drift.execute("delete from purchase")
        await drift.execute("insert into customer values (8, 'extra', 1)")
        await drift.execute("delete from customer where id = 6")
        await drift.execute("insert into purchase values (2, 8, 'c')")
    counts = await merge_shop.validate("anna", level=COUNTS)
    assert [(each.table, each.passed) for each in counts] == [
        ("customer", True),
        ("purchase", True),
    ]
    results = await merge_shop.validate("anna", level=CHECKSUMS, repair=True)
    kinds = [Counter(d.kind for d in each.differences) for each in results]
    assert kinds == [
        {"different": 1, "extra": 1, "missing": 1},
        {"extra": 1, "missing": 1},
    ]
    assert [each.repaired for each in results] == [3, 2]
    assert (await merge_shop.sync("anna")).downloaded == 5
    await converge(merge_shop)
    assert await customer(merge_shop, "anna") == ("1", 10)
    for name in ("anna", "ben"):
        assert all(each.passed for each in await merge_shop.validate(name))
    assert await merge_shop.conflicts() == []
    for options, message in (
        ({"level": 4}, "level 4"),
        ({"level": 1, "repair": True}, "counts do not"),
    ):
        with pytest.raises(MergeError, match=message):
            await merge_shop.validate("anna", **options)


async def test_validation_under_way(merge_shop: MergeTopology) -> None:
    """Validation reports no false difference while applications write and sessions run."""
    await merge_shop.execute(
        "pub", "insert into customer select i, 'load', 1 from generate_series(100, 400) as i"
    )
    await merge_shop.sync("anna")
    is_over = False

    async def write(node: str) -> None:
        async with await psycopg.AsyncConnection.connect(
            merge_shop.node(node).dsn, autocommit=True
        ) as application:
            number = 0
            while not is_over:
                number += 1
                await application.execute(
                    "update customer set credit = credit + 1 where id = %s", (100 + number % 300,)
                )

    async def merge() -> None:
        while not is_over:
            await merge_shop.sync("anna")

    tasks = [asyncio.create_task(work) for work in (write("pub"), write("anna"), merge())]
    judged = 0
    try:
        while judged < 8:
            try:
                results = await merge_shop.validate("anna")
            except MergeError as error:
                assert "is under way" in str(error)
                continue
            assert all(each.passed for each in results), results
            judged += 1
    finally:
        is_over = True
        await asyncio.gather(*tasks)


async def test_what_checks_find(merge_shop: MergeTopology) -> None:
    """Checks report a disabled trigger, deletions without metadata, and a copied node."""
    assert await merge_shop.check() == []
    [(trigger,)] = await merge_shop.execute(
        "anna",
        "select tgname from pg_trigger where tgrelid = 'customer'::regclass and tgname like 'msmerge_upd%'",
    )
    await merge_shop.execute("anna", f'alter table customer disable trigger "{trigger}"')
    await merge_shop.execute("ben", "update purchase set code = 'x'")
    await merge_shop.execute("ben", "set session_replication_role = replica")
    await merge_shop.execute("ben", "delete from purchase")
    await merge_shop.execute("ben", "reset session_replication_role")
    [(replica,)] = await merge_shop.execute("anna", "select replica from msrepl.msmerge_replica")
    await merge_shop.execute(
        "ben", f"update msrepl.msmerge_replica set replica = {replica}, database = 1"
    )
    found = [(each.node, each.what) for each in await merge_shop.check()]
    for node, what in (
        ("anna", "misses updates: trigger"),
        ("ben", "1 row went without a record"),
        ("ben", "is a copy of one that merges"),
        ("ben", f"has the replica number {replica}, and so has anna"),
    ):
        assert any(at == node and what in text for at, text in found), (node, what, found)


async def test_a_publisher_that_cannot_be_reached(topology: MergeTopology) -> None:
    """A session with an unreachable Publisher names it, and the agent continues.

    The next session transfers what is due.
    """
    await share(topology, "item", "create table item (id int primary key)")
    await topology.execute("anna", "insert into item values (1)")
    reached = sql.Identifier(topology.node("pub").database)
    allow = sql.SQL("alter database {} allow_connections {}")
    below = await topology.admin("anna")
    await below.execute(allow.format(reached, sql.SQL("false")))
    stop = asyncio.Event()
    results: list[MergeReport | MergeError] = []

    async def session() -> MergeReport:
        if results:
            await below.execute(allow.format(reached, sql.SQL("true")))
            stop.set()
        return await topology.sync("anna")

    await keep_merging(session, stop, every_s=0.001, tell=results.append)
    failed, done = results
    assert isinstance(failed, MergeError) and "pub and anna ended early" in str(failed)
    assert isinstance(done, MergeReport) and done.uploaded == 1
