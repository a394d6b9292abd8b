"""Partitioned tables: statements on the parent and on partitions, and rows that move between partitions."""

from __future__ import annotations

import pytest

from tests.fix_topology import MakePair
from twopc.errors import SubscriptionError

TABLE = """
create table part (id int, region text, n int, primary key (id, region)) partition by list (region);
create table part_a partition of part for values in ('a');
create table part_b partition of part for values in ('b', 'c') partition by range (id);
create table part_b1 partition of part_b for values from (0) to (100);
create table part_b2 partition of part_b for values from (100) to (1000);
insert into part select g, 'a', g from generate_series(1, 5) as g;
insert into part select g, 'b', g from generate_series(98, 102) as g;
"""
STATEMENTS = [
    ("on the parent", "insert into part values (10, 'a', 1), (10, 'b', 1), (200, 'c', 1)"),
    ("on the parent", "update part set n = n + 1"),
    ("rows that move", "update part set region = 'b' where region = 'a' and id < 3"),
    ("rows that move", "update part set id = id + 60 where region = 'b' and id < 100"),
    ("on a partition", "insert into part_a values (20, 'a', 1), (21, 'a', 1)"),
    ("on a partition", "update part_a set n = n * 2"),
    ("on a partition", "delete from part_a where id = 4"),
    ("in the middle", "update part_b set n = -1 where id > 99"),
    ("in the middle", "update part_b set id = id + 50 where id = 102"),
    ("on a leaf", "delete from part_b1"),
    ("on a leaf", "insert into part_b2 values (300, 'c', 1) on conflict do nothing"),
    ("merge", "merge into part as p using (values (3, 'a'), (400, 'b')) as v(id, region)"
              " on p.id = v.id and p.region = v.region when matched then delete"
              " when not matched then insert values (v.id, v.region, 0)"),
    ("on the parent", "delete from part where n < 3"),
]  # fmt: skip


@pytest.mark.parametrize("at_subscriber", ["partitioned", "plain"])
async def test_statements(make_pair: MakePair, at_subscriber: str) -> None:
    """Each kind of change is one call, whichever table the statement names, including row movement."""
    there = [TABLE.split("insert")[0]] if at_subscriber == "partitioned" else []
    pair = await make_pair(TABLE, publish=["part"], at_subscriber=there)
    for table in ("part_a", "part_b", "part_b1", "part_b2"):
        if there:
            await pair.topology.execute("sub1", f"grant all on {table} to public")

    for what, statement in STATEMENTS:
        if not there and "part_" in statement:
            continue
        assert await pair.run(statement) == (2 if what == "merge" else 1), f"{what}: {statement}"
        await pair.equal("part", after=statement)


async def test_truncate_of_a_partition_is_refused(make_pair: MakePair) -> None:
    """TRUNCATE of the parent and of each partition is refused at both ends."""
    pair = await make_pair(TABLE, publish=["part"], at_subscriber=[TABLE.split("insert")[0]])
    for node in ("pub", "sub1"):
        for table in ("part", "part_a", "part_b", "part_b2"):
            with pytest.raises(Exception, match="TRUNCATE is refused"):
                await pair.topology.execute(node, f"truncate {table}")
    await pair.same("part")


async def test_after_row_trigger_on_a_partition(make_pair: MakePair) -> None:
    """A user's AFTER ROW trigger on a partition would fire before ours, and causes the original's error."""
    pair = await make_pair(TABLE, publish=["part"], at_subscriber=[TABLE.split("insert")[0]])
    await pair.topology.execute(
        "sub1",
        "create function f() returns trigger language plpgsql as $$ begin return null; end $$;"
        "create trigger mine after delete on part_b1 for each row execute function f()",
    )
    with pytest.raises(SubscriptionError, match="21130") as caught:
        await pair.topology.activate("sub1")
    assert "partition" in str(caught.value)
    assert "part_b1" in str(caught.value)
    await pair.topology.execute(
        "sub1",
        "drop trigger mine on part_b1;"
        "create trigger mine after delete on part_b1 for each statement execute function f();"
        "create trigger mine after update on part for each statement execute function f()",
    )
    await pair.topology.activate("sub1")
    await pair.run("delete from part", "insert into part values (1, 'a', 1)")
    await pair.same("part")


async def test_savepoints(make_pair: MakePair) -> None:
    """Changes of partitioned tables are rolled back to a savepoint like others."""
    pair = await make_pair(TABLE, publish=["part"], at_subscriber=[TABLE.split("insert")[0]])
    await pair.run(
        "update part set region = 'b' where id = 1",
        "savepoint a",
        "delete from part",
        "rollback to a",
        "update part set n = 0",
    )
    assert len(await pair.same("part")) == 10


async def test_referenced_partitioned_table(make_pair: MakePair) -> None:
    """Referential actions of a foreign key to a partitioned table are replicated."""
    pair = await make_pair(
        TABLE,
        "create table child (id int primary key, part_id int, region text,"
        " foreign key (part_id, region) references part on delete cascade on update cascade);"
        "insert into child select row_number() over (), id, region from part, generate_series(1, 2)",
        publish=["part", "child"],
        at_subscriber=[TABLE.split("insert")[0]],
    )
    for statement in (
        "delete from part where id = 1",
        "update part set id = id + 10 where region = 'a'",
        "update part set region = 'c' where region = 'b'",
    ):
        assert await pair.run(statement) == 1
        await pair.equal("part", "child", after=statement)


async def test_trigger_of_the_publisher_on_a_partition(make_pair: MakePair) -> None:
    """Changes by a Publisher's trigger on a partition are returned, whether it was there first or created later."""
    pair = await make_pair(
        TABLE,
        """
        create function twice() returns trigger language plpgsql as $$
        begin new.n := new.n * 2; return new; end $$;
        create trigger twice before insert or update on part_b1 for each row execute function twice();
        """,
        publish=["part"],
    )
    await pair.run(
        "insert into part values (20, 'b', 1), (20, 'a', 1)", "update part set n = n + 1"
    )
    await pair.same("part")

    await pair.topology.execute(
        "pub",
        "create trigger twice before insert or update on part_a for each row execute function twice()",
    )
    error = await pair.refused("update part set n = n + 1 where region = 'a'")
    assert "twopc regenerate" in str(error.diag.message_hint)
    await pair.topology.regenerate("part")
    await pair.run("update part set n = n + 1 where region = 'a'")
    await pair.same("part")
