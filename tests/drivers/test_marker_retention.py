"""Tests of the retention of branch markers."""

from __future__ import annotations

from tests.drivers.place import Place
from twopc.drivers.marker_retention import MarkerRetention
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.drivers.runtime import Asyncio
from twopc.names import branch_gid, further_branch, node_of

MARKERS = "select gid from msrepl.branch_marker order by gid"


async def test_a_subscriber_that_is_down_keeps_the_markers_of_its_transactions_only(
    place: Place,
) -> None:
    dsns = {name: place.databases[name].dsn for name in ("pub", "sub2")}
    dsns["sub1"] = "host=127.0.0.1 port=1 dbname=none"
    nodes = {
        name: ServerParticipant(ParticipantAddress(name=name, dsn=dsn), "c")
        for name, dsn in dsns.items()
    }
    retention = MarkerRetention(nodes, "pub", 0.0, Asyncio())
    transactions = {
        "twopc:c:1:1": ("pub", "sub1"),
        "twopc:c:1:2": ("pub", "sub2"),
        "twopc:c:1:3": ("pub", further_branch("pub", "sub2"), "sub1", "sub2"),
    }
    for gid, branches in transactions.items():
        for name in branches:
            place.commit(branch_gid(gid, name), node=node_of(name))
        retention.over(gid, branches)
    await retention.forget()
    for participant in nodes.values():
        await participant.close()

    first, third = transactions["twopc:c:1:1"], transactions["twopc:c:1:3"]
    kept = [branch_gid("twopc:c:1:1", name) for name in first]
    kept += [branch_gid("twopc:c:1:3", name) for name in third]
    for node in ("pub", "sub1", "sub2"):
        here = [(gid,) for gid in sorted(kept) if node_of(gid.rpartition(":")[2]) == node]
        assert sorted(place.fetch(node, MARKERS)) == here
