"""Tests of the tasks of a replay, and of repeated tasks."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa

from tests.spark.replay.recorded import agents_elsewhere, distributed
from twopc.sim.replay.topology import TopologyAddress, ledger
from twopc.sim.spark.replay.tasks import LaneTask, carry_out
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]

ARTICLE: dict[str, Any] = {
    "article_id": 1,
    "shape": 1,
    "source_schema": "public",
    "source_object": "t",
    "columns": ["id", "v", "msrepl_tran_version"],
    "types": ["integer", "text", "uuid"],
    "key": [0],
    "version": 2,
}


def commands(
    *given: tuple[int, str, str, str, str | None], due_s: float | None = None, unit: int = 0
) -> list[pa.RecordBatch]:
    """Return commands (sequence number, node, operation, key, value) in batches of two."""
    rows = [
        {
            "seqno": seqno, "command_id": place, "article_id": 1, "shape": 1, "operation": operation,
            "key": [key], "values": None if operation == "del" else [key, value, "x"],
            "changed": [False, True, True] if operation == "upd" else None, "node": node, "due_s": due_s,
            "unit": unit,
        }
        for place, (seqno, node, operation, key, value) in enumerate(given, 1)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows).to_batches(max_chunksize=2)


async def run(batches: list[pa.RecordBatch], task: LaneTask) -> list[tuple[Any, ...]]:
    made = await asyncio.to_thread(lambda: list(carry_out(iter(batches), task)))
    return [
        (row["seqno"], row["outcome"], row["key"], row["count"])
        for batch in made
        for row in batch.to_pylist()
    ]


async def test_a_task_that_is_run_again_does_nothing_twice(make_topology: MakeTopology) -> None:
    topology = await make_topology(subscribers=("north",))
    await topology.execute("pub", "create table t (id int primary key, v text)")
    await topology.publish("t")
    await topology.subscribe("north")
    await ledger(topology, ("pub", "north"), there=True)
    task = LaneTask(
        replay="r",
        address=TopologyAddress(nodes=distributed(topology), coordinator="replay"),
        articles={(1, 1): ARTICLE},
        fresh=True,
        began_s=0.0,
    )
    await agents_elsewhere(topology)  # the replay does not run agents
    first = commands(
        (4, "pub", "ins", "1", "a"), (4, "pub", "ins", "2", None), (8, "north", "upd", "2", "b")
    )
    assert await run(first, task) == [(4, "done", None, None), (8, "done", None, None)]
    # the task was killed before it reported, and the next one has more commands
    again = first + commands((12, "north", "del", "1", None), (12, "north", "del", "9", None))
    assert await run(again, task) == [
        (4, "found", None, None),
        (8, "found", None, None),
        (12, "done", None, None),
        (12, "count", ["9"], 0),
    ]
    assert await topology.execute("pub", "select id, v from t") == [(2, "b")]
    assert await run([], task) == []
    now = dataclasses.replace(task, began_s=time.time())
    due = commands((13, "pub", "ins", "3", None), due_s=0.2)
    (made,) = await asyncio.to_thread(lambda: [*carry_out(iter(due), now)])
    assert time.time() >= now.began_s + 0.2
    assert made["lag_s"][0].as_py() >= 0
    await topology.stop_agents()
    # commands after a failed one are held, in its unit only
    batches = [
        *commands((20, "pub", "ins", "2", "!"), (24, "pub", "upd", "2", "c"), unit=1),
        *commands((28, "pub", "upd", "3", "d"), unit=2),
    ]
    assert await run(batches, dataclasses.replace(task, holds=True)) == [
        (20, "error", None, None),
        (24, "held", None, None),
        (28, "done", None, None),
    ]
    assert [each[1] for each in await run(batches, task)] == ["error", "done", "found"]
    north = {"north": task.address.nodes["north"].replace("port=", "port=1")}
    gone = dataclasses.replace(
        task, address=dataclasses.replace(task.address, nodes={**task.address.nodes, **north})
    )
    assert await run(commands((16, "north", "del", "2", None)), gone) == [
        (16, "stopped", None, None)
    ]
