"""Prepared transactions: each is a branch, driven by the participant machine of the protocol.

The machine decides when records are forced and what is answered; this module performs its effects on rows, locks
and WAL. A real server plays this part itself (`twopc.protocol.participant`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol import states
from twopc.protocol.effects import Message, Outcome, RecordKind
from twopc.sim.model.node.transactions import PREPARED, TopXact
from twopc.sim.model.values import RequestLostError, SqlError, Steps

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode
    from twopc.sim.model.node.session import NodeSession
    from twopc.sim.model.node.wal import WalRecord

_BEGUN, _WROTE, _COMMIT, _ABORT = e.WorkBegun(), e.Wrote(), e.CommitTold(), e.AbortTold()
_prepare_event = lru_cache(maxsize=1024)(lambda name: e.PrepareAsked(participants=(name,)))
_logged = lru_cache(maxsize=1024)(lambda record: e.Logged(record=record))
#: Maximum size of a gid in bytes, including its terminator.
GID_MAX = 200


class PreparedTransaction:
    """A prepared transaction, or one that is being prepared."""

    __slots__ = ("answer", "busy", "gid", "machine", "node", "top", "valid")

    def __init__(self, node: ModelNode, gid: str, top: TopXact) -> None:
        self.node = node
        self.gid = gid
        self.top = top
        self.machine = node.participant(node.settings)
        self.valid = False
        """Whether the record of PREPARE TRANSACTION is durable."""
        self.busy = False
        """Whether a session is finishing the transaction."""
        self.answer: Message | None = None
        """The last answer of the machine."""

    @property
    def xid(self) -> int:
        """Transaction id."""
        return self.top.xid

    @property
    def owner(self) -> str:
        """Role that prepared the transaction."""
        return self.top.owner

    @property
    def prepared_at(self) -> float:
        """Time of PREPARE TRANSACTION by the node's clock."""
        return self.top.prepared_at

    def notify_change(self) -> None:
        """Notify the search that the transaction has become prepared, or has ended.

        A reader of several branches counts as a writer of the list, so that changes of single branches depend on
        that reader and not on each other.
        """
        node = self.node
        if node.kernel.record_access is not None:
            node.notify_access(f"branch {self.gid}", changed=True)
            node.notify_access("branches", changed=False)
            node.notify_access(f"branches of {self.owner}", changed=False)

    def process_event(self, event: e.Event) -> Steps[None]:
        """Pass an event to the machine and perform its effects."""
        node, machine = self.node, self.machine
        effects = machine.receive(event, node.clock())
        while effects:
            following = iter(effects)
            effects = ()
            for effect in following:
                if type(effect) is x.Log:
                    kind = effect.record.kind
                    record = self._append(kind)
                    if effect.forced:
                        yield from node.wal.force(record.end_lsn)
                        self._logged(kind, record)
                        # the effects of the forced record come first
                        answer = machine.receive(_logged(effect.record), node.clock())
                        effects = (*answer, *following)
                        break
                    if kind is RecordKind.COMMITTED:
                        # no session waits for the flush; the commit is invisible until then
                        node.kernel.spawn(self._commit_later(record), f"the end of {self.gid}")
                    else:
                        self._logged(kind, record)
                elif type(effect) is x.Send:
                    self.answer = effect.message

    def _append(self, kind: RecordKind) -> WalRecord:
        node, top = self.node, self.top
        if kind is RecordKind.PREPARED:
            record = top.record = node.wal.append("prepare", top, len(top.changes))
            return record
        committed = kind is RecordKind.COMMITTED
        return node.record("commit_prepared" if committed else "rollback_prepared", top)

    def _logged(self, kind: RecordKind, record: WalRecord) -> None:
        """Perform the effects of a record that is in the WAL."""
        node, top = self.node, self.top
        if kind is RecordKind.PREPARED:
            top.record = None
            return
        node.branches.pop(self.gid, None)
        self.notify_change()
        if kind is RecordKind.COMMITTED:
            node.finish(top, record)
        else:
            node.give_up(top)

    def _commit_later(self, record: WalRecord) -> Steps[None]:
        """Commit when the WAL writer has flushed the record; if the node crashes first, the branch stays prepared."""
        node = self.node
        node.wal.soon()
        with suppress(RequestLostError):
            yield from node.wal.reached(record.end_lsn)
            node.branches.pop(self.gid, None)
            self.notify_change()
            node.finish(self.top, record)


def _notify_branch(node: ModelNode, gid: str, *, changed: bool) -> None:
    """Notify the search that one branch is read or changed."""
    if node.kernel.record_access is not None:
        node.notify_access(f"branch {gid}", changed=changed)
        # slots may not suffice for all sessions
        if node.slots_taken() + len(node.sessions) >= node.prepared_max:
            node.notify_access("branches", changed=True)


