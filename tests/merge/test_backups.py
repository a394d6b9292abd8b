"""Nodes that are backed up and restored in scenarios, on servers and on the model."""

from __future__ import annotations

import asyncio

from psycopg import AsyncConnection

from tests.agreement.test_catalogue import on_model
from tests.fix_topology import share
from twopc.drivers.merge.neighbours import agent_role
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology
from twopc.sim.report.history import History
from twopc.sim.scenario.agree import compare
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.values import Selection


async def test_unsubscribing_what_was_backed_up(server: EmbeddedServer) -> None:
    """An agent's role with rights in a backup stays after unsubscribing, without a login.

    It is used again by the next subscription, or dropped with the backup.
    """
    roles = "select rolname, rolcanlogin from pg_roles where rolname = any (%s) order by 1"
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        await share(topology, "item", "create table item (id int primary key)")
        node = topology.node("pub")
        agent = agent_role(node.database, "anna")
        await topology.back_up("pub")
        await topology.unsubscribe("anna")
        assert await topology.execute("pub", roles, ([agent],)) == [(agent, False)]
        await topology.execute("anna", "drop table item")
        await topology.subscribe("anna")
        assert await topology.execute("pub", roles, ([agent],)) == [(agent, True)]
        await topology.sync("anna")
        await topology.unsubscribe("anna")
    async with await AsyncConnection.connect(server.dsn("postgres")) as admin:
        assert await (await admin.execute(roles, ([agent],))).fetchall() == []


async def test_taking_away_what_was_backed_up(server: EmbeddedServer) -> None:
    """Tables are reinitialised, left and unpublished although a backup needs the roles that write them."""
    of_tables = "select count(*) from pg_roles where rolname ~ '^msrepl_(table|owner)_'"
    async with await AsyncConnection.connect(server.dsn("postgres"), autocommit=True) as admin:
        before = await (await admin.execute(of_tables)).fetchall()
        async with MergeTopology(server=server, subscribers=("anna",)) as topology:
            await share(topology, "item", "create table item (id int primary key)")
            await topology.back_up("anna")
            await topology.reinitialise("anna")
            await topology.sync("anna")
            await topology.back_up("pub")
            await topology.unsubscribe("anna")
            await topology.unpublish("item")
            await topology.uninstall()
            await topology.install()
            await topology.publish("item")
        assert await (await admin.execute(of_tables)).fetchall() == before


FILE = """
twopc: 1
name: backups
about: A row that two Subscribers and the Publisher change.
topology: {replication: merge, publisher: pub, subscribers: [anna, ben]}
tables:
  t:
    columns: {id: int primary key, n: int}
    rows: [{id: 1, n: 0}, {id: 2, n: 0}]
sessions:
  p:
    node: pub
    steps:
      - p_write: {sql: "update t set n = 7 where id = 2"}
      - p_more: {sql: "update t set n = 8 where id = 2"}
  a:
    node: anna
    steps: [a_write: {sql: "update t set n = 1 where id = 1"}, a_new: {sql: "insert into t values (3, 5)"}, a_sync: sync,
            a_newer: {sql: "insert into t values (4, 6)"}, a_again: sync]
  b: {node: ben, steps: [b_write: {sql: "update t set n = 2 where id = 1"}, b_sync: sync, b_again: sync]}
faults: [{id: rests, at: merge.upload_read(anna), do: pause agent anna}]
orders:
"""
ORDERS = """
  - name: the Publisher gets back what its Subscribers have of it
    steps: [{backup: pub}, a_write, p_write, a_sync, b_sync, {restore backup: pub}, p_more, b_again, a_again]
    expect: {steps: {b_again: {anew: true}, a_again: {anew: true}}, tables: {t: {everywhere: [{id: 1, n: 1}, {id: 2, n: 8}]}}}
  - name: what nobody else had is gone
    steps: [a_write, {backup: anna}, a_new, {restore backup: anna}, a_newer, a_again]
    expect:
      steps: {a_again: {uploaded: 2, anew: false}}
      tables: {t: {everywhere: [{id: 1, n: 1}, {id: 2, n: 0}, {id: 4, n: 6}]}}
  - name: conflicts after a restore are recorded, too
    steps: [{backup: pub}, a_write, b_write, a_sync, b_sync, {restore backup: pub}, a_again, b_again]
    expect:
      conflicts:
        - {table: t, key: {id: 1}, type: update_update, winner: anna, loser: {n: 2}}
"""


def test_restored_nodes_on_servers_and_on_the_model(server) -> None:
    """Servers and the model agree on what a restored node gets back and loses.

    They record the same conflicts after the restore.
    """
    loaded, history = parse(FILE + ORDERS), History()

    async def play():
        async with PostgresTheatre(server=server) as theatre:
            return await run(loaded, theatre, history)

    verdict = asyncio.run(play())
    assert [failure.message for order in verdict.orders for failure in order.failures] == []
    _, others = on_model(loaded)
    assert compare(history.records, others.records) == []


def test_a_change_that_another_node_had_is_asked_for() -> None:
    """A change that another node had must come back after a restore; others need not.

    Without the protection `guid_check` it does not come back.
    """
    orders = """
  - name: sent
    steps: [{backup: pub}, a_write, p_write, a_sync, {restore backup: pub}]
    expect: {converged: false}
  - name: not sent
    steps: [{backup: anna}, a_write, {restore backup: anna}]
twin: {order: sent, protections: {guid_check: off}, must_fail: nothing_lost}
"""
    verdict, _ = on_model(parse(FILE + orders))
    assert [(order.name, order.failures) for order in verdict.orders] == [
        ("sent", ()),
        ("not sent", ()),
        ("twin of sent: guid_check off", ()),
    ]


def test_a_node_is_not_taken_from_a_session_that_is_under_way() -> None:
    """An order that would back up a node during its session is stuck, and the message says so."""
    orders = "  - {name: one, faults: [rests], steps: [a_write, a_sync, {backup: anna}]}\n"
    verdict, _ = on_model(parse(FILE + orders), Selection())
    [failure] = [each for order in verdict.orders for each in order.failures][:1]
    assert "a_sync is not over, so anna cannot be backed up" in failure.message
