"""Tests of initial copies: during changes, by hand, repeated, and for later articles."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

from tests.fix_topology import ACCOUNT, BALANCES, ROWS
from tests.topology.test_topology import shop
from twopc.errors import ConflictError, LockTimeoutError, SubscriptionError
from twopc.publisher.distribution import clean_up
from twopc.sim import Topology

MakeTopology = Callable[..., Awaitable[Topology]]
MORE = "update account set balance = balance + 1 where id = 1"
WRITES = (
    "update account set balance = balance + 1 where id = %(id)s",
    "delete from account where id = %(id)s",
    "insert into account values (%(id)s, 0) on conflict do nothing",
    "update account set id = id + 1000 where id = %(id)s and not exists (select from account where id = %(id)s + 1000)",
    "update account set id = id - 1000 where id = %(id)s + 1000 and not exists (select from account where id = %(id)s)",
)


@asynccontextmanager
async def traffic(topology: Topology, writers: int = 2) -> AsyncIterator[None]:
    """Run transactions at the Publisher: committed, rolled back, or prepared for a short time."""
    stop = asyncio.Event()

    async def write(seed: int) -> None:
        chance = random.Random(seed)
        async with await topology.node("pub").connect() as connection:
            number = 0
            while not stop.is_set():
                number += 1
                await connection.execute("begin")
                for _ in range(chance.randint(1, 3)):
                    await connection.execute(
                        chance.choice(WRITES), {"id": chance.randint(1, 40) * writers + seed}
                    )
                end = chance.choice(("commit", "commit", "rollback", "prepare"))
                if end != "prepare":
                    await connection.execute(end.encode())
                    continue
                gid = f"traffic {seed} {number}"
                await connection.execute(f"prepare transaction '{gid}'".encode())
                await connection.execute(f"commit prepared '{gid}'".encode())

    tasks = [asyncio.create_task(write(seed)) for seed in range(writers)]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def test_copies_under_traffic(make_topology: MakeTopology) -> None:
    """A first, a second and a repeated copy lose no concurrent change and apply none twice."""
    topology = await make_topology(subscribers=("a", "b", "c"))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", "insert into account select g, 0 from generate_series(1, 80) g")
    await topology.publish("account")
    await topology.subscribe("a")
    async with traffic(topology):
        await topology.sync()
        await topology.subscribe("b")
        await topology.sync("a")
        await topology.reinitialise("a")
        await topology.subscribe("c")
        await topology.sync()
        await topology.reinitialise("b")
    await topology.settle()
    await topology.assert_converged()


async def test_prepared_before_the_copy_and_committed_after_it(
    make_topology: MakeTopology,
) -> None:
    """A transaction prepared before a copy and committed after it is delivered; one rolled back is not."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.execute(
        "pub",
        "begin; insert into account values (7, 7); update account set balance = 1 where id = 1; prepare transaction 'before'",
    )
    await topology.execute(
        "pub", "begin; insert into account values (8, 8); prepare transaction 'never'"
    )
    await topology.execute("pub", "insert into account values (9, 9)")

    await topology.reinitialise("a")

    assert [key for key, _ in await topology.execute("a", BALANCES)] == [1, 2, 3, 4, 5, 9]
    await topology.execute("pub", "commit prepared 'before'")
    await topology.execute("pub", "rollback prepared 'never'")
    done = await topology.sync()
    await topology.assert_converged()
    assert (done["a"].commands, done["b"].commands) == (2, 3)


async def test_agents_that_run_go_on_after_a_new_copy(make_topology: MakeTopology) -> None:
    """Running agents continue after a new copy, without the batches that were planned before it."""
    topology = await make_topology(subscribers=("a", "b"))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", "insert into account select g, 0 from generate_series(1, 80) g")
    await topology.publish("account")
    await topology.subscribe("a")
    await topology.subscribe("b")
    await topology.start_agents()
    async with traffic(topology):
        for _ in range(2):
            await topology.reinitialise("a")
            await topology.sync()
    await topology.sync()
    await topology.assert_converged()


