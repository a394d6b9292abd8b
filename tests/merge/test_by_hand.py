"""Conflicts resolved by hand: new changes, refusals, and administrators who are asked."""

from __future__ import annotations

import itertools

import pytest

from tests.fix_merge import converge, customer, cut_off
from twopc.errors import MergeError
from twopc.merge.decision import ConflictType, Side
from twopc.merge.encounters import MergeEncounter, Resolution
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology
from twopc.sim.merge.conflicts import MergeConflict


async def conflict_of(topology: MergeTopology, change: str, other: str) -> MergeConflict:
    """Return a conflict about customer 2, which the first change has won at the Publisher."""
    await topology.execute("pub", change)
    await topology.execute("anna", other)
    assert (await topology.sync("anna")).conflicts == 1
    return (await topology.conflicts("customer"))[-1]


UPDATE = "update customer set phone = '{}', credit = {} where id = 2"
DELETE = "delete from customer where id = 2"


async def test_each_way(merge_shop: MergeTopology) -> None:
    """Updates are resolved to the winner, the loser or other values.

    A deletion that had lost is performed, and a row that had lost is restored.
    """
    conflict = await conflict_of(merge_shop, UPDATE.format("2", 20), UPDATE.format("3", 30))
    await merge_shop.resolve(conflict, keep="winner")
    [done] = await merge_shop.conflicts()
    assert (done.type, done.loser and done.loser["phone"]) == (ConflictType.RESOLVED_BY_HAND, "3")
    with pytest.raises(MergeError, match="was resolved before"):
        await merge_shop.resolve(conflict, keep="loser")

    conflict = await conflict_of(merge_shop, UPDATE.format("4", 40), UPDATE.format("5", 50))
    await merge_shop.resolve(conflict, keep="loser", forget=True)
    with pytest.raises(MergeError, match="no conflict"):
        await merge_shop.resolve(conflict, keep="loser")
    await merge_shop.settle()
    for node in ("pub", "anna", "ben"):
        assert await customer(merge_shop, node, 2) == ("5", 50)

    conflict = await conflict_of(merge_shop, UPDATE.format("6", 60), UPDATE.format("7", 70))
    for row, message in (
        ({"credit": -1}, "customer_credit_check"),
        ({"fax": 1}, "no column 'fax'"),
    ):
        with pytest.raises(MergeError, match=message):
            await merge_shop.resolve(conflict, row=row)
    await merge_shop.resolve(conflict, row={"phone": "6 or 7"})
    await merge_shop.settle()
    assert await customer(merge_shop, "ben", 2) == ("6 or 7", 60)

    conflict = await conflict_of(merge_shop, UPDATE.format("8", 80), DELETE)
    await merge_shop.settle()
    await merge_shop.resolve(conflict, keep="loser")
    await merge_shop.settle()
    assert await merge_shop.execute("ben", "select id from customer") == [(1,)]
    await merge_shop.assert_converged()


async def test_a_row_that_is_gone(merge_shop: MergeTopology) -> None:
    """A row that lost to a deletion is restored.

    If the row was deleted after the conflict, the loser cannot be kept.
    """
    conflict = await conflict_of(merge_shop, UPDATE.format("2", 20), UPDATE.format("3", 30))
    await merge_shop.execute("pub", DELETE)
    with pytest.raises(MergeError, match="not there any more"):
        await merge_shop.resolve(conflict, keep="loser")
    with pytest.raises(MergeError, match="which row to keep"):
        await merge_shop.resolve(conflict)
    await merge_shop.resolve(conflict, keep="winner")
    await merge_shop.execute("anna", UPDATE.format("9", 90))
    await merge_shop.sync("anna")
    [conflict] = [c for c in await merge_shop.conflicts() if c.type is ConflictType.DELETE_WINS]
    await merge_shop.resolve(conflict, keep="loser")
    await converge(merge_shop)
    assert await customer(merge_shop, "ben", 2) == ("9", 90)


