"""Tests of the unmodified programs in docs/clients: a refused transaction succeeds when it is retried."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from tests.any_client.conftest import Clients
from tests.any_client.test_programs import program
from tests.fix_pgbouncer import MakePooler

PROGRAMS = Path(__file__).parents[2] / "docs" / "clients"
UPDATE = "update account set balance = balance + 1 where id = 1"

#: What each program needs: a Python package, or Node.js.
NEEDS = {
    "psycopg_plain.py": "psycopg",
    "sqlalchemy_orm.py": "sqlalchemy",
    "django_orm.py": "django",
    "asyncpg_client.py": "asyncpg",
    "node_postgres.mjs": "node",
}


def environment(dsn: str) -> dict[str, str]:
    """Return the environment with libpq's variables for this DSN."""
    parts = conninfo.conninfo_to_dict(dsn)
    known = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
    said = {variable: str(parts[key]) for key, variable in known.items()}
    return {**os.environ, **said, "PGPASSWORD": str(parts["password"])}


def command(name: str) -> tuple[list[str], str | None]:
    """Return a program's command and directory; skip if a dependency is not installed."""
    needs = NEEDS[name]
    if needs != "node":
        if importlib.util.find_spec(needs) is None:
            pytest.skip(f"package {needs} is not installed")
        return [sys.executable, str(PROGRAMS / name)], None
    where = os.environ.get("TWOPC_NODE_MODULES", str(PROGRAMS))
    node = shutil.which("node")
    if node is None:
        pytest.skip("no program node here")
    if not (Path(where) / "node_modules" / "pg").is_dir():
        pytest.skip("no package pg: npm install pg, and TWOPC_NODE_MODULES=that directory")
    return [node, str(PROGRAMS / name)], where


async def test_every_program_has_its_test() -> None:
    assert {path.name for path in PROGRAMS.iterdir() if path.is_file()} == set(NEEDS)


@pytest.mark.parametrize(
    ("name", "through"),
    [
        *((name, "server") for name in NEEDS),
        *((name, "pooler") for name in ("sqlalchemy_orm.py", "django_orm.py", "asyncpg_client.py")),
    ],
)
async def test_a_program_tries_again(
    clients: Clients, name: str, through: str, request: pytest.FixtureRequest
) -> None:
    """A transfer that is refused because the Publisher's row has changed is retried, and applied once."""
    words, where = command(name)
    topology = clients.topology
    dsn = topology.node("sub1").app_dsn
    if through == "pooler":
        make: MakePooler = request.getfixturevalue("make_pooler")
        dsn = await asyncio.to_thread(make, dsn)
    await topology.execute("pub", "update account set balance = 50 where id = 1")
    process = await asyncio.create_subprocess_exec(
        *words,
        env=environment(dsn),
        cwd=where,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        first = (await process.stdout.readline()).decode()
        if first:
            await topology.sync("sub1")  # in place of a distribution agent
        out, said = await asyncio.wait_for(process.communicate(), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, first + out.decode() + said.decode()
    attempt, _, detail = first.partition(": 40001 ")
    assert attempt == "attempt 1"
    facts = json.loads(detail)
    assert (facts["kind"], facts["number"]) == ("version_mismatch", 20515)
    assert out.decode().splitlines()[-1] == "transferred"
    await clients.settled()
    assert (await clients.balances())[:2] == [40, 110]
    assert await clients.rows("pub", "select account, amount from entry") == [(1, -10)]


async def test_prepared_statements_and_psql_through_a_pooler(
    clients: Clients, make_pooler: MakePooler
) -> None:
    """Through a pooler with two server sessions, each change of four clients and of psql arrives once."""
    through = await asyncio.to_thread(
        lambda: make_pooler(clients.topology.node("sub1").app_dsn, pool=2, reset_always=True)
    )

    def work(number: int) -> None:
        with psycopg.connect(through, prepare_threshold=None, autocommit=True) as connection:
            for _ in range(5):
                with connection.transaction():
                    # behind a pooler a prepared statement must not outlive its transaction
                    connection.execute(
                        "prepare add (int) as update account set balance = balance + 1 where id = $1"
                    )
                    connection.execute(f"execute add({number % 4 + 1})")
                    connection.execute("deallocate add")

    await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(4)))
    done = await asyncio.to_thread(
        subprocess.run,
        [program("psql"), "-X", "-v", "ON_ERROR_STOP=1", through, "-c", UPDATE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "UPDATE 1\n"), done.stderr
    await clients.settled()
    assert await clients.balances() == [106, 105, 105, 105]
