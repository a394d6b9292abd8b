"""Interfaces between the parts of the model."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import simpy

from twopc.protocol.effects import Outcome
from twopc.sim.model.values import (
    CommittedTransaction,
    Delay,
    Label,
    Level,
    LockWait,
    MarkerRow,
    RowChange,
    StatementResult,
    Steps,
    Values,
)  # fmt: skip
from twopc.waits import OpenTransaction as WaitRow


class Kernel(Protocol):
    """Time, random values and processes. During a search, a chooser picks among labelled delays."""

    @property
    def env(self) -> simpy.Environment:
        """The simpy environment, or one with the same interface."""
        ...

    @property
    def labelled(self) -> bool:
        """Whether labels are read; if not, a frequent caller may reuse one label."""
        ...

    @property
    def stretch(self) -> int:
        """The name of the current stretch, equal in equivalent runs of a search."""
        ...

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        ...

    def delay(self, duration: Delay | float, label: Label) -> simpy.Event:
        """Return an event that comes after `duration`, drawn from ``random(label.actor)``."""
        ...

    watch: Callable[[str, bool], None] | None
    """Called with each object that is read or (True) changed, if a search records dependencies."""

    def event(self) -> simpy.Event:
        """Return an event to be succeeded or failed; it has no label, and its waiters continue at once."""
        ...

    def spawn(self, steps: Steps[Any], name: str) -> simpy.Process:
        """Start steps as a process."""
        ...

    def random(self, name: str) -> random.Random:
        """Return the random source of a component: equal for equal seed and name."""
        ...

    def forget(self, name: str) -> None:
        """Discard the random source of a component that has ended."""
        ...

    def cancel(self, event: simpy.Event) -> None:
        """Cancel a delay (a timer, a lock timeout)."""
        ...


class RecorderPort(Protocol):
    """Receives what happens in the model; the stage makes history records of it, the bench writes lines."""

    def write(self, kind: str, **fields: Any) -> Any:
        """Record an event; see `twopc.sim.report.history.History.write`."""
        ...

    def drew(self, name: str, value: Any) -> None:
        """Record a parameter that was drawn, for ``env.json``."""
        ...


class Tx(Protocol):
    """An open transaction of one node, for triggers and procedures."""

    xid: int
    """Id of the top-level transaction, assigned at its first write."""
    level: Level
    session_user: str
    replica: bool
    """Whether session_replication_role is replica."""
    settings: dict[str, str]
    """Values of SET LOCAL, which roll back with savepoints."""
    node: NodePort

    def run(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """Execute one SQL statement."""
        ...

    # Rows without SQL, for the product's own triggers and procedures. Each method waits as its SQL would.
    def lock(self, table: str, key: Values) -> Steps[Values | None]:
        """Execute ``select … for update`` by key, with the re-check; return the newest row, None if there is none."""
        ...

    def get(self, table: str, key: Values) -> Values | None:
        """Return a row by key, as this statement sees it."""
        ...

    def insert(self, table: str, row: Values) -> Steps[Values]:
        """Insert a row, with defaults and constraints, and return the stored values."""
        ...

    def update(
        self, table: str, key: Values, new: Values, when: Callable[[Values], bool]
    ) -> Steps[Values | None]:
        """Replace a row if its newest version satisfies `when`; return the stored values, None if it does not."""
        ...

    def delete(self, table: str, key: Values, when: Callable[[Values], bool]) -> Steps[bool]:
        """Delete a row if its newest version satisfies `when`; whether it was deleted."""
        ...

    def savepoint(self, name: str) -> None: ...
    def rollback_to(self, name: str) -> None: ...
    def release(self, name: str) -> None: ...

    def wait_for(self, xid: int, what: str) -> Steps[None]:
        """Wait until another transaction has ended (msrepl.await_branches). Raise 55P03 or 40P01."""
        ...


class Trigger(Protocol):
    """A trigger; those of one kind fire in the order of their names, as in PostgreSQL."""

    name: str
    when: str
    """One of ``before row``, ``after rows`` (for all rows of a statement, before the effects of each), ``after
    row``,
    ``after statement``, ``deferred``.
    """
    operations: frozenset[str]
    fires: str
    """One of ``origin``, ``always``, ``replica`` or ``disabled``."""

    def fire(
        self, tx: Tx, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Fire the trigger: `changes` has one change for a row trigger, all for a statement's.

        A BEFORE trigger returns the changes to store.
        """
        ...


