"""Tests of `sim.Topology` as applications and integration tests use it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.by_hand import ByHand
from tests.fix_topology import ACCOUNT, BALANCES, ROWS, share
from twopc.errors import (
    ArticleError,
    ConfigurationError,
    ConflictError,
    LocalProtocolError,
    ServerError,
    SubscriptionError,
)
from twopc.server import EmbeddedServer
from twopc.sim import Topology, operate

#: All objects in a database that its users can see, one per line.
CATALOG = """
select line from (
    select format('relation %s.%s', n.nspname, c.relname)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname !~ '^(pg_|information_schema)'
  union all
    select format('column %s.%s', a.attrelid::regclass, a.attname)
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    join pg_namespace n on n.oid = c.relnamespace
    where a.attnum > 0 and not a.attisdropped and n.nspname !~ '^(pg_|information_schema)'
  union all
    select format('routine %s', p.oid::regprocedure) from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace where n.nspname !~ '^(pg_|information_schema)'
  union all select format('trigger %s', tgname) from pg_trigger where not tgisinternal
  union all select format('role %s', rolname) from pg_roles
  union all select format('schema %s', nspname) from pg_namespace where nspname !~ '^pg_t'
  union all select format('event trigger %s', evtname) from pg_event_trigger
  union all select format('extension %s', extname) from pg_extension
  union all select format('server %s', srvname) from pg_foreign_server
) as lines(line) order by line
"""


async def shop(topology: Topology) -> None:
    """Create an account table, published and subscribed everywhere."""
    await share(topology, "account", ACCOUNT, ROWS)


async def test_a_change_is_at_both_ends(server: EmbeddedServer) -> None:
    """Statements of a transaction have psycopg's parameters, rows and row factories."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        async with topology.transaction("store_a") as transaction:
            cursor = await transaction.execute(
                "update account set balance = balance - %s where id = %s returning balance", (10, 1)
            )
            assert await cursor.fetchone() == (90,)
            named = transaction.cursor(row_factory=dict_row)
            await named.execute("select balance from account where id = 2")
            assert await named.fetchone() == {"balance": 100}

        there = await topology.execute("pub", BALANCES)
        assert there[0] == (1, 90)
        assert there == await topology.execute("store_a", BALANCES)


async def test_an_exception_rolls_back_both(server: EmbeddedServer) -> None:
    """An exception of the application within the block rolls back all branches, and is raised."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        with pytest.raises(KeyError):
            async with topology.transaction("store_a") as transaction:
                await transaction.execute("delete from account")
                raise KeyError("the application's own")

        assert len(await topology.execute("pub", BALANCES)) == 5
        assert len(await topology.execute("store_a", BALANCES)) == 5


async def test_concurrent_transactions(server: EmbeddedServer) -> None:
    """Twenty concurrent transactions at one Subscriber, on different rows, all commit."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await share(
            topology,
            "account",
            ACCOUNT,
            "insert into account select g, 0 from generate_series(1, 20) g",
        )

        async def one(key: int) -> None:
            async with topology.transaction("store_a") as transaction:
                await transaction.execute(
                    "update account set balance = %s where id = %s", (key, key)
                )

        await asyncio.gather(*(one(key) for key in range(1, 21)))

        expected = [(key, key) for key in range(1, 21)]
        assert await topology.execute("pub", BALANCES) == expected
        assert await topology.execute("store_a", BALANCES) == expected


async def test_two_subscription_databases_are_refused(server: EmbeddedServer) -> None:
    """A transaction at two Subscribers is refused: the mark of the last one would replace the others."""
    async with Topology(server=server) as topology:
        await shop(topology)

        with pytest.raises(ConfigurationError, match="2 subscription databases"):
            async with topology.transaction("sub1", "sub2"):
                pass


