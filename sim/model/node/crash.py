"""The effects of a crash: the WAL ends at a position, and later records are lost, including those of PREPARE
TRANSACTION.

Memory is changed to the state that recovery would produce from the WAL: commits whose records are lost are undone,
newest first; commits that are on disk but were not acknowledged become visible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twopc.sim.model.node import prepared_transactions
from twopc.sim.model.node.transactions import PREPARED, TopXact
from twopc.sim.model.values import Cause, Label, RequestLostError, Steps

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode


def crash(node: ModelNode, kept_lsn: int | None = None) -> None:
    """Stop the node at once: sessions end, and the WAL is cut. No effect if it is down.

    Args:
        kept_lsn: where the WAL is cut; at its durable end if None.
    """
    if not node.up:
        return
    node.up = False
    node.notify_rows_written()
    for what in (
        "branches",
        "log",
        "tables",
        *[f"branch {gid}" for gid in node.branches],
    ):
        node.notify_access(what, changed=True)
    _, lost = node.wal.cut(kept_lsn)
    why = RequestLostError(f"{node.name} went down")
    sessions = list(node.sessions.values())
    node.sessions.clear()
    node.names.clear()
    for session in sessions:
        session.dead = why
        wait = session.wait
        if wait is not None and wait.event is not None and not wait.event.triggered:
            wait.event.fail(why)
            wait.event.defused = True
    for session in sessions:
        if session.tx is not None:
            if session.tx.top.record is None:
                session.tx.unwind()
            session.tx.top.session = None
            session.forget()
    for top in list(node.open):
        if top.record is None and top.state != PREPARED:
            node.give_up(top)
    for record in reversed(lost):
        _undo_lost(node, record.kind, record.xact, record.undo)
    kept = [top for top in node.open if top.record is not None]
    for top in sorted(kept, key=lambda one: one.record.lsn):
        _apply_durable(node, top)
    for branch in list(node.branches.values()):
        if not branch.valid:
            node.branches.pop(branch.gid, None)
        else:
            prepared_transactions.recover(node, branch)


def _undo_lost(node: ModelNode, kind: str, top: TopXact, undo: list[object]) -> None:
    """Undo the effect of a record that is not on disk."""
    if kind == "commit":
        if top.commit_no:  # visible before the flush: synchronous_commit was off
            top.commit_no = 0
            top.undo = list(undo)  # type: ignore[arg-type] # as the transaction left it
        node.give_up(top)
    elif kind == "prepare":
        node.branches.pop(top.gid, None)
        node.give_up(top)
    else:
        top.record = None
    # a branch of which COMMIT or ROLLBACK PREPARED is lost stays prepared


def _apply_durable(node: ModelNode, top: TopXact) -> None:
    """Perform the effect of a record that is on disk but was not acknowledged."""
    record, branch = top.record, node.branches.get(top.gid)
    if record.kind == "prepare":
        if branch is not None and branch.top is top:
            branch.valid = True
            top.state, top.record = PREPARED, None
        return
    if top.gid:
        node.branches.pop(top.gid, None)
    if record.kind == "rollback_prepared":
        node.give_up(top)
    else:
        node.finish(top, record)


def restart(node: ModelNode) -> Steps[None]:
    """Wait until the node accepts connections again."""
    label = Label(
        actor=f"node:{node.name}",
        cause=Cause.RESTART,
        what=f"restart of {node.name}",
        touches=frozenset({node.name}),
    )
    yield node.kernel.delay(node.timing.restart, label)
    node.up = True
    node.started = node.clock()
