"""Interrupted sessions, changes that cannot be applied, and databases that were restored."""

from __future__ import annotations

import subprocess

import pytest

from tests.fix_merge import converge, customer, cut_off
from tests.fix_topology import share
from twopc.drivers.points import MERGE_POINTS
from twopc.errors import MergeError
from twopc.merge.decision import ConflictType
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

COUNTED = (
    "create table applied (node name default current_database(), n int);"
    " create function count_it() returns trigger language plpgsql security definer set search_path = public as"
    " $$ begin insert into applied (n) values (new.id); return null; end $$;"
    " create trigger count_it after insert or update on customer for each row execute function count_it();"
    " alter table customer enable replica trigger count_it"
)


@pytest.mark.parametrize("point", [name.partition("(")[0] for name in MERGE_POINTS])
async def test_a_session_that_is_cut_off(merge_shop: MergeTopology, point: str) -> None:
    """After a session that was interrupted at any point, the next one continues.

    Nothing is lost, nothing is applied twice, and no conflict is recorded.
    """
    for node in ("pub", "anna"):
        await merge_shop.execute(node, COUNTED)
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    await merge_shop.execute("pub", "update customer set credit = 20 where id = 2")

    with cut_off(merge_shop, f"{point}(anna)"):
        await merge_shop.sync("anna")
    report = await merge_shop.sync("anna")
    assert report.conflicts == 0
    assert report.resumed == (point in RESUMED)
    for node in ("pub", "anna"):
        assert await customer(merge_shop, node) == ("2", 10)
        assert await merge_shop.execute(node, "select n from applied") == [
            (1 if node == "pub" else 2,)
        ]
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()
    assert await merge_shop.conflicts() == []


#: Points after which the receiver has rows that the sender does not know to have arrived.
RESUMED = {
    "merge.upload_applied",
    "merge.upload_received",
    "merge.download_applied",
    "merge.download_received",
}


async def test_changes_that_cannot_be_applied(merge_shop: MergeTopology) -> None:
    """A change that cannot be applied stops no session and no other row.

    It is recorded once, and succeeds as soon as its obstacle is gone.
    """
    await merge_shop.execute("anna", "insert into purchase values (7, 1, 'same')")
    await merge_shop.execute("anna", "insert into purchase values (8, 1, 'other')")
    await merge_shop.execute("pub", "insert into purchase values (9, 2, 'same')")
    for _ in range(2):
        report = await merge_shop.sync("anna")
        assert report.retried == 2
    (up,) = await merge_shop.conflicts("purchase")
    assert (up.type, up.origin, up.reason_code) == (
        ConflictType.UPLOAD_INSERT_FAILED,
        "anna",
        "23505",
    )
    assert up.loser is not None and up.loser["id"] == 7
    assert await merge_shop.execute("pub", "select id from purchase order by 1") == [
        (1,),
        (8,),
        (9,),
    ]
    await merge_shop.execute("anna", "update purchase set code = 'mine' where id = 7")
    await converge(merge_shop)
    assert await merge_shop.execute("pub", "select count(*) from purchase") == [(4,)]
    for node in ("pub", "anna"):  # the row that failed does not overwrite the newer one
        assert await merge_shop.conflicts("purchase", node=node) == []
    losers = "select count(*) from msrepl.msmerge_conflict_merge_purchase"
    assert await merge_shop.execute("pub", losers) == [(0,)]


async def test_deferrable_keys_hold(topology: MergeTopology) -> None:
    """Deferrable keys are checked, although PostgreSQL does not do so in the replica role.

    Rows may exchange their values in one statement.
    """
    await share(
        topology,
        "seat",
        "create table seat (id int primary key, place int unique deferrable initially deferred);"
        " insert into seat values (1, 1), (2, 2)",
    )
    await topology.execute("anna", "update seat set place = 3 - place")
    assert (await topology.sync("anna")).uploaded == 2
    assert await topology.execute("pub", "select place from seat order by id") == [(2,), (1,)]
    await topology.execute("anna", "insert into seat values (3, 3)")
    await topology.execute("pub", "insert into seat values (4, 3)")
    assert (await topology.sync("anna")).retried == 2
    for node in ("pub", "anna"):
        assert await topology.execute(node, "select count(*) from seat where place = 3") == [(1,)]


async def test_foreign_keys_hold(merge_shop: MergeTopology) -> None:
    """A child whose parent was deleted at another node is not written.

    Parents are written before their children, and deleted after them.
    """
    await merge_shop.execute("pub", "delete from customer where id = 2")
    await merge_shop.execute("anna", "insert into purchase values (5, 2, 'orphan')")
    report = await merge_shop.sync("anna")
    assert report.retried == 2
    [conflict] = await merge_shop.conflicts()
    assert (conflict.type, conflict.reason_code) == (ConflictType.UPLOAD_INSERT_FAILED, "23503")
    orphans = "select count(*) from purchase where customer not in (select id from customer)"
    for node in ("pub", "anna"):
        assert await merge_shop.execute(node, orphans) == [(0,)]
    await merge_shop.execute("anna", "delete from purchase where id = 5")
    await converge(merge_shop)


