"""The node: one server with one database; puts heap, locks, log and sessions together.

Implements `twopc.sim.model.ports.NodePort`. What a crash leaves is in `crash`, what a statement means in `twopc.sim.model.sql`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from twopc.protocol import Participant
from twopc.protocol.variants import Settings
from twopc.sim.model.clocks import Clock, right
from twopc.sim.model.node import crash, inspection, prepared_transactions
from twopc.sim.model.node.advisory import Advisory
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.locks import Locks
from twopc.sim.model.node.prepared_transactions import PreparedTransaction
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.snapshots import CommitSnapshot
from twopc.sim.model.node.ssi import Ssi
from twopc.sim.model.node.transactions import ABORTED, COMMITTED, TopXact, Xact
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.node.wal import Wal, WalRecord
from twopc.sim.model.ports import Kernel, Trigger
from twopc.sim.model.sql.plans import StatementPlans
from twopc.sim.model.values import (
    CommittedTransaction,
    LockWait,
    MarkerRow,
    ModelTiming,
    RequestLostError,
    SqlError,
    Steps,
    Values,
)  # fmt: skip
from twopc.waits import OpenTransaction as WaitRow

#: Where each branch that has ended leaves a row.
MARKERS = "msrepl.branch_marker"
#: Our own tables, which every node has.
OWN_TABLES = (
    "create table msrepl.branch_marker (gid text primary key, xid bigint not null unique, "
    "participants text[] not null, originator text, calls integer not null default 0, prior bigint, "
    "pending text, fence boolean not null default false, created_at timestamptz not null default now())",
    "create table msrepl.log_message (id bigint generated always as identity primary key, "
    "kind text not null, body jsonb not null, created_at timestamptz not null default now())",
)
#: Old rows are thrown away so many commits at a time.
PRUNE_AT = 64
_PID_MIN, _PIDS = 1000, 1_000_000


class ModelNode:
    """A server."""

    def __init__(
        self, name: str, kernel: Kernel, *, timing: ModelTiming, clock: Callable[[], float],
        lock_timeout_s: float, prepared_max: int, participant: type[Participant], settings: Settings,
        sessions_max: int = 10_000,
    ) -> None:  # fmt: skip
        """An empty node.

        Args:
            clock: seconds since 1970 as this node's clock has it; timeouts go by it, too.
            lock_timeout_s: where no SET says otherwise; 0: none.
            participant: the machine of a branch; a plant puts another one here.
        """
        self.name = name
        self.kernel = kernel
        self.timing = timing
        self.clock = clock
        self.lasts = clock.lasts if isinstance(clock, Clock) else right
        """How long it really takes until its clock has counted so many seconds."""
        self.lock_timeout_s = lock_timeout_s
        self.prepared_max = prepared_max
        self.slots_taken: Callable[[], int] = lambda: len(self.branches)
        """How many prepared transactions its server has: more than its own, if others are there too."""
        self.participant = participant
        self.settings = settings
        self.up = True
        self.superusers = {"postgres"}
        self.replicators: set[str] = set()
        """Roles that may set session_replication_role, besides superusers."""
        self.started = clock()
        self.commit_no = 1
        """Number of the last commit that others see."""
        self.tables: dict[str, HeapTable] = {}
        self.functions: dict[str, Callable[..., Steps[Any]]] = {}
        self.procedures: dict[str, Any] = {}
        """Functions written in SQL and PL/pgSQL, by name."""
        self.on_commit: Callable[[TopXact], None] | None = None
        """Told of each transaction that has changed something, as others begin to see it."""
        self.on_notice: Callable[[], None] | None = None
        """Who listens: is told of every commit that notifies, on whatever channel."""
        self.keeps_snapshots = False
        """Somebody will ask what a transaction has seen."""
        self.branches: dict[str, prepared_transactions.PreparedTransaction] = {}
        self.open: dict[TopXact, None] = {}
        self.sessions: dict[int, NodeSession] = {}
        self.advisory = Advisory()
        self.ssi = Ssi()
        self._next_xid = 740
        self._pids: set[int] = set()
        self._sessions_max = sessions_max
        self._prune_at = PRUNE_AT
        self._retired: deque[tuple[int, int, list[Any]]] = deque()
        self.locks = Locks(name, kernel, timing.deadlock_timeout)
        self.locks.assign = self.assign
        self.locks.lasts = self.lasts
        self.wal = Wal(name, kernel, timing.flush, self._settled)
        self.plans = StatementPlans(self)
        for text in OWN_TABLES:
            self.define(text)

    # -- definition ----------------------------------------------------------------------------------

    def define(self, sql: str, by: NodeSession | None = None) -> None:
        """DDL and other statements as superuser, outside of time: for setting up. SqlError

        Args:
            by: whose settings hold, and stay.
        """
        self.plans.define(sql, by)

    def outside(self, work: Callable[[OpenTx], Steps[Any]], what: str) -> Any:
        """A transaction of a superuser's, outside of time: for setting up. SqlError

        Args:
            what: it is, for the error that it would have to wait.
        """
        session = self.connect("postgres", what)
        tx = session.begin()
        try:
            result = _at_once(work(tx), what)
            _at_once(session.before_commit(), what)
            session.forget()
            record = self.record("commit", tx.top) if tx.xid else None
            if record is not None:
                self.wal.settle()
            self.finish(tx.top, record)
        finally:
            session.close()
        return result

    def add_trigger(self, table: str, trigger: Trigger) -> None:
        """It fires in the order of names among its kind."""
        there = self.table(table)
        there.triggers.append(trigger)
        there.triggers.sort(key=lambda one: one.name)
        there.settle()
        self.plans.forget()

    def add_function(self, name: str, function: Callable[..., Steps[Any]]) -> None:
        """``select name(…)`` and ``call name(…)`` run ``function(tx, *arguments)``."""
        self.functions[name] = function
        self.plans.forget()

    def table(self, name: str) -> HeapTable:
        """42P01"""
        result = self.tables.get(name) or self.tables.get(name.removeprefix("public."))
        if result is None:
            raise SqlError("42P01", f'relation "{name}" does not exist')
        return result

    # -- sessions ------------------------------------------------------------------------------------

    def connect(self, role: str, application_name: str) -> NodeSession:
        """LostError if it is down; 53300 if full."""
        if not self.up:
            raise RequestLostError(f"{self.name} is down")
        if len(self.sessions) >= self._sessions_max:
            raise SqlError("53300", "sorry, too many clients already")
        session = NodeSession(self, self._pid(), role, application_name)
        self.sessions[session.pid] = session
        self._tell_of(session)
        return session

    def _tell_of(self, session: NodeSession) -> None:
        """It has come, or goes: whoever looks at them all, or ends them, counts as one who changes them."""
        for what in ("sessions", f"sessions {session.application_name}"):
            self.tell(what, changed=False)

    def _pid(self) -> int:
        """Of a new session: one that no other has had. Where somebody explores it is the same in equivalent runs."""
        pids, pid = self._pids, _PID_MIN + self.kernel.stretch % _PIDS
        if self.kernel.watch is None:
            pid = _PID_MIN + len(pids) + 1
        while pid in pids:
            pid += 1
        pids.add(pid)
        return pid

    def gone(self, session: NodeSession) -> None:
        """A session has ended."""
        self.sessions.pop(session.pid, None)
        self._tell_of(session)
        self.advisory.session_gone(session)

    # -- transactions --------------------------------------------------------------------------------

    def assign(self, xact: Xact) -> None:
        """A number for a (sub)transaction that writes, and for those that it is in."""
        if xact.parent is None:
            if not xact.xid:
                xact.xid = self._next_xid
                self._next_xid += 1
            return
        chain = []
        one: Xact | None = xact
        while one is not None and not one.xid:
            chain.append(one)
            one = one.parent
        for one in reversed(chain):
            one.xid = self._next_xid
            self._next_xid += 1

    @property
    def next_xid(self) -> int:
        """No transaction has this number or a higher one."""
        return self._next_xid

    def running(self, xid: int) -> TopXact | None:
        """Who has a number and is not over."""
        for top in self.open:
            if top.xid == xid:
                return top
        return None

    def touched(self) -> None:
        """Rows or locks are changed: the search is notified."""
        if self.kernel.watch is not None:
            self.kernel.watch(f"at {self.name}", True)
            self.kernel.watch(f"given up at {self.name}", True)

    def tell_committed(self) -> None:
        """Something is committed, or rolled back in the log: likewise."""
        if self.kernel.watch is not None:
            self.kernel.watch(f"at {self.name}", True)

    def looked(self) -> None:
        """Rows are looked at; what does that in several orders finds the same."""
        if self.kernel.watch is not None:
            self.kernel.watch(f"at {self.name}", False)
            self.kernel.watch(f"given up at {self.name}", False)

    def tell(self, what: str, *, changed: bool) -> None:
        """Something else is looked at, or changed: ``branches``, ``sessions twopc recovery``."""
        if self.kernel.watch is not None:
            self.kernel.watch(f"{what} at {self.name}", changed)

    def record(self, kind: str, top: TopXact) -> WalRecord:
        """A commit or rollback in the log."""
        self.tell_committed()
        record = top.record = self.wal.append(kind, top, len(top.changes))
        if kind != "rollback_prepared":
            record.changes, record.gid, record.xid = top.changes, top.gid, top.xid
            record.time_s = self.clock()
        return record

    def finish(self, top: TopXact, record: WalRecord | None) -> None:
        """It is committed: others see it, and what waits for it goes on."""
        if record is not None and self.kernel.watch is not None:
            self.tell_committed()
            for table, _, old, new in top.changes:
                if table.name == MARKERS:
                    self.tell(f"markers of {_epoch((new or old)[0])}", changed=True)
        top.state = COMMITTED
        top.record = None
        if record is not None and self.on_commit is not None:
            self.on_commit(top)
        if record is not None:
            self.commit_no += 1
            top.commit_no = self.commit_no
            top.lsn = record.end_lsn
            if top.rows:
                self._retired.append((self.commit_no, record.end_lsn, top.rows))
        self._over(top)
        if top.notified and self.on_notice is not None:
            self.on_notice()
        if len(self._retired) >= self._prune_at:
            self._prune()
            # looking at who is open must not cost every commit
            self._prune_at = len(self._retired) + max(PRUNE_AT, len(self.open))

    def give_up(self, top: TopXact) -> None:
        """It is rolled back."""
        self.locks.take_back(top)
        top.state = ABORTED
        top.record = None
        top.changes.clear()
        top.deferred.clear()
        self._over(top)

    def _over(self, top: TopXact) -> None:
        self.open.pop(top, None)
        if top.ssi is not None:
            self.ssi.end(top)
        self.locks.release(top)
        if top.tables:
            for name in top.tables:
                table = self.tables.get(name)
                if table is not None:
                    self.locks.release_table(top, table)
        if top.advisory:
            self.advisory.over(top)
        top.rows = []

    def _settled(self, durable: int) -> None:
        """The log is durable so far."""

    def _prune(self) -> None:
        horizon = min((top.horizon for top in self.open), default=self.commit_no)
        durable, retired = self.wal.durable, self._retired
        while retired and retired[0][0] <= horizon and retired[0][1] <= durable:
            for row in retired.popleft()[2]:
                row.table.prune(row, horizon)

    # -- ports.Node: looking -------------------------------------------------------------------------

    def rows(self, table: str, columns: Sequence[str]) -> list[dict[str, str | None]]:
        """What is committed, by key, every value as PostgreSQL's text."""
        return inspection.rows(self, table, columns)

    def xids(self, table: str) -> list[int]:
        """The transactions that wrote the rows of `rows`."""
        return inspection.xids(self, table)

    def markers(self, *gids: str) -> list[MarkerRow]:
        """Rows of the branch markers, committed.

        Args:
            gids: or how they begin: whose markers are looked for. What is found of other epochs does not matter.
        """
        for gid in gids:
            self.tell(f"markers of {_epoch(gid)}", changed=False)
        if not gids:
            self.looked()
        return inspection.markers(self)

    def prepared(self) -> dict[str, prepared_transactions.PreparedTransaction]:
        """By gid, oldest first: each with `owner`, `prepared_at`, `xid`."""
        self.tell("branches", changed=True)  # see `prepared_transactions.Branch.changed`
        return {gid: branch for gid, branch in self.branches.items() if branch.valid}

    def prepared_by(self, owner: str) -> list[PreparedTransaction]:
        """Those of a role, oldest first."""
        self.tell(f"branches of {owner}", changed=True)
        return [one for one in self.branches.values() if one.valid and one.owner == owner]

    def branch(self, gid: str) -> PreparedTransaction | None:
        """One of them, if it is prepared."""
        self.tell(f"branch {gid}", changed=False)
        result = self.branches.get(gid)
        return result if result is not None and result.valid else None

    def fence(self, gid: str, sites: Sequence[str]) -> Steps[str]:
        """``msrepl.fence_branch``: ``prepared``, ``committed`` or ``fenced``; 55P03 while it is under way."""
        return (yield from prepared_transactions.fence(self, gid, tuple(sites)))

    def log(self, after_lsn: int) -> Sequence[CommittedTransaction]:
        """What was committed after a position, in commit order, durable only."""
        return inspection.log(self, after_lsn)

    def waits(self) -> list[LockWait]:
        """Who waits for whom now."""
        return inspection.waits(self)

    def wait_rows(self) -> list[WaitRow]:
        """The same as rows of `twopc.waits`."""
        return inspection.wait_rows(self)

    def snapshot_text(self) -> str:
        """``xmin:xmax:running`` as pg_current_snapshot() gives it now."""
        return inspection.snapshot_text(self, self._next_xid)

    def see(self) -> CommitSnapshot:
        """What is committed now, for a copy."""
        return CommitSnapshot(self.commit_no, None, 0)

    # -- ports.Node: going down and up ---------------------------------------------------------------

    def crash(self, kept_lsn: int | None = None) -> None:
        """Sessions die; the log is cut at `kept_lsn` (None: at what is durable)."""
        crash.crash(self, kept_lsn)

    def restart(self) -> Steps[None]:
        """Until it takes connections again."""
        yield from crash.restart(self)

    def trim(self, lsn: int) -> None:
        """Nobody will ask for the log before a position."""
        self.wal.trim(lsn)

    def digest(self) -> int:
        """Of everything that can still matter."""
        return inspection.digest(self)

    # -- rows without SQL ----------------------------------------------------------------------------

    def complete(self, tx: Any, table: HeapTable, values: Values) -> Values:
        """A row with the defaults of the columns that were left out at its end."""
        left = table.columns[len(values) :]
        if left:
            values = (*values, *[self.default(tx, table, column) for column in left])
        return self.generated(table, values) if table.computed else values

    def default(self, tx: Any, table: HeapTable, column: Any) -> Any:
        """What a column holds where nothing is said."""
        if column.draws is not None:
            return column.draws()
        if column.identity:
            value, column.next = column.next, column.next + 1
            return value
        return column.default(tx) if column.default is not None else None

    def generated(self, table: HeapTable, values: Values) -> Values:
        """A row with its generated columns computed."""
        if table.computed:
            row = list(values)
            for place, column in enumerate(table.columns):
                if column.generated is not None:
                    row[place] = column.generated(values)
            return tuple(row)
        return values


def _epoch(gid: str) -> str:
    """Whose transactions are called so."""
    return ":".join(gid.split(":")[:3])


def _at_once(steps: Steps[Any], what: str) -> Any:
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value
    steps.close()
    raise SqlError("55P03", f"it would have to wait: {what}")


__all__ = ["ModelNode"]
