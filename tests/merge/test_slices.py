"""Slices: how a server cuts them, and how an agent transfers them."""

from __future__ import annotations

from tests.fix_server import Database
from tests.fix_topology import share
from tests.merge.nodes import tracked
from twopc import names
from twopc.merge.plan import BYTES_MAX, ROWS_MAX
from twopc.sim.merge import MergeTopology

_NEIGHBOUR = "insert into msrepl.sysmergesubscriptions (subscriber_server, replnickname, login) values ('anna', 5, session_user)"
_CHANGES = (
    "insert into item select n, 'small' from generate_series(1, 2500) as n",
    f"insert into item select n, repeat('x', {BYTES_MAX // 3}) from generate_series(3001, 3007) as n",
    "insert into item select n, 'gone' from generate_series(4001, 4010) as n",
    "delete from item where id > 4000 or id % 500 = 0",
)


async def test_a_server_cuts_by_rows_and_by_bytes(fresh_database: Database) -> None:
    """Slices contain each change once, in the order of `rowguid`, and deletions separately.

    A slice exceeds the limit of bytes by at most one row, which the agent cuts off.
    """
    async with tracked(fresh_database, "create table item (id int primary key, t text)") as node:
        await node.publish("item")
        await node.run(_NEIGHBOUR, *_CHANGES)
        _, generation = await node.close()
        [(artid,)] = await node.run("select artid from msrepl.sysmergearticles")
        enumerate_function = f"msrepl.{names.merge_object('enumerate', artid)}"
        slices = await node.run(
            f"select gone, guids, gones, rows from {enumerate_function}(0, {generation})"
        )
        changed = await node.run(
            "select m.rowguid, t.id is null from msrepl.msmerge_metadata as m left join item as t using (rowguid)"
        )
    lengths = {len(guids) for _, guids, *_ in slices}
    assert ROWS_MAX - 2 in lengths  # two of the first thousand rows are deleted
    for gone, guids, gones, rows in slices:
        assert len(guids) <= ROWS_MAX and guids == sorted(guids)
        assert gones == [gone] * len(guids) == [row is None for row in rows]
        assert sum(len(row or "") for row in rows[:-1]) <= BYTES_MAX
    found = [(guid, gone) for gone, guids, *_ in slices for guid in guids]
    assert sorted(found) == sorted(changed)


async def test_an_agent_carries_them(topology: MergeTopology) -> None:
    """Rows of any size are merged both ways; a slice with a failing row is applied without it."""
    await share(
        topology, "item", "create table item (id int primary key, t text)", tracking="column"
    )
    for node, sent in (("pub", "downloaded"), ("anna", "uploaded")):
        for statement in _CHANGES:
            await topology.execute(node, statement)
        [(count,)] = await topology.execute(node, "select count(*) from item")
        assert getattr(await topology.sync("anna"), sent) == count + 15
        await topology.execute(node, "delete from item")
        await topology.settle()
        await topology.assert_converged()
    await topology.execute("anna", "alter table item add check (t <> 'odd')")
    await topology.execute(
        "pub", "insert into item values (1, 'even'), (2, 'odd'), (3, E'\\\\ \"{,}\" ü')"
    )
    report = await topology.sync("anna")
    assert (report.downloaded, report.retried) == (2, 1)
    assert await topology.execute("anna", "select t from item order by id") == [
        ("even",),
        ('\\ "{,}" ü',),
    ]
