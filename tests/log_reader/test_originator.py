"""Tests of a transaction's originator, which its branch marker proves."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection, errors

from tests.fix_server import Database, MakeDatabase
from tests.log_reader.rig import LINK, Rig, rig, rows, value
from twopc.publisher import distribution, subscriptions
from twopc.publisher.log_reader import LogReaderProfile
from twopc.server import EmbeddedServer

_CALL = """
call msrepl.sp_mssync_ins_item(
    enum_first(null::msrepl.mssync_shape_item), %s, array['sub1'],
    array[row(%s, 'x', 1, gen_random_uuid())]::msrepl.mssync_ins_row_item[]::text)
"""


class Links:
    """Subscribers of a rig, each with a link role."""

    def __init__(self, made: Rig) -> None:
        self.rig = made
        self.dsns: dict[str, str] = {}
        self.roles: dict[str, str] = {}

    async def add(self, subscriber: str) -> None:
        """Register a Subscriber in both databases."""
        found, password = await subscriptions.add_subscription(self.rig.pub, subscriber)
        server, name = self.rig.publisher.server, self.rig.publisher.name
        self.dsns[subscriber] = server.dsn(name, found.link_role, password)
        self.roles[subscriber] = found.link_role
        await distribution.add_originator(
            self.rig.dist,
            self.rig.number,
            subscriber,
            database=subscriber,
            link_role=found.link_role,
        )

    async def prepare(self, subscriber: str, gid: str, *keys: int) -> None:
        """Prepare a branch that inserts rows, as a Subscriber's link does."""
        async with await AsyncConnection.connect(self.dsns[subscriber], autocommit=True) as link:
            await link.execute("begin")
            for at, key in enumerate(keys):
                await link.execute(_CALL, (None if at else gid, key))
            await link.execute(f"prepare transaction '{gid}'".encode())

    async def remove(self) -> None:
        """Remove the Subscribers."""
        for subscriber in self.dsns:
            await subscriptions.drop_subscription(self.rig.pub, subscriber)


@pytest.fixture
async def links(both: Rig) -> AsyncIterator[Links]:
    """Two Subscribers."""
    made = Links(both)
    for subscriber in ("sub1", "sub2"):
        await made.add(subscriber)
    yield made
    await made.remove()


async def originators(made: Rig) -> list[tuple[str | None, int, list[int]]]:
    """Return originator, marks and keys of each transaction; assert that its commands agree."""
    found = await rows(
        made.dist,
        """
        select o.srvname, t.marks, array_agg(split_part(c.command, '"', 2)::int order by command_id),
               bool_and(c.originator_id is not distinct from t.originator_id)
        from msrepl.msrepl_transactions t
        join msrepl.msrepl_commands c using (publisher_database_id, xact_seqno)
        left join msrepl.msrepl_originators o on o.id = t.originator_id
        group by xact_seqno, srvname, marks order by xact_seqno
        """,
    )
    assert all(same for *_, same in found)
    return [(name, marks, keys) for name, marks, keys, _ in found]


@pytest.mark.parametrize("peek", [True, False], ids=["peek", "live"])
async def test_a_branch_carries_its_originator(both: Rig, links: Links, peek: bool) -> None:
    await links.prepare("sub1", "twopc:c:1:1:pub", 1, 2)
    await links.prepare("sub2", "twopc:c:1:2:pub", 3)
    await links.prepare("sub2", "twopc:c:1:3:pub", 4)
    await both.pub.execute("insert into item (id) values (5)")
    await both.pub.execute("commit prepared 'twopc:c:1:2:pub'")
    await both.pub.execute("rollback prepared 'twopc:c:1:3:pub'")
    await both.pub.execute("commit prepared 'twopc:c:1:1:pub'")
    await both.pub.execute("delete from msrepl.branch_marker")
    await both.read(reading=LogReaderProfile(catch_up_bytes=0 if peek else 1 << 40))
    assert await originators(both) == [(None, 0, [5]), ("sub2", 1, [3]), ("sub1", 1, [1, 2])]


async def test_it_survives_a_crash_and_the_hand_of_another_process() -> None:
    with EmbeddedServer.start() as server:
        for name in ("pub", "dist"):
            server.create_database(name)
        first = Database(server=server, name="pub")
        second = Database(server=server, name="dist")
        async with rig(first, second) as made:
            await made.pub.execute("create table item (id int primary key, name text, price int)")
            await made.publish("item")
            links = Links(made)
            await links.add("sub1")
            await links.prepare("sub1", "twopc:c:1:1:pub", 1)
            await asyncio.to_thread(server.crash)
            await asyncio.to_thread(server.restart)
            await made.reconnect()
            code = "import psycopg, sys; psycopg.connect(sys.argv[1], autocommit=True).execute(sys.argv[2])"
            command = "commit prepared 'twopc:c:1:1:pub'"
            await asyncio.to_thread(
                subprocess.run, [sys.executable, "-c", code, first.dsn, command], check=True
            )
            await made.read()
            assert await originators(made) == [("sub1", 1, [1])]
            await links.remove()


