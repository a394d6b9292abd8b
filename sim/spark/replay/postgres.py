"""An archive's transactions, carried out once more on a live topology, side by side."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.lsn import lsn_text
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.archive.files import fresh_id
from twopc.sim.spark.decode import decoded
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.fold import unfoldable
from twopc.sim.spark.fold.bases import Base, ends_of
from twopc.sim.spark.fold.shaping import checked
from twopc.sim.spark.replay import execute
from twopc.sim.spark.replay.delivery import deliver, delivering
from twopc.sim.spark.replay.pace import percentile
from twopc.sim.spark.replay.report import Report, counted
from twopc.sim.spark.replay.rows import NothingError
from twopc.sim.spark.replay.target import Target
from twopc.sim.spark.replay.task import AGAIN, COUNT, RESULTS, STOPPED, Order, carry_out
from twopc.sim.spark.replay.windows import Sync, Turn, assigned, edges, windows
from twopc.sim.spark.routines import carried_out_as_rows, without_calls

_CLASS = {
    execute.REFUSED: "outcome",
    execute.LATE: "outcome",
    execute.IN_DOUBT: "outcome",
    execute.FAILED: "error",
    COUNT: "rowcount",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """How transactions are carried out."""

    sync: Sync = Sync.rows
    speed: float | None = None
    """Times the recorded pace; None: as fast as can be."""
    window: int = 2000
    """So many transactions at a time; the next begin when all of them are over."""
    after: int | None = None
    """None: where the archive's bases are."""
    upto: int | None = None
    """None: the archive's end."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Recorded names of nodes, and those that take their places."""
    resume: str = ""
    """A replay that was broken off."""
    force: bool = False
    """Onto the recorded Publisher itself."""
    coordinator: str | None = None
    """The target's; None: the only one that there is."""
    lanes: int = 2
    """So many tasks at once, at most."""


