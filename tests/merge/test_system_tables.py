"""SQL Server's system tables, by their names, at both ends, and the content of some views."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.fix_topology import share
from tests.merge.partitions import publish_shop
from twopc.errors import MergeError
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

_PAGE = Path(__file__).parents[2] / "docs/merge.md"
_HELD = "select c.relname::text from pg_class as c where c.relnamespace = 'msrepl'::regnamespace and c.relkind in ('r', 'v', 'p')"


async def test_all_of_them(server: EmbeddedServer) -> None:
    """Each system table that the page lists as present exists at both ends.

    For every other one the page gives the reason.
    """
    _, _, table = _PAGE.read_text(encoding="utf-8").partition("| system table | here |")
    rows = re.findall(r"^\| (\*\*)?`(MS\w+|sysm\w+)`(\*\*)? \|", table, re.MULTILINE)
    there = {name.lower() for bold, name, _ in rows if not bold}
    assert len(rows) == 31
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        await share(topology, "item", "create table item (id int primary key)")
        for node in ("pub", "anna"):
            held = {name for (name,) in await topology.execute(node, _HELD)}
            assert there <= held, node


@pytest.mark.parametrize(("name", "count"), [("merge.md", 38), ("merge_partitions.md", 8)])
def test_the_pages_name_tests_that_there_are(name: str, count: int) -> None:
    """Each test that a page names exists; each sentence of SQL Server's names one or says no."""
    page = _PAGE.with_name(name).read_text(encoding="utf-8")
    tests = Path(__file__).parents[1]
    files = [*tests.glob("merge/*.py"), *tests.glob("cli/*merge*.py")]
    there = {
        name
        for path in files
        for name in re.findall(r"def (test_\w+)\(", path.read_text(encoding="utf-8"))
    }
    named = {*re.findall(r"`(?:tests/merge/)?(test_\w+(?:\.py)?)`", page)}
    assert len(named) >= count
    assert not named - there - {path.name for path in files}
    for heading in re.findall(r"^## .* original.*$", page, re.MULTILINE):
        _, _, rest = page.partition(heading)
        for line in rest.partition("\n\n| system table")[0].partition("\n## ")[0].splitlines():
            if line.startswith("| ") and line.count("|") == 4 and not line.endswith("| test |"):
                assert "`test_" in line or "**no" in line, line


async def test_what_they_say(topology: MergeTopology, tmp_path: Path) -> None:
    """System tables describe a failed session, a partition's snapshot, and a failed deletion."""
    await publish_shop(topology)
    await topology.snapshot(tmp_path, host_name="north")
    await topology.subscribe("anna", host_name="north")

    await topology.execute("anna", "update customer set phone = '3' where id = 1")
    topology.wiring.lock_timeout_ms = 50
    async with await AsyncConnection.connect(topology.node("pub").dsn) as application:
        await application.execute("update customer set phone = '2' where id = 1")
        with pytest.raises(MergeError, match="ended early"):
            await topology.sync("anna")
        await application.rollback()
    topology.wiring.lock_timeout_ms = 5000
    failure = "canceling statement due to lock timeout"
    await topology.execute("anna", "delete from line; delete from purchase; delete from customer")
    await topology.execute("pub", "insert into purchase values (9, 1, 9)")
    report = await topology.sync("anna")
    assert report.uploaded == 2
    for query, expected in (
        (
            "select source_name, split_part(error_text, chr(10), 1) from msrepl.msrepl_errors",
            [("anna", failure)],
        ),
        (
            "select split_part(comments, chr(10), 1) from msrepl.msmerge_history order by session_id",
            [(failure,), ("uploaded 2, downloaded 0, 0 conflicts, 0 deferred, 2 retried",)],
        ),
        (
            "select name, dynamic_filter_hostname, initiated_by from msrepl.msdynamicsnapshotjobs",
            [(f"pub-{topology.node('pub').database}-merge-1", "north", None)],
        ),
        ("select count(*) from msrepl.msmerge_errorlineage where tablenick = 1", [(1,)]),
        (
            "select subscriber, sentgen from msrepl.msmerge_replinfo",
            [("anna", 1)],
        ),
        (
            "select source_object, subset_filterclause is null from msrepl.sysmergepartitioninfoview order by nickname",
            [("customer", False), ("purchase", True), ("line", True), ("product", True)],
        ),
    ):
        assert await topology.execute("pub", query) == expected, query
