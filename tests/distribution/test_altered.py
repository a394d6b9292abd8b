"""Tests of an ALTER TABLE among changes that are not read yet."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakeTopology, share
from twopc.errors import ArticleError


@pytest.mark.parametrize("row_filter", [None, "id > 0"])
async def test_changes_of_both_shapes(make_topology: MakeTopology, row_filter: str | None) -> None:
    """`regenerate` delivers the changes before an ALTER TABLE, and later ones are delivered afterwards."""
    topology = await make_topology(subscribers=("sub1",))
    await share(
        topology, "item", "create table item (id int primary key, name text)", row_filter=row_filter
    )
    await topology.execute("pub", "insert into item values (1, 'a')")
    for node in ("pub", "sub1"):
        await topology.execute(node, "alter table item add column more int default 7")
    await topology.execute("pub", "insert into item values (2, 'b', gen_random_uuid(), 3)")
    with pytest.raises(ArticleError, match=r"column 'more' was not there .* `twopc regenerate`"):
        await topology.sync()
    await topology.regenerate("item")
    await topology.execute("pub", "insert into item values (3, 'c', gen_random_uuid(), 4)")
    await topology.sync()
    found = await topology.execute("sub1", "select id, more from item order by 1")
    assert found == [(1, 7), (2, 3), (3, 4)]
    await topology.assert_converged()


async def test_without_a_look_in_between(make_topology: MakeTopology) -> None:
    """`regenerate` handles an ALTER TABLE although none of the log was read before."""
    topology = await make_topology(subscribers=("sub1",))
    await share(topology, "item", "create table item (id int primary key, name text)")
    await topology.execute("pub", "insert into item values (1, 'a')")
    for node in ("pub", "sub1"):
        await topology.execute(node, "alter table item rename column name to title")
    await topology.execute("pub", "update item set title = 'b'")
    await topology.regenerate("item")
    await topology.sync()
    assert await topology.execute("sub1", "select id, title from item") == [(1, "b")]
