"""Tests of a topology with distribution: deliveries, `sync`, `settle`, running agents, and clean removal."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable

import pytest

from tests.fix_topology import ACCOUNT, BALANCES, ROWS, share
from tests.topology.test_initial_copies import shop_at
from tests.topology.test_topology import catalog, shop
from twopc.errors import (
    ArticleError,
    ConfigurationError,
    ConflictError,
    DeliveryError,
    OutdatedError,
    ServerError,
)
from twopc.publisher import slot
from twopc.server import EmbeddedServer
from twopc.sim import Topology, operate

MakeTopology = Callable[..., Awaitable[Topology]]
MORE = "update account set balance = balance + 1 where id = 1"


async def test_a_change_reaches_the_others_and_does_not_come_back(
    make_topology: MakeTopology,
) -> None:
    """Each Subscriber gets every change of other nodes once, in the Publisher's order."""
    topology = await make_topology(subscribers=("a", "b", "c"))
    await shop(topology)
    await topology.run("a", MORE)
    await topology.execute("pub", "update account set balance = 7 where id = 2")

    done = await topology.sync()

    assert [done[name].transactions for name in ("a", "b", "c")] == [1, 2, 2]
    await topology.assert_converged()
    told = [
        (each.node, each.origin, each.suppressed)
        for each in await topology.inspect.take_deliveries()
    ]
    assert told == [
        *(("a", "a", True), ("a", "pub", False)),
        *(("b", "a", False), ("b", "pub", False)),
        *(("c", "a", False), ("c", "pub", False)),
    ]
    assert await topology.inspect.take_deliveries() == []


async def test_our_triggers_do_not_keep_articles_together(make_topology: MakeTopology) -> None:
    """Triggers of the product do not depend on the order of rows, unlike one that fires for agents."""
    topology = await make_topology(subscribers=("a",))
    await shop(topology)
    agent = topology.agents.make_agent("a")
    await agent.open()
    try:
        assert agent._target is not None
        assert await agent._target.is_order_free()
        await topology.execute(
            "a",
            "create function seen() returns trigger language plpgsql as 'begin return null; end';"
            "create trigger seen after update on account for each row execute function seen();"
            "alter table account enable always trigger seen",
        )
        assert not await agent._target.is_order_free()
    finally:
        await agent.close()


async def test_reject_sync_retry(make_topology: MakeTopology) -> None:
    """A transaction refused because of a stale row succeeds after a sync of its Subscriber."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.run("a", MORE)

    with pytest.raises(ConflictError):
        await topology.run("b", MORE)
    await topology.sync("b")
    await topology.run("b", MORE)

    await topology.settle()
    await topology.assert_converged()
    assert (1, 102) in await topology.execute("a", BALANCES)


async def test_sync_brings_what_was_committed_before_it(make_topology: MakeTopology) -> None:
    """`sync` ends although transactions continue, and has delivered all that were committed before it."""
    topology = await make_topology(subscribers=("a",))
    await shop(topology)
    stop = asyncio.Event()

    async def write() -> None:
        async with await topology.node("pub").connect() as connection:
            while not stop.is_set():
                await connection.execute("update account set balance = balance + 1 where id = 5")

    writer = asyncio.create_task(write())
    for number in range(5):
        await topology.execute("pub", f"update account set balance = {number} where id = 1")
        await topology.sync()
        assert (1, number) in await topology.execute("a", BALANCES)
    stop.set()
    await writer
    await topology.settle()
    await topology.assert_converged()


async def test_agents_that_run(make_topology: MakeTopology) -> None:
    """Running agents deliver by themselves, and `sync` waits for them; it drives stopped ones."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.start_agents()
    for _ in range(3):
        await topology.run("a", MORE)
        await topology.sync()
        await topology.run("b", MORE)
        await topology.sync("a")
    await topology.assert_converged("account")

    await topology.stop_agents()
    await topology.run("a", MORE)

    with pytest.raises(
        AssertionError, match=r"account id=1 at b differs from pub: balance '106', not '107'"
    ):
        await topology.assert_converged()
    await topology.sync()
    await topology.assert_converged()


