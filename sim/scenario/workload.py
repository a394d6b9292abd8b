"""Models of a scenario file for a load: clients, keys, a mix of transactions, thresholds.

They check shapes only, as in `twopc.sim.scenario.model`.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from twopc.sim.scenario.expectations import Count
from twopc.sim.scenario.parts import (
    Agent,
    DurationMs,
    Name,
    Natural,
    Part,
    Whole,
    duration_ms,
    pattern,
    refuse,
    said_of,
)
from twopc.sim.scenario.steps import Statements
from twopc.sim.scenario.text import Number, suggestion

_THRESHOLD = re.compile(r"(?P<metric>[a-z_][\w.-]*)\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|ms|s|/s)?")  # fmt: skip
_THRESHOLD_WRITTEN = re.sub(r"\?P<\w+>", "", _THRESHOLD.pattern)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|m)")
_PICK = re.compile(r"uniform|latest|zipfian \d+(\.\d+)?|hotspot \d+(\.\d+)?%/\d+(\.\d+)?%")
_NUMBER = re.compile(r"\d+(\.\d+)?")
#: The parameters of each distribution: durations, and for a lognormal its spread.
_TIMINGS = {
    "constant": "duration",
    "exponential": "duration",
    "lognormal": "duration number",
    "uniform": "duration duration",
}
#: The kinds of events that a load can have.
_EVENT_KINDS = ("cut", "pause", "fault")
#: Values drawn for each transaction, for ``:names`` in its statements: a key, the same key by another name,
#: another key, 1 to 100, and a key that no row has.
DRAWN = ("key", "from", "to", "amount", "new")
#: Events that are counted; those with kinds also by kind: ``rejected.version_mismatch.rate``.
COUNTED = (
    "transactions", "committed", "rejected", "error", "in_doubt", "retries", "given_up", "dropped",
    "syncs", "sync_failures",
)  # fmt: skip
WITH_KINDS = ("rejected", "error")
#: Durations that are measured: ``commit.latency.p99``.
TIMED = ("commit", "conflict", "in_doubt", "sync")
_LATENCY = re.compile(r"(\w+)\.latency\.(?:p\d{1,2}(?:\.\d+)?|p100|mean|max)")
_COUNT = re.compile(r"(\w+)(\.\w+)?\.(?:count|rate)")
#: Allowed units of a metric's number, by the last word of the metric.
_UNITS = {"count": ("",), "rate": ("%", "/s")}


def _rate(value: Any) -> Any:
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not float(match[1]):
        raise refuse(f"a rate is written 200/s or 30/m, not {said_of(value)}")
    return float(match[1]) / {"s": 1, "m": 60}[match[2]]


def _pick(value: Any) -> Any:
    if isinstance(value, str) and _PICK.fullmatch(value) is not None:
        return value
    near = suggestion(str(value).split(" ")[0], ("uniform", "latest", "zipfian", "hotspot"))
    raise refuse(
        f"keys are picked uniform, latest, zipfian 0.9 or hotspot 20%/80%, not {said_of(value)}{near}"
    )


def _backoff(value: Any) -> Any:
    if value is None:
        return None
    low, dots, high = value.partition("..") if isinstance(value, str) else ("", "", "")
    if dots and _is_duration(low) and _is_duration(high) and duration_ms(low) <= duration_ms(high):
        return value
    raise refuse(f"a backoff is written 5ms..50ms, not {said_of(value)}")


def _is_duration(text: str) -> bool:
    try:
        return duration_ms(text) >= 0
    except ValueError:
        return False


class Keys(Part):
    """Rows on which the transactions work."""

    what = "a choice of keys"
    blank = {"table": "", "count": 1}
    table: str
    """Name of the table."""
    count: Whole
    """Number of rows that are created before the load."""
    pick: Annotated[str, BeforeValidator(_pick), pattern(_PICK.pattern)] = "uniform"
    """Distribution of keys: ``uniform``, ``latest``, ``zipfian 0.9`` or ``hotspot 20%/80%`` (rows / accesses)."""


class OnConflict(Part):
    """What a client does after a rejection."""

    what = "what follows a conflict"
    blank = {}
    retry: Natural = 0
    """Number of retries."""
    after: Literal["sync"] | None = None
    """Whether its Subscriber is synchronised before a retry."""
    backoff: Annotated[str | None, BeforeValidator(_backoff), pattern(r"\S+\.\.\S+")] = None
    """Range of the pause before a retry: ``5ms..50ms``."""


def _known(metric: str) -> None:
    """Raise an error unless a metric is measured."""
    latency, count = _LATENCY.fullmatch(metric), _COUNT.fullmatch(metric)
    if latency is not None and latency[1] in TIMED:
        return
    if count is not None and count[1] in (WITH_KINDS if count[2] else COUNTED):
        return
    near = suggestion(metric.split(".")[0], TIMED if ".latency" in metric else COUNTED)
    raise refuse(
        f"'{metric}' is not measured{near}; there are {', '.join(TIMED)} with .latency.p99 (.p50, .mean, "
        f".max), and {', '.join(COUNTED)} with .count or .rate"
    )


class Timing(Part):
    """A duration in virtual time."""

    what = "a timing"
    blank = {"distribution": "constant", "values": ()}
    hidden = frozenset({"distribution", "values"})
    distribution: Literal["constant", "exponential", "lognormal", "uniform"]
    values: tuple[str, ...]
    """Parameters of the distribution as written: ``1ms``, ``0.5``."""

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of the text, the only form."""
        return ({"type": "string", "pattern": f"^({'|'.join(_TIMINGS)}) "},)

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a text such as ``exponential 2ms``."""
        words = value.split() if isinstance(value, str) else []
        requested = _TIMINGS.get(words[0], "").split() if words else []
        fits = len(words) == 1 + len(requested) > 1 and all(
            _is_duration(word) if kind == "duration" else _NUMBER.fullmatch(word)
            for word, kind in zip(words[1:], requested, strict=True)
        )
        if fits:
            return {"distribution": words[0], "values": tuple(words[1:])}
        hint = suggestion(words[0], _TIMINGS) if words and words[0] not in _TIMINGS else ""
        raise refuse(
            "a timing is written constant 2ms, exponential 2ms, lognormal 1ms 0.5 or "
            f"uniform 1ms 3ms, not {said_of(value)}{hint}"
        )


class LoadEvent(Part):
    """An event at a node during a load."""

    what = "a happening"
    blank = {"at": "0ms"}
    at_ms: DurationMs = Field(alias="at")
    """Time since the beginning of the load."""
    for_ms: DurationMs | None = Field(default=None, alias="for")
    """Duration. If omitted, until the end of the load."""
    every_ms: DurationMs | None = Field(default=None, alias="every")
    """Interval of repetition, until the end of the load."""
    cut: str | None = None
    """Node that is unreachable during the event."""
    pause: Agent | None = None
    """Subscriber whose agent is paused during the event."""
    fault: str | None = None
    """Fault, by id, that is armed."""

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require exactly one kind of event."""
        return {"oneOf": [{"required": [word]} for word in _EVENT_KINDS]}

    @model_validator(mode="after")
    def _one_thing(self) -> LoadEvent:
        if self.hole or self.holes:
            return self
        if sum(getattr(self, word) is not None for word in _EVENT_KINDS) != 1:
            raise refuse(
                "what happens during a load is one of {cut: node}, {pause: agent node} and {fault: id}"
            )
        if self.fault is not None and self.for_ms is not None:
            raise refuse("how long a fault lasts, its own 'heal' says: leave out 'for'")
        if self.every_ms is not None and self.for_ms is not None and self.every_ms <= self.for_ms:
            raise refuse("it must be over before it begins again: 'for' is shorter than 'every'")
        if self.every_ms is not None and self.for_ms is None and self.fault is None:
            raise refuse("what happens again and again must end in between: say 'for'")
        return self


