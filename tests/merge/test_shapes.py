"""Tables and changes of many shapes: wide, large, many, self-referencing, with new keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.fix_merge import cut_off
from twopc.merge.plan import ROWS_MAX
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology


@asynccontextmanager
async def merged(
    server: EmbeddedServer, table: str, *statements: str, tracking: str = "column"
) -> AsyncIterator[MergeTopology]:
    """Yield a topology with a table at the Publisher and one Subscriber."""
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        for statement in statements:
            await topology.execute("pub", statement)
        await topology.publish(table, tracking=tracking)
        await topology.subscribe("anna")
        yield topology


@pytest.mark.parametrize("tracking", ["row", "column"])
@pytest.mark.parametrize("count", [1, 8, 64, 246])
async def test_columns(server: EmbeddedServer, count: int, tracking: str) -> None:
    """Tables from one column to the highest number are merged, with changes at both ends."""
    columns = "".join(f", c{n} int default {n}" for n in range(1, count))
    create = f"create table wide (c0 int primary key{columns})"
    async with merged(
        server, "wide", create, "insert into wide values (1), (2)", tracking=tracking
    ) as topology:
        await topology.execute("anna", f"update wide set c{count - 1} = 1000 where c0 = 1")
        await topology.execute("pub", "insert into wide values (3)")
        await topology.execute("pub", "update wide set c0 = 20 where c0 = 2")
        report = await topology.sync("anna")
        assert (report.uploaded, report.downloaded, report.conflicts) == (1, 2, 0)
        await topology.assert_converged()
        [(seen,)] = await topology.execute(
            "pub", f"select count(*) from wide where c{count - 1} = 1000"
        )
        assert seen == 1
        if count == 1:
            return
        await topology.execute("anna", f"update wide set c{count - 1} = 7 where c0 = 3")
        await topology.execute("pub", "update wide set c0 = 30 where c0 = 3")
        report = await topology.sync("anna")
        assert report.conflicts == (tracking == "row")
        await topology.settle()
        await topology.assert_converged()


async def test_more_than_a_slice(server: EmbeddedServer) -> None:
    """Thousands of rows, and rows of megabytes, are merged.

    A session that is interrupted after a slice does not send it again.
    """
    create = "create table many (id int primary key, body text)"
    async with merged(server, "many", create) as topology:
        rows = 2 * ROWS_MAX + 5
        await topology.execute(
            "anna", f"insert into many select i, 'x' from generate_series(1, {rows}) as i"
        )
        with cut_off(topology, "merge.upload_applied(anna)", nth=2):
            await topology.sync("anna")
        assert await topology.execute("pub", "select count(*) from many") == [(2 * ROWS_MAX,)]
        report = await topology.sync("anna")
        assert (report.uploaded, report.resumed) == (5, True)
        await topology.execute(
            "pub", "update many set body = repeat(md5(id::text), 100000) where id < 6"
        )
        assert (await topology.sync("anna")).downloaded == 5
        await topology.assert_converged()


async def test_a_table_that_refers_to_itself(server: EmbeddedServer) -> None:
    """Parents and children of one table are merged in one session, in any order of their rows."""
    create = "create table tree (id int primary key, parent int references tree)"
    async with merged(server, "tree", create) as topology:
        await topology.execute(
            "anna",
            "insert into tree (id, parent, rowguid) select i, nullif(i / 2, 0), md5(i::text)::uuid"
            " from generate_series(1, 40) as i",
        )
        await topology.execute("pub", "insert into tree values (100, null)")
        assert (await topology.sync("anna")).uploaded == 40
        await topology.execute("pub", "update tree set parent = 100 where id = 2")
        await topology.execute(
            "pub", "delete from tree where id > 3 and id % 2 = 1 and id < 40 and id > 20"
        )
        await topology.execute("anna", "insert into tree values (50, 40), (51, 50)")
        report = await topology.sync("anna")
        assert report.retried == 0
        await topology.execute("anna", "delete from tree")
        await topology.sync("anna")
        assert await topology.execute("pub", "select count(*) from tree") == [(0,)]
        await topology.assert_converged()


async def test_values_as_they_are(server: EmbeddedServer) -> None:
    """Values arrive unchanged, whatever a session's settings and a text's content."""
    create = (
        "create table value (id int primary key, f float8, n numeric, b bytea, t timestamptz, i interval, j jsonb,"
        " a text[], r int4range, s text, p point, z time with time zone)"
    )
    insert = (
        "insert into value values (1, 0.1::float8 + 0.2, 1e-30, '\\x00ff', '2026-03-29 02:30:00.123456+01',"
        " '-1 mon +2 days -03:00:00.5', '{\"a\": [1, null]}', array['', null, '{\",}', E'\\n\\\\'],"
        " '[1,5)', E'\\t(\"\",)''$1 %s {} \\u00e9', '(1.5,-2)', '10:00+05:30'),"
        " (2, 'NaN', 'Infinity', '', 'infinity', null, 'null', '{}', 'empty', '', null, null)"
    )
    async with merged(server, "value", create) as topology:
        for name, setting in (("datestyle", "SQL, DMY"), ("intervalstyle", "sql_standard"), ("timezone", "Asia/Tokyo"),
                              ("bytea_output", "escape"), ("extra_float_digits", "-5")):  # fmt: skip
            [(database,)] = await topology.execute("anna", "select quote_ident(current_database())")
            await topology.execute("anna", f"alter database {database} set {name} = '{setting}'")
        await topology.execute("pub", insert)
        assert (await topology.sync("anna")).downloaded == 2
        await topology.assert_converged()
        await topology.execute("anna", "update value set id = id + 10")
        assert (await topology.sync("anna")).uploaded == 2
        await topology.assert_converged()
