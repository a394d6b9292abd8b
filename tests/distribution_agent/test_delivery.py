"""What reaches the Subscriber, in which commits, and what the agent says of it."""

from __future__ import annotations

from tests.distribution_agent.ends import Ends, dele, ins, upd
from tests.propagation.here import mask

TABLE = "create table t (id integer primary key, v text, n integer)"


async def test_commands_reach_the_table_in_order(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "a", 10), ins(2, "b", 20), ins(3, "c", 30))
    await ends.store(upd(None, "z", None, 1, mask(3, 2)), dele(2))
    await ends.store(ins(2, "again", None))
    agent = ends.agent()
    delivered = await agent.run_once()
    assert (delivered.transactions, delivered.commands, delivered.batches) == (3, 6, 1)
    assert await ends.rows() == [(1, "z", 10), (2, "again", None), (3, "c", 30)]
    assert await ends.position() == ends.at
    assert (await agent.run_once()).transactions == 0
    await agent.close()
    assert [row["event"] for row in await ends.history()] == ["started", "succeeded", "succeeded"]
