"""Tests of the command with its own Spark, on the bundled Java: killed, and run again."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.fix_spark import OWN_SPARK
from tests.spark.archive.made import content
from twopc.server.polling import wait_for
from twopc.sim.spark.archive import Archive
from twopc.sim.topology import Topology

pytestmark = OWN_SPARK

ROOT = Path(__file__).parents[3]
_STORED = (
    "select count(*), coalesce(max((xact_seqno - '0/0')::bigint), 0) from msrepl.msrepl_commands"
)


def without_java(folder: Path) -> Path:
    """Create a folder for PATH with all programs that are on it, except Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for tool in Path(place).glob("*"):
            if not tool.name.startswith("java") and not (folder / tool.name).exists():
                (folder / tool.name).symlink_to(tool)
    return folder


def accumulate(archive: Path, nodes: Mapping[str, str], **environment: str) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run the command as a user without Java does."""
    words = [
        "--dsn",
        nodes["distribution"],
        "--publisher-dsn",
        nodes["pub"],
        "--master",
        "local[1]",
    ]
    known = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return subprocess.run(
        [sys.executable, "-m", "twopc.sim", "accumulate", archive, *words, "--conf", "spark.driver.memory=1g"],
        cwd=ROOT, env={**known, **environment}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@contextmanager
def following(
    archive: Path, nodes: Mapping[str, str], *around: str, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a command that follows the distribution database; `around`: a command that executes the rest."""
    command = [*around, sys.executable, "-m", "twopc.sim", "accumulate", str(archive), "--follow", "--every", "100ms"]  # fmt: skip
    command += ["--dsn", nodes["distribution"], "--master", "local[1]", "--conf", "spark.driver.memory=1g"]  # fmt: skip
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()  # nothing happens if it has ended


def next_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of a command's output, which reports a segment; empty if the command has ended."""
    assert process.stdout is not None
    return process.stdout.readline()


def interrupted_following(
    archive: Path, nodes: Mapping[str, str], number: int, **environment: str
) -> tuple[int, str, str]:
    """Send a signal to a command that follows and has appended a segment; return its exit code and outputs."""
    with following(archive, nodes, **environment) as process:
        line = next_line(process)
        process.send_signal(number)
        output, errors = process.communicate(timeout=120)
    return process.returncode, line + output, errors


def left(mark: str) -> list[str]:
    """Return the names of the processes that a command has started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TWOPC_TEST_MARK") == mark and process.status() != "zombie":
                found.append(process.name())
        except psutil.Error:
            continue
    return found


async def test_killed_with_spark_at_work(
    make_topology: Callable[..., Awaitable[Topology]], tmp_path: Path
) -> None:
    """A killed command leaves no partial segment and no process; the next one appends everything once."""
    topology = await make_topology(subscribers=("north",))
    await topology.execute("pub", "create table t (id int primary key)")
    await topology.publish("t")
    await topology.subscribe("north")
    for number in range(3):
        await topology.execute("pub", "insert into t values (%s)", (number,))
    await topology.sync()
    nodes = {name: topology.node(name).dsn for name in ("pub", "distribution")}
    archive, mark = tmp_path / "archive", secrets.token_hex(8)
    environment = {"PATH": str(without_java(tmp_path / "bin")), "TWOPC_TEST_MARK": mark}
    with psycopg.connect(nodes["distribution"]) as connection:
        stored = connection.execute(_STORED).fetchone()
    assert stored is not None

    killed = await asyncio.to_thread(
        accumulate, archive, nodes, **environment, TWOPC_ARM="archive.moved=kill"
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wait_for(lambda: not left(mark), what="the command's processes to end", timeout_s=60)
    before = Archive.open(archive, verify=True)
    assert (before.manifest.commands, before.manifest.segments) == (0, ())

    again = await asyncio.to_thread(accumulate, archive, nodes, **environment)
    assert again.returncode == 0, again.stderr
    assert "(bundled) · started in" in again.stderr
    assert "3 transactions, " in again.stdout
    after = Archive.open(archive, verify=True)
    assert (after.manifest.commands, after.manifest.position >= stored[1]) == (stored[0], True)
    assert len(content(after)["commands"]) == stored[0] == 3
    wait_for(lambda: not left(mark), what="the command's processes to end", timeout_s=60)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_interrupted_while_it_follows(
    make_topology: Callable[..., Awaitable[Topology]], tmp_path: Path, number: signal.Signals
) -> None:
    """Ctrl-C, or SIGTERM, ends a command without a traceback, and leaves no file and no process."""
    topology = await make_topology(subscribers=("north",))
    await topology.execute("pub", "create table t (id int primary key)")
    await topology.publish("t")
    await topology.subscribe("north")
    await topology.execute("pub", "insert into t values (1)")
    await topology.sync()
    nodes = {"distribution": topology.node("distribution").dsn}
    archive, mark, temporary = tmp_path / "archive", secrets.token_hex(8), tmp_path / "tmp"
    temporary.mkdir()
    environment = {"TWOPC_TEST_MARK": mark, "TMPDIR": str(temporary)}
    code, output, errors = await asyncio.to_thread(
        interrupted_following, archive, nodes, number, **environment
    )
    assert "1 transaction, 1 command" in output
    started, last = errors.splitlines()[-2:]
    assert (code, started.partition(" ")[0], last) == (130, "spark", "interrupted")
    assert list(temporary.glob("twopc-spark-*")) == list((archive / "staging").glob("*")) == []
    assert not (archive / "writer.json").exists()
    assert Archive.open(archive, verify=True).manifest.commands == 1
    wait_for(lambda: not left(mark), what="the command's processes to end", timeout_s=60)


async def test_an_ignored_interrupt_stays_ignored(
    make_topology: Callable[..., Awaitable[Topology]], tmp_path: Path
) -> None:
    """A command in the background of a shell, where SIGINT is ignored, goes on after Ctrl-C; SIGTERM ends it."""
    topology = await make_topology(subscribers=("north",))
    await topology.execute("pub", "create table t (id int primary key)")
    await topology.publish("t")
    await topology.subscribe("north")
    nodes = {"distribution": topology.node("distribution").dsn}
    archive, mark = tmp_path / "archive", secrets.token_hex(8)
    background = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
    with following(archive, nodes, *background, TWOPC_TEST_MARK=mark) as process:
        for number in range(2):
            await topology.execute("pub", f"insert into t values ({number})")
            await topology.sync()
            assert "1 transaction, 1 command" in await asyncio.to_thread(next_line, process)
            process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.to_thread(process.communicate, timeout=120)
    assert (process.returncode, errors.splitlines()[-1]) == (130, "interrupted")
    assert Archive.open(archive, verify=True).manifest.commands == 2
    wait_for(lambda: not left(mark), what="the command's processes to end", timeout_s=60)
