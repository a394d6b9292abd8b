"""The Publisher prepares what the Subscriber commits, whatever is said about constraints and settings before."""

from __future__ import annotations

from contextlib import nullcontext

import psycopg
import pytest

from tests.any_client.conftest import Clients
from twopc.waits import link_name

UPDATE = "update account set balance = balance + 1 where id = 1"
OTHER = "update account set balance = balance + 7 where id = 2"
#: In one message; said twice it was taken for the transaction's end.
TWICE = "set constraints all immediate; set constraints all immediate"
END_LINK = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s"
)


async def same_at_both(clients: Clients) -> None:
    """Nothing stays prepared, and the rows are equal."""

    async def nothing_prepared() -> bool:
        return not await clients.prepared()

    await clients.until(nothing_prepared, "the Publisher's branches to be finished")
    await clients.settled()


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("link", ["lost", "kept"])
async def test_what_is_taken_back_to_a_savepoint_was_not_prepared(
    clients: Clients, shipping: str, link: str
) -> None:
    """Else, the link lost, what is prepared there would pass for the answer to the question at COMMIT."""
    app = clients.app
    await app.execute("begin")
    await app.execute(f"set local msrepl.shipping = '{shipping}'".encode())
    for statement in (UPDATE, "savepoint a", OTHER, TWICE, "rollback to a"):
        await app.execute(statement.encode())
    if link == "lost":
        name = link_name("sub1", app.info.backend_pid)
        await clients.topology.execute("pub", END_LINK, (name,))
    # over a new link it can be sent again where all of it waits here
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
    """The settings only say where to look; without them the Publisher is asked all the same."""
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
    """What comes in that role is not for the Publisher, what was captured before is."""
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
    """Once for each SET CONSTRAINTS ALL IMMEDIATE; the 32,768th was out of range."""
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
