"""The history of a run: one record for each event, one line of JSON for each record.

The code that plays a scenario writes the history; timeline, verdict and checkers are pure functions of it. It knows
no database and no scenario file. Each line is flushed as soon as it is written, so that a run that was
killed leaves its evidence.
"""

from __future__ import annotations

import dataclasses
import json
import math
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
#: Every kind of record with its meaning.
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
    """A record of the history. Empty fields are left out of the line."""

    seq: int
    """Number of the record, increasing within the run."""
    t_us: int
    """Microseconds since the start of the run, by a monotonic clock."""
    kind: str
    """One of `KINDS`."""
    order: str = ""
    session: str = ""
    node: str = ""
    step: str = ""
    gid: str = ""
    """Identifier of the global transaction, without the branch."""
    sql: str = ""
    params: Mapping[str, Any] | None = None
    rows: tuple[Mapping[str, Any], ...] | None = None
    """The rows of a result or of a table; of a load's table only the first `ROWS_MAX`."""
    rowcount: int | None = None
    tag: str = ""
    """The server's command tag of the last statement."""
    sqlstate: str = ""
    number: int = 0
    """SQL Server's error number."""
    message: str = ""
    conflict: Mapping[str, Any] | None = None
    """The Publisher's description of a refusal; `kind` is always present."""
    wait: Mapping[str, Any] | None = None
    """`session`, `step`, `node`, `gid`, `pid`, `lock` of the lock's holder, as far as known; `application`: the
    holder's
    application name, if it is no session of the run.
    """
    data: Mapping[str, Any] | None = None
    """Data specific to the kind of record."""

    def line(self) -> str:
        """Return the record as one line of JSON, without the line end."""
        filled = {
            name: value
            for name in _FIELDS
            if (value := getattr(self, name)) not in ("", None) and (value != 0 or name in _ALWAYS)
        }
        return json.dumps(filled, ensure_ascii=False, default=str)

    @classmethod
    def parse(cls, line: str) -> Self:
        """Return the record in `line`; fields that this version does not know are ignored."""
        result = json.loads(line)
        if result.get("rows") is not None:
            result["rows"] = tuple(result["rows"])
        return cls(**{name: value for name, value in result.items() if name in _FIELDS})


_FIELDS = tuple(field.name for field in dataclasses.fields(HistoryRecord))
_ALWAYS = frozenset({"seq", "t_us", "rowcount"})
#: Maximum number of recorded rows of a load's table and of a script's result.
ROWS_MAX = 200


class History:
    """Collects the records of a run and writes each to the file.

    Records of the run itself are written here; those of an order, through `of`. Several orders may be
    played concurrently: their records are in order of time and name the order to which they belong.

    Args:
        file: the file to which each line is written and flushed; without it records are only collected.
        clock_ns: a monotonic clock, in nanoseconds from any origin.
    """

    def __init__(
        self, file: TextIO | None = None, *, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._file = file
        self._clock_ns = clock_ns
        self._start_ns = clock_ns()
        self.records: list[HistoryRecord] = []

    def of(self, case: str, *, clock: Callable[[], int] | None = None) -> OrderHistory:
        """Return the history of one order of the run.

        Args:
            case: the order's name, unique within the run.
            clock: the clock of the stage on which the order is played, in nanoseconds; by default the run's.
        """
        return OrderHistory(self, case, clock)

    def follow(self, clock_ns: Callable[[], int]) -> None:
        """Take the time from another clock from now on, so that a run in virtual time is the same each time."""
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
    """The history of one order, as part of its run's history and by itself."""

    def __init__(self, history: History, case: str, clock: Callable[[], int] | None) -> None:
        self.case = case
        """The order's name, which each of its records has."""
        self.records: list[HistoryRecord] = []
        """The records of this order alone."""
        self.branches: dict[str, set[str]] = {}
        """The branches whose markers a look has already shown, by node."""
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
        """Return the nanoseconds since the start of the run; an own clock counts from the start of the order."""
        if self._clock is None:
            return self._history._elapsed_ns()
        return self._began_ns + self._clock() - self._clock_began_ns


def read(path: Path) -> list[HistoryRecord]:
    """Return the records of a file; an incomplete last line is left out.

    Raises:
        ConfigurationError: the file is no history, or of a version that this program does not know.
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
    """Yield the records of each order, in the order of beginning; records of no order are left out."""
    orders: dict[str, list[HistoryRecord]] = {}
    for record in records:
        if record.order:
            orders.setdefault(record.order, []).append(record)
    yield from orders.items()


def plain(value: Any) -> Any:
    """Return `value` as JSON can represent it: numbers, text, booleans and NULL; other values as text.

    JSON has no infinity and no NaN: such a number becomes the text that PostgreSQL prints.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
