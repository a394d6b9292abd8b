"""Sessions on real servers: what goes up, what comes down, what meets, and what happens when one is cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from twopc.drivers.points import MERGE_POINTS
from twopc.errors import ArticleError, ConfigurationError, MergeError, SubscriptionError
from twopc.merge.decision import ConflictType
from twopc.publisher.merge import publication
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

CUSTOMER = (
    "create table customer (id int primary key, phone text, credit int check (credit >= 0));"
    " create table purchase (id int primary key, customer int not null references customer, code text unique);"
    " insert into customer values (1, '1', 10), (2, '1', 10); insert into purchase values (1, 1, 'a')"
)


@pytest.fixture
async def shop(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """Customers are tracked by column, purchases by row; Anna and Ben are clients."""
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        await topology.execute("pub", CUSTOMER)
        await topology.publish("customer", tracking="column")
        await topology.publish("purchase")
        await topology.subscribe("anna")
        await topology.subscribe("ben")
        yield topology


async def customer(topology: MergeTopology, node: str, number: int = 1) -> tuple[str, int]:
    """Phone and credit of a customer."""
    [row] = await topology.execute(
        node, "select phone, credit from customer where id = %s", (number,)
    )
    return row[0], row[1]


async def test_each_gets_what_the_other_has_changed(shop: MergeTopology) -> None:
    """Inserts, updates and deletes, in both directions; a session right after brings nothing."""
    for statement in (
        "insert into customer values (3, '3', 3)",
        "insert into purchase values (2, 3, 'b')",
        "update customer set phone = '2' where id = 1",
        "delete from purchase where id = 1",
    ):
        await shop.execute("anna", statement)
    await shop.execute("pub", "insert into customer values (4, '4', 4)")
    await shop.execute("pub", "delete from customer where id = 2")
    report = await shop.sync("anna")
    assert (report.uploaded, report.downloaded, report.conflicts) == (4, 2, 0)
    again = await shop.sync("anna")
    assert (again.uploaded, again.downloaded, again.resumed) == (0, 0, False)
    assert (await shop.sync("ben")).downloaded == 6
    await shop.assert_converged()
    assert await shop.settle() == 1


async def test_columns_meet(shop: MergeTopology) -> None:
    """With column tracking two changes of different columns both hold; with row tracking one is lost."""
    await shop.execute("anna", "update customer set phone = '2' where id = 1")
    await shop.execute("pub", "update customer set credit = 20 where id = 1")
    assert (await shop.sync("anna")).conflicts == 0
    for node in ("pub", "anna"):
        assert await customer(shop, node) == ("2", 20)
    await shop.execute("anna", "update purchase set code = 'x'")
    await shop.execute("pub", "update purchase set customer = 2")
    assert (await shop.sync("anna")).conflicts == 1
    assert await shop.execute("anna", "select customer, code from purchase") == [(2, "a")]
    await shop.settle()
    await shop.assert_converged()


async def test_a_conflict_is_recorded(shop: MergeTopology) -> None:
    """The first to the Publisher wins; the loser's row is kept there, with its type and who lost."""
    await shop.execute("anna", "update customer set phone = '2', credit = 11 where id = 1")
    await shop.execute("ben", "update customer set phone = '3' where id = 1")
    assert (await shop.sync("ben")).conflicts == 0
    assert (await shop.sync("anna")).conflicts == 1
    assert await customer(shop, "anna") == ("3", 10)  # the whole row of the winner
    [conflict] = await shop.conflicts("customer")
    assert conflict.type is ConflictType.UPDATE_UPDATE_COLUMN
    assert (conflict.origin, conflict.winner) == ("anna", "ben")
    assert conflict.loser is not None
    assert (conflict.loser["phone"], conflict.loser["credit"]) == ("2", 11)
    await shop.settle()
    await shop.assert_converged()
    assert len(await shop.conflicts()) == 1


