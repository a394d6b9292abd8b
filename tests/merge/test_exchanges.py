"""Rows that can only be written together: exchanged values, and rows that need each other."""

from __future__ import annotations

from tests.fix_topology import share
from twopc.sim.merge import MergeTopology

PLACES = """
create table seat (id int primary key, place int not null unique, note text, during int4range,
                   exclude using gist (during with &&));
insert into seat select n, n, 'seat ' || n, int4range(n, n + 1) from generate_series(1, 2500) as n;
create table ticket (id int primary key, place int not null references seat (place));
insert into ticket values (1, 1);
"""
#: Every seat takes the place and the time of the next one, by way of unused places.
ROTATION = """
update seat set place = -place, during = null;
update seat set place = id % 2500 + 1, during = int4range(id % 2500 + 1, id % 2500 + 2);
"""


async def test_values_of_a_unique_key_change_places(topology: MergeTopology) -> None:
    """Two rows of a slice, and all rows of several slices, exchange values of a unique key.

    Other columns, and rows that refer to them, are unchanged.
    """
    await topology.execute("pub", PLACES)
    await topology.publish("seat", tracking="column")
    await topology.publish("ticket")
    await topology.subscribe("anna")
    await topology.execute("pub", "update seat set note = 'window' where id = 5")
    await topology.execute(
        "anna",
        "begin; update seat set place = 0 where id = 5; update seat set place = 5 where id = 6;"
        " update seat set place = 6 where id = 5; commit",
    )
    report = await topology.sync("anna")
    assert (report.uploaded, report.retried, report.conflicts) == (2, 0, 0)
    assert await topology.execute(
        "pub", "select id, place, note from seat where id in (5, 6) order by id"
    ) == [(5, 6, "window"), (6, 5, "seat 6")]
    await topology.execute("anna", "delete from ticket")
    await topology.settle()
    await topology.execute("anna", ROTATION)
    report = await topology.sync("anna")
    assert (report.uploaded, report.retried) == (2500, 0)
    await topology.assert_converged()


async def test_columns_that_do_not_travel_are_not_lost(topology: MergeTopology) -> None:
    """If the table has columns that are not merged, rows that exchange values fail.

    Those columns are not overwritten.
    """
    await share(
        topology,
        "seat",
        "create table seat (id int primary key, place int unique); insert into seat values (1, 1), (2, 2)",
    )
    await topology.execute("pub", "alter table seat add paid numeric default 7")
    await topology.execute(
        "anna",
        "begin; update seat set place = null where id = 1; update seat set place = 1 where id = 2;"
        " update seat set place = 2 where id = 1; commit",
    )
    assert (await topology.sync("anna")).retried == 2
    assert await topology.execute("pub", "select id, place, paid from seat order by id") == [
        (1, 1, 7),
        (2, 2, 7),
    ]


CIRCLE = """
create table team (id int primary key, captain int not null);
create table member (id int primary key, team int not null references team);
alter table team add constraint captain foreign key (captain) references member;
"""


async def test_rows_that_need_one_another(topology: MergeTopology) -> None:
    """Rows that refer to each other arrive, although no order of statements could write them.

    The foreign keys are the same afterwards.
    """
    await topology.execute("pub", CIRCLE)
    await topology.publish("team")
    await topology.publish("member")
    await topology.subscribe("anna")
    await topology.execute(
        "anna",
        "begin; set constraints all deferred; insert into team values (1, 1), (2, 2);"
        " insert into member values (1, 1), (2, 2); commit",
    )
    report = await topology.sync("anna")
    assert (report.uploaded, report.retried) == (4, 0)
    # a row that cannot succeed does not affect the others
    await topology.execute("pub", "create unique index on team (captain)")
    await topology.execute(
        "anna",
        "begin; set constraints all deferred; insert into team values (3, 3), (4, 1);"
        " insert into member values (3, 3); commit",
    )
    report = await topology.sync("anna")
    assert (report.uploaded, report.retried) == (2, 1)
    [conflict] = await topology.conflicts()
    assert (conflict.table, conflict.reason_code) == ("team", "23505")
    assert await topology.execute("pub", "select id from team order by 1") == [(1,), (2,), (3,)]
    await topology.unsubscribe("anna")
    await topology.unpublish("member")
    await topology.unpublish("team")
    assert await topology.execute(
        "pub", "select count(*) from pg_constraint where contype = 'f' and condeferrable"
    ) == [(0,)]
