"""Replay of an archive's transactions on a live topology, window by window, by Spark's tasks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import ceil
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.lsn import lsn_text
from twopc.sim.replay import topology
from twopc.sim.replay.delivery import deliver, delivering
from twopc.sim.replay.divergence import Divergence
from twopc.sim.replay.engine import RecordedTransaction
from twopc.sim.replay.lanes import Sync, lanes
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.archive.files import fresh_id
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.fold import unfoldable
from twopc.sim.spark.fold.bases import ends_of
from twopc.sim.spark.fold.shape_plan import checked
from twopc.sim.spark.replay.report import ReplayReport, counted, frame_of
from twopc.sim.spark.replay.rows import NothingError
from twopc.sim.spark.replay.target import ReplayTopology
from twopc.sim.spark.replay.tasks import COUNT, HELD, RESULTS, STOPPED, LaneTask, carry_out
from twopc.sim.spark.routines import carried_out_as_rows, without_calls

_CLASS = {
    topology.REFUSED: "outcome",
    topology.LATE: "outcome",
    topology.IN_DOUBT: "outcome",
    topology.FAILED: "error",
    COUNT: "rowcount",
}
#: A transaction of a window, before it is joined with its commands.
Planned = RecordedTransaction[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """Options of a replay on PostgreSQL."""

    sync: Sync = Sync.rows
    speed: float | None = None
    """Multiple of the recorded pace; None: as fast as possible."""
    window: int = 2000
    """Number of transactions per window; the next window begins when all of them have ended."""
    after: int | None = None
    """None: the position of the archive's bases."""
    upto: int | None = None
    """None: the archive's end."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Recorded names of nodes, and the names of the nodes that replace them."""
    resume: str = ""
    """Id of an interrupted replay to resume."""
    force: bool = False
    """Whether a replay onto the recorded Publisher itself is allowed."""
    coordinator: str | None = None
    """The target's coordinator; None: the only one."""
    lanes: int = 2
    """Maximum number of parallel tasks."""


def onto_postgres(
    archive: Archive, spark: SparkSession, nodes: Mapping[str, str], options: PostgresOptions
) -> ReplayReport:
    """Carry out every transaction of a range at its original node, then compare the rows.

    Args:
        nodes: names and connection strings of the target's nodes, including the distribution database.

    Raises:
        PipelineError: the target is not at the start of the replay, has other nodes, or was lost.
        DeliveryError: changes are not delivered to the Subscribers.
        NothingError: there is no transaction in the range.
    """
    began = time.perf_counter()
    replay = _Replay(archive, spark, dict(nodes), options)
    replay.prepare()
    results = replay.play()
    divergences = frame_of(spark, _divergences(results))
    with ExitStack() as until:
        differences = replay.target.differences(replay.upto, until)
        divergences = divergences.unionByName(differences).persist()
        classes = counted(divergences, ["rowcount", "outcome", "error", "state"])
    replay.target.ledger(there=False)
    ended = Counter(each["outcome"] for each in results)
    in_doubt = ended[topology.IN_DOUBT]
    done = ended[topology.DONE] + ended[topology.FOUND]
    whole = sum(count for outcome, count in ended.items() if outcome != COUNT)
    pace = replay.pace(results)
    lag = f", lag p99 {pace['lag_p99_s'] * 1000:.0f} ms" if "lag_p99_s" in pace else ""
    return ReplayReport(
        after=replay.after,
        upto=replay.upto,
        counts={"transactions": whole, "replayed": done, "found": ended[topology.FOUND]},
        classes=classes,
        divergences=divergences,
        unexamined=[f"{in_doubt} transactions are in doubt: twopc recover"] if in_doubt else [],
        seconds=time.perf_counter() - began,
        remarks=[
            f"replayed {done:,} of {whole:,} transactions in {replay.seconds:.1f} s{lag} · "
            f"{replay.windows} window{'s' if replay.windows != 1 else ''}, parallel {whole / replay.longest:.1f} of {options.lanes}",
            f"  skew: the largest unit{'s' if replay.windows != 1 else ''} had {replay.largest:,} of {whole:,} "
            f"transactions ({replay.largest / whole:.0%})",
        ],
        pace=pace,
        figures={"largest_unit_share": replay.largest / whole},
    )