async def test_a_copy_waits_for_the_subscribers_own_changes(make_topology: MakeTopology) -> None:
    """A new copy waits for the Subscriber's own transactions, or is refused after a timeout.

    Their changes would never be delivered again.
    """
    topology = await make_topology(subscribers=("a",), lock_timeout_ms=300)
    await shop(topology)
    await topology.run("a", MORE)
    async with topology.transaction("a") as transaction:
        await transaction.execute("update account set balance = 5 where id = 2")
        with pytest.raises(LockTimeoutError, match="are being written"):
            await topology.reinitialise("a")
    await topology.reinitialise("a")

    await topology.settle()
    await topology.assert_converged()
    assert (await topology.execute("a", BALANCES))[:2] == [(1, 101), (2, 5)]


async def test_a_new_copy_that_fails_is_not_taken_for_one(make_topology: MakeTopology) -> None:
    """After a failed copy, the agent stops with an error until another copy succeeds."""
    topology = await make_topology(subscribers=("a",))
    await shop(topology)
    await topology.execute("pub", MORE)
    await topology.execute(
        "a",
        """
        create function refuse() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
        create constraint trigger refuse after insert on account deferrable initially deferred
            for each row execute function refuse();
        alter table account enable always trigger refuse
        """,
    )
    with pytest.raises(psycopg.errors.RaiseException, match="not now"):
        await topology.reinitialise("a")
    with pytest.raises(SubscriptionError, match="is not active: its copy was not finished"):
        await topology.sync()

    await topology.execute("a", "drop trigger refuse on account")
    await topology.reinitialise("a")
    await topology.settle()
    await topology.assert_converged()
    assert (1, 101) in await topology.execute("a", BALANCES)


async def test_clean_up_leaves_what_a_copy_has_not_seen(make_topology: MakeTopology) -> None:
    """Clean-up keeps the transactions for a deactivated Subscriber while it is copied again."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.execute("pub", MORE)
    await topology.sync("a")
    assert (await topology.inspect.clean_up(max_retention=timedelta(0))).deactivated == ("b",)

    async def meanwhile(_: str) -> None:
        await topology.execute("pub", MORE)
        await topology.sync("a")
        async with await topology.node("distribution").connect() as connection:
            await clean_up(connection)

    topology.copies.points.arm("snapshot.copied", meanwhile)
    await topology.reinitialise("b")

    await topology.settle()
    await topology.assert_converged()


async def test_an_article_that_comes_later(make_topology: MakeTopology) -> None:
    """An article published later is added to Subscribers by a refresh, during changes."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    await topology.execute("pub", "create table booking (id int primary key, account int, n int)")
    await topology.execute("pub", "insert into booking values (1, 1, 10)")
    await topology.publish("booking", propagate={"upd": "XCALL"})
    await topology.execute("pub", "insert into booking values (2, 2, 20)")
    await topology.execute("pub", MORE)

    async with traffic(topology, writers=1):
        await topology.refresh_subscriptions()
        await topology.execute("pub", "update booking set n = 11 where id = 1")
        await topology.run("a", "insert into booking values (3, 3, 30)")

    await topology.settle()
    await topology.assert_converged()
    assert len(await topology.execute("b", "select id from booking")) == 3
    await topology.refresh_subscriptions()  # nothing to do


async def copy_by_hand(topology: Topology, name: str) -> None:
    """Create a Subscriber's table as a user would, including row versions."""
    await topology.execute(
        name,
        "create table account (id int primary key, balance int not null, msrepl_tran_version uuid not null)",
    )
    for row in await topology.execute("pub", "select * from account"):
        await topology.execute(name, "insert into account values (%s, %s, %s)", row)


@pytest.mark.parametrize("sync", ["replication support only", "none"])
async def test_rows_that_are_there_already(make_topology: MakeTopology, sync: str) -> None:
    """Without a copy, only later changes are delivered, in both directions."""
    topology = await make_topology(subscribers=("a", "b"))
    await shop_at(topology, "a")
    await topology.execute("pub", MORE)
    await copy_by_hand(topology, "b")

    await topology.subscribe("b", sync=sync)
    await topology.execute("pub", "update account set balance = 9 where id = 2")
    await topology.sync()
    await topology.run("b", MORE)
    await topology.settle()

    await topology.assert_converged()
    assert (await topology.execute("a", BALANCES))[:2] == [(1, 102), (2, 9)]
    with pytest.raises(SubscriptionError, match="21058"):
        await topology.subscribe("b", sync=sync)