def prepare(session: NodeSession, gid: str) -> Steps[str]:
    """Execute PREPARE TRANSACTION for the session's transaction and return the tag.

    The tag is ``ROLLBACK`` for a failed transaction, and if there is none. Raise 0A000, 22023, 42710, 53200, 55000
    or the errors of deferred constraints; the transaction is rolled back then.
    """
    tx = session.tx
    if tx is None:
        return "ROLLBACK"
    node, top = session.node, tx.top
    if session.failed_tx:
        machine = node.participant(node.settings)
        machine.receive(e.WorkBegun(), node.clock())
        machine.receive(e.WorkFailed(reason="25P02"), node.clock())
        session.abort()
        return "ROLLBACK"
    tx.preparing = True
    try:
        yield from session.before_commit()
        _check_allowed(node, top, gid)
    except BaseException:
        session.abort()
        raise
    tx.assign()
    now = node.clock()
    top.gid, top.owner, top.prepared_at = gid, session.role, now
    branch = PreparedTransaction(node, gid, top)
    node.branches[gid] = branch  # not valid yet, and so invisible to readers of branches
    _notify_branch(node, gid, changed=True)
    if node.kernel.record_access is not None:
        node.notify_access("begun branches", changed=False)
    session.committing = True
    try:
        for event in (_BEGUN, _WROTE):
            # the only effects are timers, which the model does not need
            branch.machine.receive(event, now)
        yield from branch.process_event(_prepare_event(node.name))
        branch.notify_change()
        if branch.answer is not Message.VOTE_YES:
            node.branches.pop(gid, None)
            session.abort()
            return "ROLLBACK"
        branch.valid = True
        top.state, top.session = PREPARED, None
        session.forget()
    finally:
        session.committing = False
    return "PREPARE TRANSACTION"


def _check_allowed(node: ModelNode, top: TopXact, gid: str) -> None:
    _notify_branch(node, gid, changed=False)
    if "WITH HOLD" in top.held:
        raise SqlError("0A000", "cannot PREPARE a transaction that has created a cursor WITH HOLD")
    if top.temporary:
        raise SqlError(
            "0A000", "cannot PREPARE a transaction that has operated on temporary objects"
        )
    if "snapshot" in top.held:
        raise SqlError("0A000", "cannot PREPARE a transaction that has exported snapshots")
    if len(gid.encode()) >= GID_MAX:
        raise SqlError("22023", f'transaction identifier "{gid}" is too long')
    if node.prepared_max == 0:
        raise SqlError(
            "55000",
            "prepared transactions are disabled",
            hint='Set "max_prepared_transactions" to a nonzero value.',
        )
    if gid in node.branches:
        raise SqlError("42710", f'transaction identifier "{gid}" is already in use')
    if node.slots_taken() >= node.prepared_max:
        raise SqlError(
            "53200",
            "maximum number of prepared transactions reached",
            hint=f'Increase "max_prepared_transactions" (currently {node.prepared_max}).',
        )
    if "advisory" in top.held:
        raise SqlError(
            "0A000",
            "cannot PREPARE while holding both session-level and transaction-level locks on the same object",
        )
    if top.notified:
        raise SqlError(
            "0A000", "cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY"
        )


def finish(session: NodeSession, gid: str, *, commit: bool) -> Steps[str]:
    """Execute COMMIT PREPARED or ROLLBACK PREPARED and return the tag. Raise 25001, 42704, 42501 or 55000."""
    verb = "COMMIT PREPARED" if commit else "ROLLBACK PREPARED"
    if session.tx is not None:
        raise SqlError("25001", f"{verb} cannot run inside a transaction block")
    node = session.node
    _notify_branch(node, gid, changed=True)
    branch = node.branches.get(gid)
    if branch is None or not branch.valid:
        raise SqlError("42704", f'prepared transaction with identifier "{gid}" does not exist')
    if branch.busy:
        raise SqlError("55000", f'prepared transaction with identifier "{gid}" is busy')
    if session.role != branch.owner and session.role not in node.superusers:
        raise SqlError(
            "42501",
            "permission denied to finish prepared transaction",
            hint="Must be superuser or the user that prepared the transaction.",
        )
    branch.busy = True
    try:
        yield from branch.process_event(_COMMIT if commit else _ABORT)
    finally:
        _notify_branch(node, gid, changed=True)
        branch.busy = branch.top.record is not None
    return verb


def fence(node: ModelNode, gid: str, sites: Sequence[str]) -> Steps[str]:
    """Execute ``msrepl.fence_branch``: ``prepared``, ``committed`` or ``fenced``; 55P03 while the branch is
    running.
    """
    session = node.connect("postgres", "msrepl fence")
    session.settings["lock_timeout"] = "50ms"
    machine = node.participant(node.settings)
    requested = any(
        isinstance(effect, x.Log) and effect.record.kind is RecordKind.ABORTED
        for effect in machine.receive(e.FenceTold(), node.clock())
    )
    try:
        for turn in range(20):
            _notify_branch(node, gid, changed=False)
            branch = node.branches.get(gid)
            if branch is not None and branch.valid:
                return "prepared"
            try:
                if requested and (yield from _take_gid(session, gid, sites)):
                    return "fenced"
                break
            except SqlError as error:
                if error.sqlstate != "55P03" or turn == 19:
                    raise
        result = yield from session.execute(
            "select fence from msrepl.branch_marker where gid = :gid for share", {"gid": gid}
        )
        if not result.rows:
            raise SqlError("P0002", "query returned no rows")
        return "fenced" if result.rows[0][0] else "committed"
    finally:
        session.close()


def _take_gid(session: NodeSession, gid: str, sites: Sequence[str]) -> Steps[bool]:
    done = yield from session.execute(
        "insert into msrepl.branch_marker (gid, xid, participants, fence) "
        "values (:gid, pg_current_xact_id(), :sites, true) on conflict (gid) do nothing",
        {"gid": gid, "sites": list(sites)},
    )
    return bool(done.rowcount)


def recover(
    node: ModelNode, branch: PreparedTransaction, *, committed: Outcome | None = None
) -> None:
    """Give a branch, after a crash, a new machine in the state that the WAL determines."""
    branch.machine = node.participant(node.settings)
    branch.machine.resume(committed, node.clock())
    branch.busy = False


def state_of(branch: PreparedTransaction) -> Any:
    """Return the state of a branch's machine, for digests."""
    return branch.machine.state if branch.valid else states.ParticipantState.PREPARING
