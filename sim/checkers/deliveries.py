"""Checks of delivery: each Subscriber receives every transaction it needs, once, and none of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twopc.sim.checkers.records import (
    NONE,
    Settings,
    by_key,
    commits,
    left_by,
    of_kind,
    states,
    versions,
)
from twopc.sim.report.history import ENDS, HistoryRecord

#: Tags of records after which a Subscriber has a complete copy.
_COPIED = frozenset({"REINITIALISE", "SUBSCRIBE"})


def echoed(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the transactions that were delivered to the Subscriber from which they came.

    The true origin is the node of the session that began the transaction, whatever the agent assumed. A transaction
    with branches at several Subscribers is delivered to each of them, for the changes of the others; there only the
    recorded origin counts.
    """
    homes: dict[str, set[str]] = {}
    for record in records:
        if record.gid and record.session and record.node and record.kind in ENDS:
            homes.setdefault(record.gid, set()).add(record.node)
    return [
        f"{record.node} got its own transaction back: "
        + ("; ".join((record.data or {}).get("commands", ())) or record.gid)
        for record in of_kind(records, "deliver")
        if record.node == (record.data or {}).get("origin")
        or homes.get(record.gid) == {record.node}
    ]


def each_change_applied_once(
    records: Sequence[HistoryRecord], settings: Settings = NONE
) -> list[str]:
    """Return the committed transactions that a Subscriber missed or applied twice.

    Every Subscriber to which a changed row belongs must have applied the transaction, or suppressed it as its own.
    """
    return list(dict.fromkeys((*_twice(records), *_missed(records))))


def _twice(records: Sequence[HistoryRecord]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for record in of_kind(records, "deliver"):
        data = record.data or {}
        place = (record.node, str(data.get("seqno")))
        if place in seen:
            what = "; ".join(data.get("commands", ())) or record.gid or place[1]
            yield f"{record.node} applied a transaction twice: {what}"
        seen.add(place)


def _missed(records: Sequence[HistoryRecord]) -> Iterator[str]:
    publisher = next((node for *_, node, _ in states(records)), "")
    subscribers = list(dict.fromkeys(node for *_, node, _ in states(records) if node != publisher))
    filtered, parts = _parts(records)
    got: dict[str, set[str]] = {}
    for record in records:
        if record.kind in ("deliver", "suppress") and record.gid:
            got.setdefault(record.gid, set()).add(record.node)
    copied = {record.node: record.seq for record in records if record.tag in _COPIED}
    left = left_by(records)
    for commit, changed in _changes(records, publisher):
        for node in subscribers:
            if node in left:
                continue  # it received no later transactions, and possibly not the last ones before it left
            own = {
                (table, key)
                for table, key in changed
                if (node, table) not in filtered or (node, table, key) in parts
            }
            copy = copied.get(node, -1)
            if own and node not in got.get(commit.gid, ()) and copy < commit.seq:
                yield f"{node} did not get {commit.gid}, which {commit.session} ({commit.step}) committed"


def _parts(
    records: Sequence[HistoryRecord],
) -> tuple[set[tuple[str, str]], set[tuple[str, str, str]]]:
    """Return the tables of which a Subscriber receives only a part, and the rows of those parts."""
    filtered: set[tuple[str, str]] = set()
    rows: set[tuple[str, str, str]] = set()
    for record in of_kind(records, "state"):
        data = record.data or {}
        if data.get("part"):
            place = (str(data["part"]), str(data["table"]))
            filtered.add(place)
            rows.update((*place, key) for key in by_key(record))
    return filtered, rows


def _changes(
    records: Sequence[HistoryRecord], publisher: str
) -> Iterator[tuple[HistoryRecord, set[tuple[str, str]]]]:
    """Yield each commit of a global transaction, with the rows that it changed at the Publisher."""
    before: dict[str, dict[str, str]] = {}
    for commit, looks in commits(records):
        changed: set[tuple[str, str]] = set()
        for look in looks:
            if look.node == publisher:
                table, now = str((look.data or {})["table"]), versions(look)
                past = before.get(table, {})
                keys = past.keys() | now.keys()
                changed |= {(table, key) for key in keys if past.get(key) != now.get(key)}
                before[table] = now
        if commit is not None and commit.gid:
            yield commit, changed