async def shop_at(topology: Topology, *subscribers: str) -> None:
    """Do the same as `shop`, with the given Subscribers only."""
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", ROWS)
    await topology.publish("account")
    for name in subscribers:
        await topology.subscribe(name)


async def test_rows_that_should_be_there_and_are_not(make_topology: MakeTopology) -> None:
    """Without a table or its row versions, a subscription without copy is refused with a remedy."""
    topology = await make_topology(subscribers=("a",))
    await shop_at(topology)
    with pytest.raises(SubscriptionError, match="must hold the Publisher's rows already"):
        await topology.subscribe("a", sync="replication support only")
    await topology.execute("a", ACCOUNT)
    with pytest.raises(SubscriptionError, match="msrepl_tran_version"):
        await topology.subscribe("a", sync="replication support only")
    await topology.execute("a", "drop table account")

    await topology.subscribe("a")
    await topology.sync()
    await topology.assert_converged()


async def test_a_subscription_that_fails_can_be_made_again(make_topology: MakeTopology) -> None:
    """A subscription that failed for lack of a custom procedure leaves nothing, and can be repeated."""
    topology = await make_topology(subscribers=("a",))
    await topology.execute("pub", ACCOUNT)
    await topology.publish("account", propagate={"upd": "MCALL sp_mine"})
    with pytest.raises(SubscriptionError, match="procedure sp_mine for upd of account"):
        await topology.subscribe("a")
    assert await topology.agents.subscribers() == []

    script = """
        create function sp_mine(c1 int, c2 int, c3 uuid, pkc1 int, bitmap bytea) returns void language sql as
        $$ update account set balance = c2, msrepl_tran_version = c3 where id = pkc1 $$
    """
    await topology.subscribe("a", scripts={"account": [script]})
    await topology.execute("pub", "insert into account values (1, 1)")
    await topology.execute("pub", MORE)
    await topology.settle()
    await topology.assert_converged()


async def test_a_table_is_not_rewritten_while_it_is_copied(make_topology: MakeTopology) -> None:
    """A table that ALTER TABLE rewrites after the copy's snapshot is empty in it."""
    topology = await make_topology(subscribers=("a",))
    await topology.execute("pub", ACCOUNT)
    await topology.execute("pub", ROWS)
    await topology.publish("account")

    async def rewrite(_: str) -> None:
        async with await topology.node("pub").connect() as connection:
            await connection.execute("set lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await connection.execute(
                    "alter table account add note uuid default gen_random_uuid()"
                )

    topology.copies.points.arm("snapshot.taken", rewrite)
    await topology.subscribe("a")
    assert await topology.execute("a", "select count(*) from account") == [(5,)]


async def test_a_stale_copy_is_refused_until_it_is_made_anew(make_topology: MakeTopology) -> None:
    """Reinitialising a stale copy lets its Subscriber change rows again."""
    topology = await make_topology(subscribers=("a",))
    await shop(topology)
    await topology.execute("pub", MORE)
    with pytest.raises(ConflictError):
        await topology.run("a", MORE)

    await topology.reinitialise("a")
    await topology.run("a", MORE)

    await topology.settle()
    await topology.assert_converged()


def test_the_blocking_twin(server: object) -> None:
    """The blocking topology has the same methods without an event loop."""
    with Topology.blocking(server=server, subscribers=("a", "b")) as topology:
        topology.execute("pub", ACCOUNT)
        topology.execute("pub", ROWS)
        topology.publish("account", propagate={"upd": "MCALL"})
        topology.subscribe("a")
        topology.subscribe("b")
        topology.run("a", MORE)
        topology.start_agents()
        topology.sync("b")
        topology.assert_converged()
        topology.stop_agents()
        with psycopg.connect(topology.node("b").app_dsn) as connection:
            assert connection.execute("select balance from account where id = 1").fetchone() == (
                101,
            )
