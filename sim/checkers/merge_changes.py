"""Check of merge replication: each change is in the row, superseded by a later change, or recorded with a conflict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.checkers.records import NONE, Settings, by_key, of_kind
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.transactions import WRITES

_Row = Mapping[str, Any]
#: A SELECT that locks rows has a transaction id, and changes nothing.
_LOCKS = re.compile(r"\bfor\s+(?:no\s+key\s+update|update|share|key\s+share)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """An application's change of one column of a row at its own node, or its deletion of the row."""

    node: str
    table: str
    key: str
    column: str
    """Name of the column; empty for a deletion."""
    value: Any
    """New value of the column; None for a deletion."""

    @property
    def text(self) -> str:
        """The change as text."""
        what = "its deletion" if not self.column else f"{self.column} = {self.value}"
        return f"{self.table} {self.key}: {what} at {self.node}"


def nothing_lost(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the committed changes that are missing at the end without a recorded reason.

    A change is present if the Publisher's row has its value. It is superseded if a later change was based on its
    value. The loser of a conflict, and a change that could not be applied, are recorded. A change that was lost by
    restoring a backup, because no other node had it, is not required.
    """
    holders = _Holders()
    open_changes: list[_Change] = []
    rows: dict[tuple[str, str], dict[str, _Row]] = {}
    local: str = ""
    texts: dict[str, str] = {}
    writers: set[str] = set()
    for record in records:
        if record.kind == "invoke":
            texts[record.session] = record.sql
        if record.kind == "backup":
            local = ""
            open_changes = holders.backup(record, open_changes)
        if record.kind == "ok":
            local = ""
            holders.meet(record, open_changes)
            if _writes(record, texts.get(record.session, "")):
                writers.add(record.session)
            if (record.data or {}).get("committed"):
                # the agent's writes during a read-only transaction do not belong to that transaction
                local = record.node if record.session in writers else ""
                writers.discard(record.session)
        if record.kind != "state" or (record.data or {}).get("part"):
            continue
        table = str((record.data or {})["table"])
        before, now = rows.get((table, record.node), {}), by_key(record)
        rows[table, record.node] = dict(now)
        if record.node == local:
            computed = (record.data or {}).get("generated", ())
            new = [
                each
                for each in _changes(record.node, table, before, now)
                if each.column not in computed
            ]
            open_changes = [each for each in open_changes if not _is_followed(each, new, before)]
            open_changes += new
            holders.add(record.node, new)
    publisher = next((record.node for record in of_kind(records, "state")), "")
    kept = [record.data or {} for record in of_kind(records, "merge_conflict")]
    lost = [
        each
        for each in open_changes
        if not _is_there(each, rows.get((each.table, publisher), {}))
        and not any(_is_kept(each, conflict) for conflict in kept)
    ]
    return [f"{each.text} is neither in the row nor kept with a conflict" for each in lost]


class _Holders:
    """The changes that each node holds, as far as successful merge sessions have carried them.

    Changes are compared by value: the same value written twice is the same change.
    """

    def __init__(self) -> None:
        self._held: dict[str, set[_Change]] = {}
        self._kept: dict[str, set[_Change]] = {}
        """Changes in each node's backup."""

    def add(self, node: str, changes: Sequence[_Change]) -> None:
        """Add changes that were made at a node."""
        self._held.setdefault(node, set()).update(changes)

    def meet(self, record: HistoryRecord, changes: Sequence[_Change]) -> None:
        """Process the merge sessions of a synchronisation record: afterwards both nodes hold the changes of either."""
        for report in (record.data or {}).get("merge", ()):
            ends = (report["publisher"], report["subscriber"])
            both = {
                each for each in changes if any(each in self._held.get(end, ()) for end in ends)
            }
            for end in ends:
                self._held.setdefault(end, set()).update(both)

    def backup(self, record: HistoryRecord, changes: list[_Change]) -> list[_Change]:
        """Process the backup or restore of a node, and return the changes that some node still holds."""
        node = record.node
        if not (record.data or {}).get("restored"):
            self._kept[node] = set(self._held.get(node, ()))
            return changes
        self._held[node] = set(self._kept.get(node, ()))
        return [each for each in changes if any(each in held for held in self._held.values())]


def _writes(record: HistoryRecord, text: str) -> bool:
    """Return whether a statement may have changed rows, directly or in a function that it calls."""
    if record.tag.startswith(WRITES):
        return bool(record.rowcount)
    return bool((record.data or {}).get("xid")) and not _LOCKS.search(text)


def _changes(
    node: str, table: str, before: Mapping[str, _Row], now: Mapping[str, _Row]
) -> Iterator[_Change]:
    for key in dict.fromkeys((*before, *now)):
        was, row = before.get(key), now.get(key)
        if row is None:
            yield _Change(node=node, table=table, key=key, column="", value=None)
            continue
        for column, value in row.items():
            if was is None or was.get(column) != value:
                yield _Change(node=node, table=table, key=key, column=column, value=value)


def _is_followed(change: _Change, new: Sequence[_Change], before: Mapping[str, _Row]) -> bool:
    """Return whether one of the new changes is based on this change: the node had its value before."""
    row = before.get(change.key)
    stood = (
        row is None
        if not change.column
        else row is not None and row.get(change.column) == change.value
    )
    return stood and any(
        (each.table, each.key) == (change.table, change.key)
        and (not each.column or not change.column or each.column == change.column)
        for each in new
    )


def _is_there(change: _Change, rows: Mapping[str, _Row]) -> bool:
    row = rows.get(change.key)
    if not change.column:
        return row is None
    return row is not None and row.get(change.column) == change.value


def _is_kept(change: _Change, conflict: Mapping[str, Any]) -> bool:
    """Return whether the change was recorded as the loser of a conflict, or as one that could not be applied."""
    loser, key = conflict["loser"], conflict["key"]
    keys = {  # the losing row may have another key
        ", ".join(f"{name}={row.get(name)}" for name in key) for row in (key, loser or key)
    }
    if conflict["table"] != change.table or change.key not in keys:
        return False
    if conflict.get("resolver"):
        return True  # a custom resolver may replace both changes
    if loser is None:
        return not change.column
    return bool(change.column) and loser.get(change.column) == change.value
