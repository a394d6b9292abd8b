"""Tests of audits of published routines: each check on a small world, and a topology with calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.spark.audit.world import NAMES, World, command, told
from tests.spark.replay.recorded import accumulated, distributed
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.audit import calls, delivery, rows, versions, witness, witness_calls
from twopc.sim.spark.audit.gather import sites
from twopc.sim.spark.audit.report import AuditReport, AuditRequest, audit
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.replay import onto_rows
from twopc.sim.spark.routines import carried_out_as_rows
from twopc.sim.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

#: Owner of the function that applies calls, other roles that may execute it, and how it runs.
TAKER = """
select pg_get_userbyid(proowner)::text,
    array(select grantee::regrole::text from aclexplode(proacl) where grantee <> proowner order by 1),
    prosecdef, proconfig, prosrc, obj_description(oid)
from pg_proc where proname = 'apply_3_call'
"""


def test_delivered(spark: SparkSession) -> None:
    """Missing, repeated and unexpected calls are found; equal calls are counted."""
    world = World(
        takers=frozenset(("north", "south")),
        called=[(14, "(7)"), (15, "(7)"), (16, "(8)")],
        calls_made=[("north", "(7)"), ("north", "(8)"), ("north", "(7)"), ("south", "(7)"), ("south", "(7)"),
                    ("south", "(8)"), ("south", "(8)"), ("south", "(9)")],
    )  # fmt: skip
    found = calls.delivered(world.frames(spark), NAMES)
    assert sorted((row["article"], row["node"], row["detail"]) for row in found.collect()) == [
        ("public.pay(integer)", "south", "call came 2 times, and was sent 1 times, command 0/10"),
        ("public.pay(integer)", "south", "strange: call"),
    ]
    world.calls_made = world.calls_made[1:3]
    found = calls.delivered(world.frames(spark), NAMES)
    assert sorted((row["node"], row["detail"]) for row in found.collect()) == [
        ("north", "call came 1 times, and was sent 2 times, command 0/F"),
        ("south", "missing: call, command 0/10"),
        ("south", "missing: call, command 0/F"),
    ]


def test_order(spark: SparkSession) -> None:
    """Two calls that are swapped at a Subscriber are found, unless they are equal."""
    world = World(
        takers=frozenset(("north", "south")),
        called=[(14, "(7)"), (15, "(8)"), (16, "(7)")],
        calls_made=[
            ("north", "(8)"), ("north", "(7)"), ("north", "(7)"),
            ("south", "(7)"), ("south", "(8)"), ("south", "(7)"),
        ],
    )  # fmt: skip
    found = calls.order(world.frames(spark), NAMES).collect()
    assert [(row["node"], row["detail"]) for row in found] == [("north", "call 0/E came after 0/F")]


def test_rows_where_calls_are_taken(spark: SparkSession) -> None:
    """A Subscriber that takes calls makes its own row versions, but its values are compared.

    Rows stored beside calls are expected only where no calls are taken.
    """
    world = World(takers=frozenset(("north",)))
    world.decoded.append(command(14, "upd", "2", "b2", "b3", beside=True))
    for node in ("pub", "south"):
        world.rows[node]["2"] = ("70", "b3")
    world.state["2"] = ("70", "b3")
    world.rows["north"]["2"] = ("70", "of its own")
    world.witnessed.append(("south", "upd", "2", "b3"))
    frames = world.frames(spark)
    assert told(rows.check(frames, NAMES)) == []
    assert told(delivery.delivered(frames, NAMES)) == []
    world.rows["north"]["2"] = ("71", "of its own")
    assert told(rows.check(world.frames(spark), NAMES)) == [
        ("2", "north", "balance '71', not '70' (last command 0/E of the Publisher)")
    ]


def test_versions_of_a_table_that_calls_have_changed(spark: SparkSession) -> None:
    """Between two commands, calls may have changed a table's row versions any number of times."""
    world = World()
    world.decoded.append(command(14, "upd", "1", "a7", "a8"))
    assert len(told(versions.check(world.frames(spark), NAMES))) == 1
    world.untold = frozenset((1,))
    assert told(versions.check(world.frames(spark), NAMES)) == []


def test_text(golden: Callable[[str, str], None]) -> None:
    """The text of the function that replaces the one for calls matches the golden file."""
    golden(
        "sim/delivery_witness_of_calls.sql",
        witness_calls.texts("apply_3_call", ["agent", "another"]),
    )


async def _company(make_topology: Callable[..., Awaitable[Topology]], *writers: str) -> Topology:
    """Create a topology with two tables, and a routine that changes one of them.

    One Subscriber takes its calls, the writers take rows.
    """
    topology = await make_topology(subscribers=("reader", *writers))
    for statement in (
        "create table employees (id int primary key, salary int not null)",
        "create table note (id int primary key, said text)",
        "insert into employees select g, g from generate_series(1, 5) g",
        "create procedure give_raise(by int) language sql as 'update employees set salary = salary + by'",
    ):
        await topology.execute("pub", statement)
    await topology.publish("employees")
    await topology.publish("note")
    await topology.publish_procedure("give_raise", reads=["employees"], writes=["employees"])
    await topology.subscribe("reader", update_mode="read only")
    for name in writers:
        await topology.subscribe(name)
    return topology


