"""Sessions on servers: uploads, downloads and conflicts; subscriptions and rights."""

from __future__ import annotations

import asyncio
import os
import signal

import psycopg
import pytest

from tests.fix_merge import converge, customer
from twopc.errors import ArticleError, ConfigurationError, MergeError, SubscriptionError
from twopc.merge.decision import ConflictType
from twopc.publisher.merge import publication
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology, logins
from twopc.sim.merge.attachment import attach
from twopc.sim.merge.logins import AgentLogin


async def test_each_gets_what_the_other_has_changed(merge_shop: MergeTopology) -> None:
    """Inserts, updates and deletes are merged in both directions, and the next session is empty."""
    for statement in (
        "insert into customer values (3, '3', 3)",
        "insert into purchase values (2, 3, 'b')",
        "update customer set phone = '2' where id = 1",
        "delete from purchase where id = 1",
    ):
        await merge_shop.execute("anna", statement)
    await merge_shop.execute("pub", "insert into customer values (4, '4', 4)")
    await merge_shop.execute("pub", "delete from customer where id = 2")
    report = await merge_shop.sync("anna")
    assert (report.uploaded, report.downloaded, report.conflicts) == (4, 2, 0)
    again = await merge_shop.sync("anna")
    assert (again.uploaded, again.downloaded, again.resumed) == (0, 0, False)
    assert (await merge_shop.sync("ben")).downloaded == 6
    await merge_shop.assert_converged()
    assert await merge_shop.settle() == 1


async def test_columns_meet(merge_shop: MergeTopology) -> None:
    """With column tracking, two changes of different columns are both kept.

    With row tracking, one of them is lost.
    """
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    await merge_shop.execute("pub", "update customer set credit = 20 where id = 1")
    assert (await merge_shop.sync("anna")).conflicts == 0
    for node in ("pub", "anna"):
        assert await customer(merge_shop, node) == ("2", 20)
    await merge_shop.execute("anna", "update purchase set code = 'x'")
    await merge_shop.execute("pub", "update purchase set customer = 2")
    assert (await merge_shop.sync("anna")).conflicts == 1
    assert await merge_shop.execute("anna", "select customer, code from purchase") == [(2, "a")]
    await converge(merge_shop)


async def test_a_conflict_is_recorded(merge_shop: MergeTopology) -> None:
    """The first change at the Publisher wins, and the loser's row is recorded.

    The record includes the type of the conflict, and the node that lost.
    """
    await merge_shop.execute("anna", "update customer set phone = '2', credit = 11 where id = 1")
    await merge_shop.execute("ben", "update customer set phone = '3' where id = 1")
    assert (await merge_shop.sync("ben")).conflicts == 0
    assert (await merge_shop.sync("anna")).conflicts == 1
    assert await customer(merge_shop, "anna") == ("3", 10)  # the whole row of the winner
    [conflict] = await merge_shop.conflicts("customer")
    assert conflict.type is ConflictType.UPDATE_UPDATE_COLUMN
    assert (conflict.origin, conflict.winner) == ("anna", "ben")
    assert conflict.loser is not None
    assert (conflict.loser["phone"], conflict.loser["credit"]) == ("2", 11)
    await converge(merge_shop)
    assert len(await merge_shop.conflicts()) == 1


@pytest.mark.parametrize("deletes", ["pub", "anna"])
async def test_a_delete_against_an_update(merge_shop: MergeTopology, deletes: str) -> None:
    """The change that is at the Publisher first wins, and the other end follows."""
    updates = "anna" if deletes == "pub" else "pub"
    await merge_shop.execute(deletes, "delete from customer where id = 2")
    await merge_shop.execute(updates, "update customer set credit = 9 where id = 2")
    await merge_shop.sync("anna")
    [conflict] = await merge_shop.conflicts()
    assert (conflict.origin, conflict.loser is None) == ("anna", deletes == "anna")
    assert conflict.type is (
        ConflictType.DELETE_WINS if deletes == "pub" else ConflictType.UPDATE_WINS
    )
    await converge(merge_shop)


