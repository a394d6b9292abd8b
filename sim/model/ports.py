"""What the parts of the model ask of each other."""

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
    """Time, chance and processes. In choice mode labelled delays are picked by a chooser."""

    @property
    def env(self) -> simpy.Environment:
        """simpy's, or one like it."""
        ...

    @property
    def labelled(self) -> bool:
        """Labels are read; where they are not, who waits often may give the same one again and again."""
        ...

    @property
    def stretch(self) -> int:
        """The name of what happens now, where somebody explores; the same in equivalent runs."""
        ...

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        ...

    def delay(self, duration: Delay | float, label: Label) -> simpy.Event:
        """An event that comes after `duration`; drawn from ``random(label.actor)``."""
        ...

    watch: Callable[[str, bool], None] | None
    """Is told what is looked at, and (True) what is changed, where somebody wants to know what depends on what."""

    def event(self) -> simpy.Event:
        """One that somebody succeeds or fails; it has no label, and runs at once when it does."""
        ...

    def spawn(self, steps: Steps[Any], name: str) -> simpy.Process:
        """Run it; in choice mode its inputs are digested."""
        ...

    def random(self, name: str) -> random.Random:
        """The chance of one component: the same for the same seed and name."""
        ...

    def forget(self, name: str) -> None:
        """A component is no more: its chance may go."""
        ...

    def cancel(self, event: simpy.Event) -> None:
        """A delay is not wanted any more (a timer, a lock timeout)."""
        ...


class RecorderPort(Protocol):
    """Where the model tells what happens; the stage makes history records of it, the bench writes lines."""

    def write(self, kind: str, **fields: Any) -> Any:
        """As `twopc.sim.report.history.History.write`."""
        ...

    def drew(self, name: str, value: Any) -> None:
        """A parameter that was drawn: it goes into ``env.json``."""
        ...


class Tx(Protocol):
    """An open transaction of one node, for triggers and procedures."""

    xid: int
    """Top transaction; assigned at its first write."""
    level: Level
    session_user: str
    replica: bool
    """session_replication_role is replica."""
    settings: dict[str, str]
    """SET LOCAL; rolls back with savepoints."""
    node: NodePort

    def run(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """One SQL statement."""
        ...

    # Rows without SQL, for the meaning of our own triggers and procedures. Each waits as its SQL would.
    def lock(self, table: str, key: Values) -> Steps[Values | None]:
        """``select … for update`` by key, re-checked: the newest row, None if there is none."""
        ...

    def get(self, table: str, key: Values) -> Values | None:
        """By key, as this statement sees it."""
        ...

    def insert(self, table: str, row: Values) -> Steps[Values]:
        """Defaults and constraints included; what was stored."""
        ...

    def update(
        self, table: str, key: Values, new: Values, when: Callable[[Values], bool]
    ) -> Steps[Values | None]:
        """Where the row's newest version satisfies `when`; what was stored, None if nothing matched."""
        ...

    def delete(self, table: str, key: Values, when: Callable[[Values], bool]) -> Steps[bool]:
        """Likewise."""
        ...

    def savepoint(self, name: str) -> None: ...
    def rollback_to(self, name: str) -> None: ...
    def release(self, name: str) -> None: ...

    def wait_for(self, xid: int, what: str) -> Steps[None]:
        """Until another transaction is over (msrepl.await_branches); 55P03, 40P01."""
        ...


class Trigger(Protocol):
    """Fires in the order of names among its kind, as PostgreSQL does."""

    name: str
    when: str
    """``before row``, ``after rows`` (all of a statement, before what each causes), ``after row``, ``after statement``,
    ``deferred``."""
    operations: frozenset[str]
    fires: str
    """``origin``, ``always``, ``replica`` or ``disabled``."""

    def fire(
        self, tx: Tx, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """`changes`: one for a row trigger, all for a statement's. A BEFORE trigger returns what to store."""
        ...


class NodeSessionPort(Protocol):
    """A connection of one role to one node; statements one at a time. Raises SqlError, LostError."""

    pid: int
    application_name: str

    def execute(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """One statement, BEGIN … PREPARE TRANSACTION … ROLLBACK TO among them."""
        ...

    def cancel(self) -> None:
        """57014 in what runs."""
        ...

    def terminate(self) -> None:
        """57P01; the open transaction is rolled back, a prepared one stays."""
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
        """LostError (08006) if it is down; 53300 if full."""
        ...

    def table(self, name: str) -> Any:
        """`heap.Table`: columns, key, uniques, triggers, `rows()` committed."""
        ...

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, str | None]]:
        """What is committed, by key, every value as PostgreSQL's text."""
        ...

    def markers(self) -> list[MarkerRow]: ...
    def prepared(self) -> dict[str, Any]: ...

    def fence(self, gid: str, sites: Sequence[str]) -> Steps[str]:
        """``msrepl.fence_branch``: ``prepared``, ``committed`` or ``fenced``; 55P03 while it is under way."""
        ...

    def log(self, after_lsn: int) -> Sequence[CommittedTransaction]:
        """What was committed after a position, in commit order, durable only."""
        ...

    def waits(self) -> list[LockWait]: ...
    def wait_rows(self) -> list[WaitRow]:
        """The same as rows of `twopc.waits`."""
        ...

    def crash(self, kept_lsn: int | None = None) -> None:
        """Sessions die; the log is cut at `kept_lsn` (None: at what is durable)."""
        ...

    def restart(self) -> Steps[None]: ...
    def digest(self) -> int:
        """Of everything that can still matter (for visited states)."""
        ...


class ModelClient(Protocol):
    """A client of the model: the shape of `twopc.sim.sessions.interface.ClientSession`, as steps."""

    node: str
    gid: str
    pid: int

    def begin(self, level: Level) -> Steps[None]: ...
    def execute(self, text: str, params: Mapping[str, Any]) -> Steps[StatementResult]: ...
    def commit(self) -> Steps[None]:
        """Raises `twopc.errors.TransactionError`, as every method here."""
        ...

    def rollback(self) -> Steps[None]: ...
    def cancel(self) -> None: ...


class Model(Protocol):
    """A built system."""

    kernel: Kernel
    nodes: Mapping[str, NodePort]
    points: Any
    """`twopc.drivers.points.Points`: what is armed here acts at effect boundaries."""

    def session(self, name: str, node: str) -> ModelClient: ...
    def sync(self, subscribers: Sequence[str]) -> Steps[Any]:
        """Log reader and agents to a position; deliveries are told to the recorder and `take_deliveries`."""
        ...

    def take_deliveries(self) -> list[Any]: ...
    def reinitialise(self, subscriber: str) -> Steps[None]: ...
    def coordinators(self) -> Mapping[str, Any]:
        """By name: each with `crash()`, `restart()`, `pause()`, `go_on()`, `recover() -> Steps`."""
        ...

    def cut(self, a: str, b: str, *, one_way: bool = False, silent: bool = False) -> None: ...
    def heal(self, a: str, b: str) -> None: ...
    def agent(self, subscriber: str) -> Any:
        """`pause()`, `resume()`, `crash()`."""
        ...

    def finish_by_hand(self, node: str, gid: str, outcome: Outcome) -> Steps[None]: ...
    def quiet(self) -> bool:
        """Nothing is open, in doubt or under way."""
        ...

    def digest(self) -> int: ...