@pytest.mark.parametrize("deletes", ["pub", "anna"])
async def test_a_delete_against_an_update(shop: MergeTopology, deletes: str) -> None:
    """Whichever is at the Publisher first wins, and the other end follows."""
    updates = "anna" if deletes == "pub" else "pub"
    await shop.execute(deletes, "delete from customer where id = 2")
    await shop.execute(updates, "update customer set credit = 9 where id = 2")
    await shop.sync("anna")
    [conflict] = await shop.conflicts()
    assert (conflict.origin, conflict.loser is None) == ("anna", deletes == "anna")
    assert conflict.type is (
        ConflictType.DELETE_WINS if deletes == "pub" else ConflictType.UPDATE_WINS
    )
    await shop.settle()
    await shop.assert_converged()


async def test_an_insert_over_a_deletion(shop: MergeTopology) -> None:
    """A row that was deleted, and inserted again by somebody who has seen the deletion, is there everywhere."""
    [(guid,)] = await shop.execute("pub", "delete from customer where id = 2 returning rowguid")
    await shop.settle()
    await shop.execute(
        "ben", "insert into customer (id, phone, rowguid) values (2, 'again', %s)", (guid,)
    )
    await shop.settle()
    await shop.assert_converged()
    assert (await customer(shop, "anna", 2))[0] == "again"


async def test_the_documented_priorities(server: EmbeddedServer) -> None:
    """B (75) loses against A, C (50) is accepted and then beaten by B, D (a client) is accepted and is not."""
    async with MergeTopology(server=server, publisher="a", subscribers=("b", "c", "d")) as topology:
        await topology.execute("a", "create table price (id int primary key, of text)")
        await topology.execute(
            "a", "insert into price select i, '' from generate_series(1, 3) as i"
        )
        await topology.publish("price")
        await topology.subscribe("b", kind="server", priority=75)
        await topology.subscribe("c", kind="server", priority=50)
        await topology.subscribe("d")
        for node, number in (("a", 1), ("b", 1), ("c", 2), ("b", 2), ("d", 3), ("b", 3)):
            await topology.execute(node, "update price set of = %s where id = %s", (node, number))
        for node in ("c", "d", "b"):
            await topology.sync(node)
        await topology.settle()
        await topology.assert_converged()
        assert await topology.execute("a", "select of from price order by id") == [
            ("a",),
            ("b",),
            ("d",),
        ]
        assert [(c.origin, c.winner) for c in await topology.conflicts()] == [
            ("b", "a"), ("c", "b"), ("b", "d"),
        ]  # fmt: skip


async def test_a_row_that_is_changed_during_its_session_is_left(shop: MergeTopology) -> None:
    """What the Publisher sends does not overwrite it; it goes up in the next session."""
    await shop.execute("pub", "update customer set phone = '2' where id = 1")

    async def change(_: str) -> None:
        await shop.execute("anna", "update customer set credit = 30 where id = 1")

    shop.points.arm("merge.upload_acknowledged(anna)", change)
    await shop.execute("anna", "insert into customer values (5, '5', 5)")
    report = await shop.sync("anna")
    assert (report.downloaded, report.deferred) == (0, 1)
    assert await customer(shop, "anna") == ("1", 30)
    assert (await shop.sync("anna")).uploaded == 1
    for node in ("pub", "anna"):
        assert await customer(shop, node) == ("2", 30)


COUNTED = (
    "create table applied (node name default current_database(), n int);"
    " create function count_it() returns trigger language plpgsql security definer set search_path = public as"
    " $$ begin insert into applied (n) values (new.id); return null; end $$;"
    " create trigger count_it after insert or update on customer for each row execute function count_it();"
    " alter table customer enable replica trigger count_it"
)


@pytest.mark.parametrize("point", [name.partition("(")[0] for name in MERGE_POINTS])
async def test_a_session_that_is_cut_off(shop: MergeTopology, point: str) -> None:
    """Wherever it ends, the next one goes on: nothing is lost, nothing is written twice, no conflict appears."""
    for node in ("pub", "anna"):
        await shop.execute(node, COUNTED)
    await shop.execute("anna", "update customer set phone = '2' where id = 1")
    await shop.execute("pub", "update customer set credit = 20 where id = 2")

    class CutError(Exception):
        """The agent is gone."""

    def cut(_: str) -> None:
        raise CutError

    shop.points.arm(f"{point}(anna)", cut)
    with pytest.raises(CutError):
        await shop.sync("anna")
    report = await shop.sync("anna")
    assert report.conflicts == 0
    assert report.resumed == (point in RESUMED)
    for node in ("pub", "anna"):
        assert await customer(shop, node) == ("2", 10)
        assert await shop.execute(node, "select n from applied") == [(1 if node == "pub" else 2,)]
    await shop.sync("ben")
    await shop.assert_converged()
    assert await shop.conflicts() == []