class Workload(Part):
    """A load on all nodes, instead of orders."""

    what = "a workload"
    blank = {}
    hidden = frozenset({"count"})
    clients: Whole | None = None
    """Number of clients. Each begins a transaction after its last one has ended."""
    rate: Annotated[float | None, BeforeValidator(_rate), pattern(_RATE.pattern)] = None
    """Number of transactions that begin per second, regardless of the ends of others."""
    for_ms: DurationMs | None = Field(default=None, alias="for")
    """Duration within which transactions begin."""
    count: int | None = None
    """Number of transactions, instead of `for`; `transactions` if that is a number."""
    transactions: dict[Name, Statements] = {}
    """Transactions by name, in addition to those of the file."""
    warmup_ms: DurationMs = Field(default=0, alias="warmup")
    """Duration at the beginning in which no event is counted."""
    seed: Whole | None = None
    """Seed of all random values."""
    nodes: dict[str, Whole] = {}
    """Weights by node. Empty: all Subscribers equally."""
    keys_of: Keys | None = Field(default=None, alias="keys")
    """Rows on which the transactions work."""
    mix: dict[str, Whole] = {}
    """Weights by transaction. Empty: all equally."""
    on_conflict: OnConflict = OnConflict()
    """What a client does after a rejection. By default, it does not retry."""
    think: Timing | None = None
    """Pause of each client between two transactions. If omitted, there is none."""
    sync_ms: DurationMs | None = Field(default=None, alias="sync")
    """Interval at which every Subscriber is synchronised. If omitted, only on request and at the end."""
    during: tuple[LoadEvent, ...] = ()
    """Events at nodes during the load."""

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require either `clients` or `rate`."""
        return {"oneOf": [{"required": ["clients"]}, {"required": ["rate"]}]}

    @classmethod
    def more_keys(cls) -> dict[str, Any]:
        """Return the key `transactions`, which may be a number too."""
        steps = {
            "anyOf": [
                {"$ref": "#/$defs/Step"},
                {"type": "array", "items": {"$ref": "#/$defs/Step"}},
            ]
        }
        text = "How many, instead of `for`; or what they do, by name."
        by_name = {"type": "object", "additionalProperties": steps}
        return {"transactions": {"description": text, "anyOf": [{"type": "integer"}, by_name]}}

    @classmethod
    def arrange(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Move a number of transactions from `transactions` to `count`."""
        if isinstance(values.get("transactions"), Number):
            values["count"] = values.pop("transactions")
        return values


