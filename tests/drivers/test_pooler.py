"""M34: Tests that a coordinator refuses a pooler in transaction mode, and says what to do.

Clients of any kind may use a pooler (`tests/any_client`). A coordinator may not: its epoch is bound
to its session, and it finishes branches in the role of their owner.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import conninfo

from tests.drivers.bank import PUB, SUB, Bank
from tests.fix_pgbouncer import MakePooler
from twopc import errors
from twopc.drivers import ParticipantAddress, PostgresCoordinator

LOG = "distribution"


def place_of(dsn: str) -> dict[str, Any]:
    """Return the connection parameters that lead to the server of a connection string."""
    parts = conninfo.conninfo_to_dict(dsn)
    return {"host": parts["host"], "port": parts["port"]}


@pytest.mark.parametrize("node", [PUB, SUB, LOG])
async def test_a_coordinator_is_refused(bank: Bank, make_pooler: MakePooler, node: str) -> None:
    """A coordinator does not open if the connection to one of its nodes leads through a pooler."""
    there = place_of(make_pooler(bank.topology.node(node).coordinator_dsn, pool=1))
    with pytest.raises(errors.ConfigurationError, match=r"leads through a pooler .* server itself"):
        async with bank.coordinator(through={node: there}):
            pass


async def test_an_application_is_refused(bank: Bank, make_pooler: MakePooler) -> None:
    """A transaction does not begin if only the application's connection leads through a pooler.

    Either pgbouncer refuses the startup parameters, or the coordinator detects the pooler.
    """
    right = bank.topology.address(SUB)
    made = PostgresCoordinator(
        bank.coordinator_name,
        distribution=bank.topology.node(LOG).coordinator_dsn,
        publisher=bank.topology.address(PUB),
        subscribers={
            SUB: ParticipantAddress(
                name=SUB, dsn=right.dsn, application_dsn=make_pooler(right.application_dsn)
            )
        },
    )
    async with made as coordinator:
        with pytest.raises(errors.TwopcError, match=r"pooler|unsupported startup parameter"):
            await coordinator.transaction(SUB).begin()
    assert await bank.prepared() == []


async def test_why(bank: Bank, make_pooler: MakePooler) -> None:
    """Behind a pooler, a session has the advisory locks and settings of other clients.

    The session that keeps an epoch, and the role set to finish a branch, would be shared as well.
    """
    dsn = make_pooler(bank.topology.node(LOG).coordinator_dsn, pool=1)
    with (
        psycopg.connect(dsn, autocommit=True) as one,
        psycopg.connect(dsn, autocommit=True) as other,
    ):
        one.execute("select pg_advisory_lock(5)")
        one.execute("set lock_timeout = 1234")
        assert other.execute("select pg_try_advisory_lock(5)").fetchone() == (True,)
        assert other.execute("show lock_timeout").fetchone() == ("1234ms",)
    with psycopg.connect(dsn, autocommit=True) as later:
        held = "select count(*) from pg_locks where locktype = 'advisory' and objid = 5"
        assert later.execute(held).fetchone() == (1,), "both are gone, and their lock is not"
