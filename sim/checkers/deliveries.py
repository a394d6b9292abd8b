"""Did each Subscriber get what it should, once, and nothing of its own?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twopc.sim.checkers.records import NONE, Settings, by_key, left_by, of_kind, states, versions
from twopc.sim.report.history import ENDS, HistoryRecord

#: Tags of records after which a Subscriber has a copy of everything.
_COPIED = frozenset({"REINITIALISE", "SUBSCRIBE"})


def echoed(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """No transaction is delivered to the Subscriber that it came from.

    Where it came from is known from who began it, whatever the agent took it for. Of one at several Subscribers
    each is brought what the others have changed: then it is the mark that tells.
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
    """Each committed global transaction was applied, or passed over as its own, at every Subscriber
    to which one of the rows belongs that it changed; and nothing was applied twice.
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
                continue  # it did not get what came afterwards, nor perhaps the last before
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
    """Of which tables a Subscriber gets a part only, and which rows."""
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
    """Each commit of a global transaction, with the rows that it changed at the Publisher."""
    before: dict[str, dict[str, str]] = {}
    commit: HistoryRecord | None = None
    changed: set[tuple[str, str]] = set()
    for record in records:
        data = record.data or {}
        if record.kind == "state" and record.node == publisher and not data.get("part"):
            table, now = str(data["table"]), versions(record)
            past = before.get(table, {})
            if commit is not None:
                keys = past.keys() | now.keys()
                changed |= {(table, key) for key in keys if past.get(key) != now.get(key)}
            before[table] = now
        elif record.kind != "state":
            if commit is not None:
                yield commit, changed
            commit, changed = None, set()
            if record.gid and data.get("committed"):
                commit = record
    if commit is not None:
        yield commit, changed
