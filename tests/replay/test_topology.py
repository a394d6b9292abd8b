"""Recorded transactions, carried out on servers, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg

from tests.fix_topology import share
from twopc.names import VERSION_COLUMN
from twopc.server.polling import wait_for
from twopc.sim.replay.engine import RecordedTransaction
from twopc.sim.replay.topology import Commands, TopologyTarget, TransactionOutcome, ledger
from twopc.sim.topology import Topology
from twopc.together import together

MakeTopology = Callable[..., Awaitable[Topology]]

ARTICLE: dict[str, Any] = {
    "article_id": 1,
    "shape": 1,
    "source_schema": "public",
    "source_object": "Line Item",
    "columns": ["region", "id", "note", VERSION_COLUMN],
    "types": ["text", "integer", "numeric(8,2)", "uuid"],
    "key": [1, 0],
    "version": 3,
}


def command(operation: str, key: list[str], *values: str | None) -> dict[str, Any]:
    """Return a command; an update sets its last value only."""
    changed = [False, False, True, True] if operation == "upd" else None
    row = [*values, "00000000-0000-0000-0000-000000000001"] if values else None
    return {
        "article_id": 1, "shape": 1, "operation": operation, "key": key, "values": row, "changed": changed
    }  # fmt: skip


def recorded(number: int, node: str, commands: Commands) -> RecordedTransaction[Commands]:
    return RecordedTransaction(number=number, node=node, work=commands)


async def test_transactions_run_where_they_were_made_and_once(make_topology: MakeTopology) -> None:
    topology = await make_topology(subscribers=("north", "south"))
    await share(
        topology,
        "Line Item",
        'create table "Line Item" (region text, id int generated always as identity, note numeric(8, 2),'
        " primary key (id, region))",
    )
    nodes = ("pub", *topology.subscribers)
    await ledger(topology, nodes, there=True)

    def target(*, fresh: bool, replay: str = "r", patience_s: float = 30.0) -> TopologyTarget:
        return TopologyTarget(
            topology,
            replay=replay,
            articles={(1, 1): ARTICLE},
            fresh=fresh,
            patience_s=patience_s,
        )

    insert = recorded(4, "pub", [command("ins", ["7", "w"], "w", "7", "1.50")])
    by_north = recorded(8, "north", [command("upd", ["7", "w"], None, None, "2.00")])
    by_south = recorded(12, "south", [command("upd", ["7", "w"], None, None, "3.00")])
    assert (await target(fresh=True).carry_out(insert)).outcome == "done"
    # it begins as soon as what it needs has arrived
    done, _ = await together(target(fresh=True).carry_out(by_north), topology.sync("north"))
    assert isinstance(done, TransactionOutcome)
    assert done.outcome == "done"
    # again: the ledger contains it, so that the row keeps its version
    versions = await topology.execute("pub", f'select {VERSION_COLUMN} from "Line Item"')
    assert (await target(fresh=True).carry_out(by_north)).outcome == "found"
    assert await topology.execute("pub", f'select {VERSION_COLUMN} from "Line Item"') == versions
    # what does not arrive is waited for once
    impatient = target(fresh=True, patience_s=0.05)
    for _ in range(2):
        late = await impatient.carry_out(by_south)
        assert (late.outcome, late.message) == ("late", "not delivered in time")
    # what was not delivered is missing, and the counts show it
    unsynchronised = await target(fresh=False, replay="other").carry_out(by_south)
    assert (unsynchronised.outcome, unsynchronised.counts) == (
        "done",
        (("Line Item", ("7", "w"), 0),),
    )
    await topology.sync("south")
    assert (await target(fresh=True).carry_out(by_south)).outcome == "done"
    stale = recorded(16, "north", by_north.work)
    refused = await target(fresh=False).carry_out(stale)
    assert refused.outcome == "rejected"
    assert refused.message.startswith("version_mismatch")
    wrong = recorded(20, "pub", insert.work)
    failed = await target(fresh=True).carry_out(wrong)
    assert failed.outcome == "error"
    assert "duplicate key" in failed.message
    # a failed transaction is not in the ledger, and may be tried again
    await topology.sync("north")
    gone = recorded(20, "north", [command("del", ["7", "w"])])
    assert (await target(fresh=True).carry_out(gone)).outcome == "done"
    assert await topology.execute("pub", 'select count(*) from "Line Item"') == [(0,)]
    await ledger(topology, nodes, there=False)
    for node in nodes:
        assert await topology.execute(node, "select to_regnamespace('twopc_replay')") == [(None,)]


async def test_whoever_was_only_in_the_way_is_no_divergence(make_topology: MakeTopology) -> None:
    """A transaction that a lock blocks for longer than the timeout begins again, in its place."""
    topology = await make_topology(subscribers=("north",), lock_timeout_ms=50)
    await share(
        topology,
        "Line Item",
        'create table "Line Item" (region text, id int, note numeric(8, 2), primary key (id, region))',
        """insert into "Line Item" values ('w', 7, 1.5)""",
    )
    await ledger(topology, ("pub", "north"), there=True)
    update = [command("upd", ["7", "w"], None, None, "2.00")]
    lock = b'select from "Line Item" for update'
    for seqno, held_at in ((4, "pub"), (8, "north")):
        target = TopologyTarget(topology, replay="r", articles={(1, 1): ARTICLE}, fresh=False)
        deed = recorded(seqno, "north", update)
        with psycopg.connect(topology.node(held_at).dsn) as holder:
            holder.execute(lock)
            work = asyncio.create_task(target.carry_out(deed))
            await asyncio.to_thread(
                wait_for,
                lambda target=target: target.begun_anew,
                what="the transaction to begin anew",
                timeout_s=60,
            )
            holder.rollback()
        assert (await work).outcome == "done"
    # it is retried for as long as its patience allows
    with psycopg.connect(topology.node("pub").dsn) as holder:
        holder.execute(lock)
        impatient = TopologyTarget(
            topology, replay="r", articles={(1, 1): ARTICLE}, fresh=False, patience_s=0
        )
        refused = await impatient.carry_out(recorded(12, "north", update))
    assert refused.outcome == "rejected"
    assert refused.message.startswith("lock_timeout")
