"""Tests of audits from end to end: a topology with transactions, its archive, and a fault of each class."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from twopc.names import VERSION_COLUMN, table_role
from twopc.publisher.publication import owner_role
from twopc.sim.spark.archive import Archive, load, writer
from twopc.sim.spark.audit import witness
from twopc.sim.spark.audit.gather import sites
from twopc.sim.spark.audit.report import CLASSES, AuditReport, AuditRequest, audit
from twopc.sim.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_VERSION = f"select {VERSION_COLUMN}::text from account where id = %s"
_AS_AGENT = "set local session_replication_role = replica"


def _nodes(topology: Topology) -> dict[str, str]:
    names = (topology.publisher, *topology.subscribers, topology.distribution)
    return {name: topology.node(name).dsn for name in names}


class _Bank:
    """A topology with accounts, its archive, and access to both."""

    def __init__(self, spark: SparkSession, topology: Topology, folder: Path) -> None:
        self.spark = spark
        self.topology = topology
        self.folder = folder
        self._audits = 0

    async def begin(self) -> None:
        """Set up ten accounts at three nodes, an archive with a base, and a delivery witness."""
        topology = self.topology
        await topology.execute("pub", "create table account (id int primary key, balance int)")
        await topology.execute(
            "pub", "insert into account select g, 100 from generate_series(1, 10) g"
        )
        await topology.publish("account")
        for name in topology.subscribers:
            await topology.subscribe(name)
        await topology.settle()
        await (
            topology.start_agents()
        )  # rows that differ are compared again after the agents have delivered
        await self.accumulate()
        await asyncio.to_thread(self._witness)

    def _witness(self) -> None:
        found, known = sites(_nodes(self.topology), self.archive)
        subscribers = {name: _nodes(self.topology)[name] for name in found.subscribers}
        assert witness.install(subscribers, known) == ["north", "south"]
        assert witness.install(subscribers, known) == ["north", "south"]  # idempotent

    @property
    def archive(self) -> Archive:
        """Return the archive, opened anew."""
        return Archive.open(self.folder / "bank.archive")

    async def accumulate(self) -> None:
        """Append what is available."""
        wanted = load.LoadRequest(
            dsn=_nodes(self.topology)["distribution"], publisher_dsn=_nodes(self.topology)["pub"], partitions=2
        )  # fmt: skip

        def work() -> None:
            with writer(load.opened(self.folder / "bank.archive", wanted)) as held:
                load.accumulate(held, self.spark, wanted, lambda *_: None)

        await asyncio.to_thread(work)

    async def write(self, node: str, statement: str) -> None:
        """Execute a transaction at a node."""
        if node == "pub":
            await self.topology.execute("pub", statement)
            return
        async with self.topology.transaction(node) as transaction:
            await transaction.execute(statement)

    def connections(self, node: str, *, allowed: bool) -> None:
        """Allow or forbid new connections to a node; open connections stay."""
        there = self.topology.node(node)
        database = sql.Identifier(there.database)
        with psycopg.connect(there.server.superuser_dsn("postgres"), autocommit=True) as connection:
            connection.execute(
                sql.SQL("alter database {} with allow_connections {}").format(
                    database, sql.Literal(allowed)
                )
            )

    async def versions(self, node: str, key: int) -> str:
        """Return the version of a row."""
        ((found,),) = await self.topology.execute(node, _VERSION, (key,))
        return str(found)

    def as_agent(self, node: str, *statements: str) -> None:
        """Execute statements as an agent does, or a user who imitates one."""
        with psycopg.connect(_nodes(self.topology)[node]) as connection:
            connection.execute(_AS_AGENT)
            for each in statements:
                connection.execute(each.encode())

    async def audit(
        self, nodes: Mapping[str, str] | None = None, only: Sequence[str] = CLASSES
    ) -> AuditReport:
        """Audit all classes, or the given ones."""
        self._audits += 1
        wanted = AuditRequest(only=only, out=self.folder / f"audit-{self._audits}")
        given = _nodes(self.topology) if nodes is None else nodes
        look = functools.partial(audit, self.spark, self.archive, given, wanted)
        return await asyncio.to_thread(look)


def _set(key: int, balance: int, version: str) -> str:
    return (
        f"update account set balance = {balance}, {VERSION_COLUMN} = '{version}' where id = {key}"
    )


async def _work(bank: _Bank) -> dict[int, str]:
    """Run transactions at all nodes, one of them after the archive's end; return the earlier row versions."""
    before = {key: await bank.versions("pub", key) for key in range(1, 11)}
    await bank.write("north", "update account set balance = 90 where id = 1")
    await bank.write("south", "update account set balance = 80 where id = 2")
    await bank.write("pub", "update account set balance = 70 where id = 3")
    await bank.topology.settle()
    await bank.write("north", "update account set balance = 71 where id = 3")
    await bank.write("pub", "insert into account values (11, 5)")
    await bank.write("south", "delete from account where id = 10")
    await bank.topology.settle()
    await bank.accumulate()
    await bank.write("pub", "update account set balance = 60 where id = 4")  # after the end
    await bank.topology.settle()
    return before


