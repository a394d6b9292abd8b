"""Agents' changes at a Subscriber with constraints and triggers that are NOT FOR REPLICATION, and with others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from twopc.errors import DeliveryError
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]
AT_PUBLISHER = """
create table parent (id int primary key);
create table child (id int primary key, parent_id int, u int);
insert into parent values (1);
"""
AT_SUBSCRIBER = """
create table parent (id int primary key);
create table child (id int generated always as identity primary key,
                    parent_id int constraint referring references parent,
                    u int constraint late unique deferrable);
create table seen (id int); grant insert on seen to public;
create function see() returns trigger language plpgsql as $$
begin insert into public.seen values (new.id); return null; end $$;
create trigger seeing after insert on child for each row execute function see();
"""


async def wired(make_topology: MakeTopology) -> Topology:
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", AT_PUBLISHER)
    await topology.execute("sub1", AT_SUBSCRIBER)
    for table in ("parent", "child"):
        await topology.publish(table)
    await topology.subscribe("sub1")
    return topology


async def test_not_for_replication_agents_pass_by(make_topology: MakeTopology) -> None:
    """By default, foreign keys, deferrable keys and triggers do not apply to agents, nor does GENERATED ALWAYS."""
    topology = await wired(make_topology)
    await topology.execute("pub", "insert into child values (7, 99, 1), (8, 1, 1)")
    await topology.sync()
    rows = await topology.execute("sub1", "select id, parent_id, u from child order by id")
    assert rows == [(7, 99, 1), (8, 1, 1)]
    assert await topology.execute("sub1", "table seen") == []
    assert await topology.execute("sub1", "select is_called from child_id_seq") == [(False,)]


@pytest.mark.parametrize(
    ("name", "statement", "sqlstate"),
    [
        ("referring", "insert into child values (7, 99, 1)", "23503"),
        ("late", "insert into child values (7, 1, 1), (8, 1, 1)", "23505"),
    ],
)
async def test_otherwise_they_are_checked(
    make_topology: MakeTopology, name: str, statement: str, sqlstate: str
) -> None:
    """If a constraint is not NOT FOR REPLICATION, the agent stops and names it, until it is set so again."""
    topology = await wired(make_topology)
    await topology.set_not_for_replication("sub1", "child", name, False)
    await topology.execute("pub", statement)
    with pytest.raises(DeliveryError, match=name) as caught:
        await topology.sync()
    assert sqlstate in str(caught.value) or caught.value.sqlstate == sqlstate
    assert await topology.execute("sub1", "select count(*) from child") == [(0,)]
    await topology.set_not_for_replication("sub1", "child", name, True)
    await topology.sync()
    await topology.assert_converged("child")


async def test_triggers_fire_for_agents_then(make_topology: MakeTopology) -> None:
    """A trigger that is not NOT FOR REPLICATION fires once per row, and no change returns to the Publisher."""
    topology = await wired(make_topology)
    await topology.set_not_for_replication("sub1", "child", "seeing", False)
    await topology.execute("pub", "insert into child values (7, 1, 1), (8, 1, 2)")
    await topology.sync()
    assert await topology.execute("sub1", "select id from seen order by 1") == [(7,), (8,)]
    assert await topology.execute("pub", "select count(*) from child") == [(2,)]