class _Replay:
    def __init__(
        self, archive: Archive, spark: SparkSession, nodes: dict[str, str], options: PostgresOptions
    ) -> None:
        self._archive, self._spark, self._options = archive, spark, options
        manifest = archive.manifest
        self.upto = manifest.position if options.upto is None else options.upto
        self.after = self._begin() if options.after is None else options.after
        if self.after >= self.upto:
            raise NothingError(
                f"nothing is between {lsn_text(self.after)} and {lsn_text(self.upto)}: {archive.name} has "
                f"{lsn_text(manifest.first)} to {lsn_text(manifest.position)}"
            )
        self._known = [Row(**each) for each in manifest.articles]
        blind = unfoldable(self._known)
        if blind:
            raise PipelineError(
                f"articles {', '.join(str(each) for each in sorted(blind))} travel as SQL statements, or not "
                "at all: their transactions cannot be replayed"
            )
        self.target = ReplayTopology(archive, spark, nodes, options.names, options.coordinator)
        self._id = options.resume or fresh_id()[:8]
        self._first_s: float | None = None
        """Commit time of the first transaction of the range."""
        self._last_s = 0.0
        self._began_s = 0.0
        self.windows = 0
        self.longest = 0
        """Total length of the longest lane of each window: the transactions that are carried out in sequence."""
        self.largest = 0
        """Total size of the largest unit of each window: transactions that cannot run in parallel."""
        self.seconds = 0.0

    def _begin(self) -> int:
        """Return the position after everything that any base includes, at which every article exists."""
        manifest = self._archive.manifest
        ends = ends_of(self._archive.transactions(self._spark), manifest.base).values()
        there = [int(each["first_seqno"]) for each in manifest.articles if each["shape"] == 1]
        return max([manifest.first, *there, *(end.last_seen or 0 for end in ends)])

    def prepare(self) -> None:
        """Check that the target has the nodes and is at the start of the replay; create its ledger."""
        self.target.check(force=self._options.force)
        carried_out_as_rows(self._archive, self._spark, after=self.after, upto=self.upto)
        if not self._options.resume:
            self.target.begins(self.after)
        self.target.ledger(there=True)

    def play(self) -> list[dict[str, Any]]:
        """Carry out all windows, and wait until the changes are delivered."""
        results: list[dict[str, Any]] = []
        settle: Callable[[], object] = partial(deliver, self.target.address)
        with ExitStack() as stack:
            if self._options.sync.delivers:
                settle = stack.enter_context(delivering(self.target.address))
            began = time.perf_counter()
            for window in self._windows():
                results += self._window(window)
                self.windows += 1
                if self._options.sync.delivers:
                    settle()  # so that a stopped agent is detected once, instead of causing a wait in every window
            if not self.windows:
                raise NothingError(
                    f"no transaction is between {lsn_text(self.after)} and {lsn_text(self.upto)}"
                )
            self.seconds = time.perf_counter() - began
            settle()
        return results

    def pace(self, results: Iterable[Mapping[str, Any]]) -> dict[str, float]:
        """Return durations and, as `lag`, by how many seconds transactions began later than planned."""
        report = {"seconds": self.seconds}
        if self._first_s is not None and self._last_s > self._first_s:
            report["recorded_s"] = self._last_s - self._first_s
        lags = sorted(each["lag_s"] for each in results if each["lag_s"] is not None)
        if lags:
            report |= {"lag_p50_s": percentile(lags, 50), "lag_p99_s": percentile(lags, 99)}
        return report

    def _windows(self) -> Iterator[list[Planned]]:
        """Yield the consecutive transactions of each window."""
        between = {"after": self.after, "upto": self.upto}
        everything = self._archive.transactions(self._spark, **between).where("commands > 0")
        columns = ("seqno", "originator_id", "entry_time")
        planned = map(self._planned, everything.orderBy("seqno").select(*columns).toLocalIterator())
        while window := list(islice(planned, self._options.window)):
            yield window

    def _planned(self, row: Row) -> Planned:
        at_s = row["entry_time"].timestamp()
        first_s = self._first_s = at_s if self._first_s is None else self._first_s
        self._last_s = max(self._last_s, at_s)
        speed = self._options.speed
        return RecordedTransaction(
            number=int(row["seqno"]),
            node=self.target.node_of(row["originator_id"]),
            session=str(row["originator_id"] or ""),
            due_s=None if speed is None else (at_s - first_s) / speed,
            work=None,
        )

    def _window(self, window: Sequence[Planned]) -> list[dict[str, Any]]:
        sync = self._options.sync
        between = {"after": window[0].number - 1, "upto": window[-1].number}
        recorded = self._archive.decoded(self._spark, **between)
        if self._archive.manifest.routines:  # the rows of all calls are stored beside them
            recorded = without_calls(recorded)
        commands = checked(recorded).persist()
        touches = _touches(commands) if sync is Sync.rows else ()
        plan = lanes(sync, window, self._options.lanes, touches=touches)
        self.longest += max(map(len, plan))
        self.largest += max(Counter(each.unit for lane in plan for each in lane).values())
        results = self._carried_out(commands, plan, holds=sync.delivers)
        repeated = {each["seqno"] for each in results if each["outcome"] in (*topology.AGAIN, HELD)}
        if repeated and sync.delivers:
            results = [each for each in results if each["seqno"] not in repeated]
            once_more = [replace(e, unit=e.number) for e in window if e.number in repeated]
            results += self._carried_out(commands, [once_more])
        commands.unpersist()
        return results

    def _carried_out(
        self, commands: DataFrame, plan: Sequence[Sequence[Planned]], *, holds: bool = False
    ) -> list[dict[str, Any]]:
        rows = [
            (each.number, number, place, each.unit, each.node, each.due_s)
            for number, lane in enumerate(plan)
            for place, each in enumerate(lane)
        ]
        columns = shapes.shape(
            "seqno bigint, lane int, place bigint, unit bigint, node string, due_s double"
        )
        planned = F.broadcast(shapes.frame(self._spark, rows, columns))
        self._began_s = self._began_s or time.time()
        task = LaneTask(
            replay=self._id,
            address=self.target.address,
            articles={(e["article_id"], e["shape"]): e.asDict() for e in self._known},
            fresh=self._options.sync.delivers,
            holds=holds,
            began_s=self._began_s,
        )

        def work(batches: Iterable[Any]) -> Iterator[Any]:
            return carry_out(batches, task)

        made = (
            commands.join(planned, on="seqno", how="inner")
            .repartitionByRange(len(plan), "lane")
            .sortWithinPartitions("lane", "place", "seqno", "command_id")
            .select(
                "seqno", "command_id", "article_id", "shape", "operation", "key", "values", "changed", "node",
                "due_s", "unit",
            )
            .mapInArrow(work, RESULTS)
        )  # fmt: skip
        results = [row.asDict() for row in made.collect()]
        stopped = next((each for each in results if each["outcome"] == STOPPED), None)
        if stopped is not None:
            raise PipelineError(
                f"the replay was broken off at {stopped['node']}, {lsn_text(stopped['seqno'])}: "
                f"{stopped['message']}. What is done is noted: go on by --resume {self._id}"
            )
        return results