async def test_a_statement_cannot_end_the_transaction(server: EmbeddedServer) -> None:
    """A COMMIT as a statement is refused, because it would bypass the coordinator."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        with pytest.raises(LocalProtocolError, match="commit\\(\\)"):
            async with topology.transaction("store_a") as transaction:
                await transaction.execute("update account set balance = 0")
                await transaction.execute("commit")

        assert (1, 100) in await topology.execute("pub", BALANCES)


def test_the_blocking_twin(server: EmbeddedServer) -> None:
    """The blocking topology has the same methods without an event loop, and the same exceptions."""
    with Topology.blocking(server=server) as topology:
        topology.execute("pub", ACCOUNT)
        topology.execute("pub", ROWS)
        topology.publish("account")
        topology.subscribe("sub1")
        topology.subscribe("sub2")

        with topology.transaction("sub1") as transaction:
            cursor = transaction.execute("update account set balance = 1 where id < 3 returning id")
            assert sorted(row[0] for row in cursor) == [1, 2]
            assert cursor.rowcount == 2

        with pytest.raises(ConflictError) as caught, topology.transaction("sub2") as transaction:
            transaction.execute("update account set balance = 2 where id = 1")

        assert caught.value.kind == "version_mismatch"
        assert caught.value.key == {"id": 1}
        assert topology.execute("sub2", BALANCES)[0] == (1, 100)
        assert topology.in_doubt() == []


@pytest.fixture(scope="module")
def existing() -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    """Two existing servers that are not part of a topology."""
    with EmbeddedServer.start() as one, EmbeddedServer.start() as other:
        one.create_database("shop")
        other.create_database("store")
        yield one, other


def catalog(dsn: str) -> list[str]:
    """Return all objects in a database."""
    with psycopg.connect(dsn) as connection:
        return [row[0] for row in connection.execute(CATALOG)]


async def test_existing_servers_are_left_as_they_were(
    existing: tuple[EmbeddedServer, EmbeddedServer],
) -> None:
    """A topology in existing databases removes everything at the end except the subscribed rows."""
    shop_dsn, store_dsn = (
        server.superuser_dsn(name) for server, name in zip(existing, ("shop", "store"), strict=True)
    )
    with psycopg.connect(shop_dsn) as connection:
        connection.execute(ACCOUNT)
        connection.execute(ROWS)
    before = catalog(shop_dsn), catalog(store_dsn)

    async with Topology(
        subscribers=("store",), dsns={"pub": shop_dsn, "store": store_dsn}, name="shop"
    ) as topology:
        await topology.publish("account")
        await topology.subscribe("store")
        async with topology.transaction("store") as transaction:
            await transaction.execute("update account set balance = 7")
        nodes = {"pub": shop_dsn, "store": store_dsn}
        async with await operate.attach(nodes) as attached:
            assert attached.name == "shop"
            assert await operate.look(attached) == []
            assert await operate.recover(attached) == []

    after = catalog(shop_dsn), catalog(store_dsn)
    assert after[0] == before[0]
    left = set(after[1]) - set(before[1])
    assert {line for line in left if "account" not in line} == set()
    with psycopg.connect(store_dsn) as connection:
        assert connection.execute("select sum(balance) from account").fetchone() == (35,)


async def test_mistakes_are_named(server: EmbeddedServer) -> None:
    """Unknown nodes and tables, repeated requests and missing articles are refused with a remedy."""
    with pytest.raises(ConfigurationError, match="'nope', which is no node; nodes are pub, sub1"):
        Topology(dsns={"nope": "host=nowhere"}, name="shop")
    with pytest.raises(ConfigurationError, match="need the topology's name"):
        Topology(dsns={"pub": "host=nowhere"})
    with pytest.raises(ConfigurationError, match="'store a' cannot be part of a gid"):
        Topology(subscribers=("store a",))
    with pytest.raises(ServerError, match="nodes 'pub', 'distribution' cannot be reached"):
        async with Topology(dsns={"pub": "host=/nowhere"}, subscribers=(), name="shop"):
            pass
    with pytest.raises(ConfigurationError, match="two nodes are called 'pub'"):
        Topology(subscribers=("pub",))
    with pytest.raises(ServerError):
        async with Topology(dsns={"pub": "not a dsn"}, name="shop"):
            pass
    async with Topology(server=server, subscribers=("sub1",)) as topology:
        with pytest.raises(SubscriptionError, match="nothing is published"):
            await topology.subscribe("sub1")
        await topology.execute("pub", ACCOUNT)
        with pytest.raises(ArticleError, match=r"did you mean public\.account"):
            await topology.publish("acount")
        await topology.publish("account")
        await topology.subscribe("sub1")
        with pytest.raises(SubscriptionError, match="21058"):
            await topology.subscribe("sub1")
        with pytest.raises(ConfigurationError, match="no Subscriber 'sub9'"):
            async with topology.transaction("sub9"):
                pass


async def test_a_server_that_cannot_prepare_is_refused() -> None:
    """A server without prepared transactions is refused with a remedy, before anything is installed."""
    with EmbeddedServer.start(settings={"max_prepared_transactions": "0"}) as useless:
        with pytest.raises(ServerError, match="ALTER SYSTEM SET max_prepared_transactions"):
            async with Topology(server=useless):
                pass
        assert "msrepl" not in "".join(catalog(useless.superuser_dsn("postgres")))


async def test_it_opens_again_over_a_prepared_branch(
    existing: tuple[EmbeddedServer, EmbeddedServer],
) -> None:
    """Opening a topology does not wait for a branch that a dead process left prepared, and recovers it."""
    dsns = {}
    for name in ("pub", "distribution"):
        existing[0].create_database(f"again_{name}")
        dsns[name] = existing[0].superuser_dsn(f"again_{name}")
    existing[1].create_database("again_store")
    dsns["store"] = existing[1].superuser_dsn("again_store")
    shop_again = {"subscribers": ("store",), "dsns": dsns, "name": "again", "keep": True}
    async with Topology(**shop_again) as topology:
        await shop(topology)
        await topology.run("store", "update account set balance = 99 where id = 3")  # epoch 1
        application = topology.node("store").app_dsn
    coordinator = ByHand("again")
    with psycopg.connect(dsns["store"], autocommit=True) as connection:
        connection.execute(coordinator.introduction.encode())
    with psycopg.connect(application, autocommit=True) as connection:
        connection.execute(
            f"begin; {coordinator.naming('twopc:again:1:99', connection.info.backend_pid)}".encode()
        )
        connection.execute("update account set balance = 0 where id = 2")
        connection.execute(
            coordinator.vote("twopc:again:1:99", connection.info.backend_pid, "store").encode()
        )
        connection.execute("prepare transaction 'twopc:again:1:99:store'")

    async with asyncio.timeout(20), Topology(**shop_again) as topology:
        await topology.run("store", "update account set balance = 1 where id = 1")
        assert await topology.in_doubt() == []
        assert (2, 100) in await topology.execute("pub", BALANCES)


async def test_a_change_in_the_replica_role_renews_the_version(server: EmbeddedServer) -> None:
    """A change in the replica role gives a row a new version, so that a stale copy is detected."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)
        await topology.execute("pub", "set session_replication_role = replica")
        await topology.execute("pub", "update account set balance = 50 where id = 1")

        with pytest.raises(ConflictError):
            await topology.run("store_a", "update account set balance = balance + 1 where id = 1")

        assert (1, 50) in await topology.execute("pub", BALANCES)
