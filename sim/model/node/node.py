"""The node: one server with one database, composed of heap, locks, WAL and sessions.

Crashes are in `crash`, statements are compiled in `twopc.sim.model.sql`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from twopc.protocol import Participant
from twopc.protocol.variants import Settings
from twopc.sim.model.clocks import Clock, right
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.node import crash as crashes
from twopc.sim.model.node import inspection, prepared_transactions
from twopc.sim.model.node.advisory import Advisory
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.locks import Locks
from twopc.sim.model.node.prepared_transactions import PreparedTransaction
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.session_names import SessionNames
from twopc.sim.model.node.ssi import Ssi
from twopc.sim.model.node.transactions import ABORTED, COMMITTED, TopXact, Xact
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.node.wal import Wal, WalRecord
from twopc.sim.model.ports import Trigger
from twopc.sim.model.sql import parse
from twopc.sim.model.sql.plans import StatementPlans
from twopc.sim.model.values import (
    MarkerRow,
    ModelTiming,
    RequestLostError,
    SqlError,
    Steps,
    Values,
)  # fmt: skip

#: The table into which each branch writes its branch marker.
MARKERS = "msrepl.branch_marker"
#: Tables of this product that every node has.
OWN_TABLES = (
    "create table msrepl.branch_marker (gid text primary key, xid bigint not null unique, "
    "participants text[] not null, originator text, calls integer not null default 0, prior bigint, "
    "pending text, fence boolean not null default false, created_at timestamptz not null default now())",
    "create table msrepl.log_message (id bigint generated always as identity primary key, "
    "kind text not null, body jsonb not null, created_at timestamptz not null default now())",
)
#: Number of commits after which old row versions are removed.
PRUNE_AT = 64
_PID_MIN, _PIDS = 1000, 1_000_000


class ModelNode:
    """A server with one database."""

    def __init__(
        self, name: str, kernel: SimpyKernel, *, timing: ModelTiming, clock: Callable[[], float],
        lock_timeout_s: float, prepared_max: int, participant: type[Participant], settings: Settings,
        sessions_max: int = 10_000,
    ) -> None:  # fmt: skip
        """Create an empty node.

        Args:
            clock: seconds since 1970 by this node's clock, which also measures its timeouts.
            lock_timeout_s: default of lock_timeout in seconds; 0 for none.
            participant: the machine of a branch; a plant may replace it.
        """
        self.name = name
        self.kernel = kernel
        self.timing = timing
        self.clock = clock
        self.lasts = clock.lasts if isinstance(clock, Clock) else right
        """Converts a duration in seconds by the node's clock to virtual time."""
        self.lock_timeout_s = lock_timeout_s
        self.prepared_max = prepared_max
        self.slots_taken: Callable[[], int] = lambda: len(self.branches)
        """Returns the number of prepared transactions of the server, which may have other databases."""
        self.participant = participant
        self.settings = settings
        self.up = True
        self.superusers = {"postgres"}
        self.replicators: set[str] = set()
        """Roles that may set session_replication_role, besides superusers."""
        self.started = clock()
        self.commit_no = 1
        """Number of the last visible commit."""
        self.tables: dict[str, HeapTable] = {}
        self.functions: dict[str, Callable[..., Steps[Any]]] = {}
        self.procedures: dict[str, Any] = {}
        """Routines in SQL and PL/pgSQL, by name."""
        self.on_commit: Callable[[TopXact], None] | None = None
        """Called with each transaction that has changed rows, just before it becomes visible."""
        self.on_notice: Callable[[], None] | None = None
        """Listener for notifications: called at every commit that notifies, on any channel."""
        self.keeps_snapshots = False
        """Whether transactions record their snapshots as text."""
        self.branches: dict[str, prepared_transactions.PreparedTransaction] = {}
        self.open: dict[TopXact, None] = {}
        self.sessions: dict[int, NodeSession] = {}
        self.names = SessionNames(self.notify_access)
        self.advisory = Advisory(self.notify_rows_written)
        self.ssi = Ssi(self.notify_rows_written)
        self.next_xid = 740
        """The next transaction id: no transaction has it or a higher one."""
        self._pids: set[int] = set()
        self._sessions_max = sessions_max
        self._prune_at = PRUNE_AT
        self._retired: deque[tuple[int, int, list[Any]]] = deque()
        self.locks = Locks(name, kernel, timing.deadlock_timeout)
        self.locks.assign = self.assign
        self.locks.lasts = self.lasts
        self.wal = Wal(name, kernel, timing.flush)
        self.plans = StatementPlans(self)
        for text in OWN_TABLES:
            self.define(text)

    # -- definition ----------------------------------------------------------------------------------

    def define(self, sql: str, by: NodeSession | None = None) -> None:
        """Execute DDL and other statements as superuser, outside of virtual time, for setup.

        Args:
            by: the session whose settings apply and are kept; a session of its own if None.

        Raises:
            SqlError: a statement fails, or would have to wait.
        """
        session = by or self.connect("postgres", "definition")
        try:
            for text in parse.statements(sql):
                self._run_outside(session, partial(OpenTx.run, text=text), text)
        finally:
            if by is None:
                session.close()

    def outside(self, work: Callable[[OpenTx], Steps[Any]], what: str) -> Any:
        """Run a superuser's transaction outside of virtual time, for setup. Raise SqlError.

        Args:
            what: name of the work, for the error if it would have to wait.
        """
        session = self.connect("postgres", what)
        try:
            return self._run_outside(session, work, what)
        finally:
            session.close()

    def _run_outside(
        self, session: NodeSession, work: Callable[[OpenTx], Steps[Any]], what: str
    ) -> Any:
        tx = session.begin()
        try:
            result = _at_once(work(tx), what)
            _at_once(session.before_commit(), what)
        except BaseException:
            session.abort()
            raise
        session.forget()
        record = self.record("commit", tx.top) if tx.xid else None
        if record is not None:
            self.wal.settle()
        self.finish(tx.top, record)
        return result

    def add_trigger(self, table: str, trigger: Trigger) -> None:
        """Add a trigger; triggers of one kind fire in the order of their names."""
        there = self.table(table)
        there.triggers.append(trigger)
        there.triggers.sort(key=lambda one: one.name)
        there.settle()
        self.plans.forget()

    def add_function(self, name: str, function: Callable[..., Steps[Any]]) -> None:
        """Add a function: ``select name(…)`` and ``call name(…)`` run ``function(tx, *arguments)``."""
        self.functions[name] = function
        self.plans.forget()

    def table(self, name: str) -> HeapTable:
        """Return the table with a name. Raise 42P01 if it does not exist."""
        result = self.tables.get(name) or self.tables.get(name.removeprefix("public."))
        if result is None:
            raise SqlError("42P01", f'relation "{name}" does not exist')
        return result

    # -- sessions ------------------------------------------------------------------------------------

    def connect(self, role: str, application_name: str) -> NodeSession:
        """Open a session. Raise RequestLostError if the node is down, 53300 if it has too many sessions."""
        if not self.up:
            raise RequestLostError(f"{self.name} is down")
        if len(self.sessions) >= self._sessions_max:
            raise SqlError("53300", "sorry, too many clients already")
        session = NodeSession(self, self._pid(), role, application_name)
        self.sessions[session.pid] = session
        self.names.add(session)
        return session

    def _pid(self) -> int:
        """Return an unused pid for a new session; during a search it is equal in equivalent runs."""
        pids, pid = self._pids, _PID_MIN + self.kernel.stretch % _PIDS
        if self.kernel.record_access is None:
            pid = _PID_MIN + len(pids) + 1
        while pid in pids:
            pid += 1
        pids.add(pid)
        return pid

    def gone(self, session: NodeSession) -> None:
        """Remove a session that has ended."""
        self.sessions.pop(session.pid, None)
        self.names.remove(session)
        self.advisory.session_gone(session)

    # -- transactions --------------------------------------------------------------------------------

    def assign(self, xact: Xact) -> None:
        """Assign a transaction id to a (sub)transaction that writes, and to its parents."""
        if xact.parent is None:
            if not xact.xid:
                xact.xid = self.next_xid
                self.next_xid += 1
            return
        chain = []
        one: Xact | None = xact
        while one is not None and not one.xid:
            chain.append(one)
            one = one.parent
        for one in reversed(chain):
            one.xid = self.next_xid
            self.next_xid += 1

    def running(self, xid: int) -> TopXact | None:
        """Return the open transaction with an id; None if there is none."""
        for top in self.open:
            if top.xid == xid:
                return top
        return None

    def notify_rows_written(self) -> None:
        """Notify the search that rows or locks change."""
        if self.kernel.record_access is not None:
            self.kernel.record_access(f"at {self.name}", True)
            self.kernel.record_access(f"given up at {self.name}", True)

    def notify_commit(self) -> None:
        """Notify the search of a commit, or of a rollback in the WAL."""
        if self.kernel.record_access is not None:
            self.kernel.record_access(f"at {self.name}", True)

    def notify_rows_read(self) -> None:
        """Notify the search that rows are read; reads commute with each other."""
        if self.kernel.record_access is not None:
            self.kernel.record_access(f"at {self.name}", False)
            self.kernel.record_access(f"given up at {self.name}", False)

    def notify_access(self, what: str, *, changed: bool) -> None:
        """Notify the search that other state is read or changed: ``branches``, ``sessions twopc recovery``."""
        if self.kernel.record_access is not None:
            self.kernel.record_access(f"{what} at {self.name}", changed)

    def record(self, kind: str, top: TopXact) -> WalRecord:
        """Append a commit or rollback to the WAL and return its record."""
        self.notify_commit()
        record = top.record = self.wal.append(kind, top, len(top.changes))
        if kind != "rollback_prepared":
            record.changes, record.gid, record.xid = top.changes, top.gid, top.xid
            record.time_s = self.clock()
        return record

    def finish(self, top: TopXact, record: WalRecord | None) -> None:
        """Complete a commit: the transaction becomes visible, and waits for it end."""
        if record is not None and self.kernel.record_access is not None:
            self.notify_commit()
            for table, _, old, new in top.changes:
                if table.name == MARKERS:
                    self.notify_access(f"markers of {_epoch((new or old)[0])}", changed=True)
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
        self._release_all(top)
        if top.notified and self.on_notice is not None:
            self.on_notice()
        if len(self._retired) >= self._prune_at:
            self._prune()
            # the cost of the search for open transactions is spread over many commits
            self._prune_at = len(self._retired) + max(PRUNE_AT, len(self.open))

    def give_up(self, top: TopXact) -> None:
        """Roll a transaction back."""
        self.locks.take_back(top)
        top.state = ABORTED
        top.record = None
        top.changes.clear()
        top.deferred.clear()
        self._release_all(top)

    def _release_all(self, top: TopXact) -> None:
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

    def _prune(self) -> None:
        horizon = min((top.horizon for top in self.open), default=self.commit_no)
        durable, retired = self.wal.durable, self._retired
        while retired and retired[0][0] <= horizon and retired[0][1] <= durable:
            for row in retired.popleft()[2]:
                row.table.prune(row, horizon)

    # -- looking -------------------------------------------------------------------------------------

    rows = inspection.rows
    xids = inspection.xids
    log = inspection.log
    waits = inspection.waits
    wait_rows = inspection.wait_rows
    snapshot_text = inspection.snapshot_text
    digest = inspection.digest

    def markers(self, *gids: str) -> list[MarkerRow]:
        """Return the committed rows of the branch markers.

        Args:
            gids: gids, or their beginnings, of the markers that are needed; those of other epochs do not matter.
        """
        for gid in gids:
            self.notify_access(f"markers of {_epoch(gid)}", changed=False)
        if not gids:
            self.notify_rows_read()
        return inspection.markers(self)

    def prepared(self) -> dict[str, prepared_transactions.PreparedTransaction]:
        """Return the prepared transactions by gid, oldest first, with `owner`, `prepared_at` and `xid`."""
        self.notify_access("branches", changed=True)  # see `PreparedTransaction.notify_change`
        return {gid: branch for gid, branch in self.branches.items() if branch.valid}

    def prepared_by(self, owner: str) -> list[PreparedTransaction]:
        """Return the prepared transactions of a role, oldest first."""
        self.notify_access(f"branches of {owner}", changed=True)
        return [one for one in self.branches.values() if one.valid and one.owner == owner]

    def branch(self, gid: str) -> PreparedTransaction | None:
        """Return the prepared transaction with a gid; None if there is none."""
        self.notify_access(f"branch {gid}", changed=False)
        result = self.branches.get(gid)
        return result if result is not None and result.valid else None

    fence = prepared_transactions.fence

    # -- going down and up ---------------------------------------------------------------------------

    crash = crashes.crash
    restart = crashes.restart

    # -- rows without SQL ----------------------------------------------------------------------------

    def complete(self, tx: Any, table: HeapTable, values: Values) -> Values:
        """Return a row completed by the defaults of the columns that are missing at its end."""
        left = table.columns[len(values) :]
        if left:
            values = (*values, *[self.default(tx, table, column) for column in left])
        return self.generated(table, values) if table.computed else values

    def default(self, tx: Any, table: HeapTable, column: Any) -> Any:
        """Return the default value of a column."""
        if column.draws is not None:
            return column.draws()
        if column.identity:
            value, column.next = column.next, column.next + 1
            return value
        return column.default(tx) if column.default is not None else None

    def generated(self, table: HeapTable, values: Values) -> Values:
        """Return a row with its generated columns computed."""
        if table.computed:
            row = list(values)
            for place, column in enumerate(table.columns):
                if column.generated is not None:
                    row[place] = column.generated(values)
            return tuple(row)
        return values


def _epoch(gid: str) -> str:
    """Return the part of a gid that names the coordinator's epoch."""
    return ":".join(gid.split(":")[:3])


def _at_once(steps: Steps[Any], what: str) -> Any:
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value
    steps.close()
    raise SqlError("55P03", f"it would have to wait: {what}")
