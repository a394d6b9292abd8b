"""Prepared transactions: each is a branch whose steps the protocol's own participant machine takes.

The machine says when a record is forced and what is answered; here it is done to rows, locks and the log. A
real server plays the same part itself (`twopc.protocol.participant`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol import states
from twopc.protocol.effects import Message, Outcome, RecordKind
from twopc.sim.model.node.transactions import ABORTED, COMMITTED, PREPARED, TopXact
from twopc.sim.model.values import RequestLostError, SqlError, Steps

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode
    from twopc.sim.model.node.session import NodeSession
    from twopc.sim.model.node.wal import WalRecord

_BEGUN, _WROTE, _COMMIT, _ABORT = e.WorkBegun(), e.Wrote(), e.CommitTold(), e.AbortTold()
_asked = lru_cache(maxsize=1024)(lambda name: e.PrepareAsked(participants=(name,)))
_logged = lru_cache(maxsize=1024)(lambda record: e.Logged(record=record))
#: Bytes of a gid, its terminator among them.
GID_MAX = 200


class PreparedTransaction:
    """A prepared transaction, or one about to be."""

    __slots__ = ("answer", "busy", "gid", "machine", "node", "top", "valid")

    def __init__(self, node: ModelNode, gid: str, top: TopXact) -> None:
        self.node = node
        self.gid = gid
        self.top = top
        self.machine = node.participant(node.settings)
        self.valid = False
        """Its record is durable."""
        self.busy = False
        """Somebody is finishing it."""
        self.answer: Message | None = None
        """The machine's last answer."""

    @property
    def xid(self) -> int:
        """Of the transaction."""
        return self.top.xid

    @property
    def owner(self) -> str:
        """The role that prepared it."""
        return self.top.owner

    @property
    def prepared_at(self) -> float:
        """By the node's clock."""
        return self.top.prepared_at

    def changed(self) -> None:
        """It is prepared now, or no more: the search is notified.

        Whoever looks at several counts as one who changes them, so that those who change one each depend on him
        and not on each other.
        """
        node = self.node
        if node.kernel.watch is not None:
            node.tell(f"branch {self.gid}", changed=True)
            node.tell("branches", changed=False)
            node.tell(f"branches of {self.owner}", changed=False)

    def tell(self, event: e.Event) -> Steps[None]:
        """Give the machine an event and do what it asks for."""
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
                        # what comes of it is done first
                        answer = machine.receive(_logged(effect.record), node.clock())
                        effects = (*answer, *following)
                        break
                    if kind is RecordKind.COMMITTED:
                        # nobody waits for the disk, nor sees it before
                        node.kernel.spawn(self._later(record), f"the end of {self.gid}")
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
        """A record is in the log."""
        node, top = self.node, self.top
        if kind is RecordKind.PREPARED:
            top.record = None
            return
        node.branches.pop(self.gid, None)
        self.changed()
        if kind is RecordKind.COMMITTED:
            node.finish(top, record)
        else:
            node.give_up(top)

    def _later(self, record: WalRecord) -> Steps[None]:
        """Committed once the log's writer has come to it; prepared as before if the node goes down first."""
        node = self.node
        node.wal.soon()
        with suppress(RequestLostError):
            yield from node.wal.reached(record.end_lsn)
            node.branches.pop(self.gid, None)
            self.changed()
            node.finish(self.top, record)


def _note_branch(node: ModelNode, gid: str, *, changed: bool) -> None:
    """The search is notified that one branch matters here."""
    if node.kernel.watch is not None:
        node.tell(f"branch {gid}", changed=changed)
        if node.slots_taken() + len(node.sessions) >= node.prepared_max:  # not room for all
            node.tell("branches", changed=True)


def prepare(session: NodeSession, gid: str) -> Steps[str]:
    """PREPARE TRANSACTION of what the session has open: the tag.

    ``ROLLBACK`` for a failed transaction, and for none. 0A000, 22023, 42710, 53200, 55000 and what deferred
    constraints raise; then nothing is left of it.
    """
    tx = session.tx
    if tx is None:
        return "ROLLBACK"
    node, top = session.node, tx.top
    if session.failed:
        machine = node.participant(node.settings)
        machine.receive(e.WorkBegun(), node.clock())
        machine.receive(e.WorkFailed(reason="25P02"), node.clock())
        session.abort()
        return "ROLLBACK"
    tx.preparing = True
    try:
        yield from session.before_commit()
        _allowed(node, top, gid)
    except BaseException:
        session.abort()
        raise
    tx.assign()
    now = node.clock()
    top.gid, top.owner, top.prepared_at = gid, session.role, now
    branch = PreparedTransaction(node, gid, top)
    node.branches[gid] = branch  # nobody who looks for branches sees it yet
    _note_branch(node, gid, changed=True)
    session.committing = True
    try:
        for event in (_BEGUN, _WROTE):
            # nothing but timers comes of them, and nobody keeps these
            branch.machine.receive(event, now)
        yield from branch.tell(_asked(node.name))
        branch.changed()
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


def _allowed(node: ModelNode, top: TopXact, gid: str) -> None:
    _note_branch(node, gid, changed=False)
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
    """COMMIT PREPARED or ROLLBACK PREPARED: the tag. 25001, 42704, 42501, 55000"""
    verb = "COMMIT PREPARED" if commit else "ROLLBACK PREPARED"
    if session.tx is not None:
        raise SqlError("25001", f"{verb} cannot run inside a transaction block")
    node = session.node
    _note_branch(node, gid, changed=True)
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
        yield from branch.tell(_COMMIT if commit else _ABORT)
    finally:
        _note_branch(node, gid, changed=True)
        branch.busy = branch.top.record is not None
    return verb


def fence(node: ModelNode, gid: str, sites: tuple[str, ...]) -> Steps[str]:
    """``msrepl.fence_branch``: ``prepared``, ``committed`` or ``fenced``; 55P03 while it is under way."""
    session = node.connect("postgres", "msrepl fence")
    session.settings["lock_timeout"] = "50ms"
    machine = node.participant(node.settings)
    requested = any(
        isinstance(effect, x.Log) and effect.record.kind is RecordKind.ABORTED
        for effect in machine.receive(e.FenceTold(), node.clock())
    )
    try:
        for turn in range(20):
            _note_branch(node, gid, changed=False)
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


def _take_gid(session: NodeSession, gid: str, sites: tuple[str, ...]) -> Steps[bool]:
    done = yield from session.execute(
        "insert into msrepl.branch_marker (gid, xid, participants, fence) "
        "values (:gid, pg_current_xact_id(), :sites, true) on conflict (gid) do nothing",
        {"gid": gid, "sites": list(sites)},
    )
    return bool(done.rowcount)


def recover(
    node: ModelNode, branch: PreparedTransaction, *, committed: Outcome | None = None
) -> None:
    """After a crash: a machine that knows what the log says."""
    branch.machine = node.participant(node.settings)
    branch.machine.resume(committed, node.clock())
    branch.busy = False


def state_of(branch: PreparedTransaction) -> Any:
    """Where its machine is, for digests."""
    return branch.machine.state if branch.valid else states.ParticipantState.PREPARING


__all__ = [
    "ABORTED",
    "COMMITTED",
    "PreparedTransaction",
    "fence",
    "finish",
    "prepare",
    "recover",
    "state_of",
]
