"""Tests on a real cluster of one master and two workers, from the pyspark package.

Results are the same, and no process is left running.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from tests.fix_server import MakeDatabase
from tests.fix_spark import OWN_SPARK
from tests.spark.archive.test_accumulate import _COMMANDS, asked
from tests.spark.source.filled import filled
from twopc.server.polling import wait_for
from twopc.sim.spark.java import find_java

pytestmark = OWN_SPARK

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
ROOT = Path(__file__).parents[3]


class Cluster:
    """The processes of a cluster, identified by their pids."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.seen: set[psutil.Process] = set()

    def start(self, kind: str, *arguments: str, say: str) -> Callable[[], str]:
        """Start a process. Return a function that waits until its log matches `say`, and returns the group."""
        log = self.folder / f"{len(self.processes)}.log"
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java(os.environ).home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [
                    program,
                    kind,
                    "--host",
                    "127.0.0.1",
                    "--port",
                    "0",
                    "--webui-port",
                    "0",
                    *arguments,
                ],
                env=environment,
                cwd=self.folder,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        self.processes.append(process)

        def said() -> str:
            assert process.poll() is None, log.read_text(encoding="utf-8")
            found = re.search(say, log.read_text(encoding="utf-8"))
            return found[1] if found else ""

        return lambda: wait_for(said, what=str(log), timeout_s=120)

    def executors(self) -> list[psutil.Process]:
        """Return the JVMs that workers have started as executors."""
        found = [
            child
            for each in self.processes[1:]
            for child in psutil.Process(each.pid).children(True)
        ]
        self.seen |= set(found)
        return [each for each in found if "CoarseGrainedExecutorBackend" in _command(each)]

    def stop(self) -> None:
        """Stop all processes, workers first, and check that their children end too."""
        for process in reversed(self.processes):
            with suppress(psutil.NoSuchProcess):
                self.seen |= set(psutil.Process(process.pid).children(recursive=True))
            process.terminate()
        for process in reversed(self.processes):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        _, alive = psutil.wait_procs(list(self.seen), timeout=30)
        for each in alive:
            each.kill()
        assert not alive, f"left running: {alive}"


def _command(process: psutil.Process) -> str:
    """Return the command line of a process; empty if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # or a zombie, which its worker has not waited for yet
        return ""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, str]]:
    """Return the cluster, and its master's address."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="twopc-cluster-")))
        made = Cluster(folder)
        stack.callback(made.stop)
        master = made.start(_MASTER, say=r"(spark://127\.0\.0\.1:\d+)")()
        limits = ("-c", "1", "-m", "700m")
        workers = [
            made.start(_WORKER, *limits, "-d", str(folder / name), master, say="(registered)")
            for name in ("one", "two")
        ]
        for registered in workers:  # both start concurrently
            registered()
        yield made, master


def test_the_same_on_a_cluster(
    cluster: tuple[Cluster, str], make_database: MakeDatabase, tmp_path: Path
) -> None:
    """Executors get the project only from its zip; one is killed while it works."""
    made, master = cluster
    with filled(make_database()) as dsn:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.cluster.driving", master, dsn, str(tmp_path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert driver.stdin is not None
        assert driver.stdout is not None
        assert driver.stdout.readline() == "a task runs\n"
        victim = wait_for(made.executors, what="an executor", timeout_s=60)[0]
        victim.kill()
        said, _ = driver.communicate("go on\n", timeout=240)
        assert driver.returncode == 0
        commands = asked(dsn, _COMMANDS)
        assert said.split() == ["counted", "1000", "kept", str(len(commands))]
    assert psutil.wait_procs(made.executors(), timeout=30)[1] == []
