"""The values that the model is made of: labels, delays, errors, results, rows of its log, specifications.

Values only; nothing here waits, draws or keeps state. Those that a transaction makes by the dozen are named
tuples: they are made three times as fast as dataclasses.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeVar

import simpy

T = TypeVar("T")
#: Work of the model: yields events to wait for, returns a value. Composed with ``yield from``.
Steps = Generator[simpy.Event, Any, T]
Value = int | float | str | bool | bytes | None | Any  # Decimal, date, datetime, UUID beside these
Values = tuple[Value, ...]
Level = Literal["read committed", "repeatable read", "serializable"]
#: Room for so many prepared transactions at a node, unless somebody says otherwise.
PREPARED_MAX = 64


class Cause(StrEnum):
    """Why somebody waits for time to pass: what a label is about."""

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
    """Names a delay, so that an explorer can choose it and tell what it does not depend on."""

    actor: str
    """The process that goes on after it: ``coordinator:c1:7``, ``session:alice``, ``agent:sub2``."""
    cause: Cause
    what: str
    """In words, for a trace: ``COMMIT PREPARED → sub1``."""
    touches: frozenset[str] = frozenset()
    """What the next stretch of work may read or write: node names, ``log``, ``pub/account/1``. Empty: unknown,
    and so dependent on everything."""


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
        """As kernels take it soonest: a number of seconds, if it is always the same."""
        return self.a if self.kind == "fixed" else self


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTiming:
    """How long things take; by link ``a-b`` where links differ."""

    message: Delay = Delay(a=0.0002)
    links: Mapping[str, Delay] = field(default_factory=dict)
    flush: Delay = Delay(a=0.0005)
    statement: Delay = Delay(a=0.0001)
    apply: Delay = Delay(a=0.0001)
    restart: Delay = Delay(a=0.5)
    deadlock_timeout: Delay = Delay(a=1.0)


class SqlError(Exception):
    """What a server reports: an SQLSTATE and the fields that travel with it."""

    def __init__(
        self, sqlstate: str, message: str, *, detail: str = "", hint: str = "",
        constraint: str = "", context: str = "",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        """JSON facts, as `twopc.errors.conflict_facts` reads them, where it is a refusal of ours."""
        self.hint = hint
        self.constraint = constraint
        self.context = context
        """Where it happened; names dblink if it came over a link."""


class RequestLostError(Exception):
    """The connection is gone; what was asked may or may not have been done."""


class UnsupportedError(Exception):
    """The model does not know this statement; never a wrong answer instead."""

    def __init__(self, text: str, what: str) -> None:
        super().__init__(f"the model does not know {what}: {text}")
        self.text = text
        self.what = what
        self.path: tuple[str | int, ...] = ()
        """Where it stands in the specification, if it stands there."""


class StatementResult(NamedTuple):
    """What a statement returned."""

    tag: str
    rowcount: int = -1
    names: tuple[str, ...] = ()
    rows: tuple[Values, ...] | None = None
    """None for a statement that returns none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWait:
    """A session waits for a transaction."""

    xid: int
    """Who waits (top transaction)."""
    holder: int
    """For whom."""
    pid: int
    holder_pid: int
    """0 for a prepared branch."""
    holder_gid: str
    what: str
    """``a row of account``, ``ShareLock on transactionid account``."""
    since: float


class RowChange(NamedTuple):
    """A row that a committed transaction changed."""

    table: str
    """``schema.table`` outside public."""
    operation: Literal["ins", "upd", "del"]
    old: Values | None
    new: Values | None


class CommittedTransaction(NamedTuple):
    """One transaction in commit order: a row of the node's log."""

    lsn: int
    end_lsn: int
    xid: int
    time_us: int
    """Since 2000-01-01, by the node's clock."""
    gid: str
    """Of the branch, if it was prepared."""
    changes: tuple[RowChange, ...]
    """In order; rows of ``msrepl.branch_marker``, ``msrepl.log_message`` and ``msrepl.call_marker`` among them."""


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
    """A table as a scenario declares it; the same facts that `twopc.sim.scenario.model.ScenarioTable` holds."""

    name: str
    columns: Mapping[str, str]
    """Type and constraints as SQL."""
    key: tuple[str, ...]
    """The primary key, where no column's own text says it."""
    sql: tuple[str, ...] = ()
    rows: tuple[Mapping[str, Any], ...] = ()
    published: tuple[str, ...] = ()
    filter: str = ""
    propagate: Mapping[str, Any] = field(default_factory=dict)
    procedures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureSpec:
    """A routine whose execution is published; the same facts that `twopc.sim.scenario.procedures.Procedure` holds."""

    name: str
    body: str
    type: str = "serializable proc exec"
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    xact_abort: bool = True
    at_subscribers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberSpec:
    """What is said of one Subscriber."""

    name: str
    joins_later: bool = False
    """It subscribes during the run, by `System.subscribe`."""
    sync: str = "automatic"
    update: str = "sync tran"
    any_client: bool = False
    """Clients without a coordinator may change subscribed tables there."""
    streams: int = 1
    batch: int = 100
    skip_errors: tuple[str, ...] = ()
    filters: Mapping[str, str] = field(default_factory=dict)
    sql: tuple[str, ...] = ()


#: What nodes' clocks show when a run begins, where nobody says otherwise: seconds since 1970.
BEGAN_S = 1_767_225_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Everything a model is built from; `twopc.sim.scenario.model_setup` makes it of a scenario."""

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
    """How long branch markers stay once everybody has ended."""
    prepared_max: int = PREPARED_MAX
    one_server: bool = False
    """Nodes are databases of one server as far as it has room for prepared transactions."""
    timing: ModelTiming = ModelTiming()
    seed: int = 0
    began_s: float = BEGAN_S
    """What nodes' clocks show when a run begins."""
    coordinator: str = "model"
    setup: tuple[str, ...] = ()
    """SQL at the Publisher once everything is subscribed."""
    agent_poll_s: float = 0.0
    """0: agents work at syncs only; else they run by themselves and look this often."""
