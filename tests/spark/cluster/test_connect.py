"""Tests of commands as clients of a real server of Spark Connect, from the pyspark package."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from tests.fix_spark import INTERPRETED, OWN_SPARK
from tests.spark.sweep.test_trial import SMALL
from twopc.server.polling import wait_for
from twopc.sim.spark.java import find_java
from twopc.sim.topology import Topology

pytestmark = OWN_SPARK

ROOT = Path(__file__).parents[3]
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_CONF = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.python.filterPushdown.enabled": "true",
    **INTERPRETED,
}


@pytest.fixture
def client() -> Iterator[subprocess.Popen[str]]:
    """Start a process that runs commands."""
    program = [sys.executable, "-m", "tests.spark.cluster.commanding"]
    with subprocess.Popen(program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:  # fmt: skip
        yield made


@pytest.fixture
def server_of_spark(tmp_path: Path) -> Iterator[str]:
    """Start a server on two cores; return its address, as ``--master`` takes it."""
    log = tmp_path / "server.log"
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java(os.environ).home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = [word for name, value in _CONF.items() for word in ("--conf", f"{name}={value}")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [program, "--class", _SERVER, "--master", "local[2]", *settings],
            env=environment, cwd=tmp_path, stdout=file, stderr=file, start_new_session=True,
        )  # fmt: skip

    def address() -> str:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        found = re.search(
            r"Connect server started at: (127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8")
        )
        return found[1] if found else ""

    try:
        yield f"sc://{wait_for(address, what=str(log), timeout_s=120)}"
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(60)
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive, f"left running: {alive}"


async def test_commands(
    server_of_spark: str,
    client: subprocess.Popen[str],
    make_topology: Callable[..., Awaitable[Topology]],
    tmp_path: Path,
) -> None:
    """Commands have the same results as with their own Spark; the project is sent as an archive."""
    topology = await make_topology(subscribers=("north",))
    await topology.execute("pub", "create table account (id int primary key, balance int)")
    await topology.publish("account")
    await topology.subscribe("north")
    async with topology.transaction("north") as transaction:
        await transaction.execute("insert into account values (1, 100)")
    await topology.sync()
    dsn = {name: topology.node(name).dsn for name in ("pub", "north", "distribution")}
    archive = str(tmp_path / "bank.archive")

    async def commanded(*words: str) -> str:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(json.dumps([*words, "--master", server_of_spark]) + "\n")
        client.stdin.flush()
        code, said = json.loads(await asyncio.to_thread(client.stdout.readline))
        assert code == 0, said
        return str(said)

    said = await commanded("accumulate", archive, "--dsn", dsn["distribution"], "--no-base")
    assert "1 transaction, 1 command" in said
    said = await commanded(
        "replay", archive, "--onto", "rows", "--against", f"north={dsn['north']}"
    )
    assert "account: 1 rows" in said
    small = [str(SMALL), "--set", "workload.clients=1,2", "--set", "workload.for=200ms"]
    said = await commanded(
        "sweep", *small, "--seeds", "1..1", "--no-plots", "--out", str(tmp_path / "sweep")
    )
    assert "2 trials in" in said
