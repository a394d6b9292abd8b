"""The history of a run: one record a happening, one line of JSON a record.

Whoever plays a scenario writes it; timeline, verdict and checkers are pure functions of it. It knows
no database and no scenario file. A line is flushed as soon as it is written, so that a run that was
killed leaves its evidence.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

from twopc.errors import ConfigurationError

#: Changes when a reader of the previous version could misread a line.
SCHEMA = 1

#: How a step can end.
ENDS = frozenset(
    {"ok", "rejected", "error", "in_doubt", "rolled_back", "skipped", "timed_out", "explain"}
)
#: Every kind of record and what it says.
KINDS = {
    "header": "first line: schema, scenario, nodes, sessions",
    "order": "an order begins; everything up to the next one belongs to it",
    "setup": "a session's own SQL before an order's steps has returned rows at last: `data.results`",
    "teardown": "likewise its SQL after them",
    "invoke": "a step is sent",
    "ok": "it did what it was asked",
    "rejected": "its transaction was refused; `conflict` tells the kind",
    "error": "it failed with an SQLSTATE that is no refusal of ours",
    "in_doubt": "it may have happened and may not",
    "rolled_back": "a commit of a transaction that had been refused",
    "skipped": "not sent, because its transaction had been refused",
    "timed_out": "cancelled after its time limit",
    "explain": "a note of the scenario's author",
    "queued": "a step must wait until its session is free",
    "blocked": "a step provably waits; `wait` tells for whom",
    "unblocked": "it waits no longer",
    "waited": "an order's own wait was answered: `data.blocked`",
    "deadlock": "sessions wait for each other: `data.cycle`",
    "stuck": "nothing that is left in the order can end a wait: `data.chain`",
    "info": "anything else worth reading",
    "deliver": "an agent has applied a transaction at a node: `data` has origin, seqno, commands",
    "suppress": "an agent has passed over a transaction: it was that node's own",
    "skip": "an agent has left a transaction out because of an error that its Subscriber lists",
    "merge_session": "a merge session has ended: `data.up` and `data.down` have what became of either end's generations",
    "merge_conflict": "a merge session has recorded a conflict: `data` has table, key, type, origin, winner, loser, why",
    "settled": "recovery has finished a prepared branch: `data` has branch and outcome, `message` the reason",
    "outcome": "how a session's last transaction ended",
    "state": "a table's rows at a node at some moment; `part`: those that belong to `data.part`",
    "uncommitted": "a table's rows that an open transaction has changed, as it sees them: `data` has those `gone`",
    "prepared": "the branches that are prepared at a node",
    "markers": "the branch markers of a node: which branches took effect there",
    "end": "the order is over",
    "verdict": "how the order was judged: `data` as in verdict.json",
    "group": "all orders of one name: `data` has how many there are, were run, infeasible, behaviours",
    "infeasible": "this order cannot be played as written: a step belongs to a session that is blocked",
    "twin_skipped": "a twin is not played: these servers cannot switch its protection off",
    "repeat": "an order was played several times: `data` has runs, failed, behaviours",
    "notice": "a notice or a notification has arrived at a session",
    "outage": "a node accepts no connections, or does again: `data.on`",
    "backup": "a node is backed up, or put back to what it was then: `data.restored`",
    "paused": "an agent is paused, or resumed: `data.on`",
    "fault": "a planned fault has happened: `data` has its id, where and what",
    "drew": "what was drawn, or decided by default: `data` has every parameter",
    "load": "what a load came to: `data` has its counts, latencies and thresholds",
    "query": "the scenario's own question about the data: `data.check`, and the rows it returned",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRecord:
    """One happening. Empty fields are left out of the line."""

    seq: int
    """Counts up within the run."""
    t_us: int
    """Microseconds since the run began, by a clock that only goes forward."""
    kind: str
    """One of `KINDS`."""
    order: str = ""
    session: str = ""
    node: str = ""
    step: str = ""
    gid: str = ""
    """The global transaction, without a branch."""
    sql: str = ""
    params: Mapping[str, Any] | None = None
    rows: tuple[Mapping[str, Any], ...] | None = None
    """What came back, or what a table holds; of a load's table the first `ROWS_MAX`."""
    rowcount: int | None = None
    tag: str = ""
    """The server's command tag of the last statement."""
    sqlstate: str = ""
    number: int = 0
    """The original's error number."""
    message: str = ""
    conflict: Mapping[str, Any] | None = None
    """What the Publisher said about a refusal; `kind` is always there."""
    wait: Mapping[str, Any] | None = None
    """`session`, `step`, `node`, `gid`, `pid`, `lock` of the holder, as far as known; `application`: its name, if it is
    no session of ours."""
    data: Mapping[str, Any] | None = None
    """What only this kind has."""

    def line(self) -> str:
        """The record as one line of JSON, without its end."""
        filled = {
            name: value
            for name in _FIELDS
            if (value := getattr(self, name)) not in ("", None) and (value != 0 or name in _ALWAYS)
        }
        return json.dumps(filled, ensure_ascii=False, default=str)

    @classmethod
    def parse(cls, line: str) -> Self:
        """The record that `line` holds; fields that this version does not know are passed over."""
        result = json.loads(line)
        if result.get("rows") is not None:
            result["rows"] = tuple(result["rows"])
        return cls(**{name: value for name, value in result.items() if name in _FIELDS})