def onto_postgres(
    archive: Archive, spark: SparkSession, nodes: Mapping[str, str], options: PostgresOptions
) -> Report:
    """Carry out every transaction of a range where it was made, then compare the rows.

    Args:
        nodes: the target's names and connection strings, the distribution database among them.

    Raises:
        PipelineError: the target is not where the replay begins, has other nodes, or went away.
        DeliveryError: what was carried out does not come to the Subscribers.
        NothingError: there is no transaction in the range.
    """
    began = time.perf_counter()
    replay = _Replay(archive, spark, dict(nodes), options)
    replay.prepare()
    results = replay.play()
    divergences = spark.createDataFrame(_divergences(results), shapes.DIVERGENCES)
    with ExitStack() as until:
        differences = replay.target.differences(replay.upto, until)
        divergences = divergences.unionByName(differences).persist()
        classes = counted(divergences, ["rowcount", "outcome", "error", "state"])
    replay.target.ledger(there=False)
    ended = Counter(each["outcome"] for each in results)
    in_doubt = ended[execute.IN_DOUBT]
    done = ended[execute.DONE] + ended[execute.FOUND]
    whole = sum(count for outcome, count in ended.items() if outcome != COUNT)
    pace = replay.pace(results)
    lag = f", lag p99 {pace['lag_p99_s'] * 1000:.0f} ms" if "lag_p99_s" in pace else ""
    return Report(
        after=replay.after,
        upto=replay.upto,
        counts={"transactions": whole, "replayed": done, "found": ended[execute.FOUND]},
        classes=classes,
        divergences=divergences,
        unexamined=[f"{in_doubt} transactions are in doubt: twopc recover"] if in_doubt else [],
        seconds=time.perf_counter() - began,
        told=[
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
        self.target = Target(archive, spark, nodes, options.names, options.coordinator)
        self._id = options.resume or fresh_id()[:8]
        self._first_s: float | None = None
        """When the first transaction of the range was committed."""
        self._last_s = 0.0
        self._began_s = 0.0
        self.windows = 0
        self.longest = 0
        """Transactions of the longest lanes of all windows: what is done one after the other."""
        self.largest = 0
        """Transactions of the largest units of all windows: what no number of tasks would do side by side."""
        self.seconds = 0.0

    def _begin(self) -> int:
        """Behind everything that some base has in it, and where every article was there."""
        manifest = self._archive.manifest
        bases = [
            Base(article_id=e.article_id, shape=e.shape, snapshot=e.snapshot, seqno=e.seqno)
            for e in manifest.base
        ]
        ends = ends_of(self._archive.transactions(self._spark), bases).values()
        there = [int(each["first_seqno"]) for each in manifest.articles if each["shape"] == 1]
        return max([manifest.first, *there, *(end.last_seen or 0 for end in ends)])

    def prepare(self) -> None:
        """See to it that the target is there, has the nodes, and is where the replay begins."""
        self.target.check(force=self._options.force)
        carried_out_as_rows(self._archive, self._spark, after=self.after, upto=self.upto)
        if not self._options.resume:
            self.target.begins(self.after)
        self.target.ledger(there=True)

    def play(self) -> list[dict[str, Any]]:
        """Carry out everything, window by window, and have it delivered."""
        between = {"after": self.after, "upto": self.upto}
        everything = self._archive.transactions(self._spark, **between).where("commands > 0")
        results: list[dict[str, Any]] = []
        settle: Callable[[], object] = partial(deliver, self.target.place)
        with ExitStack() as stack:
            if self._options.sync.delivers:
                settle = stack.enter_context(delivering(self.target.place))
            began = time.perf_counter()
            for window in windows(everything, self._options.window):
                results += self._window(window)
                self.windows += 1
                if self._options.sync.delivers:
                    settle()  # so that an agent that has stopped is not waited for in every window
            if not self.windows:
                raise NothingError(
                    f"no transaction is between {lsn_text(self.after)} and {lsn_text(self.upto)}"
                )
            self.seconds = time.perf_counter() - began
            settle()
        return results

    def pace(self, results: Iterable[Mapping[str, Any]]) -> dict[str, float]:
        """How fast it was; `lag`: how much later than due transactions began, in seconds."""
        told = {"seconds": self.seconds}
        if self._first_s is not None and self._last_s > self._first_s:
            told["recorded_s"] = self._last_s - self._first_s
        lags = sorted(each["lag_s"] for each in results if each["lag_s"] is not None)
        if lags:
            told |= {"lag_p50_s": percentile(lags, 50), "lag_p99_s": percentile(lags, 99)}
        return told

    def _window(self, window: Sequence[Row]) -> list[dict[str, Any]]:
        sync = self._options.sync
        between = {"after": int(window[0]["seqno"]) - 1, "upto": int(window[-1]["seqno"])}
        recorded = self._archive.commands(self._spark, **between)
        if self._archive.manifest.routines:  # all of them have their rows beside them
            recorded = without_calls(recorded)
        commands = checked(decoded(recorded, self._archive.articles(self._spark))).persist()
        touches = edges(commands) if sync is Sync.rows else ()
        plan = assigned(sync, window, touches, self._options.lanes)
        self.longest += max(Counter(each.lane for each in plan).values())
        self.largest += max(Counter(each.unit for each in plan).values())
        results = self._carried_out(commands, window, plan, holds=sync.delivers)
        again = {each["seqno"] for each in results if each["outcome"] in AGAIN}
        if again and sync.delivers:
            results = [each for each in results if each["seqno"] not in again]
            once_more = [Turn(seqno, 0, seqno, seqno) for seqno in sorted(again)]
            results += self._carried_out(commands, window, once_more)
        commands.unpersist()
        return results

    def _due(self, window: Sequence[Row]) -> dict[int, float | None]:
        """How many seconds after the begin transactions are due."""
        at = {int(each["seqno"]): each["entry_time"].timestamp() for each in window}
        if self._first_s is None:
            self._first_s, self._began_s = at[int(window[0]["seqno"])], time.time()
        self._last_s = max(self._last_s, *at.values())
        speed, first = self._options.speed, self._first_s
        return {seqno: None if speed is None else (s - first) / speed for seqno, s in at.items()}

    def _carried_out(
        self,
        commands: DataFrame,
        window: Sequence[Row],
        plan: Sequence[Turn],
        *,
        holds: bool = False,
    ) -> list[dict[str, Any]]:
        node_of = {
            int(each["seqno"]): self.target.node_of(each["originator_id"]) for each in window
        }
        due = self._due(window)
        rows = [(*each, node_of[each.seqno], due[each.seqno]) for each in plan]
        columns = "seqno bigint, lane int, place bigint, unit bigint, node string, due_s double"
        told = F.broadcast(self._spark.createDataFrame(rows, columns))
        order = Order(
            replay=self._id,
            place=self.target.place,
            articles={(e["article_id"], e["shape"]): e.asDict() for e in self._known},
            fresh=self._options.sync.delivers,
            holds=holds,
            began_s=self._began_s,
        )

        def work(batches: Iterable[Any]) -> Iterator[Any]:
            return carry_out(batches, order)

        count = len({each.lane for each in plan})
        made = (
            commands.join(told, on="seqno", how="inner")
            .repartitionByRange(count, "lane")
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


def _divergences(results: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """`shapes.DIVERGENCES` of what did not go as it was recorded."""
    return [
        (
            _CLASS[each["outcome"]], each["article"], each["key"], each["seqno"], None, each["node"], None,
            "1 row" if each["outcome"] == COUNT else "committed",
            f"{each['count']} rows" if each["outcome"] == COUNT else f"{each['outcome']}: {each['message']}",
        )
        for each in results
        if each["outcome"] in _CLASS
    ]  # fmt: skip