def _touches(commands: DataFrame) -> Iterable[tuple[int, int]]:
    """Return transaction and row, as numbers, for every decoded command."""
    touched = commands.select(
        "seqno",
        F.explode(F.array_distinct(F.array("key", F.coalesce("new_key", "key")))).alias("key"),
        "article_id",
    )
    result = touched.select("seqno", F.xxhash64("article_id", "key").alias("row")).distinct()
    return [(row["seqno"], row["row"]) for row in result.orderBy("seqno").collect()]


def _divergences(results: Iterable[Mapping[str, Any]]) -> Iterator[Divergence]:
    """Yield the outcomes that differ from the recording."""
    for each in results:
        if each["outcome"] in _CLASS:
            is_count = each["outcome"] == COUNT
            yield Divergence(
                kind=_CLASS[each["outcome"]],
                article=each["article"],
                key=each["key"],
                seqno=each["seqno"],
                session=each["node"],
                expected="1 row" if is_count else "committed",
                actual=f"{each['count']} rows"
                if is_count
                else f"{each['outcome']}: {each['message']}",
            )


def percentile(ordered: Sequence[float], of: float) -> float:
    """Return the least value that is not exceeded by so many per cent of the values."""
    return ordered[max(0, ceil(len(ordered) * of / 100) - 1)]