class NodeSessionPort(Protocol):
    """A connection of one role to one node; one statement at a time. Raises SqlError and RequestLostError."""

    pid: int
    application_name: str

    def execute(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """Execute one statement, including BEGIN, PREPARE TRANSACTION and ROLLBACK TO."""
        ...

    def cancel(self) -> None:
        """Cancel the running statement (57014)."""
        ...

    def terminate(self) -> None:
        """End the session (57P01); its open transaction is rolled back, a prepared one stays."""
        ...

    @property
    def in_transaction(self) -> bool: ...
    @property
    def failed(self) -> bool: ...


class NodePort(Protocol):
    """A server with one database."""

    name: str
    up: bool

    def connect(self, role: str, application_name: str) -> NodeSessionPort:
        """Open a session. Raise RequestLostError (08006) if the node is down, 53300 if it has too many sessions."""
        ...

    def table(self, name: str) -> Any:
        """Return a `heap.HeapTable`: columns, key, uniques, triggers, and committed `rows()`."""
        ...

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, str | None]]:
        """Return the committed rows ordered by key, with every value as PostgreSQL's text."""
        ...

    def markers(self) -> list[MarkerRow]: ...
    def prepared(self) -> dict[str, Any]: ...

    def fence(self, gid: str, sites: Sequence[str]) -> Steps[str]:
        """Fence a branch like ``msrepl.fence_branch``: ``prepared``, ``committed`` or ``fenced``; 55P03 while it is
        running.
        """
        ...

    def log(self, after_lsn: int) -> Sequence[CommittedTransaction]:
        """Return the transactions committed after a position in commit order, as far as the WAL is durable."""
        ...

    def waits(self) -> list[LockWait]: ...
    def wait_rows(self) -> list[WaitRow]:
        """Return the present waits as rows of `twopc.waits`."""
        ...

    def crash(self, kept_lsn: int | None = None) -> None:
        """Stop the node: sessions end, and the WAL is cut at `kept_lsn` (None: at its durable end)."""
        ...

    def restart(self) -> Steps[None]: ...
    def digest(self) -> int:
        """Return a digest of all state that can affect the rest of the run (for visited states)."""
        ...


class ModelClient(Protocol):
    """A client of the model: the interface of `twopc.sim.sessions.interface.ClientSession`, as steps."""

    node: str
    gid: str
    pid: int

    def begin(self, level: Level) -> Steps[None]: ...
    def execute(self, text: str, params: Mapping[str, Any]) -> Steps[StatementResult]: ...
    def commit(self) -> Steps[None]:
        """Commit. Like every method here, raises `twopc.errors.TransactionError`."""
        ...

    def rollback(self) -> Steps[None]: ...
    def cancel(self) -> None: ...


class Model(Protocol):
    """A built system."""

    kernel: Kernel
    nodes: Mapping[str, NodePort]
    points: Any
    """A `twopc.drivers.points.Points`: faults armed here act at effect boundaries."""

    def session(self, name: str, node: str) -> ModelClient: ...
    def sync(self, subscribers: Sequence[str]) -> Steps[Any]:
        """Let log reader and agents reach a position; deliveries go to the recorder and `take_deliveries`."""
        ...

    def take_deliveries(self) -> list[Any]: ...
    def reinitialise(self, subscriber: str) -> Steps[None]: ...
    def coordinators(self) -> Mapping[str, Any]:
        """Return the coordinators by name, each with `crash()`, `restart()`, `pause()`, `go_on()`, `recover() ->
        Steps`.
        """
        ...

    def cut(self, a: str, b: str, *, one_way: bool = False, silent: bool = False) -> None: ...
    def heal(self, a: str, b: str) -> None: ...
    def agent(self, subscriber: str) -> Any:
        """Return a Subscriber's agent, with `pause()`, `resume()`, `crash()`."""
        ...

    def finish_by_hand(self, node: str, gid: str, outcome: Outcome) -> Steps[None]: ...
    def quiet(self) -> bool:
        """Whether no transaction, branch or delivery is open, in doubt or running."""
        ...

    def digest(self) -> int: ...