async def test_an_agent_that_stops_by_itself_is_heard_of(make_topology: MakeTopology) -> None:
    """`sync` raises the error of a running agent that failed, and the other Subscriber gets everything."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.execute(
        "b", "set session_replication_role = replica; delete from account where id = 1"
    )
    await topology.execute("b", "reset session_replication_role")
    await topology.start_agents()
    await topology.execute("pub", MORE)

    with pytest.raises(DeliveryError, match="id = 1") as caught:
        await topology.sync()
    await topology.sync("a")

    assert (caught.value.node, caught.value.number) == ("b", 20598)
    await topology.stop_agents()
    status = await topology.inspect.status()
    assert {each.subscriber: each.runstatus for each in status.agents}["b"] == "failed"


async def test_one_that_fails_does_not_keep_others_waiting(make_topology: MakeTopology) -> None:
    """An agent that fails does not stop other agents, and `sync` raises its error each time."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.execute(
        "b", "set session_replication_role = replica; delete from account where id = 1"
    )
    await topology.execute("b", "reset session_replication_role")
    await topology.execute("pub", MORE)

    for _ in range(2):
        with pytest.raises(DeliveryError, match="20598"):
            await topology.sync()

    assert (1, 101) in await topology.execute("a", BALANCES)
    with pytest.raises(AssertionError, match="account id=1 at b is missing"):
        await topology.assert_converged()


FORMATS = [
    {},
    {"ins": "CALL", "upd": "CALL", "del": "CALL"},
    {"upd": "MCALL"},
    {"upd": "XCALL", "del": "XCALL"},
    {"ins": "SQL", "upd": "SQL", "del": "SQL"},
]


@pytest.mark.parametrize(
    "propagate", FORMATS, ids=lambda each: "-".join(each.values()) or "default"
)
async def test_every_format(make_topology: MakeTopology, propagate: dict[str, str]) -> None:
    """Every format delivers NULLs, quotes, key changes, several rows, and a table outside of public."""
    topology = await make_topology(subscribers=("a", "b"))
    await share(
        topology,
        "Odd name",
        "create schema sales",
        'create table sales."Odd name" (id int primary key, "a b" text, n numeric, at timestamptz, b bytea)',
        """insert into sales."Odd name" select g, 'x' || g, g, now() from generate_series(1, 9) g""",
        schema="sales",
        propagate=propagate,
    )

    async with topology.transaction("a") as transaction:
        await transaction.execute(
            """update sales."Odd name" set "a b" = 'it''s, "(q)" \\ ' || id, n = null where id < 4"""
        )
        await transaction.execute(
            """update sales."Odd name" set id = id + 100 where id between 3 and 5"""
        )
        await transaction.execute("""delete from sales."Odd name" where id = 6""")
        await transaction.execute(
            """insert into sales."Odd name" values (6, null, 1.50, '2020-01-01', '\\x00ff')"""
        )
    await topology.sync()

    await topology.assert_converged()
    await topology.validate()


async def test_a_format_that_is_none(make_topology: MakeTopology) -> None:
    """An invalid `propagate` is refused with the operation and the possible values."""
    topology = await make_topology(subscribers=("a",))
    await topology.execute("pub", ACCOUNT)
    with pytest.raises(
        ArticleError, match="propagation of ins: 'SCALL' is none of CALL, SQL, NONE"
    ):
        await topology.publish("account", propagate={"ins": "SCALL"})
    with pytest.raises(
        ArticleError, match="propagation of 'insert': operations are 'ins', 'upd', 'del'"
    ):
        await topology.publish("account", propagate={"insert": "CALL"})


async def test_filters_per_subscriber(make_topology: MakeTopology) -> None:
    """Filtered Subscribers get their rows, and a row that moves between them is deleted and inserted."""
    topology = await make_topology(subscribers=("low", "high"))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", ROWS)
    await topology.publish("account")
    await topology.subscribe("low", filters={"account": "id <= 2"})
    await topology.subscribe("high", filters={"account": "id > 2"})
    assert [len(await topology.execute(n, BALANCES)) for n in ("low", "high")] == [2, 3]

    await topology.execute("pub", "update account set id = 12 where id = 2")
    await topology.execute("pub", "update account set balance = 0")
    await topology.sync()

    await topology.assert_converged()
    assert await topology.execute("low", BALANCES) == [(1, 0)]
    assert await topology.execute("high", BALANCES) == [(3, 0), (4, 0), (5, 0), (12, 0)]
    await topology.unsubscribe("high")
    await topology.execute("pub", "update account set balance = 1")
    await topology.sync()
    assert await topology.execute("low", BALANCES) == [(1, 1)]


async def test_without_distribution(make_topology: MakeTopology) -> None:
    """Without distribution there is no slot, no role, and a clear error from `sync`."""
    topology = await make_topology(subscribers=("a",), distribute=False)
    await shop(topology)

    with pytest.raises(ConfigurationError, match="the topology was made without"):
        await topology.sync()
    await topology.settle()
    assert await topology.execute(
        "pub", "select count(*) from pg_replication_slots where database = current_database()"
    ) == [(0,)]
    with pytest.raises(ConfigurationError, match="need distribution"):
        await topology.subscribe("a", sync="none")
    nodes = {name: node.dsn for name, node in topology.nodes.items()}
    async with await operate.attach(nodes) as other:
        await other.regenerate("account")
    assert await topology.execute(
        topology.distribution, "select to_regclass('msrepl.mspublisher_databases')::text"
    ) == [(None,)]


