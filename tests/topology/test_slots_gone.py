"""Tests of slots that are gone, or do not continue the log: status and doctor say so, and their remedy works."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.in_process import twopc
from twopc.errors import ConfigurationError, ServerError, SubscriptionError
from twopc.sim import Topology
from twopc.sim.operate import attach

_DROP = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()"
_CREATE = "select pg_create_logical_replication_slot(%s, 'pgoutput')"
_SLOT = "select slot from msrepl.mspublisher_databases"


@pytest.fixture
async def dsns(make_database: Callable[[], object]) -> dict[str, str]:
    """Connection strings of a Publisher with a read-only and an immediate updating Subscriber."""
    found = {name: make_database().dsn for name in ("pub", "a", "b", "distribution")}
    async with Topology(
        subscribers=("a", "b"), dsns=found, name=f"gap{id(found)}", keep=True
    ) as topology:
        await topology.execute("pub", "create table account (id int primary key, balance int)")
        await topology.execute("pub", "insert into account values (1, 100), (2, 100)")
        await topology.publish("account")
        await topology.subscribe("a", update_mode="read only")
        await topology.subscribe("b")
        await topology.sync()
    return found


@pytest.mark.parametrize("again", [False, True])
async def test_every_subscriber_is_reinitialised(dsns: dict[str, str], again: bool) -> None:
    """Nobody goes on without the changes that were lost, and one Subscriber's new copy heals it alone."""
    options = [word for name, dsn in dsns.items() for word in ("--node", f"{name}={dsn}")]
    async with await attach(dsns) as topology:
        ((name,),) = await topology.execute("distribution", _SLOT)
        await topology.execute("pub", _DROP)
        await topology.execute("pub", "update account set balance = 1 where id = 1")
        if again:
            await topology.execute("pub", _CREATE, (name,))
        await topology.execute("pub", "update account set balance = 2 where id = 2")

        status = twopc("status", *options)
        assert status.returncode == 6
        assert "`twopc reinitialise` every Subscriber" in status.stdout
        if not again:
            doctor = twopc("doctor", *options)
            assert doctor.returncode == 4
            assert "twopc reinitialise SUBSCRIBER" in doctor.stdout
        with pytest.raises(ServerError, match="`twopc reinitialise` every Subscriber"):
            await topology.sync()

        assert twopc("reinitialise", "b", *options).returncode == 0
        await topology.execute("pub", "update account set balance = balance + 10 where id = 2")
        await topology.sync("b")
        with pytest.raises(SubscriptionError, match="`twopc reinitialise a`"):
            await topology.sync()
        assert twopc("reinitialise", "a", *options).returncode == 0
        await topology.sync()
        await topology.assert_converged()
        query = "select balance from account order by id"
        assert await topology.execute("a", query) == [(1,), (12,)]
        assert twopc("status", *options).returncode == 0


async def test_a_slot_of_somebody_else_is_not_dropped(dsns: dict[str, str]) -> None:
    async with await attach(dsns) as topology:
        ((name,),) = await topology.execute("distribution", _SLOT)
        await topology.execute("pub", _DROP)
        await topology.execute(
            "pub",
            "select pg_create_logical_replication_slot(%s, 'pgoutput', twophase => true)",
            (name,),
        )
        with pytest.raises(ServerError, match="none of ours"):
            await topology.reinitialise("a")
        await topology.execute("pub", _DROP)


async def test_the_log_does_not_begin_anew_during_a_copy(dsns: dict[str, str]) -> None:
    """A copy that was made before would become active, without what was lost."""
    async with await attach(dsns) as topology, await attach(dsns) as another:

        async def lose(_: str) -> None:
            await another.execute("pub", _DROP)
            await another.execute("pub", "update account set balance = 1 where id = 1")
            another.registration.slot_timeout_ms = 200
            with pytest.raises(ConfigurationError, match="another command is copying rows"):
                await another.reinitialise("a")

        topology.copies.points.arm("snapshot.copied", lose)
        await topology.reinitialise("b")
        with pytest.raises(ServerError, match="`twopc reinitialise` every Subscriber"):
            await topology.sync()
        for name in ("a", "b"):
            await topology.reinitialise(name)
        await topology.sync()
        await topology.assert_converged()
