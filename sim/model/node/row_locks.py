"""Locking one row and following it to its newest version.

This module alone implements the re-check of READ COMMITTED and the serialization errors of the stricter levels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twopc.sim.model.node.heap import HeapRow, Version
from twopc.sim.model.node.modes import KEY_SHARE
from twopc.sim.model.node.snapshots import CommitSnapshot
from twopc.sim.model.values import SqlError, Steps

if TYPE_CHECKING:
    from twopc.sim.model.node.tx import OpenTx

_UPDATED = "could not serialize access due to concurrent update"
_DELETED = "could not serialize access due to concurrent delete"


def take(
    tx: OpenTx, row: HeapRow, version: Version, mode: int, snap: CommitSnapshot, wait: str = "block"
) -> Steps[Version | None]:
    """Lock a row of which the statement saw `version`.

    Returns: the newest version, for which the caller re-checks its condition if it is not `version`; None if the
    row
        is gone, or was skipped.

    Args:
        wait: ``block``, ``nowait`` (55P03) or ``skip``.
    """
    versions = row.versions
    strict = tx.top.snapshot is not None
    if strict and mode != KEY_SHARE:
        _refuse_newer(row, version, tx)
    elif strict and versions and versions[-1] is not version:
        _refuse_newer_key(row, version, tx)
    waited = False
    if not tx.locks.try_row(tx.sub, row, mode):
        if wait == "skip":
            return None
        if wait == "nowait":
            raise SqlError("55P03", f'could not obtain lock on row in relation "{row.table.name}"')
        waited = True
        yield from tx.locks.row(tx.session, tx.sub, row, mode, version if strict else None)
    if not versions:
        if strict:
            raise SqlError("40001", _DELETED)
        return None
    newest = versions[-1]
    if newest is version and version.xmax is None:
        return version
    if mode == KEY_SHARE:
        # An update that changes no key does not conflict, and may still be running.
        place = versions.index(version) if version in versions else len(versions)
        if not waited and not any(one.keys_updated for one in versions[place:]):
            return version
        newest = _newest_settled(row, tx)
        if newest is version and not version.keys_updated:
            return version
    ended = newest.xmax
    if ended is not None and (mode != KEY_SHARE or newest.keys_updated):
        if strict and ended.top is not tx.top:
            raise SqlError("40001", _DELETED)
        return None
    if strict and newest is not version and newest.xmin.top is not tx.top:
        raise SqlError("40001", _UPDATED)
    return newest


def _newest_settled(row: HeapRow, tx: OpenTx) -> Version:
    """Return the newest version that is committed or the transaction's own."""
    for version in reversed(row.versions):
        if version.xmin.top is tx.top or version.xmin.top.commit_no:
            return version
    return row.versions[0]


def _refuse_newer(row: HeapRow, version: Version, tx: OpenTx) -> None:
    """Raise 40001 without waiting if a committed transaction has replaced or deleted the version that was seen."""
    ended = version.xmax
    if ended is not None and ended.top is not tx.top and ended.top.commit_no:
        deleted = row.versions and row.versions[-1] is version
        raise SqlError("40001", _DELETED if deleted or not row.versions else _UPDATED)


def _refuse_newer_key(row: HeapRow, version: Version, tx: OpenTx) -> None:
    if version.keys_updated:
        _refuse_newer(row, version, tx)


def modified_by_itself(tx: OpenTx, row: HeapRow, version: Version, snap: CommitSnapshot) -> bool:
    """Whether this statement has changed the row already. Raise 27000 if a trigger that it fired has."""
    newest = row.versions[-1] if row.versions else version
    made, ended = newest.cmin, newest.cmax
    if newest.xmax is not None and newest.xmax.top is tx.top and ended >= snap.cid:
        if ended > snap.cid:
            raise _modified_error("deleted")
        return True
    if newest is not version and newest.xmin.top is tx.top and made >= snap.cid:
        if made > snap.cid:
            raise _modified_error("updated")
        return True
    return False


def _modified_error(how: str) -> SqlError:
    return SqlError(
        "27000",
        f"tuple to be {how} was already modified by an operation triggered by the current command",
        hint="Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
    )
