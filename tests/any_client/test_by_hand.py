"""Branches of any client that an operator finishes at the Publisher by hand: the resolver records damage, once."""

from __future__ import annotations

import math
from typing import Any

import psycopg

from tests.any_client.conftest import Clients
from tests.any_client.test_early_votes import TWICE
from tests.any_client.test_ends import UPDATE, fail_after_the_vote
from twopc.protocol.effects import Outcome
from twopc.sim import operate

_DAMAGE = (
    "select gid, node, outcome, decided from msrepl.heuristic_outcome where damage order by gid"
)
_OLDER = "update msrepl.branch_marker set created_at = created_at - interval '1 hour'"
_OLD_FENCE = (
    "insert into msrepl.branch_marker (gid, xid, participants, fence, created_at) "
    "values (%s, pg_current_xact_id(), '{}', true, '2000-01-01')"
)
_RELEASE = "select msrepl.release_branches(array(select gid from msrepl.branch_marker))"


async def by_hand(clients: Clients, command: str) -> str:
    """Finish the only prepared branch at the Publisher, and return its gid."""
    (gid,) = await clients.prepared()
    with psycopg.connect(clients.topology.node("pub").dsn, autocommit=True) as operator:
        operator.execute(f"{command} '{gid}'".encode())
    return gid


async def resolved(clients: Clients, *old_at: str) -> list[Any]:
    """Let a resolver remove the markers of nodes at which they are old, and return the recorded damage."""
    for node in old_at:
        await clients.topology.execute(node, _OLDER)
    await clients.topology.any_client.start()
    await fence_removed(clients)
    await clients.topology.any_client.stop()
    return await clients.rows("distribution", _DAMAGE)


async def fence_removed(clients: Clients) -> None:
    """Insert an old fence at the Subscriber, and wait until the resolver has removed it with the other markers: the
    Subscriber's are the last.
    """
    gid = f"twopc:{clients.topology.name}.sub1:1:0:sub1"
    await clients.topology.execute("sub1", _OLD_FENCE, (gid,))

    async def is_removed() -> bool:
        query = "select gid from msrepl.branch_marker where gid = %s"
        return not await clients.topology.execute("sub1", query, (gid,))

    await clients.until(is_removed, "markers to be removed")


async def marked(clients: Clients, node: str) -> int:
    """Return the number of markers of branches at a node."""
    ((count,),) = await clients.rows(
        node, "select count(*) from msrepl.branch_marker where not fence"
    )
    return int(count)


async def test_rolled_back_although_the_subscriber_committed(clients: Clients) -> None:
    await clients.topology.any_client.stop()
    await clients.app.execute(UPDATE)
    gid = await by_hand(clients, "rollback prepared")
    record = (gid, "pub", Outcome.ABORTED, Outcome.COMMITTED)
    assert await resolved(clients, "pub", "sub1") == [record]
    assert await resolved(clients, "pub", "sub1") == [record]
    (shown,) = await operate.damage(clients.topology)
    assert (shown.gid, shown.reason) == (
        gid,
        "decided: committed; found aborted: it was finished by hand",
    )


async def test_committed_although_the_subscriber_rolled_back(clients: Clients) -> None:
    """The Subscriber fails after the vote, and the operator does not ask for the decision."""
    await clients.topology.any_client.stop()
    await fail_after_the_vote(clients)
    gid = await by_hand(clients, "commit prepared")
    record = (gid, "pub", Outcome.COMMITTED, Outcome.ABORTED)
    assert await resolved(clients, "pub", "sub1") == [record]
    assert await resolved(clients, "pub", "sub1") == [record]


async def test_committed_although_the_subscriber_was_fenced(clients: Clients) -> None:
    """The fence is old, the Publisher's marker is not: both are removed, after they have been compared."""
    topology = clients.topology
    prefix = f"twopc:{topology.name}.sub1:1:7"
    marker = (
        "insert into msrepl.branch_marker (gid, xid, participants)"
        " values (%s, pg_current_xact_id(), '{sub1}')"
    )
    topology.any_client.resolvers["sub1"]._forgotten_at = -math.inf
    await topology.execute("pub", marker, (f"{prefix}:pub",))
    await topology.execute("sub1", _OLD_FENCE, (f"{prefix}:sub1",))
    await fence_removed(clients)
    record = (f"{prefix}:pub", "pub", Outcome.COMMITTED, Outcome.ABORTED)
    assert await clients.rows("distribution", _DAMAGE) == [record]
    assert await marked(clients, "pub") == 0


async def test_committed_while_the_transaction_is_open(clients: Clients) -> None:
    """A resolver that starts meanwhile leaves the outcome to the client, which commits later."""
    await clients.topology.any_client.stop()
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    await clients.app.execute(TWICE)
    await by_hand(clients, "commit prepared")
    assert await resolved(clients, "pub") == []
    await clients.app.execute("commit")
    assert await resolved(clients, "pub", "sub1") == []
    await clients.settled()


async def test_nothing_is_recorded_of_a_transaction_committed_at_both_nodes(
    clients: Clients,
) -> None:
    """Nor if a resolver was killed between the removal of the Publisher's markers and that of the Subscriber's."""
    await clients.topology.any_client.stop()
    await clients.app.execute(UPDATE)
    await by_hand(clients, "commit prepared")
    await clients.app.execute(UPDATE)
    await clients.topology.any_client.start()
    await clients.settled()
    await clients.topology.any_client.stop()
    await clients.rows("sub1", _RELEASE)
    await clients.topology.execute("pub", "delete from msrepl.branch_marker")
    assert await resolved(clients, "pub", "sub1") == []


async def test_clocks_that_differ_are_no_damage(clients: Clients) -> None:
    """The Publisher's markers seem to be older than the Subscriber's, and are removed with these all the same."""
    await clients.app.execute(UPDATE)
    await clients.settled()
    await clients.topology.any_client.stop()
    assert await resolved(clients, "pub") == []
    assert await marked(clients, "pub") == 1
    assert await resolved(clients, "sub1") == []
    assert await marked(clients, "pub") == await marked(clients, "sub1") == 0
