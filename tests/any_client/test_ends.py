"""Tests of crashes and failures at any moment: both sites become equal, and no branch or lock is left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.any_client.conftest import TABLES, Clients
from tests.fix_topology import share
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology

UPDATE = "update account set balance = balance + 1 where id = 1"

#: Fails after all triggers that were queued when the transaction ended, since it is queued by one
#: of them.
FAILS_LAST = """
create table late (n int);
create function fails_last() returns trigger language plpgsql as $$
begin
    if new.n >= {turns} then
        {last}
    end if;
    insert into late values (new.n + 1);
    return null;
end $$;
create constraint trigger fails_last after insert on late deferrable initially deferred
    for each row execute function fails_last();
grant all on late to public;
"""


async def prepared_here(clients: Clients) -> bool:
    """Return whether a transaction is prepared at the Publisher."""
    return bool(await clients.prepared())


async def fail_after_the_vote(clients: Clients) -> None:
    """Let a client's transaction prepare the Publisher's branch, and then fail in a deferred trigger."""
    text = FAILS_LAST.format(turns=3, last="raise exception 'too late';")
    await clients.topology.execute("sub1", text)
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    await clients.app.execute("insert into late values (0)")
    with pytest.raises(psycopg.errors.RaiseException, match="too late"):
        await clients.app.execute("commit")


async def test_what_fails_after_the_publisher_was_prepared(clients: Clients) -> None:
    """A deferred trigger that fails after the Publisher's prepare causes a rollback by the resolver."""
    await fail_after_the_vote(clients)
    await clients.settled()
    assert await clients.balances() == [100] * 4
    await clients.app.execute(UPDATE)
    await clients.settled()
    assert await clients.balances() == [101, 100, 100, 100]


async def test_what_fails_before_leaves_nothing_to_resolve(clients: Clients) -> None:
    """A deferred trigger that was queued before COMMIT fires, and fails, before the Publisher is prepared."""
    await clients.topology.any_client.stop()
    await clients.topology.execute(
        "sub1", FAILS_LAST.format(turns=1, last="raise exception 'in time';")
    )
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    await clients.app.execute("insert into late values (1)")
    with pytest.raises(psycopg.errors.RaiseException, match="in time"):
        await clients.app.execute("commit")
    assert await clients.prepared() == []


async def test_a_backend_dies_between_prepare_and_commit(clients: Clients) -> None:
    """The branch of a backend that is terminated after the Publisher's prepare is rolled back.

    The backend waits for a lock in a trigger that was queued by other deferred triggers.
    """
    await clients.topology.execute(
        "sub1", FAILS_LAST.format(turns=3, last="perform pg_advisory_xact_lock(77);")
    )
    holder = await clients.client()
    await holder.execute("select pg_advisory_lock(77)")
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    await clients.app.execute("insert into late values (0)")
    commit = asyncio.create_task(clients.app.execute("commit"))
    await clients.until(lambda: prepared_here(clients), "the branch to be prepared")
    # no decision is made while the client's transaction is open
    for resolver in clients.topology.any_client.resolvers.values():
        assert await resolver.settle() == []
    # nor after a forged notification: any role may send one
    (undecided,) = await clients.prepared()
    forged = undecided.removesuffix(":pub") + ":sub1"
    finished = clients.topology.any_client.resolvers["sub1"].finished
    await holder.execute("select pg_notify('msrepl_any_client', %s)", (forged,))
    await holder.execute("update account set balance = balance where id = 4")

    async def other_is_finished() -> bool:
        return clients.topology.any_client.resolvers["sub1"].finished > finished

    await clients.until(other_is_finished, "what was told after the forgery to be finished")
    assert await clients.prepared() == [undecided]
    await clients.topology.execute(
        "sub1", "select pg_terminate_backend(%s)", (clients.app.info.backend_pid,)
    )
    with pytest.raises(psycopg.OperationalError):
        await commit
    await clients.settled()
    assert await clients.balances() == [100] * 4


async def test_a_decision_outlives_its_resolver(clients: Clients) -> None:
    """A commit without a running resolver is found by the next resolver."""
    await clients.topology.any_client.stop()
    await clients.app.execute(UPDATE)
    assert len(await clients.prepared()) == 1
    # meanwhile other transactions wait for the row, and cannot overtake
    other = asyncio.create_task(clients.app.execute(UPDATE))
    await clients.link_waits(clients.app)
    await clients.topology.any_client.start()
    await other
    await clients.settled()
    assert (await clients.balances())[0] == 102