_FIELDS = tuple(field.name for field in dataclasses.fields(HistoryRecord))
_ALWAYS = frozenset({"seq", "t_us", "rowcount"})
#: Of a load's table, and of a script's result.
ROWS_MAX = 200


class History:
    """Collects the records of a run and writes them as they come.

    What belongs to the run is written here; what belongs to an order, through `of`. Several orders may be
    played at a time: their records stand in the order of happening and say to which order they belong.

    Args:
        file: where each line is written and flushed; without it they are only collected.
        clock_ns: the time since any moment; it only goes forward.
    """

    def __init__(
        self, file: TextIO | None = None, *, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._file = file
        self._clock_ns = clock_ns
        self._start_ns = clock_ns()
        self.records: list[HistoryRecord] = []

    def of(self, case: str, *, clock: Callable[[], int] | None = None) -> OrderHistory:
        """The history of one order of the run.

        Args:
            case: its name, which no other order of the run has.
            clock: nanoseconds by the clock of those who play it; without it the run's.
        """
        return OrderHistory(self, case, clock)

    def follow(self, clock_ns: Callable[[], int]) -> None:
        """Take the time from another clock from here on: a run in virtual time is the same each time."""
        self._clock_ns = clock_ns
        self._start_ns = clock_ns()

    def write(self, kind: str, **fields: Any) -> HistoryRecord:
        """Add one record of the run and flush it."""
        return self._add(kind, "", self._elapsed_ns(), fields)

    def _elapsed_ns(self) -> int:
        return self._clock_ns() - self._start_ns

    def _add(self, kind: str, order: str, t_ns: int, fields: Mapping[str, Any]) -> HistoryRecord:
        assert kind in KINDS, kind
        record = HistoryRecord(
            seq=len(self.records), t_us=t_ns // 1000, kind=kind, order=order, **fields
        )
        self.records.append(record)
        if self._file is not None:
            self._file.write(record.line() + "\n")
            self._file.flush()
        return record


class OrderHistory:
    """What happens in one order, in its run's history and by itself."""

    def __init__(self, history: History, case: str, clock: Callable[[], int] | None) -> None:
        self.case = case
        """The order's name; it goes into every record."""
        self.records: list[HistoryRecord] = []
        """Those of this order alone."""
        self.branches: dict[str, set[str]] = {}
        """By node, the branches whose markers a look has shown already."""
        self._history = history
        self._clock = clock
        self._began_ns = history._elapsed_ns() if clock is not None else 0
        self._clock_began_ns = clock() if clock is not None else 0

    def write(self, kind: str, **fields: Any) -> HistoryRecord:
        """Add one record of this order and flush it."""
        record = self._history._add(kind, self.case, self._now_ns(), fields)
        self.records.append(record)
        return record

    def _now_ns(self) -> int:
        """Since the run began; a clock of its own has counted since this order began."""
        if self._clock is None:
            return self._history._elapsed_ns()
        return self._began_ns + self._clock() - self._clock_began_ns


def read(path: Path) -> list[HistoryRecord]:
    """The records of a file; a last line that was cut off is left out.

    Raises:
        ConfigurationError: it is no history, or of a version that this program does not know.
    """
    records: list[HistoryRecord] = []
    lines = path.read_text(encoding="utf-8").split(
        "\n"
    )  # the part after the last end of line is cut off
    for at, line in enumerate(lines[:-1], start=1):
        try:
            records.append(HistoryRecord.parse(line))
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"{path}:{at}: not a record of a history: {error}") from error
    schema = (records[0].data or {}).get("schema") if records else None
    if schema != SCHEMA:
        raise ConfigurationError(f"{path}: history of schema {schema}; this program reads {SCHEMA}")
    return records


def by_order(records: Sequence[HistoryRecord]) -> Iterator[tuple[str, list[HistoryRecord]]]:
    """The records of each order, in the order of beginning; what belongs to none is left out."""
    orders: dict[str, list[HistoryRecord]] = {}
    for record in records:
        if record.order:
            orders.setdefault(record.order, []).append(record)
    yield from orders.items()


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: numbers, text, truth values and NULL; the rest as text."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
