"""Tests of commits after `SET CONSTRAINTS` and changed settings: the Publisher prepares what the Subscriber commits."""

from __future__ import annotations

from contextlib import nullcontext

import psycopg
import pytest

from tests.any_client.conftest import Clients
from twopc.waits import link_name

UPDATE = "update account set balance = balance + 1 where id = 1"
OTHER = "update account set balance = balance + 7 where id = 2"
#: One message; the repeated statement is taken for the end of the transaction.
TWICE = "set constraints all immediate; set constraints all immediate"
END_LINK = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s"
)


async def same_at_both(clients: Clients) -> None:
    """Wait until nothing is prepared; both sites then have the same rows."""

    async def nothing_prepared() -> bool:
        return not await clients.prepared()

    await clients.until(nothing_prepared, "the Publisher's branches to be finished")
    await clients.settled()


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("link", ["lost", "kept"])
async def test_what_is_taken_back_to_a_savepoint_was_not_prepared(
    clients: Clients, shipping: str, link: str
) -> None:
    """A prepare of changes that were rolled back to a savepoint does not count as the vote at COMMIT."""
    app = clients.app
    await app.execute("begin")
    await app.execute(f"set local msrepl.shipping = '{shipping}'".encode())
    for statement in (UPDATE, "savepoint a", OTHER, TWICE, "rollback to a"):
        await app.execute(statement.encode())
    if link == "lost":
        name = link_name("sub1", app.info.backend_pid)
        await clients.topology.execute("pub", END_LINK, (name,))
    # if all changes are still queued here, they can be sent again over a new link
    lost = link == "lost" and shipping == "eager"
    with pytest.raises(psycopg.Error, match=r"terminat|lost|closed") if lost else nullcontext():
        await app.execute("commit")
    await app.execute("rollback")
    await same_at_both(clients)
    assert (await clients.balances())[:2] == [100 if lost else 101, 100]


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize(
    "message",
    [
        "set constraints all immediate; reset all; commit",
        "set constraints all immediate; set local msrepl.marker = ''; commit",
        "set constraints all immediate; set local msrepl.marker = '(0,0)'; commit",
        "set constraints all immediate; set msrepl.marker = '(999,9)'; commit",
        f"{TWICE}; reset all; commit",
        "reset all; commit",
    ],
)
async def test_a_commit_after_settings_were_changed(
    clients: Clients, message: str, shipping: str
) -> None:
    """The settings are only hints: the Publisher is prepared even if they are lost or wrong."""
    await clients.app.execute("begin")
    await clients.app.execute(f"set local msrepl.shipping = '{shipping}'".encode())
    await clients.app.execute(UPDATE)
    await clients.app.execute(message.encode())
    await same_at_both(clients)
    assert (await clients.balances())[0] == 101


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize(
    "message",
    [
        "set local session_replication_role = replica; commit",
        "set local session_replication_role = replica; set constraints all immediate; commit",
        "set local session_replication_role = replica; set constraints all immediate;"
        " set local session_replication_role = origin; commit",
    ],
)
async def test_a_commit_in_the_replica_role(clients: Clients, message: str, shipping: str) -> None:
    """Changes in the replica role are not sent to the Publisher; those captured before are."""
    async with await psycopg.AsyncConnection.connect(
        clients.topology.node("sub1").dsn, autocommit=True
    ) as administrator:
        await administrator.execute("begin")
        await administrator.execute(f"set local msrepl.shipping = '{shipping}'".encode())
        await administrator.execute(UPDATE)
        for statement in message.split("; "):
            await administrator.execute(statement.encode())
    await same_at_both(clients)
    assert (await clients.balances())[0] == 101


async def test_a_transaction_that_is_asked_very_often(clients: Clients) -> None:
    """The number of `SET CONSTRAINTS ALL IMMEDIATE` in a transaction may exceed 32,767."""
    async with await psycopg.AsyncConnection.connect(
        clients.topology.node("sub1").dsn, autocommit=True
    ) as administrator:
        await administrator.execute("begin")
        await administrator.execute(UPDATE)
        often = "update msrepl.branch_marker set turn = 32767 where xid = pg_current_xact_id()"
        await administrator.execute(often)
        await administrator.execute("set constraints all immediate")
        await administrator.execute("commit")
    await same_at_both(clients)
    assert (await clients.balances())[0] == 101
