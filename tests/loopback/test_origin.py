"""Tests of loopback detection: no transaction returns to its originator, and each reaches all other Subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.drivers.crashing import Crashing
from tests.loopback.conftest import seen
from tests.loopback.workload import make
from twopc.errors import RejectedError
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]
INSERT = "insert into item (id, token) values (%s, 0)"


@pytest.mark.parametrize(
    "commit", ["presumed_abort", "presumed_commit", "presumed_nothing", "last_agent"]
)
async def test_every_way_to_commit(make_witnessed: MakeTopology, commit: str) -> None:
    """With every variant, each Subscriber gets the changes of all other nodes, and none of its own."""
    topology = await make_witnessed("sub1", "sub2", "sub3")
    for number, subscriber in enumerate(topology.subscribers, 1):
        async with topology.transaction(subscriber, commit=commit) as transaction:
            await transaction.execute(INSERT, (number,))
    await topology.execute("pub", "insert into item (id, token) values (9, 0)")
    await topology.sync()
    for number, subscriber in enumerate(topology.subscribers, 1):
        others = {1, 2, 3, 9} - {number}
        assert await seen(topology, subscriber) == [("item", "ins", key) for key in sorted(others)]
    await topology.assert_converged("item", "line")


async def test_what_was_rolled_back_reaches_nobody(make_witnessed: MakeTopology) -> None:
    """Changes rolled back as a whole, to a savepoint or by a refusal are not delivered; the remaining ones are."""
    topology = await make_witnessed("sub1", "sub2")
    async with topology.transaction("sub1") as transaction:
        await transaction.execute(INSERT, (1,))
        await transaction.execute("savepoint s")
        await transaction.execute(INSERT, (2,))
        await transaction.execute("rollback to s")
        await transaction.execute("update item set id = 10, token = 1 where id = 1")
    with pytest.raises(ZeroDivisionError):
        async with topology.transaction("sub1") as transaction:
            await transaction.execute(INSERT, (3,))
            raise ZeroDivisionError
    with pytest.raises(RejectedError):  # sub2 has not received the row yet, and inserts its key
        async with topology.transaction("sub2") as transaction:
            await transaction.execute(INSERT, (10,))
    await topology.sync()
    assert await seen(topology, "sub1") == []
    assert await seen(topology, "sub2") == [("item", "ins", 1), ("item", "upd", 10)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "point",
    [
        "coordinator.decision_logged",
        "coordinator.before_commit(pub)",
        "coordinator.after_commit(pub)",
    ],
)
async def test_another_process_recovers_after_a_crash(crashing: Crashing, point: str) -> None:
    """A branch marker is part of its branch: it survives a server crash and a commit by another process."""
    with EmbeddedServer.start(durable=True) as server:
        async with Topology(server=server, subscribers=("sub1", "sub2")) as topology:
            await make(topology)
            ended = await crashing.run(
                topology, "insert into item values (1, 1)", arm=f"{point}=kill"
            )
            assert ended.code < 0
            # no process of the topology may keep a connection to the server that crashes
            await topology.stop_agents()
            for node in topology.nodes:
                await (await topology.admin(node)).close()
            await asyncio.to_thread(server.crash)
            await asyncio.to_thread(server.restart)
            assert (await crashing.run(topology)).code == 0
            assert await topology.in_doubt() == []
            await topology.sync()
            assert await seen(topology, "sub1") == []
            assert await seen(topology, "sub2") == [("item", "ins", 1)]
            marks = await topology.execute(
                "distribution",
                "select o.srvname, t.marks from msrepl.msrepl_transactions t "
                "left join msrepl.msrepl_originators o on o.id = t.originator_id where t.commands > 0",
            )
            assert marks == [("sub1", 1)]


async def test_nobody_forges_the_mark(make_witnessed: MakeTopology) -> None:
    """An application cannot write a branch marker, and a logical message that it emits has no effect."""
    topology = await make_witnessed("sub1", "sub2")
    (link,) = await topology.execute(
        "pub", "select link_role from msrepl.syssubscriptions where subscriber = 'sub1'"
    )
    async with await AsyncConnection.connect(topology.node("pub").app_dsn, autocommit=True) as app:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await app.execute(
                "insert into msrepl.branch_marker (gid, xid, participants, originator) "
                "values ('forged', pg_current_xact_id(), '{}', %s)", link,
            )  # fmt: skip
        async with app.transaction():
            await app.execute("select pg_logical_emit_message(true, 'msrepl', %s)", link)
            await app.execute("insert into item (id, token) values (1, 0)")
    await topology.sync()
    for subscriber in topology.subscribers:
        assert await seen(topology, subscriber) == [("item", "ins", 1)]


ADDS = """
create function add_line() returns trigger language plpgsql security definer as $$
begin insert into public.line (id, token) values (new.id, 7); return null; end $$;
create trigger add_line after insert on item for each row execute function add_line();
"""


async def test_what_a_trigger_of_the_publisher_adds(make_witnessed: MakeTopology) -> None:
    """A Subscriber's change is refused if a Publisher's trigger changes another row; the Publisher's is delivered."""
    topology = await make_witnessed("sub1", "sub2")
    await topology.execute("pub", ADDS)
    await topology.regenerate("item")
    with pytest.raises(
        RejectedError, match="add_line of table item of the Publisher changed another row"
    ):
        async with topology.transaction("sub1") as transaction:
            await transaction.execute(INSERT, (1,))
    await topology.execute("pub", "insert into item (id, token) values (2, 0)")
    await topology.sync()
    for subscriber in topology.subscribers:
        assert await seen(topology, subscriber) == [("item", "ins", 2), ("line", "ins", 2)]
