"""Values of the model: labels, delays, errors, results, rows of its WAL, specifications.

Only values: this module neither waits nor draws random values nor keeps state. Values of which a transaction
creates dozens are named tuples, whose creation is three times as fast as that of dataclasses.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeVar

import simpy

T = TypeVar("T")
#: Work of the model: a generator that yields events to wait for and returns a value; composed with ``yield from``.
Steps = Generator[simpy.Event, Any, T]
Value = int | float | str | bool | bytes | None | Any  # Decimal, date, datetime, UUID beside these
Values = tuple[Value, ...]
Level = Literal["read committed", "repeatable read", "serializable"]
#: Default of max_prepared_transactions of a node.
PREPARED_MAX = 64


class Cause(StrEnum):
    """The reason for a delay, in its label."""

    MESSAGE = "message"
    REPLY = "reply"
    FLUSH = "flush"
    TIMER = "timer"
    LOCK_TIMEOUT = "lock_timeout"
    DEADLOCK = "deadlock"
    LAUNCH = "launch"
    RESTART = "restart"
    POLL = "poll"
    FAULT = "fault"
    PAUSE = "pause"


class Label(NamedTuple):
    """Name of a delay, by which a search can choose it and know on what it does not depend."""

    actor: str
    """The process that continues after the delay: ``coordinator:c1:7``, ``session:alice``, ``agent:sub2``."""
    cause: Cause
    what: str
    """Description for a trace: ``COMMIT PREPARED → sub1``."""
    touches: frozenset[str] = frozenset()
    """Objects that the next stretch may read or write: node names, ``log``, ``pub/account/1``.

    Empty: unknown, so that the stretch depends on everything.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """A distribution of durations, in seconds."""

    kind: Literal["fixed", "exponential", "lognormal", "uniform"] = "fixed"
    a: float = 0.0
    """Value, mean, median, or lower bound."""
    b: float = 0.0
    """Sigma, or upper bound."""

    @property
    def given(self) -> Delay | float:
        """The delay in the form that kernels process fastest: a number of seconds, if it is constant."""
        return self.a if self.kind == "fixed" else self


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTiming:
    """Durations of the model; `links` by ``a-b`` where a link differs."""

    message: Delay = Delay(a=0.0002)
    links: Mapping[str, Delay] = field(default_factory=dict)
    flush: Delay = Delay(a=0.0005)
    statement: Delay = Delay(a=0.0001)
    apply: Delay = Delay(a=0.0001)
    restart: Delay = Delay(a=0.5)
    deadlock_timeout: Delay = Delay(a=1.0)


class SqlError(Exception):
    """An error of a server: an SQLSTATE and the fields of its report."""

    def __init__(
        self, sqlstate: str, message: str, *, detail: str = "", hint: str = "",
        constraint: str = "", context: str = "",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        """In a refusal by the product: facts as JSON, which `twopc.errors.conflict_facts` reads."""
        self.hint = hint
        self.constraint = constraint
        self.context = context
        """Where the error occurred; names dblink if it came over a link."""


class RequestLostError(Exception):
    """The connection is lost; the request may have been executed or not."""


class UnsupportedError(Exception):
    """A statement has a part that the model lacks; it is refused rather than given a wrong result."""

    def __init__(self, text: str, what: str) -> None:
        super().__init__(f"the model does not know {what}: {text}")
        self.text = text
        self.what = what
        self.path: tuple[str | int, ...] = ()
        """Place in the specification, if the text comes from there."""


class StatementResult(NamedTuple):
    """The result of a statement."""

    tag: str
    rowcount: int = -1
    names: tuple[str, ...] = ()
    rows: tuple[Values, ...] | None = None
    """None for a statement that returns no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """A session's wait for a transaction."""

    xid: int
    """Id of the waiting top-level transaction."""
    holder: int
    """Id of the blocking transaction."""
    pid: int
    holder_pid: int
    """Pid of the blocking session; 0 for a prepared branch."""
    holder_gid: str
    what: str
    """Description: ``a row of account``, ``ShareLock on transactionid account``."""
    since: float


class RowChange(NamedTuple):
    """The change of a row by a transaction."""

    table: str
    """Name, with the schema unless that is public: ``schema.table``."""
    operation: Literal["ins", "upd", "del"]
    old: Values | None
    new: Values | None


class CommittedTransaction(NamedTuple):
    """A committed transaction in the node's WAL, in commit order."""

    lsn: int
    end_lsn: int
    xid: int
    time_us: int
    """Microseconds since 2000-01-01 by the node's clock."""
    gid: str
    """Gid of the branch, if it was prepared."""
    changes: tuple[RowChange, ...]
    """Changes in order, including rows of ``msrepl.branch_marker``, ``msrepl.log_message`` and
    ``msrepl.call_marker``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerRow:
    """A row of a node's branch markers."""

    gid: str
    xid: int
    participants: tuple[str, ...] = ()
    originator: str | None = None
    calls: int = 0
    pending: bool = False
    fence: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """A table as a scenario declares it, with the fields of `twopc.sim.scenario.model.ScenarioTable`."""

    name: str
    columns: Mapping[str, str]
    """Type and constraints of each column, as SQL."""
    key: tuple[str, ...]
    """The primary key, unless a column's own text declares it."""
    sql: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    published: tuple[str, ...] = ()
    filter: str = ""
    propagate: Mapping[str, Any] = field(default_factory=dict)
    procedures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureSpec:
    """A routine whose execution is published, with the fields of `twopc.sim.scenario.procedures.Procedure`."""

    name: str
    body: str
    type: str = "serializable proc exec"
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    xact_abort: bool = True
    at_subscribers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberSpec:
    """The specification of one Subscriber."""

    name: str
    joins_later: bool = False
    """Whether the node subscribes during the run, by `System.subscribe`."""
    sync: str = "automatic"
    update: str = "sync tran"
    any_client: bool = False
    """Whether clients without a coordinator may change subscribed tables."""
    streams: int = 1
    batch: int = 100
    skip_errors: tuple[str, ...] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    sql: tuple[str, ...] = ()


#: Default reading of nodes' clocks when a run begins, in seconds since 1970.
BEGAN_S = 1_767_225_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The specification from which a model is built; `twopc.sim.scenario.model_setup` makes it from a scenario."""

    publisher: str
    subscribers: tuple[SubscriberSpec, ...]
    tables: tuple[TableSpec, ...]
    procedures: tuple[ProcedureSpec, ...] = ()
    shipping: str = "eager"
    commit: str = "presumed_abort"
    distributes: bool = True
    lock_timeout_s: float = 5.0
    in_doubt_after_s: float = 5.0
    recovery_interval_s: float = 1.0
    markers_kept_s: float = 60.0
    """Seconds for which branch markers are kept once all branches have ended."""
    prepared_max: int = PREPARED_MAX
    one_server: bool = False
    """Whether the nodes are databases of one server and share its max_prepared_transactions."""
    timing: ModelTiming = ModelTiming()
    seed: int = 0
    began_s: float = BEGAN_S
    """Reading of the nodes' clocks when a run begins."""
    coordinator: str = "model"
    setup: tuple[str, ...] = ()
    """SQL executed at the Publisher after all subscriptions are created."""
    agent_poll_s: float = 0.0
    """Interval at which agents poll; 0: they work only in a sync."""