#: Where something is at the receiver that the sender does not know of.
RESUMED = {
    "merge.upload_applied",
    "merge.upload_received",
    "merge.download_applied",
    "merge.download_received",
}


async def test_changes_that_cannot_be_applied(shop: MergeTopology) -> None:
    """They stop no session and no other row; they are recorded once, and succeed when the reason is gone."""
    await shop.execute("anna", "insert into purchase values (7, 1, 'same')")
    await shop.execute("anna", "insert into purchase values (8, 1, 'other')")
    await shop.execute("pub", "insert into purchase values (9, 2, 'same')")
    for _ in range(2):
        report = await shop.sync("anna")
        assert report.retried == 2
    (up,) = await shop.conflicts("purchase")
    assert (up.type, up.origin, up.reason_code) == (
        ConflictType.UPLOAD_INSERT_FAILED,
        "anna",
        "23505",
    )
    assert up.loser is not None and up.loser["id"] == 7
    assert await shop.execute("pub", "select id from purchase order by 1") == [(1,), (8,), (9,)]
    await shop.execute("anna", "update purchase set code = 'mine' where id = 7")
    await shop.settle()
    await shop.assert_converged()
    assert await shop.execute("pub", "select count(*) from purchase") == [(4,)]


async def test_foreign_keys_hold(shop: MergeTopology) -> None:
    """A child of a parent that was deleted elsewhere is not written; parents come before children, and go after."""
    await shop.execute("pub", "delete from customer where id = 2")
    await shop.execute("anna", "insert into purchase values (5, 2, 'orphan')")
    report = await shop.sync("anna")
    assert report.retried == 2
    [conflict] = await shop.conflicts()
    assert (conflict.type, conflict.reason_code) == (ConflictType.UPLOAD_INSERT_FAILED, "23503")
    orphans = "select count(*) from purchase where customer not in (select id from customer)"
    for node in ("pub", "anna"):
        assert await shop.execute(node, orphans) == [(0,)]
    await shop.execute("anna", "delete from purchase where id = 5")
    await shop.settle()
    await shop.assert_converged()


async def test_a_child_moves_away_from_a_parent_that_is_deleted(shop: MergeTopology) -> None:
    """The deletion comes first, fails, and is tried again after the child: nothing is left for another session."""
    await shop.execute("pub", "update purchase set customer = 2; delete from customer where id = 1")
    report = await shop.sync("anna")
    assert (report.downloaded, report.retried) == (2, 0)
    await shop.sync("ben")
    await shop.assert_converged()


async def test_one_agent_for_a_subscription(shop: MergeTopology) -> None:
    """Another is refused (21036), and the first goes on."""

    async def another(_: str) -> None:
        with pytest.raises(MergeError, match="21036"):
            await shop.sync("anna")
        await shop.sync("ben")

    shop.points.arm("merge.greeted(anna)", another)
    await shop.execute("anna", "update customer set credit = 1 where id = 1")
    assert (await shop.sync("anna")).uploaded == 1


@pytest.mark.parametrize("node", ["pub", "anna"])
async def test_a_database_that_forgot_is_recognised(shop: MergeTopology, node: str) -> None:
    """If a node lacks a generation that the other has, nothing is exchanged."""
    await shop.execute("anna", "update customer set credit = 1 where id = 1")
    await shop.execute("pub", "update customer set credit = 1 where id = 2")
    await shop.sync("anna")
    await shop.execute(
        node,
        "update msrepl.msmerge_genhistory set guidsrc = gen_random_uuid() where generation > 0",
    )
    await shop.execute("anna", "update customer set credit = 5 where id = 1")
    with pytest.raises(MergeError, match=f"{node} was restored from a backup"):
        await shop.sync("anna")
    assert await customer(shop, "pub") == ("1", 1)