async def test_a_child_moves_away_from_a_parent_that_is_deleted(merge_shop: MergeTopology) -> None:
    """The deletion of a parent fails, and is retried after its child in the same session."""
    await merge_shop.execute(
        "pub", "update purchase set customer = 2; delete from customer where id = 1"
    )
    report = await merge_shop.sync("anna")
    assert (report.downloaded, report.retried) == (2, 0)
    await merge_shop.sync("ben")
    await merge_shop.assert_converged()


async def test_an_end_that_is_lost(merge_shop: MergeTopology) -> None:
    """A session whose backend is terminated ends, and the next one continues."""

    async def terminate(_: str) -> None:
        await merge_shop.execute(
            "pub",
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and application_name like 'msrepl merge agent%'",
        )

    await merge_shop.execute("anna", "update customer set credit = 1 where id = 1")
    merge_shop.points.arm("merge.upload_applied(anna)", terminate)
    with pytest.raises(MergeError, match="ended early, and the next continues"):
        await merge_shop.sync("anna")
    report = await merge_shop.sync("anna")
    assert (report.uploaded, report.resumed) == (0, True)
    await converge(merge_shop)


async def test_an_application_that_keeps_a_lock(merge_shop: MergeTopology) -> None:
    """A slice that a lock blocks is retried; if the lock stays, the session fails.

    The next session continues.
    """
    async with await merge_shop.node("pub").connect() as other:
        await other.execute("begin")
        await other.execute("update customer set credit = 3 where id = 1")
        await merge_shop.execute("anna", "update customer set phone = '7' where id = 1")
        merge_shop.lock_timeout_ms = 10
        with pytest.raises(MergeError, match="lock timeout") as caught:
            await merge_shop.sync("anna")
        assert caught.value.sqlstate == "55P03"
        await other.execute("commit")
    assert (await merge_shop.sync("anna")).uploaded == 1
    assert await customer(merge_shop, "anna") == ("7", 3)


async def test_one_agent_for_a_subscription(merge_shop: MergeTopology) -> None:
    """A second agent of a subscription is refused (21036), and the first one continues."""

    async def another(_: str) -> None:
        with pytest.raises(MergeError, match="21036"):
            await merge_shop.sync("anna")
        await merge_shop.sync("ben")

    merge_shop.points.arm("merge.greeted(anna)", another)
    await merge_shop.execute("anna", "update customer set credit = 1 where id = 1")
    assert (await merge_shop.sync("anna")).uploaded == 1


async def test_an_agent_that_the_publisher_has_disconnected(merge_shop: MergeTopology) -> None:
    """Until an agent that still applies rows at the Subscriber has ended, another one is refused (21036).

    Rows of the older session would otherwise be written over those of the newer one.
    """

    async def another(_: str) -> None:
        [pid] = [pid for node, pid in await merge_shop.agent_processes("anna") if node == "pub"]
        await merge_shop.execute("pub", "select pg_terminate_backend(%s, 5000)", (pid,))
        with pytest.raises(MergeError, match=r"at anna \(21036\)"):
            await merge_shop.sync("anna")

    merge_shop.points.arm("merge.download_read(anna)", another)
    await merge_shop.execute("pub", "update customer set credit = 1 where id = 1")
    with pytest.raises(MergeError, match="ended early"):
        await merge_shop.sync("anna")
    assert (await merge_shop.sync("anna")).resumed
    await converge(merge_shop)


def copy_files(server: EmbeddedServer, source: str, target: str) -> None:
    """Replace a directory of a stopped server by another, keep the owners, and start the server."""
    subprocess.run(["rm", "-rf", server.directory / target], check=True)
    subprocess.run(["cp", "-a", server.directory / source, server.directory / target], check=True)
    server.restart()


@pytest.mark.parametrize("tracking", ["row", "column"])
@pytest.mark.parametrize(("node", "wins"), [("pub", "after"), ("anna", "before")])
async def test_a_database_that_was_restored(node: str, wins: str, tracking: str) -> None:
    """A database restored from files gets back what it had sent and received since.

    A row that it changes again, under a version number that it has given before, conflicts with the
    row that had that number.
    """
    async with MergeTopology(subscribers=("anna",), servers="each") as topology:
        await share(
            topology,
            "note",
            "create table note (id int primary key, body text)",
            "insert into note select i, '' from generate_series(1, 4) as i",
            tracking=tracking,
        )
        server = topology.node(node).server
        assert isinstance(server, EmbeddedServer)
        for source, target in (("data", "backup"), ("backup", "data")):
            await (await topology.admin(node)).close()
            server.shut_down()
            copy_files(server, source, target)
            if target == "backup":
                for at, number in (("anna", 1), ("anna", 2), ("pub", 3), ("pub", 4)):
                    await topology.execute(
                        at, "update note set body = 'before' where id = %s", (number,)
                    )
                await topology.sync("anna")
        changed = 1 if node == "anna" else 3
        await topology.execute(node, "update note set body = 'after' where id = %s", (changed,))
        assert (await topology.sync("anna")).anew
        await topology.assert_converged()
        bodies = dict(await topology.execute("pub", "select id, body from note"))
        assert bodies == {**dict.fromkeys((1, 2, 3, 4), "before"), changed: wins}
        [conflict] = await topology.conflicts()
        assert conflict.loser is not None
        assert {conflict.loser["body"], wins} == {"before", "after"}
        again = await topology.sync("anna")
        assert (again.uploaded, again.downloaded, again.anew) == (0, 0, False)
