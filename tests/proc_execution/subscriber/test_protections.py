"""Tests of protections of calls of routines that are switched off at the Publisher."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import psycopg
import pytest

from twopc.sim import Topology
from twopc.sim.topology.protections import switch_off

MakeTopology = Callable[..., Awaitable[Topology]]

ROUTINE = """
create procedure halve(by int) language plpgsql as $$ begin update stock set amount = amount / by; end $$
"""


async def marked(topology: Topology, isolation: str, call: str = "call halve(2)") -> list[str]:
    """Make a call, and return the snapshots in the markers of its begin."""
    await topology.execute("pub", "delete from msrepl.call_marker")
    here = await topology.admin("pub")
    async with here.transaction():
        await here.execute(f"set transaction isolation level {isolation}".encode())
        await here.execute(call.encode())
    rows = await topology.execute(
        "pub", "select snapshot from msrepl.call_marker where opened is null"
    )
    return [snapshot for (snapshot,) in rows]


async def test_each(make_topology: MakeTopology) -> None:
    """Calls are protected by default, and not after the protections are switched off."""
    topology = await make_topology(subscribers=("reader",))
    await topology.execute("pub", "create table stock (id int primary key, amount int)")
    await topology.execute("pub", "insert into stock values (1, 100)")
    await topology.execute("pub", ROUTINE)
    await topology.publish("stock")
    await topology.publish_procedure("halve", reads=["stock"], writes=["stock"])
    await topology.subscribe("reader", update_mode="read only")
    now = (await topology.execute("pub", "select pg_snapshot_xmax(pg_current_snapshot())::text"))[
        0
    ][0]
    seen = await marked(topology, "serializable")
    assert len(seen) == 1
    assert int(seen[0].split(":")[0]) <= int(now) + 10
    assert await marked(topology, "read committed") == []
    with pytest.raises(psycopg.errors.DivisionByZero):
        await marked(topology, "serializable", "call halve(0)")

    await switch_off(topology, {"snapshot_rule", "isolation_check", "xact_abort"})

    everything = f"{2**63 - 1}:{2**63 - 1}:"
    assert await marked(topology, "read committed") == [everything]
    assert await marked(topology, "serializable", "call halve(0)") == [everything]
    assert await topology.execute(
        "pub", "select failure from msrepl.call_marker where opened is not null"
    ) == [("22012",)]
    await switch_off(topology, {"calls"})
    assert await marked(topology, "serializable") == []
