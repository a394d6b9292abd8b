"""Tests that a topology uses the slot registered in the distribution database, and reports others."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import psycopg
import pytest

from tests.cli.in_process import twopc
from twopc.sim import Topology
from twopc.sim.operate import attach

MORE = "update account set balance = balance + 1 where id = 2"
SLOTS = """
select slot_name::text from pg_replication_slots where database = current_database() order by 1
"""
STRAY = "select pg_create_logical_replication_slot('msrepl_of_nobody', 'pgoutput')"


@pytest.fixture
async def dsns(make_database: Callable[[], object]) -> dict[str, str]:
    """Connection strings of a Publisher and a Subscriber whose topology's process has ended."""
    found = {name: make_database().dsn for name in ("pub", "a", "distribution")}
    async with Topology(
        subscribers=("a",), dsns=found, name=f"gone{id(found)}", keep=True
    ) as topology:
        await topology.execute("pub", "create table account (id int primary key, balance int)")
        await topology.execute("pub", "insert into account values (1, 100), (2, 100)")
        await topology.publish("account")
        await topology.subscribe("a", update_mode="read only")
    return found


def slots(dsns: Mapping[str, str]) -> list[str]:
    """Return the slots of the Publisher's database."""
    with psycopg.connect(dsns["pub"]) as connection:
        return [name for (name,) in connection.execute(SLOTS).fetchall()]


def options(dsns: Mapping[str, str]) -> list[str]:
    """Return the topology's ``--node`` options."""
    return [word for name, dsn in dsns.items() for word in ("--node", f"{name}={dsn}")]


async def test_another_process_uses_and_drops_the_slot_that_is_registered(
    dsns: dict[str, str],
) -> None:
    """A slot's name does not depend on the random name of a topology without a coordinator."""
    assert len(slots(dsns)) == 1
    async with await attach(dsns) as topology:
        await topology.execute("pub", MORE)
        await topology.regenerate("account")  # first delivers the earlier changes
        assert await topology.execute("a", "select balance from account where id = 2") == [(101,)]
    async with await attach(dsns) as topology:
        await topology.start_agents()
        await topology.execute("pub", MORE)
        await topology.sync()
        assert await topology.execute("a", "select balance from account where id = 2") == [(102,)]
    async with await attach(dsns) as topology:
        await topology.unsubscribe("a")
    assert slots(dsns) == []


async def test_a_slot_that_nobody_registered_is_told(dsns: dict[str, str]) -> None:
    registered = slots(dsns)
    healthy = twopc("status", *options(dsns))
    assert "registered nowhere" not in healthy.stdout
    ends = ["--node", f"publisher={dsns['pub']}"]
    alone = twopc("doctor", *ends)
    assert registered[0] in alone.stdout
    assert "not in use" in alone.stdout  # registration is unknown at the Publisher alone
    ends += ["--node", f"distribution={dsns['distribution']}"]
    assert "registered nowhere" not in twopc("doctor", *ends).stdout

    with psycopg.connect(dsns["pub"], autocommit=True) as connection:
        connection.execute(STRAY)
    remedy = "select pg_drop_replication_slot('msrepl_of_nobody')"
    status = twopc("status", *options(dsns))
    assert status.returncode != 0
    assert "slot msrepl_of_nobody: registered nowhere" in status.stdout
    assert remedy in status.stdout.lower()
    assert "msrepl_of_nobody" in twopc("status", *options(dsns), "--json").stdout
    doctor = twopc("doctor", *ends)
    assert doctor.returncode != 0
    assert "registered nowhere" in doctor.stdout
    assert remedy in doctor.stdout.lower()
    with psycopg.connect(dsns["pub"], autocommit=True) as connection:
        connection.execute(remedy.encode())
    assert twopc("status", *options(dsns)).returncode == healthy.returncode

    async with await attach(dsns) as topology:
        await topology.unsubscribe("a")
    with psycopg.connect(dsns["pub"], autocommit=True) as connection:
        connection.execute(STRAY)
    del dsns["a"]  # no Subscriber is left
    assert remedy in twopc("status", *options(dsns)).stdout.lower()