async def test_rows_beside_calls(
    spark: SparkSession, make_topology: Callable[..., Awaitable[Topology]], tmp_path: Path
) -> None:
    """If another Subscriber takes rows, they are stored beside the call, and give the nodes' rows."""
    topology = await _company(make_topology, "writer")
    await accumulated(topology, spark, tmp_path / "archive")
    await topology.execute("pub", "begin isolation level serializable; call give_raise(7); commit")
    await topology.sync()
    async with topology.transaction("writer") as transaction:
        await transaction.execute("update employees set salary = 0 where id = 3")
    archive = await accumulated(topology, spark, tmp_path / "archive")
    carried_out_as_rows(
        archive, spark, after=archive.manifest.first, upto=archive.manifest.position
    )
    there = {name: dsn for name, dsn in distributed(topology).items() if name != "distribution"}
    report = await asyncio.to_thread(onto_rows, archive, spark, against=there)
    assert (report.total, report.unexamined) == (0, [])
    assert any("employees: 5 rows, last made by 6 commands" in each for each in report.remarks)


async def test_a_topology_with_calls(
    spark: SparkSession, make_topology: Callable[..., Awaitable[Topology]], tmp_path: Path
) -> None:
    """Tables that calls have changed are reported as unexamined; a call that was made twice is found."""
    topology = await _company(make_topology)
    archive = await accumulated(topology, spark, tmp_path / "archive")
    nodes = distributed(topology)
    found, known = await asyncio.to_thread(sites, nodes, archive)
    before = await topology.execute("reader", TAKER)
    assert witness.install({"reader": nodes["reader"]}, known) == found.subscribers
    assert witness.install({"reader": nodes["reader"]}, known) == found.subscribers  # idempotent
    ((owner, agents, *_),), ((witnessed, allowed, *_),) = before, await topology.execute("reader", TAKER)  # fmt: skip
    assert witnessed != owner  # an owner could alter what runs with the agent's rights
    assert allowed == agents
    for by in (7, 8):
        await topology.execute("pub", f"begin isolation level serializable; call give_raise({by}); commit")  # fmt: skip
    await topology.execute("pub", "insert into note values (1, 'raised')")
    archive = await accumulated(topology, spark, tmp_path / "archive")

    # rows that differ are compared again after the agents have delivered
    await topology.start_agents()

    async def audited(archive: Archive, *only: str) -> AuditReport:
        wanted = AuditRequest(only=only, out=tmp_path / f"audit-{len(only)}")
        return await asyncio.to_thread(audit, spark, archive, nodes, wanted)

    clean = await audited(archive, "delivered", "order", "versions", "rows")
    assert (clean.findings, clean.total) == ([], 0)
    by_call, own = clean.unexamined
    assert by_call.startswith("employees: public.give_raise(integer) was called by transaction ")
    assert own == (
        "reader takes calls, which make row versions of its own: those of employees are not examined there"
    )

    between = {"after": archive.manifest.first, "upto": archive.manifest.position}
    with pytest.raises(
        PipelineError, match=r"call public\.give_raise\(integer\) \(2 times, first by "
    ):
        carried_out_as_rows(archive, spark, **between)
    played = await asyncio.to_thread(onto_rows, archive, spark, against={"reader": nodes["reader"]})
    assert (played.total, len(played.unexamined)) == (0, 1)
    assert played.unexamined[0].startswith("employees: public.give_raise(integer) was called by ")

    # as an agent that has lost its position would do
    with psycopg.connect(nodes["reader"]) as connection:
        connection.execute("set local session_replication_role = replica")
        command = archive.commands(spark).where("type = 30").orderBy("seqno").first()
        assert command is not None
        taker = f"select msrepl.apply_{command['article_id']}_call(%s)".encode()
        connection.execute(taker, (command["command"],))
    twice = await audited(archive, "delivered", "order", "rows")
    told = {(each["class"], each["article"], each["key"] and each["key"][0]) for each in twice.findings}  # fmt: skip
    assert told == {
        ("delivered", "public.give_raise(integer)", None),
        *(("rows", "employees", str(key)) for key in range(1, 6)),
    }

    assert witness.remove({"reader": nodes["reader"]}) == ["reader"]
    left = await topology.execute(
        "reader",
        "select proname from pg_proc where proname like '%%witness%%' or obj_description(oid) like '%%audit%%'",
    )
    assert left == []
    assert await topology.execute("reader", TAKER) == before
    await topology.execute("pub", "begin isolation level serializable; call give_raise(1); commit")
    await topology.settle()
    salary = "select salary from employees where id = 1"
    assert await topology.execute("reader", salary) == [(1 + 7 + 8 + 7 + 1,)]