async def test_an_insert_over_a_deletion(merge_shop: MergeTopology) -> None:
    """A row inserted again by a node that knows of its deletion exists at all nodes."""
    [(guid,)] = await merge_shop.execute(
        "pub", "delete from customer where id = 2 returning rowguid"
    )
    await merge_shop.settle()
    await merge_shop.execute(
        "ben", "insert into customer (id, phone, rowguid) values (2, 'again', %s)", (guid,)
    )
    await converge(merge_shop)
    assert (await customer(merge_shop, "anna", 2))[0] == "again"


async def test_the_documented_priorities(server: EmbeddedServer) -> None:
    """B (75) loses to A, and C (50) to B later; the change of D, a client, is accepted and kept."""
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
        await converge(topology)
        assert await topology.execute("a", "select of from price order by id") == [
            ("a",),
            ("b",),
            ("d",),
        ]
        assert [(c.origin, c.winner) for c in await topology.conflicts()] == [
            ("b", "a"), ("c", "b"), ("b", "d"),
        ]  # fmt: skip


async def test_a_row_that_is_changed_during_its_session_is_left(merge_shop: MergeTopology) -> None:
    """A download does not overwrite a row that was changed during the session.

    The next session uploads it.
    """
    await merge_shop.execute("pub", "update customer set phone = '2' where id = 1")

    async def change(_: str) -> None:
        await merge_shop.execute("anna", "update customer set credit = 30 where id = 1")

    merge_shop.points.arm("merge.upload_acknowledged(anna)", change)
    await merge_shop.execute("anna", "insert into customer values (5, '5', 5)")
    report = await merge_shop.sync("anna")
    assert (report.downloaded, report.deferred) == (0, 1)
    assert await customer(merge_shop, "anna") == ("1", 30)
    assert (await merge_shop.sync("anna")).uploaded == 1
    for node in ("pub", "anna"):
        assert await customer(merge_shop, node) == ("2", 30)


async def test_sessions_take_up_connections(merge_shop: MergeTopology) -> None:
    """Successive sessions use the same server processes.

    They use new ones if these have ended, or have no rights any more.
    """
    await merge_shop.sync("anna")
    processes = await merge_shop.agent_processes("anna")
    assert {node for node, _ in processes} == {"pub", "anna"}
    await merge_shop.sync("anna")
    assert await merge_shop.agent_processes("anna") == processes
    for node, pid in processes:
        assert await merge_shop.execute(node, f"select pg_terminate_backend({pid}, 5000)") == [
            (True,)
        ]
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    assert (await merge_shop.sync("anna")).uploaded == 1
    async with await attach({name: node.dsn for name, node in merge_shop.nodes.items()}) as other:
        await other.unsubscribe("anna")
        await other.execute("anna", "drop table purchase, customer")
        await other.subscribe("anna")
    await merge_shop.execute("anna", "update customer set phone = '3' where id = 1")
    assert (await merge_shop.sync("anna")).uploaded == 1


