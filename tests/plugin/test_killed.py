"""Tests of runs that are killed at any moment: the next is unaffected, and nothing is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.fix_sample import Sample
from tests.plugin.running import BANK, ROOT, arguments
from twopc.server import EmbeddedServer, ExternalServer
from twopc.server.polling import wait_for
from twopc.sim.testing import servers
from twopc.sim.testing.bench import Bench, TopologyRequest
from twopc.sim.topology import owner

#: Number of moments, of which a sample is drawn.
KILLS = 20
#: Tests that print a line for each action, so that the run can be killed at any of them.
TEST = """
import sys

import pytest

def say(what):
    print(what, file=sys.__stdout__, flush=True)

@pytest.fixture
def told(request):
    say("setup")
    twopc = request.getfixturevalue("twopc")
    say("ready")
    yield twopc
    say("over")

@pytest.mark.parametrize("n", range(4))
def test_it(told, n):
    session = told.session("sub1")
    session.execute("update account set balance = 1 where id = 1")
    say("changed")
    node = told.node("pub")
    node.query(f"begin; select 1; prepare transaction 'twopc:{told.name}:9:{n}:pub'")
    say("prepared")
    node.query(f"rollback prepared 'twopc:{told.name}:9:{n}:pub'")
    session.commit()
    say("committed")
    told.sync()
    say("synced")
"""
#: Maximum number of lines that a run prints before it is killed.
LINES = 4 * 7


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose tests use the server that TWOPC_PG_URL names."""
    import textwrap

    (tmp_path / "conftest.py").write_text(textwrap.dedent(BANK), encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n", encoding="utf-8"
    )
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    return tmp_path


def start(project: Path, url: str) -> subprocess.Popen[str]:
    """Start a run of the project's tests."""
    environment = {**os.environ, "TWOPC_PG_URL": url, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", *arguments(), "-q", "-s", "-p", "no:cacheprovider"]
    return subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def kill_after(process: subprocess.Popen[str], lines: int) -> None:
    """Kill the run after it has printed so many lines."""
    assert process.stdout is not None
    for _ in range(lines):
        if not process.stdout.readline():
            break
    process.send_signal(signal.SIGKILL)
    process.stdout.read()
    process.stdout.close()
    process.wait()


@pytest.fixture(scope="module")
def external(server: EmbeddedServer) -> Iterator[ExternalServer]:
    """The worker's server, as an external one."""
    yield ExternalServer.from_dsn(server.superuser_dsn("postgres"))


def left(server: ExternalServer) -> dict[str, list[str]]:
    """Return what of ours is on the server: databases, prepared transactions and slots."""
    queries = {
        "databases": "select datname from pg_database where datname like 'twopct\\_%' order by 1",
        "prepared": "select gid from pg_prepared_xacts where gid like 'twopc:twopct\\_%'",
        "slots": "select slot_name from pg_replication_slots where slot_name like 'msrepl\\_twopct%'",
    }
    with psycopg.connect(server.conninfo) as connection:
        return {
            what: [str(name) for (name,) in connection.execute(query)]  # type: ignore[arg-type] # constants
            for what, query in queries.items()
        }


@pytest.mark.slow
def test_killed_on_a_server_that_stays(
    project: Path, external: ExternalServer, sample: Sample
) -> None:
    """After runs were killed at various moments, a run passes and leaves nothing."""
    chance = random.Random(4)
    for lines in sample([chance.randint(0, LINES) for _ in range(KILLS)], 4):
        kill_after(start(project, external.conninfo), lines)
    process = start(project, external.conninfo)
    shown, _ = process.communicate()
    assert process.returncode == 0, shown
    assert left(external) == {"databases": [], "prepared": [], "slots": []}


def test_killed_with_its_own_server(project: Path) -> None:
    """The embedded server of a killed run ends, too."""
    process = start(project, "embedded")
    assert process.stdout is not None
    line = ""
    while "prepared" not in line:
        line = process.stdout.readline()
        assert line, "it has ended too soon"
    children = subprocess.run(
        ["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    mine = [row for row in children if row.split()[1] == str(process.pid)]
    process.kill()
    process.stdout.read()
    process.stdout.close()
    process.wait()
    pids = [int(row.split()[0]) for row in mine]
    wait_for(lambda: not any(alive(pid) for pid in pids), what="its processes to end", timeout_s=30)


def alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def test_whose_it_is() -> None:
    """The name of a database identifies its owner; foreign names have none."""
    name = owner.prefix("gw3")
    mine = owner.owner_of(f"{name}x1_12_sub1")
    assert mine is not None
    assert (mine.topology, mine.node, mine.pid) == (f"{name}x1_12", "sub1", os.getpid())
    assert not mine.is_gone
    assert owner.owner_of("shop") is None
    assert owner.owner_of(f"{name}_12") is None
    with subprocess.Popen(["true"]) as process:
        process.wait()
    dead = owner.Owner(**{**fields(mine), "pid": process.pid})
    assert dead.is_gone
    assert owner.Owner(**{**fields(mine), "boot": "ffffff"}).is_gone
    assert not owner.Owner(**{**fields(dead), "machine": "ffffff"}).is_gone


def fields(of: owner.Owner) -> dict[str, object]:
    """Return the fields of an owner by name."""
    return {name: getattr(of, name) for name in of.__dataclass_fields__}


#: Creates a topology, prepares a transaction, and exits at once.
LOST = """
import os, sys
from twopc.sim.testing.bench import Bench, TopologyRequest

bench = Bench(lambda: sys.argv[1], worker="lost")
bed = bench.open(TopologyRequest(load=("create table t (id int primary key)",)), "lost")
gid = f"twopc:{bed.topology.name}:1:1:pub"
bench.call(bed.topology.execute, "pub", f"begin; insert into t values (1); prepare transaction '{gid}'")
os._exit(7)
"""


def test_sweeping(external: ExternalServer) -> None:
    """A sweep removes databases, roles and prepared branches of dead processes only."""
    before = _roles(external)
    gone = subprocess.run([sys.executable, "-c", LOST, external.conninfo], cwd=ROOT, check=False)
    assert gone.returncode == 7
    assert len([name for name in left(external)["databases"] if "_lostx1_" in name]) == 4
    assert len(left(external)["prepared"]) == 1
    with ThreadPoolExecutor() as pool:  # like several workers that start at the same time
        swept = list(pool.map(servers.sweep, [external] * 3))
    assert sorted(map(len, swept)) == [0, 0, 4]
    kept = Bench(lambda: external, worker="kept")
    kept.open(TopologyRequest(), "kept")
    names = left(external)["databases"]
    assert [name for name in names if "_lostx1_" in name] == []
    assert len([name for name in names if "_keptx1_" in name]) == 4
    assert left(external)["prepared"] == []
    assert servers.sweep(external) == []
    kept.close()
    assert _roles(external) - before == set()


def _roles(external: ExternalServer) -> set[str]:
    """Return our roles on the server, which other tests use, too."""
    with psycopg.connect(external.conninfo) as connection:
        found = connection.execute("select rolname from pg_roles where rolname like 'msrepl\\_%'")
        return {name for (name,) in found.fetchall()}