async def test_what_an_agent_may_not(shop: MergeTopology) -> None:
    """Its role executes its functions; it reads and writes no table, and is nobody else's agent."""
    role = (
        await shop.execute(
            "pub", "select login from msrepl.sysmergesubscriptions where subscriber_server = 'anna'"
        )
    )[0][0]
    [(nick, hexed)] = await shop.execute(
        "pub",
        "select nickname, replace(artid::text, '-', '') from msrepl.sysmergearticles where nickname = 1",
    )
    connection = await shop.admin("pub")
    await connection.execute(f'set session authorization "{role}"')
    try:
        for attempt in (
            "select from customer",
            "insert into customer values (99, 'x', 1)",
            "select from msrepl.msmerge_metadata",
            f"delete from msrepl.msmerge_metadata_{nick}",
            "update msrepl.sysmergesubscriptions set priority = 99",
            "delete from msrepl.msmerge_genhistory",
            "insert into msrepl.msmerge_genhistory (generation, snap) values (99, '1:1:')",
            f"select * from msrepl.msmerge_read_{hexed}('{{}}')",
            f"select msrepl.msmerge_write_{hexed}('{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')",
            f"select * from msrepl.msmerge_take_{hexed}('{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')",
            "select from msrepl.msmerge_conflicts_info",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute(attempt)
        [(neighbour,)] = await (
            await connection.execute("select neighbour from msrepl.merge_hello()")
        ).fetchall()
    finally:
        await connection.execute("reset session authorization")
    known = "select subscriber_server from msrepl.sysmergesubscriptions where replnickname = %s"
    assert await shop.execute("pub", known, (neighbour,)) == [("anna",)]


async def test_what_is_refused(shop: MergeTopology) -> None:
    """Each message says what is wrong; nothing is changed."""
    await shop.execute("pub", "create table late (id int primary key, n int)")
    with pytest.raises(ConfigurationError, match="subscribe already, and would not get it"):
        await shop.publish("late")
    with pytest.raises(SubscriptionError, match="anna subscribes already"):
        await shop.subscribe("anna")
    with pytest.raises(ConfigurationError, match="no node 'carl'"):
        await shop.subscribe("carl")
    for options, message in (
        ({"kind": "friend"}, "use 'client' or 'server'"),
        ({"kind": "client", "priority": 1}, "20044"),
        ({"kind": "server", "priority": 100}, "20049"),
    ):
        with pytest.raises(SubscriptionError, match=message):
            await shop.subscribe("anna", **options)


async def test_other_ways_of_being_a_table(server: EmbeddedServer) -> None:
    """Names that mean something to SQL, identity and generated columns, an own rowguid, types without equality."""
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        odd = 'the "odd" {} %s one'
        quoted = '"the ""odd"" {} %s one"'
        for statement in (
            f"create schema {quoted}",
            f'create table {quoted}.{quoted} ("100% {{x}}" int generated always as identity primary key,'
            ' "it\'s ""so""" text, w int, guid uuid not null unique default gen_random_uuid(),'
            " taken point, gone json, rows int generated always as (w * 2) stored)",
            f"insert into {quoted}.{quoted} (w, taken, gone) values (1, '(1,2)', '{{\"a\": 1}}')",
        ):
            await topology.execute("pub", statement)
        await topology.publish(odd, schema=odd, tracking="column", rowguid="guid")
        await topology.subscribe("anna")
        await topology.execute("anna", f"update {quoted}.{quoted} set taken = '(3,4)'")
        await topology.execute(
            "pub", f'update {quoted}.{quoted} set w = 5, "it\'s ""so""" = \'("\\,\''
        )
        await topology.execute("pub", f"insert into {quoted}.{quoted} (w) values (null)")
        report = await topology.sync("anna")
        assert (report.uploaded, report.downloaded, report.conflicts) == (1, 2, 0)
        await topology.assert_converged()
        [row] = await topology.execute(
            "anna", f"select w, taken::text, rows from {quoted}.{quoted} where w = 5"
        )
        assert row == (5, "(3,4)", 10)


async def test_unpublishing_afterwards(shop: MergeTopology) -> None:
    """An article is not taken back under its Subscribers."""
    await publication.unpublish(await shop.admin("pub"), "public", "purchase")
    with pytest.raises(MergeError, match="do not merge the same tables"):
        await shop.sync("anna")
    with pytest.raises(ArticleError):
        await publication.unpublish(await shop.admin("pub"), "public", "purchase")
