"""The observable state of a node: rows, markers, WAL, lock waits, and a digest.

Nothing is changed.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twopc.sim.model.node import prepared_transactions
from twopc.sim.model.node.transactions import TopXact
from twopc.sim.model.values import CommittedTransaction, LockWait, MarkerRow
from twopc.waits import OpenTransaction as WaitRow

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode


def rows(node: ModelNode, table: str, columns: Sequence[str]) -> list[dict[str, str | None]]:
    """Return the committed rows ordered by key, with every value as ``::text`` gives it."""
    there = node.table(table)
    places = [(name, there.at[name]) for name in columns]
    return [
        {
            name: None if row[place] is None else there.columns[place].type.text(row[place])
            for name, place in places
        }
        for row in there.rows()
    ]


def xids(node: ModelNode, table: str) -> list[int]:
    """Return the transaction ids that wrote the committed rows, ordered by the rows' keys."""
    there = node.table(table)
    results = list(there.newest())
    if there.primary is not None:
        key = there.primary.key
        results.sort(key=lambda version: key(version.values))
    return [version.xmin.top.xid for version in results]


def markers(node: ModelNode) -> list[MarkerRow]:
    """Return the rows of ``msrepl.branch_marker``."""
    results = []
    for row in node.table("msrepl.branch_marker").rows():
        gid, xid, participants, originator, calls, _, pending, fence = tuple[Any, ...](row[:8])
        results.append(
            MarkerRow(
                gid=gid,
                xid=xid,
                participants=tuple(participants),
                originator=originator,
                calls=calls,
                pending=bool(pending),
                fence=fence,
            )
        )
    return results


def log(node: ModelNode, after_lsn: int) -> Sequence[CommittedTransaction]:
    """Return the transactions committed after a position, as far as the WAL is flushed."""
    records = node.wal.records
    start = bisect_right(records, after_lsn, key=lambda record: record.end_lsn)
    durable = node.wal.durable
    results = []
    for record in records[start:]:
        if record.end_lsn > durable:
            break
        if record.committed is not None:
            results.append(record.committed)
    return results


def waits(node: ModelNode) -> list[LockWait]:
    """Return one wait for each transaction for which each session waits."""
    results = []
    for session in node.sessions.values():
        wait = session.wait
        if wait is None or wait.event is None or wait.event.triggered:
            continue
        lock, relation = wait.lock()
        what = f"a row of {relation}" if wait.row is not None else f"{lock} {relation}".rstrip()
        results += [
            LockWait(
                xid=wait.xact.top.xid,
                holder=top.xid,
                pid=session.pid,
                holder_pid=top.session.pid if top.session is not None else 0,
                holder_gid=top.gid,
                what=what,
                since=wait.since,
            )
            for top in wait.blockers()
        ]
    return results


def wait_rows(node: ModelNode) -> list[WaitRow]:
    """Return the sessions with an open transaction, as `twopc.waits.WAITS_SQL` would find them."""
    results = []
    born = node.clock() - node.kernel.now
    for session in node.sessions.values():
        if session.tx is None:
            continue
        wait = session.wait
        lock = relation = ""
        blockers: list[TopXact] = []
        since = 0.0
        if wait is not None and wait.event is not None and not wait.event.triggered:
            lock, relation = wait.lock()
            blockers = wait.blockers()
            since = born + wait.since
        results.append(
            WaitRow(
                node=node.name,
                server=f"{node.name}@{node.started}",
                pid=session.pid,
                application_name=session.application_name,
                backend_start=session.born,
                xact_start=session.tx.top.began,
                on_link=session.on_link,
                wait_start=since,
                lock=lock,
                relation=relation,
                holder_pids=tuple(
                    dict.fromkeys(
                        top.session.pid if top.session is not None else 0 for top in blockers
                    )
                ),
                holder_gids=tuple(top.gid for top in blockers if top.session is None),
            )
        )
    return results


def snapshot_text(node: ModelNode) -> str:
    """Return ``xmin:xmax:running`` as pg_current_snapshot() gives it now."""
    xmax = node.next_xid
    running = sorted(top.xid for top in node.open if top.xid)
    return f"{running[0] if running else xmax}:{xmax}:{','.join(map(str, running))}"


def digest(node: ModelNode) -> int:
    """Return a digest of rows, locks, waits, prepared transactions and WAL that is equal in every process.

    Numbers that only increase (xids, pids, positions) enter by their order of appearance.
    """
    names: dict[int, int] = {}

    def name(top: TopXact) -> int:
        return names.setdefault(id(top), len(names))

    parts: list[Any] = [node.up, len(node.wal.young())]
    for table in sorted(node.tables.values(), key=lambda one: one.number):
        parts.append(table.name)
        for row in table.all_rows:
            parts += [
                (
                    repr(version.values),
                    version.xmin.top.commit_no > 0 or name(version.xmin.top),
                    version.xmax is not None
                    and (version.xmax.top.commit_no > 0 or name(version.xmax.top)),
                )
                for version in row.versions
            ]
            if row.holders:
                parts.append([(name(xact.top), mode) for xact, mode in row.holders.items()])
            if row.queue:
                parts.append([(name(wait.xact.top), wait.mode) for wait in row.queue])
    for gid, branch in node.branches.items():
        parts.append(
            (gid, branch.busy, str(prepared_transactions.state_of(branch)), name(branch.top))
        )
    for session in node.sessions.values():
        tx = session.tx
        parts.append(
            (session.application_name, session.failed_tx, tx and name(tx.top), session.committing)
        )
        if tx is not None:
            parts.append((tx.level, len(tx.top.changes), sorted(tx.settings.items())))
        if session.wait is not None:
            parts.append([name(top) for top in session.wait.blockers()])
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "big")