async def test_a_prepared_transaction_in_the_way_is_named(make_topology: MakeTopology) -> None:
    """A first subscription waits for a prepared transaction up to a limit, and then names its gid."""
    topology = await make_topology(subscribers=("a",))
    topology.registration.slot_timeout_ms = 200
    await topology.execute("pub", ACCOUNT)
    await topology.publish("account")
    gid = f"somebody's {uuid.UUID(int=7)}"
    await topology.execute(
        "pub",
        f"begin; insert into account values (1, 1); prepare transaction '{gid.replace(chr(39), chr(39) * 2)}'",
    )

    with pytest.raises(ConfigurationError, match="somebody"):
        await topology.subscribe("a")

    await topology.execute("pub", f"rollback prepared '{gid.replace(chr(39), chr(39) * 2)}'")
    await topology.subscribe("a")
    await topology.sync()


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "in the Publisher's database"])
async def test_nothing_is_left_in_databases_that_stay(
    server: EmbeddedServer, make_database: Callable[[], object], apart: bool
) -> None:
    """Everything installed in existing databases is removed by the last unsubscribe, or at the end."""
    nodes = ("pub", "a", "distribution") if apart else ("pub", "a")
    dsns = {name: make_database().dsn for name in nodes}
    before = {name: catalog(dsn) for name, dsn in dsns.items()}
    async with Topology(subscribers=("a",), dsns=dsns, name="leaves") as topology:
        await shop(topology)
        await topology.execute("pub", MORE)
        await topology.sync()
        assert await topology.execute(
            "pub", "select count(*) from pg_replication_slots where database = current_database()"
        ) == [(1,)]
        await topology.unsubscribe("a")
        assert await topology.execute(
            "pub", "select count(*) from pg_replication_slots where database = current_database()"
        ) == [(0,)]
        await topology.execute("a", "drop table account")
        await topology.subscribe("a")
        await topology.execute("pub", MORE)
        await topology.sync()
        await topology.assert_converged()

    for name, dsn in dsns.items():
        left = [line for line in catalog(dsn) if line not in before[name]]
        assert [line for line in left if "account" not in line] == []
        assert [line for line in left if "sp_ms" in line] == []


async def test_a_subscriber_cannot_publish(
    server: EmbeddedServer, make_database: Callable[[], object]
) -> None:
    """A Subscriber cannot publish, because transactions would lose their originator's mark."""
    dsns = {name: make_database().dsn for name in ("pub", "a", "distribution")}
    async with Topology(subscribers=("a",), dsns=dsns, name="first") as topology:
        await shop(topology)
        with pytest.raises(ArticleError, match="is a Subscriber and cannot publish"):
            async with Topology(
                publisher="a", subscribers=(), dsns={"a": dsns["a"]}, name="second"
            ):
                pass
        await topology.run("a", MORE)


async def test_a_slot_that_is_gone_is_not_made_again_unseen(make_topology: MakeTopology) -> None:
    """A lost slot is reported and not replaced silently, because committed changes are lost."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop_at(topology, "a")
    await topology.sync()
    await topology.stop_agents()
    await slot.drop(await topology.admin("pub"), await topology.registration.slot())
    await topology.execute("pub", MORE)

    with pytest.raises(ServerError, match="is gone, and what was committed since is lost"):
        await topology.subscribe("b")
    with pytest.raises(ServerError, match="does not exist"):
        await topology.sync()

    await topology.unsubscribe("a")
    await topology.execute("a", "drop table account")
    await topology.subscribe("a")
    await topology.subscribe("b")
    await topology.execute("pub", MORE)
    await topology.settle()
    await topology.assert_converged()


async def test_a_distribution_database_of_an_earlier_version(make_topology: MakeTopology) -> None:
    """An outdated distribution database is reported with a remedy, and `regenerate` upgrades it."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.sync()
    await topology.agents.stop()
    await topology.execute(
        topology.distribution,
        "alter table msrepl.mspublisher_databases drop column open_seqno cascade, drop column open_xid, "
        "drop column open_originator, drop column open_pid, drop column open_count",
    )
    await topology.run("a", MORE)
    agent = topology.agents.make_agent("b")
    with pytest.raises(OutdatedError, match=r"open_seqno.*`twopc regenerate`"):
        await asyncio.wait_for(agent.run(asyncio.Event()), 30)
    await topology.execute(topology.distribution, "drop function msrepl.drop_parts(integer)")
    with pytest.raises(OutdatedError, match=r"drop_parts.*`twopc regenerate`"):
        await topology.sync()

    await topology.regenerate("account")
    await topology.settle()
    await topology.assert_converged()