async def test_an_application_cannot_forge_it(both: Rig, links: Links) -> None:
    """An application cannot forge the originator by marker, message, origin or a table of that name."""
    async with await AsyncConnection.connect(
        both.publisher.server.dsn(both.publisher.name, LINK, "p"), autocommit=True
    ) as app:
        await both.pub.execute("grant all on item to test_link; create schema fake")
        await both.pub.execute("grant all on schema fake to test_link")
        for attempt in (
            "insert into msrepl.branch_marker (gid, xid, participants, originator) "
            f"values ('g', pg_current_xact_id(), '{{}}', '{links.roles['sub1']}')",
            "update msrepl.branch_marker set originator = 'x'",
            f"set session authorization {links.roles['sub1']}",
            f"set role {links.roles['sub1']}",
            "select pg_replication_origin_session_setup('sub1')",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                await app.execute(attempt.encode())
        await both.pub.execute("create table fake.branch_marker (like msrepl.branch_marker)")
        await both.pub.execute("grant all on fake.branch_marker to test_link")
        async with app.transaction():
            await app.execute("select pg_logical_emit_message(true, 'repl.origin', 'sub1', false)")
            await app.execute(
                "insert into fake.branch_marker (gid, xid, participants, originator, calls, prepared, turn,"
                " fence, created_at)"
                " values ('g', pg_current_xact_id(), '{}', %s, 0, false, 0, false, now())",
                (links.roles["sub1"],),
            )
            await app.execute("insert into item (id) values (1)")
    await both.pub.execute("drop schema fake cascade")
    await both.read()
    assert await originators(both) == [(None, 0, [1])]


@pytest.mark.parametrize("store_bytes", [1, 1 << 20], ids=["streamed", "kept"])
async def test_the_last_of_two_marks_counts_and_both_are_counted(
    both: Rig, links: Links, store_bytes: int
) -> None:
    """The last of several marks is the originator, and distinct marks are counted.

    The administrator writes the markers, because sync procedures never write two.
    """
    async with both.pub.transaction():
        for subscriber, key in (("sub1", 1), ("sub1", 2), ("sub2", 3)):
            await both.pub.execute("delete from msrepl.branch_marker")
            await both.pub.execute(
                "insert into msrepl.branch_marker (gid, xid, participants, originator) "
                "values (%s, pg_current_xact_id(), '{}', %s)",
                (f"g{key}", links.roles[subscriber]),
            )
            await both.pub.execute(
                "insert into item (id) select %s + 10 * n from generate_series(0, 3000) n", (key,)
            )
    await both.read(reading=LogReaderProfile(store_bytes=store_bytes))
    (found,) = await originators(both)
    assert found[:2] == ("sub2", 2)
    assert len(found[2]) == 3 * 3001


async def test_a_fence_is_no_mark(both: Rig, links: Links) -> None:
    async with both.pub.transaction():
        await both.pub.execute(
            "insert into msrepl.branch_marker (gid, xid, participants, originator, fence) "
            "values ('g', pg_current_xact_id(), '{}', %s, true)",
            (links.roles["sub1"],),
        )
        await both.pub.execute("insert into item (id) values (1)")
    await both.read()
    assert await originators(both) == [(None, 0, [1])]


async def test_a_new_subscriber_is_known_to_a_reader_at_work(both: Rig, links: Links) -> None:
    async with both.reader() as reader:
        await reader.run_once()
        await links.add("sub3")
        await links.prepare("sub3", "twopc:c:1:1:pub", 1)
        await both.pub.execute("commit prepared 'twopc:c:1:1:pub'")
        await reader.run_once()
        assert await originators(both) == [("sub3", 1, [1])]
        # a new Subscriber of the same name gets another number
        await subscriptions.drop_subscription(both.pub, "sub3")
        await both.dist.execute("delete from msrepl.msrepl_originators where srvname = 'sub3'")
        await links.add("sub3")
        await links.prepare("sub3", "twopc:c:1:2:pub", 2)
        await both.pub.execute("commit prepared 'twopc:c:1:2:pub'")
        await reader.run_once()
        assert (await originators(both))[-1] == ("sub3", 1, [2])


async def test_a_mark_of_somebody_unknown_is_counted(both: Rig, links: Links) -> None:
    await links.prepare("sub1", "twopc:c:1:1:pub", 1)
    await both.dist.execute("delete from msrepl.msrepl_originators")
    await both.pub.execute("commit prepared 'twopc:c:1:1:pub'")
    await both.read()
    assert await originators(both) == [(None, 1, [1])]


async def test_the_distribution_database_may_be_the_publishers_own(
    make_database: MakeDatabase,
) -> None:
    """Rows that the log reader stores in the Publisher's own database are not distributed."""
    async with rig(make_database()) as made:
        await made.pub.execute("create table item (id int primary key, name text, price int)")
        await made.publish("item")
        links = Links(made)
        await links.add("sub1")
        await links.prepare("sub1", "twopc:c:1:1:pub", 1)
        await made.pub.execute("commit prepared 'twopc:c:1:1:pub'")
        async with made.reader() as reader:
            assert (await reader.run_once()).transactions == 1
            assert (await reader.run_once()).transactions == 0
        assert await originators(made) == [("sub1", 1, [1])]
        assert await value(made.dist, "select count(*) from msrepl.msrepl_transactions") == 1
        await links.remove()