class Threshold(Part):
    """A bound for a measured value of the load."""

    what = "a threshold"
    blank = {"metric": "", "op": "<", "number": 0.0}
    hidden = frozenset({"metric", "op", "number", "unit"})
    metric: str
    op: Literal["<", "<=", ">", ">=", "==", "!="]
    number: float
    unit: str = ""

    @property
    def text(self) -> str:
        """The threshold in the notation of a file."""
        return f"{self.metric} {self.op} {self.number:g}{self.unit}"

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of the text, the only form."""
        return ({"type": "string", "pattern": f"^{_THRESHOLD_WRITTEN}$"},)

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a text such as ``commit.latency.p99 < 80ms``."""
        match = _THRESHOLD.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            raise refuse(
                f"a threshold is written 'commit.latency.p99 < 80ms', not {said_of(value)}"
            )
        _known(match["metric"])
        units = _UNITS.get(match["metric"].rpartition(".")[2], ("ms", "s"))
        if (match["unit"] or "") not in units:
            number = match["number"]
            written = " or ".join(f"{number}{unit}" for unit in units)
            raise refuse(
                f"'{match['metric']}' is compared with {written}, not {number}{match['unit'] or ''}"
            )
        return match.groupdict(default="")


#: Classes of divergences: see `twopc.sim.replay.loads`.
Divergent = Literal["outcome", "rowcount", "state"]


class ReplayExpect(Part):
    """Expected result of a replay."""

    what = "what is expected of a replay"
    blank: ClassVar[dict[str, Any]] = {"divergence": Number("0")}
    divergence: Count
    """Expected number of divergences from the recording."""
    classes: tuple[Divergent, ...] = ()
    """Divergences that count: `outcome`, transactions with another outcome; `rowcount`, statements with another
    number of rows; `state`, rows that differ at the end. Empty: all.
    """


class Replay(Part):
    """Repetition of the load's committed transactions from the same initial state."""

    what = "a replay"
    blank: ClassVar[dict[str, Any]] = {"sync": "commit", "expect": {"divergence": Number("0")}}
    sync: Literal["commit", "rows", "session", "off"] = "rows"
    """`commit`, `rows`: transactions are repeated in the order of their commits, each after its Subscriber has
    received all earlier changes. `session`: each session repeats its transactions in order, concurrently with the
    others. `off`: in no order. With the last two, no changes are delivered meanwhile.
    """
    expect: ReplayExpect
    """Expected result."""
