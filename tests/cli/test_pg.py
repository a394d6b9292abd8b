"""Tests of `--pg`: the server that a command uses, and what remains there."""

from __future__ import annotations

import subprocess

import psycopg
import pytest

from tests.cli.files import ACCOUNT
from twopc.server import EmbeddedServer
from twopc.server.binaries import find_binaries
from twopc.sim.cli import exits
from twopc.sim.topology.owner import boot, machine

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server():
    """A server that runs already, as far as the command knows."""
    with EmbeddedServer.start() as running:
        yield running


@pytest.fixture
def url(server):
    """The server's address for other processes."""
    return server.dsn("postgres", tcp=True)


@pytest.fixture(autouse=True)
def file(tmp_path):
    """Write a scenario file into the folder in which commands run."""
    (tmp_path / "account.twopc.yaml").write_text(ACCOUNT, encoding="utf-8")


ONE = ("account.twopc.yaml", "--order", "alice first", "--no-timeline")


def test_a_server_that_runs(twopc, server, url, tmp_path):
    """A run drops its databases and those of a run that was killed, and writes no password."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    server.create_database(f"twopct_{machine()}{boot()}_{gone.pid}_run_1_pub")
    done = twopc("run", *ONE, "--pg", url)
    assert done.returncode == exits.PASS, done.stderr
    with psycopg.connect(server.dsn("postgres")) as connection:
        databases = connection.execute("select datname from pg_database order by 1").fetchall()
        assert databases == [("postgres",), ("template0",), ("template1",)]
        roles = "select count(*) from pg_roles where rolname not like 'pg\\_%'"
        assert connection.execute(roles).fetchone() == (1,)
    password = psycopg.conninfo.conninfo_to_dict(url)["password"]
    written = [path for path in (tmp_path / ".twopc").rglob("*") if path.is_file()]
    assert written
    assert all(password not in path.read_text(encoding="utf-8") for path in written)


def test_it_may_be_said_elsewhere(twopc, monkeypatch, tmp_path):
    monkeypatch.setenv("TWOPC_PG_URL", "postgresql://nobody:sesame@127.0.0.1:1/x")
    done = twopc("run", *ONE)
    assert done.returncode == exits.ENVIRONMENT
    assert "cannot be reached" in done.stderr
    assert "sesame" not in done.stderr
    monkeypatch.delenv("TWOPC_PG_URL")
    (tmp_path / "pyproject.toml").write_text('[tool.twopc]\npg = "/nowhere"\n', encoding="utf-8")
    done = twopc("run", *ONE)
    assert done.returncode == exits.ENVIRONMENT
    assert "/nowhere: no such directory" in done.stderr
    assert twopc("run", *ONE, "--pg", "embedded").returncode == exits.PASS


def test_programs_of_a_directory(twopc):
    assert twopc("run", *ONE, "--pg", find_binaries().directory).returncode == exits.PASS


def test_what_does_not_go_together(twopc, url):
    done = twopc("run", *ONE, "--pg", url, "--servers", "each")
    assert done.returncode == exits.ENVIRONMENT
    assert "started of the embedded programs only" in done.stderr
    assert "password" not in done.stderr


def test_a_server_reads_statements(twopc, url, tmp_path):
    assert twopc("check", "account.twopc.yaml", "--connect", "--pg", url).returncode == exits.PASS
    (tmp_path / "bad.twopc.yaml").write_text(
        ACCOUNT.replace("set balance = :bal - 10", "set x = 1"), encoding="utf-8"
    )
    assert twopc("check", "bad.twopc.yaml").returncode == exits.PASS
    done = twopc("check", "bad.twopc.yaml", "--connect", "--pg", url)
    assert done.returncode == exits.USAGE
    assert 'sub1 says: column "x" of relation "account" does not exist' in done.stderr


def test_what_killed_tests_have_left(twopc, server, url):
    """`clean` drops databases of a process that has ended, and no others."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    theirs = f"twopct_{machine()}{boot()}_{gone.pid}_main_1_pub"
    server.create_database(theirs)
    server.create_database("somebody")
    try:
        done = twopc("clean", "--pg", url)
        assert done.returncode == 0
        assert f"dropped database {theirs}\n" in done.stdout
        assert "somebody" not in done.stdout
        assert "nothing was left behind" in twopc("clean", "--pg", url).stdout
    finally:
        server.drop_database("somebody")
    done = twopc("clean", "--pg", "postgresql://nobody@127.0.0.1:1/x")
    assert done.returncode == exits.ENVIRONMENT
