"""The pipeline from one end to the other: what a distribution database holds is accumulated, folded and audited.

The phases run in a process of their own, which writes how long each took into a file; the process above it looks at
its memory and at the disk. The nodes of the audit are two databases with the rows that the commands come to, made by
arithmetic (`pipeline_data.nodes`): an audit that finds anything voids the run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from benchmarks.figures import Figure
from benchmarks.pipeline_data import ARTICLE, key_count, nodes
from twopc.sim.spark.archive import Archive, load, writer
from twopc.sim.spark.archive.manifest import BaseTable
from twopc.sim.spark.audit.report import CLASSES, WITNESS, AuditRequest, audit
from twopc.sim.spark.fold import state_of
from twopc.sim.spark.session import SparkOptions, session

PHASES = ("accumulate", "fold", "audit")
#: So many decoded commands are some 100 MiB, which one partition of a shuffle should hold.
_SHUFFLED = 500_000
_SAMPLE_S = 0.5


def accumulated(spark: SparkSession, dsn: str, path: Path) -> Archive:
    """All there is, in an archive."""
    wanted = load.LoadRequest(dsn=dsn, partitions=2)
    with writer(load.opened(path, wanted)) as held:
        return load.accumulate(held, spark, wanted, lambda *_: None)


def _with_empty_base(archive: Archive) -> Archive:
    """As if it had been taken before the first transaction: then rows can be held against the commands."""
    (article,) = archive.manifest.articles
    base = BaseTable(
        article_id=ARTICLE, shape=article["shape"], snapshot="1:1:", seqno=archive.manifest.first, rows=0, files=()
    )  # fmt: skip
    with writer(archive) as held:
        return held.replaced(held.manifest.next(base=(base,)))


def _folded(spark: SparkSession, archive: Archive, path: Path, commands: int) -> None:
    """The rows as files; RuntimeError: they are not those that the commands come to."""
    with ExitStack() as until:
        state_of(archive, spark, until=until).write.parquet(str(path))
    n = F.get("values", F.lit(2)).cast("bigint")
    sums = spark.read.parquet(str(path)).agg(F.count("*"), F.sum("commands"), F.sum(n)).collect()[0]
    keys = key_count(commands)
    if tuple(sums) != (keys, commands, keys * (keys - 1) // 2):
        raise RuntimeError(f"void: the fold came to {tuple(sums)}")


def child(folder: Path, commands: int, dsns: Mapping[str, str]) -> None:
    """Do all of it, and write the seconds of each phase as it ends."""
    partitions = str(max(4, commands // _SHUFFLED))
    conf = {"spark.sql.shuffle.partitions": partitions, "spark.local.dir": str(folder / "local")}
    seconds: dict[str, float] = {}

    def phase(name: str, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        seconds[name] = round(time.perf_counter() - began, 1)
        print(f"{name}: {seconds[name]} s", file=sys.stderr, flush=True)
        (folder / "phases.json").write_text(json.dumps(seconds), encoding="utf-8")
        return result

    with session(SparkOptions(master="local[2]", conf=conf)) as spark:
        archive = phase(
            "accumulate", lambda: accumulated(spark, dsns["distribution"], folder / "archive")
        )
        archive = _with_empty_base(archive)
        phase("fold", lambda: _folded(spark, archive, folder / "rows", commands))
        only = [each for each in CLASSES if each not in WITNESS]
        wanted = AuditRequest(only=only, out=folder / "audit")
        report = phase("audit", lambda: audit(spark, archive, dsns, wanted))
    if report.total or report.unexamined or set(report.classes) != set(only):
        raise RuntimeError(f"void: the audit: {report.classes}, {report.unexamined}")


@dataclasses.dataclass(slots=True)
class _Peaks:
    memory: int = 0
    disk: int = 0


@contextmanager
def _watched(pid: int, folder: Path) -> Iterator[_Peaks]:
    """The most bytes that a process with all below it, and a folder, have within the block."""
    peaks, over = _Peaks(), threading.Event()

    def sample() -> None:
        while not over.wait(_SAMPLE_S):
            peaks.memory = max(peaks.memory, _memory(pid))
            peaks.disk = max(peaks.disk, _disk(folder))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def _memory(pid: int) -> int:
    held = 0
    try:
        root = psutil.Process(pid)
        every = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for each in every:
        try:
            held += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return held


def _disk(folder: Path) -> int:
    """Of what is there while it is looked at: folders come and go, which `os.walk` passes over."""
    held = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                held += os.lstat(os.path.join(above, name)).st_size
    return held


def whole(dsn: str, commands: int) -> Figure:
    """Accumulate, fold and audit so many commands, which a distribution database holds."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        dsns = nodes(dsn, commands)
        argument = json.dumps([directory, commands, dsns])
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.pipeline", "--whole", argument], text=True
        )
        with _watched(process.pid, folder) as peaks:
            failed = process.wait() != 0
        if failed:
            raise RuntimeError(f"void: {commands:,} commands were not brought to an end")
        seconds = json.loads((folder / "phases.json").read_text(encoding="utf-8"))
        archive = _disk(folder / "archive")
    detail = {f"{name}_s": seconds[name] for name in PHASES}
    return Figure(
        name="whole_rate", value=commands / sum(seconds.values()), unit="commands/s", target=None,
        better="higher",
        detail={
            "commands": commands, **detail, "memory_mb": round(peaks.memory / 1e6),
            "disk_mb": round(peaks.disk / 1e6), "archive_mb": round(archive / 1e6),
        },
    )  # fmt: skip