async def test_somebody_is_asked(merge_shop: MergeTopology) -> None:
    """An answer counts for the rows that were shown; no transaction is open in the meantime.

    Without an answer, the proposal is taken.
    """
    for number in (1, 2):
        await merge_shop.execute("pub", f"update customer set phone = '2' where id = {number}")
        await merge_shop.execute("anna", f"update customer set phone = '3' where id = {number}")
    shown = []

    async def ask(encounter: MergeEncounter, proposal: Resolution | None) -> Resolution | None:
        assert encounter.held is not None and encounter.incoming is not None
        number = encounter.held["id"]
        shown.append((number, encounter.held["phone"], encounter.incoming["phone"], proposal))
        if number == 2:  # no transaction waits for the answer
            await merge_shop.execute("pub", "update customer set credit = 90 where id = 2")
        return Resolution(winner=Side.INCOMING, row={"credit": 50})

    assert (await merge_shop.sync("anna", ask=ask)).conflicts == 2
    assert sorted(shown) == [(1, "2", "3", None), (2, "2", "3", None)]
    assert await customer(merge_shop, "anna", 1) == ("3", 50)
    assert await customer(merge_shop, "anna", 2) == ("2", 90)  # the row has changed since
    await converge(merge_shop)


async def test_records_are_kept_for_so_long(merge_shop: MergeTopology) -> None:
    """Conflicts older than 14 days are removed with their rows.

    The node that each conflict came from is known by its replica.
    """
    for number in (1, 2):
        await merge_shop.execute("pub", f"update customer set phone = '2' where id = {number}")
        await merge_shop.execute("anna", f"update customer set phone = '3' where id = {number}")
    await merge_shop.sync("anna")
    assert await merge_shop.clean_conflicts() == 0
    origins = (
        "select s.subscriber_server from msrepl.msmerge_conflicts_info as c"
        " join msrepl.sysmergesubscriptions as s on s.replnickname = c.origin_datasource_id"
    )
    assert await merge_shop.execute("pub", origins) == [("anna",)] * 2
    await merge_shop.execute(
        "pub",
        "update msrepl.msmerge_conflicts_info set msrepl_create_time = now() - interval '15 days'"
        " where rowguid = (select rowguid from customer where id = 1)",
    )
    assert await merge_shop.clean_conflicts() == 1
    [kept] = await merge_shop.conflicts()
    assert kept.loser is not None and kept.loser["id"] == 2
    left = "select count(*) from msrepl.msmerge_conflict_merge_customer"
    assert await merge_shop.execute("pub", left) == [(1,)]


async def test_where_conflicts_are_on_record(server: EmbeddedServer) -> None:
    """Conflicts are recorded at the Publisher, at the session's Subscriber, or at both.

    This holds if the session is interrupted first, too.
    """
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        places = ("publisher", "subscriber", "both")
        for place in places:
            await topology.execute("pub", f"create table at_{place} (id int primary key, v text)")
            await topology.execute("pub", f"insert into at_{place} values (1, '')")
            await topology.publish(f"at_{place}", conflict_logging=place)
        for name in topology.subscribers:
            await topology.subscribe(name)
        for place, node in itertools.product(places, ("pub", "anna")):
            await topology.execute(node, f"update at_{place} set v = '{node}'")

        with cut_off(topology, "merge.upload_received(anna)"):
            await topology.sync("anna")
        topology.points.disarm()
        await topology.settle()
        found = {
            node: [(c.table, c.origin, c.loser and c.loser["v"]) for c in await topology.conflicts(node=node)]
            for node in ("pub", "anna", "ben")
        }  # fmt: skip
        assert found == {
            "pub": [("at_publisher", "anna", "anna"), ("at_both", "anna", "anna")],
            "anna": [("at_subscriber", "anna", "anna"), ("at_both", "anna", "anna")],
            "ben": [],
        }
        [conflict] = await topology.conflicts("at_subscriber", node="anna")
        await topology.resolve(conflict, keep="loser", node="anna")
        await topology.settle()
        assert await topology.execute("ben", "select v from at_subscriber") == [("anna",)]
        await topology.execute("pub", "alter table at_subscriber add check (v <> 'bad')")
        await topology.execute("anna", "update at_subscriber set v = 'bad'")
        await topology.sync("anna")
        assert [c.reason_code for c in await topology.conflicts("at_subscriber")] == ["23514"]
        await topology.execute("anna", "update at_subscriber set v = 'good'")
        await topology.sync("anna")
        assert await topology.conflicts("at_subscriber") == []
        [resolved] = await topology.conflicts("at_subscriber", node="anna")
        assert resolved.type is ConflictType.RESOLVED_BY_HAND