async def _plant(bank: _Bank, before: Mapping[int, str]) -> None:
    """Cause a fault of each class."""
    # atomic: as if north had rolled its branch back manually
    bank.as_agent("north", _set(1, 100, before[1]))
    # rows: a value that no command sent, with the right version
    bank.as_agent("south", _set(5, 55, before[5]))
    # echo: north gets its own change back; order and delivered: south gets the older of two
    # changes again
    own = await bank.versions("north", 3)
    bank.as_agent("north", _set(3, 71, own))
    ((older,),) = await bank.topology.execute(
        "south",
        "select version from msrepl.delivery_witness where key = '{3}' order by id limit 1",
    )
    bank.as_agent("south", _set(3, 70, older), _set(3, 71, own))
    # versions: a row gets a version that it had before, which only the table's role can do
    with psycopg.connect(_nodes(bank.topology)["pub"]) as connection:
        role = table_role(owner_role(connection.info.dbname), "public", "account")
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        connection.execute(_set(3, 72, older).encode())
    await bank.topology.settle()
    await bank.accumulate()


async def test_a_fault_of_each_class_is_found_and_named(
    spark: SparkSession,
    make_topology: Callable[..., Awaitable[Topology]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An audit finds nothing in a sound topology, then every fault, with its class, key and node."""
    bank = _Bank(spark, await make_topology(subscribers=("north", "south")), tmp_path)
    await bank.begin()
    topology = bank.topology
    before = await _work(bank)
    clean = await bank.audit()
    assert (clean.findings, clean.unexamined) == ([], [])
    assert clean.classes == dict.fromkeys(CLASSES, 0)

    await _plant(bank, before)

    found = await bank.audit()
    named = {(each["class"], *each["key"], each["node"]) for each in found.findings}
    assert named >= {
        ("atomic", "1", "north"),
        ("rows", "5", "south"),
        ("echo", "3", "north"),
        ("delivered", "3", "south"),
        ("order", "3", "south"),
        ("versions", "3", "pub"),
    }
    assert {key for _, key, _ in named} == {"1", "3", "5"}
    assert found.unexamined == []
    (atomic,) = (each for each in found.findings if each["class"] == "atomic")
    assert "took effect at pub, not at north" in atomic["detail"]
    details = [each["detail"] for each in found.findings if each["class"] == "rows"]
    assert "balance '55', not '100'" in details

    gone: dict[str, Any] = _nodes(topology) | {"south": "host=127.0.0.1 port=1 dbname=nowhere"}
    there, _ = await asyncio.to_thread(sites, gone, bank.archive)
    assert there.subscribers == ["north"]
    assert "south cannot be reached since" in there.unexamined[0]

    # a node that becomes unreachable during the audit is reported, with the findings of the others
    def sites_and_then(*arguments: Any) -> Any:
        told = sites(*arguments)
        bank.connections("south", allowed=False)
        return told

    monkeypatch.setattr("twopc.sim.spark.audit.report.sites", sites_and_then)
    without = await bank.audit(only=("atomic", "rows", "order"))
    bank.connections("south", allowed=True)
    assert len([each for each in without.unexamined if "south cannot be reached" in each]) == 1
    assert {(each["class"], each["node"]) for each in without.findings} == {
        ("atomic", "north"),
        ("rows", "north"),
    }

    subscribers = {
        name: dsn for name, dsn in _nodes(topology).items() if name in ("north", "south")
    }
    assert witness.remove(subscribers) == ["north", "south"]
    for name in subscribers:
        left = await topology.execute(
            name,
            "select 1 from pg_trigger where tgname like '%%delivery_witness%%' union all select 1 from pg_proc"
            " where proname like 'delivery_witness%%' union all select 1 from pg_class where relname like 'delivery_witness%%'",
        )
        assert left == []
