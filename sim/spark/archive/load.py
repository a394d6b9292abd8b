"""Accumulation of a distribution database's content in an archive, once or continuously."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.publisher.distribution import kept
from twopc.server.polling import wait_for
from twopc.signals import ending_signals
from twopc.sim.spark import source
from twopc.sim.spark.archive import Archive, files
from twopc.sim.spark.archive.append import append
from twopc.sim.spark.archive.base import missing, same_publisher, take_base
from twopc.sim.spark.archive.registration import register
from twopc.sim.spark.errors import ArchiveError
from twopc.sim.spark.source import queries
from twopc.sim.spark.source.facts import Facts, Publisher, connected, errors_of, facts, system_of

_log = get_logger(__name__)
#: Interval of the registration of an archive that is followed but receives no commands.
_REGISTER_EVERY_S = 60.0
#: Minimum number of commands of a task.
_TASK_ROWS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """The parameters of an accumulation."""

    dsn: str
    """DSN of the distribution database."""
    publisher: str = ""
    """Name of the Publisher; may be empty if there is only one."""
    publisher_dsn: str = ""
    """DSN of the Publisher; if empty, no bases are taken and global transactions have no ids."""
    segment: int = 1_000_000
    """Approximate number of commands in a segment; the last transaction is always complete."""
    upto: int | None = None
    """The end of the range; None: all stored commands."""
    base: bool = True
    start: Literal["here", "oldest"] = "oldest"
    """Where a new archive begins: at the current end of the log, or at the oldest stored command."""
    partitions: int = 1 << 16
    """Maximum number of tasks that read a segment."""

    def facts(self) -> Facts:
        """Return the current facts of the distribution database."""
        return facts(self.dsn, self.publisher)


#: Called after each change with the archive before and after it, and a word for its kind.
Note = Callable[[Archive, Archive, str], None]


def opened(path: str | Path, requested: LoadRequest) -> Archive:
    """Open the archive if it exists and is of this database; otherwise create and register one.

    An archive that contains nothing yet begins where the distribution database does now; if that is later than before,
    a warning is logged.

    Raises:
        ArchiveError: the archive is of another Publisher or distribution database, or damaged.
        GapError: commands after its position have been removed, or the database ends before the position.
    """
    folder = files.folder_of(path)
    result = requested.facts()
    publisher = result.publisher
    if requested.publisher_dsn:
        system = system_of(requested.publisher_dsn, "the Publisher")
        publisher = dataclasses.replace(publisher, system=system)
    if not (folder / files.MANIFEST).exists():
        # in a thread: the caller's may run an event loop, as in a notebook
        with errors_of("the distribution database"), ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, _created(folder, publisher, requested)).result()
    archive = Archive.open(folder)
    known = archive.manifest.publisher
    for name in ("name", "distribution", "number", "slot", "identity"):
        has, is_ = getattr(known, name), getattr(publisher, name)
        if has != is_ and (has or name != "identity"):
            raise ArchiveError(
                f"{archive.name} is of {known.name} ({name} {has}); this is {publisher.name} ({name} "
                f"{is_}): another database, or one that was restored"
            )
    if publisher.system:
        same_publisher(archive, publisher.system)
    archive = _current(archive, result)
    position = archive.manifest.position
    result.holds(after=position, upto=position, where=archive.name)
    return archive


async def _created(folder: Path, publisher: Publisher, requested: LoadRequest) -> Archive:
    """Create and register an archive, while clean-up removes nothing that the archive has to receive."""
    async with (
        await psycopg.AsyncConnection.connect(requested.dsn, autocommit=True) as connection,
        kept(connection),
    ):
        result = requested.facts()
        first = result.removed_to if requested.start == "oldest" else result.read_to
        archive = Archive.create(folder, publisher, first=first)
        register(archive, requested.dsn)
        return archive


def _current(archive: Archive, result: Facts) -> Archive:
    """Return an archive that contains nothing yet, with its beginning where the distribution database begins."""
    manifest = archive.manifest
    if manifest.segments or manifest.base or manifest.first >= result.removed_to:
        return archive
    _log.warning(
        "the archive contains nothing yet and begins later: clean-up did not wait for it",
        archive=archive.name,
        first=lsn_text(result.removed_to),
        before=lsn_text(manifest.first),
    )
    with files.locked(archive.folder):
        return archive.replaced(manifest.next(first=result.removed_to))


def based(archive: Archive, spark: SparkSession, requested: LoadRequest, note: Note) -> Archive:
    """Return the archive with current facts, and with bases of the articles that have none in their newest shape."""
    result = requested.facts()
    known = archive.manifest.knows(result)
    publisher = known.publisher
    # what archives lack that were made before it was introduced; `opened` has compared the database
    if not publisher.identity:
        publisher = dataclasses.replace(publisher, identity=result.publisher.identity)
    if requested.publisher_dsn and not publisher.system:
        system = system_of(requested.publisher_dsn, "the Publisher")
        publisher = dataclasses.replace(publisher, system=system)
    known = dataclasses.replace(known, id=known.id or files.fresh_id(), publisher=publisher)
    if known != archive.manifest:
        archive = archive.replaced(known.next())
    if not (requested.publisher_dsn and requested.base and missing(archive)):
        return archive
    after = take_base(
        archive,
        spark,
        publisher_dsn=requested.publisher_dsn,
        partitions=min(requested.partitions, 8),
    )
    note(archive, after, "base")
    return after


def accumulate(
    archive: Archive, spark: SparkSession, requested: LoadRequest, note: Note
) -> Archive:
    """Append all stored commands, segment by segment; only the archive's `writer` may.

    Raises:
        GapError: some of the commands were removed.
    """
    archive = based(archive, spark, requested, note)
    register(archive, requested.dsn)
    result = requested.facts()
    end = result.read_to if requested.upto is None else requested.upto
    if end > archive.manifest.position:
        result.holds(after=archive.manifest.position, upto=end, where=archive.name)
    while archive.manifest.position < end:
        after = archive.manifest.position
        upto = min(end, _segment_end(requested, result, after) or end)
        before = archive
        archive = append(
            archive,
            _read(spark, "commands", requested, after, upto),
            partial(transactions, spark, requested, after),
            upto=upto,
            facts=requested.facts,
            ordered=True,
        )
        register(archive, requested.dsn)
        note(before, archive, "segment")
    return based(archive, spark, requested, note)


def _segment_end(requested: LoadRequest, result: Facts, after: int) -> int | None:
    """Return the end of the next segment; None: the end of the stored commands."""
    query = queries.batch_end(result.publisher.number, after=after, rows=requested.segment)
    with connected(requested.dsn, "the distribution database") as connection:
        row = connection.execute(query.encode()).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def _read(
    spark: SparkSession, table: str, requested: LoadRequest, after: int, upto: int
) -> DataFrame:
    return source.read(
        spark,
        table,
        dsn=requested.dsn,
        publisher=requested.publisher,
        after=str(after),
        upto=str(upto),
        partitions=str(requested.partitions),
        partition_rows=str(_TASK_ROWS),
    )


def transactions(spark: SparkSession, requested: LoadRequest, after: int, upto: int) -> DataFrame:
    """Return the transactions of a range, with their global ids if the Publisher still has their markers."""
    plain = _read(spark, "transactions", requested, after, upto)
    if not requested.publisher_dsn:
        return plain
    markers = source.read(spark, "markers", dsn=requested.publisher_dsn).select(
        "xid", F.regexp_replace("gid", ":[^:]*$", "").alias("global_id")
    )
    return plain.join(F.broadcast(markers), on="xid", how="left").select(
        *[c for c in plain.columns if c != "gid"], F.col("global_id").alias("gid")
    )


# -- as it comes ----------------------------------------------------------------------------------


def follow(
    archive: Archive,
    spark: SparkSession,
    requested: LoadRequest,
    note: Note,
    *,
    every_s: float = 1.0,
    for_s: float | None = None,
) -> Archive:
    """Append commands continuously as they are stored; only the archive's `writer` may.

    The stream starts at the archive's position, each time with a new checkpoint: an earlier checkpoint could only
    repeat the manifest or contradict it.

    Args:
        every_s: interval between two polls.
        for_s: duration; None: until the log has been read to `requested.upto`, or forever.

    Raises:
        GapError: commands were removed before they were read.
        KeyboardInterrupt: on SIGINT or SIGTERM, after the segment that is being appended; a second one does not wait.
    """
    archive = based(archive, spark, requested, note)
    register(archive, requested.dsn)
    held: list[Archive] = [archive]
    failed: list[Exception] = []
    ended = threading.Event()

    def bring(batch: DataFrame, _: int) -> None:
        if ended.is_set():
            return
        before = held[0]
        after = before.manifest.position
        try:
            held[0] = append(
                before,
                batch,
                partial(transactions, batch.sparkSession, requested, after),
                facts=requested.facts,
                ordered=True,
            )
            if held[0] is not before:
                register(held[0], requested.dsn)
                note(before, held[0], "segment")
                held[0] = based(held[0], batch.sparkSession, requested, note)
        except Exception as error:  # not raised in Java, which would print three tracebacks
            if not ended.is_set():  # else Ctrl-C may have ended Spark's Python workers
                failed.append(error)
            ended.set()

    checkpoint = archive.folder / "staging" / files.fresh_id()
    query = _started(spark, requested, archive.manifest.position, bring, checkpoint, every_s)
    try:
        _complete(query, requested, held, for_s, ended)
    except Exception:
        if not ended.is_set():
            raise
    finally:
        query.stop()
        shutil.rmtree(checkpoint, ignore_errors=True)
    if failed:
        raise failed[0]
    if ended.is_set():
        raise KeyboardInterrupt
    if requested.upto is not None and requested.facts().read_to >= requested.upto:
        # the range ends at the requested position
        return accumulate(held[0], spark, requested, note)
    return held[0]


def _complete(
    query: Any,
    requested: LoadRequest,
    held: list[Archive],
    for_s: float | None,
    ended: threading.Event,
) -> None:
    """Wait until the stream has ended, or is to end; a batch that has begun is completed."""
    with _signals(ended):
        _await_end(query, requested, held, for_s, ended)
        with suppress(TimeoutError):
            wait_for(
                lambda: not query.status["isTriggerActive"], what="the last batch", timeout_s=60
            )


@contextmanager
def _signals(ended: threading.Event) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM in the block only set an event: an exception would end a segment half-way.

    Signals that are ignored stay so.
    """

    def note(number: int, frame: FrameType | None) -> None:
        if ended.is_set():
            signal.default_int_handler(number, frame)
        ended.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.getsignal(each) for each in ending_signals()}
    for each in before:
        signal.signal(each, note)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _await_end(
    query: Any,
    requested: LoadRequest,
    held: list[Archive],
    for_s: float | None,
    ended: threading.Event,
) -> None:
    """Wait until the stream has ended, or is to end, its time is over, or its range has been read."""
    registered = time.monotonic()
    end = None if for_s is None else registered + for_s
    while not ended.is_set() and (end is None or (left := end - time.monotonic()) > 0):
        # in short waits, so that an interrupt is handled between two of them
        if query.awaitTermination(1 if end is None else max(0.1, min(1.0, left))):
            return
        if requested.upto is not None and requested.facts().read_to >= requested.upto:
            return
        if time.monotonic() - registered > _REGISTER_EVERY_S:  # even without new commands
            register(held[0], requested.dsn)
            registered = time.monotonic()