async def test_a_kept_connection_that_is_silent(
    merge_shop: MergeTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that does not answer is given up, and the session connects again."""
    monkeypatch.setattr(logins, "ANSWER_TIMEOUT_S", 0.2)
    await merge_shop.sync("anna")
    silent = dict(await merge_shop.agent_processes("anna"))["pub"]
    await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    os.kill(silent, signal.SIGSTOP)
    try:
        assert (await merge_shop.sync("anna")).uploaded == 1
    finally:
        os.kill(silent, signal.SIGCONT)


async def test_a_session_that_is_cancelled_as_it_ends(
    merge_shop: MergeTopology, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session cancelled at its end leaves no server process, which would block the next one."""

    async def cancelled(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(AgentLogin, "keep", cancelled)
        with pytest.raises(asyncio.CancelledError) as _held:  # its frames hold open connections
            await merge_shop.sync("anna")
        await merge_shop.execute("anna", "update customer set phone = '2' where id = 1")
    assert (await merge_shop.sync("anna")).uploaded == 1


async def test_what_an_agent_may_not(merge_shop: MergeTopology) -> None:
    """An agent's role executes its functions, has no rights on tables, and acts for one agent."""
    role = (
        await merge_shop.execute(
            "pub", "select login from msrepl.sysmergesubscriptions where subscriber_server = 'anna'"
        )
    )[0][0]
    [(nick, hexed)] = await merge_shop.execute(
        "pub",
        "select nickname, replace(artid::text, '-', '') from msrepl.sysmergearticles where nickname = 1",
    )
    connection = await merge_shop.admin("pub")
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
            f"select * from msrepl.msmerge_take_{hexed}('{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')",
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
    assert await merge_shop.execute("pub", known, (neighbour,)) == [("anna",)]


async def test_what_is_refused(merge_shop: MergeTopology) -> None:
    """Each message names the problem, and nothing is changed."""
    await merge_shop.execute("pub", "create table late (id int primary key, n int)")
    with pytest.raises(ConfigurationError, match="subscribe already, and would not get it"):
        await merge_shop.publish("late")
    with pytest.raises(SubscriptionError, match="anna subscribes already"):
        await merge_shop.subscribe("anna")
    with pytest.raises(ConfigurationError, match="no node 'carl'"):
        await merge_shop.subscribe("carl")
    for options, message in (
        ({"kind": "friend"}, "use 'client' or 'server'"),
        ({"kind": "client", "priority": 1}, "20044"),
        ({"kind": "server", "priority": 100}, "20049"),
    ):
        with pytest.raises(SubscriptionError, match=message):
            await merge_shop.subscribe("anna", **options)


async def test_other_ways_of_being_a_table(topology: MergeTopology) -> None:
    """Unusual tables are merged.

    They have names that mean something in SQL, identity and generated columns, an own rowguid, and
    types without equality.
    """
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
    await topology.execute("pub", f'update {quoted}.{quoted} set w = 5, "it\'s ""so""" = \'("\\,\'')
    await topology.execute("pub", f"insert into {quoted}.{quoted} (w) values (null)")
    report = await topology.sync("anna")
    assert (report.uploaded, report.downloaded, report.conflicts) == (1, 2, 0)
    await topology.assert_converged()
    [row] = await topology.execute(
        "anna", f"select w, taken::text, rows from {quoted}.{quoted} where w = 5"
    )
    assert row == (5, "(3,4)", 10)


async def test_leaving_and_coming_again(merge_shop: MergeTopology) -> None:
    """A Subscriber that unsubscribes keeps its tables, but no metadata and no role.

    Other Subscribers continue, and the node can subscribe again.
    """
    roles = "select count(*) from pg_roles where rolname like 'msrepl_merge%'"
    [(before,)] = await merge_shop.execute("pub", roles)
    await merge_shop.unsubscribe("anna")
    assert await merge_shop.execute("pub", roles) == [(before - 2,)]
    left = "select to_regnamespace('msrepl') is null, (select count(*) from customer) = 2"
    assert await merge_shop.execute("anna", left) == [(True, True)]
    await merge_shop.execute("anna", "update customer set phone = 'x'")
    await merge_shop.execute("anna", "truncate customer, purchase")
    with pytest.raises(SubscriptionError, match="does not subscribe"):
        await merge_shop.sync("anna")
    with pytest.raises(SubscriptionError, match="is there already"):
        await merge_shop.subscribe("anna")
    await merge_shop.execute("anna", "drop table customer, purchase")
    await merge_shop.execute("ben", "update customer set phone = '4' where id = 1")
    await merge_shop.sync("ben")
    await merge_shop.subscribe("anna")
    await merge_shop.execute("anna", "update customer set phone = '5' where id = 1")
    assert (await merge_shop.sync("anna")).conflicts == 0
    await converge(merge_shop)
    with pytest.raises(ConfigurationError, match="anna, ben subscribe"):
        await merge_shop.unpublish("customer")


async def test_unpublishing_afterwards(merge_shop: MergeTopology) -> None:
    """If an article is unpublished while there are Subscribers, their sessions are refused."""
    await publication.unpublish(await merge_shop.admin("pub"), "public", "purchase")
    with pytest.raises(MergeError, match="do not merge the same tables"):
        await merge_shop.sync("anna")
    with pytest.raises(ArticleError):
        await publication.unpublish(await merge_shop.admin("pub"), "public", "purchase")
