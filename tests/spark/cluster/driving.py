"""The driver of a cluster: ``python -m tests.spark.cluster.driving MASTER DSN FOLDER``.

It reports when a task runs, so that its executor can be killed, and continues on request.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twopc.server.polling import wait_for
from twopc.sim.spark.archive import Archive, writer
from twopc.sim.spark.archive.load import LoadRequest, accumulate, opened
from twopc.sim.spark.session import SparkOptions, session


def _slow(batches: Iterator[Any], flag: str) -> Iterator[Any]:
    """Run at executors: create a file, and wait for another one.

    The function is pickled by value, because this module is the program: executors have the
    project, but not its tests.
    """
    folder = Path(flag)
    (folder / "runs").touch()
    wait_for((folder / "go").exists, what="leave to go on", timeout_s=200)
    yield from batches


def main() -> None:
    """Count while an executor is killed, then accumulate."""
    master, dsn, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    conf = {
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    }
    with session(SparkOptions(master=master, conf=conf, python=sys.executable)) as spark:
        counted: list[int] = []
        frame = spark.range(1000, numPartitions=2).mapInArrow(
            lambda batches: _slow(batches, str(folder)), "id long"
        )
        thread = threading.Thread(target=lambda: counted.append(frame.count()))
        thread.start()
        wait_for((folder / "runs").exists, what="a task", timeout_s=200)
        sys.stdout.write("a task runs\n")
        sys.stdout.flush()
        sys.stdin.readline()
        (folder / "go").touch()
        thread.join()
        sys.stdout.write(f"counted {counted[0]}\n")
        with writer(opened(folder / "a", LoadRequest(dsn=dsn, segment=5))) as held:
            accumulate(held, spark, LoadRequest(dsn=dsn, segment=5), lambda *_: None)
        found = Archive.open(folder / "a", verify=True)
        sys.stdout.write(f"kept {found.manifest.commands}\n")


if __name__ == "__main__":
    main()