def _started(
    spark: SparkSession,
    requested: LoadRequest,
    after: int,
    bring: Callable[[DataFrame, int], None],
    checkpoint: Path,
    every_s: float,
) -> Any:
    source.register(spark)
    stream = spark.readStream.format("twopc").options(
        table="commands",
        dsn=requested.dsn,
        publisher=requested.publisher,
        after=str(after),
        segment=str(requested.segment),
        partitions=str(requested.partitions),
        partition_rows=str(_TASK_ROWS),
        upto="" if requested.upto is None else str(requested.upto),
    )
    return (
        stream.load()
        .writeStream.foreachBatch(bring)
        .option("checkpointLocation", files.spark_path(checkpoint))
        .trigger(processingTime=f"{int(every_s * 1000)} milliseconds")
        .start()
    )


def cores() -> int:
    """Return how many tasks this machine runs at once."""
    return os.cpu_count() or 1


def progress_line(before: Archive, after: Archive, what: str) -> str:
    """Return a line that describes a base or a segment that was added."""
    name = after.manifest.publisher.name
    if what == "base":
        had = {(each.article_id, each.shape) for each in before.manifest.base}
        taken = [e for e in after.manifest.base if (e.article_id, e.shape) not in had]
        rows = sum(each.rows for each in taken)
        at = lsn_text(max(each.seqno for each in taken))
        return f"{name}: base of {count(len(taken), 'table')}, {count(rows, 'row')}, at {at}"
    new = after.manifest.segments[len(before.manifest.segments) :]
    return (
        f"{name}: {count(sum(e.transactions for e in new), 'transaction')}, "
        f"{count(sum(e.commands for e in new), 'command')} · {lsn_text(before.manifest.position)} → "
        f"{lsn_text(after.manifest.position)} · {size(sum(e.bytes for e in new))}"
    )


def count(number: int, what: str) -> str:
    """Return ``1 segment``, ``2 segments``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def size(bytes_: int) -> str:
    """Return a number of bytes with a unit."""
    amount = float(bytes_)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
        amount /= 1000
    raise AssertionError