async def test_a_rollback_gives_the_publishers_locks_back(clients: Clients) -> None:
    """A rollback releases the locks at the Publisher, without another statement of the client."""
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    await clients.app.execute("rollback")
    # a transaction that needs the row at the Publisher waits only until the resolver ends the link
    await clients.topology.execute("pub", "set lock_timeout = '20s'")
    await clients.topology.execute("pub", "update account set balance = 50 where id = 1")
    await clients.topology.sync()
    await clients.app.execute(UPDATE)  # over a new link
    await clients.settled()
    assert (await clients.balances())[0] == 51


@pytest.mark.parametrize("how", ["leaves", "is ended"])
async def test_a_client_goes_in_the_middle(clients: Clients, how: str) -> None:
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    if how == "leaves":
        await clients.app.close()
    else:
        await clients.topology.execute(
            "sub1", "select pg_terminate_backend(%s)", (clients.app.info.backend_pid,)
        )
    await clients.topology.execute("pub", "set lock_timeout = '20s'")
    await clients.topology.execute("pub", "update account set balance = 50 where id = 1")
    assert await clients.prepared() == []
    assert (await clients.balances())[0] == 50


async def test_a_statement_is_cancelled_while_it_waits_at_the_publisher(clients: Clients) -> None:
    holder = await clients.topology.admin("pub")
    await holder.execute("begin; update account set balance = 3 where id = 1")
    waiting = asyncio.create_task(clients.app.execute(UPDATE))
    await clients.link_waits(clients.app)
    clients.app.cancel()
    with pytest.raises(psycopg.errors.QueryCanceled):
        await waiting
    await holder.execute("rollback")
    await clients.app.execute(UPDATE)
    await clients.settled()
    assert (await clients.balances())[0] == 101


async def test_sessions_that_are_passed_on_by_a_pooler(clients: Clients) -> None:
    """A client's transactions may use different sessions, as with a pooler in transaction mode, and DISCARD ALL."""
    second = await clients.client()
    for number, session in enumerate([clients.app, second] * 4):
        await session.execute(UPDATE)
        if number % 3 == 0:
            await session.execute("discard all")
    await clients.settled()
    assert (await clients.balances())[0] == 108


class Crashes:
    """Two separate servers, which can crash."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology

    async def connect(self) -> AsyncConnection[Any]:
        """Connect a client at the Subscriber."""
        return await AsyncConnection.connect(self.topology.node("sub1").app_dsn, autocommit=True)

    def server(self, node: str) -> EmbeddedServer:
        """Return a node's server."""
        server = self.topology.node(node).server
        assert isinstance(server, EmbeddedServer)
        return server

    async def crash(self, node: str) -> None:
        """Crash a node's server and restart it; replace the connections that were lost."""
        await asyncio.to_thread(self.server(node).crash)
        await asyncio.to_thread(self.server(node).restart)
        for name in self.topology.nodes:
            with suppress(psycopg.OperationalError):
                await self.topology.execute(name, "select 1")

    async def finished(self) -> None:
        """Wait until nothing is prepared at the Publisher."""
        end = asyncio.get_running_loop().time() + 30
        while await self.topology.execute("pub", "select gid from pg_prepared_xacts"):
            assert asyncio.get_running_loop().time() < end, "still prepared"

    async def gone(self) -> None:
        """Wait until nothing is prepared; both sites then have the same rows."""
        query = "select id, balance, msrepl_tran_version from account order by id"
        await self.finished()
        assert await self.topology.execute("pub", query) == await self.topology.execute(
            "sub1", query
        )


@pytest.mark.parametrize("node", ["pub", "sub1"])
async def test_a_server_crashes_with_a_decided_branch(node: str) -> None:
    """A branch that is decided at the Subscriber is committed after a crash of either server."""
    async with Topology(subscribers=("sub1",), servers="each", durable=True) as topology:
        await share(topology, "account", TABLES)
        await topology.allow_any_client("sub1")
        crashes = Crashes(topology)
        await topology.any_client.stop()
        async with await crashes.connect() as client:
            await client.execute(UPDATE)
        await crashes.crash(node)
        await topology.any_client.start()
        await crashes.gone()
        rows = await topology.execute("pub", "select balance from account where id = 1")
        assert int(rows[0][0]) == 101


async def test_the_publisher_crashes_while_the_resolver_runs() -> None:
    """The resolver finishes decided branches after the Publisher's restart; clients get errors until then."""
    async with Topology(subscribers=("sub1",), servers="each", durable=True) as topology:
        await share(topology, "account", TABLES)
        await topology.allow_any_client("sub1")
        crashes = Crashes(topology)
        async with await crashes.connect() as client:
            await client.execute(UPDATE)
            await asyncio.to_thread(crashes.server("pub").crash)
            with pytest.raises(psycopg.Error):
                await client.execute(UPDATE)
            await crashes.crash("pub")
            await crashes.gone()
            await client.execute(UPDATE)
        await crashes.gone()
        rows = await topology.execute("pub", "select balance from account where id = 1")
        assert int(rows[0][0]) == 102
