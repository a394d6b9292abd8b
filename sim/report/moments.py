"""How every node stood at every moment of an order, as far as the history tells.

A moment is one row of the timeline and everything that was recorded until the next. Committed rows are
known whenever they were looked at: before the first step, after each commit, at the end. A pure function
of the records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.report.history import ENDS, HistoryRecord
from twopc.sim.report.phrases import WORDS, nameless, refusal
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.timeline import LaneEntry, timeline
from twopc.sim.report.transactions import WRITES

_TROUBLES = {"outage": "accepts no connections", "paused": "its agent is paused"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """One row of the timeline."""

    entry: LaneEntry
    more: tuple[LaneEntry, ...]
    """What is written under it."""
    until: int
    """The last record that belongs to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """What a session is doing, in a few words."""

    text: str
    style: str = ""
    """As of a timeline's entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncommittedRow:
    """A row that an open transaction has changed."""

    session: str
    row: Mapping[str, Any]
    """As the transaction sees it; of one that is gone, as it was."""
    gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The committed rows of a table at a node, and what is known of changes that are not committed."""

    name: str
    key: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    count: int
    """Of all its rows: of a long table only the first are recorded."""
    before: tuple[Mapping[str, Any], ...] | None
    """The rows before they last changed; None if they have not."""
    publisher: tuple[Mapping[str, Any], ...] | None
    """What of the Publisher's rows should be here at the same moment; None at the Publisher itself, and
    where a part is published that nobody has looked at."""
    uncommitted: tuple[UncommittedRow, ...] = ()
    """Known only where somebody goes through an order by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node at a moment."""

    sessions: tuple[tuple[str, SessionState], ...]
    waits: tuple[str, ...]
    """Who waits here for whom."""
    prepared: tuple[str, ...] | None
    """The branches that are prepared; None while nobody has looked."""
    troubles: tuple[str, ...]
    """What keeps it from working as it should: it accepts no connections, its agent is paused."""
    tables: tuple[NodeTable, ...]


def moments(order: PlayedOrder, rows_max: int | None = None) -> list[TimelineRow]:
    """The rows of the order's timeline, or the first of them.

    The last takes everything that was recorded after it, so that at the last moment all is over.
    """
    groups: list[list[LaneEntry]] = []
    for entry in timeline(order.fold).entries:
        if entry.t_us >= 0 or not groups:
            groups.append([])
        groups[-1].append(entry)
    groups = groups[:rows_max]
    ends = [group[0].seq - 1 for group in groups[1:]] + [order.records[-1].seq]
    return [
        TimelineRow(entry=group[0], more=tuple(group[1:]), until=end)
        for group, end in zip(groups, ends, strict=False)
    ]


def states(order: PlayedOrder, at: Sequence[TimelineRow]) -> dict[str, list[NodeState]]:
    """Of each node its state before the first moment, and at each."""
    watch = _StateFold(order)
    results: dict[str, list[NodeState]] = {node: [] for node in order.nodes}
    records = iter(order.records)
    waiting = next(records, None)
    first = at[0].entry.seq - 1 if at else order.records[-1].seq
    for until in (first, *(moment.until for moment in at)):
        while waiting is not None and waiting.seq <= until:
            watch.see(waiting)
            waiting = next(records, None)
        for node, seen in results.items():
            seen.append(watch.node(node))
    return results


def state_at(order: PlayedOrder, seq: int) -> dict[str, NodeState]:
    """Each node after one record: of an order that may not be over."""
    watch = _StateFold(order)
    for record in order.records:
        if record.seq <= seq:
            watch.see(record)
    return {node: watch.node(node) for node in order.nodes}


class _StateFold:
    """What is known after the records seen so far."""

    def __init__(self, order: PlayedOrder) -> None:
        self._order = order
        self._sessions = order.sessions
        self._standings = {
            name: SessionState(text="not begun", style="faint") for name in order.sessions
        }
        self._open: dict[str, bool] = {}
        """The sessions with an open transaction, and whether it has changed rows."""
        self._sql: dict[str, str] = {}
        self._uncommitted: dict[tuple[str, str], dict[str, tuple[UncommittedRow, ...]]] = {}
        self._waits: dict[str, Mapping[str, Any]] = {}
        self._prepared: dict[str, tuple[str, ...]] = {}
        self._troubles: dict[str, dict[str, str]] = {}
        self._tables: dict[str, dict[str, HistoryRecord]] = {}
        self._before: dict[tuple[str, str], tuple[Mapping[str, Any], ...]] = {}
        self._partial = _partial(order.records)
        self._parts: dict[tuple[str, str], tuple[Mapping[str, Any], ...]] = {}

    def see(self, record: HistoryRecord) -> None:
        if record.kind == "state":
            self._state(record)
        elif record.kind == "uncommitted":
            self._changed(record)
        elif record.kind == "prepared":
            self._prepared[record.node] = tuple((record.data or {}).get("gids", ()))
        elif record.kind in _TROUBLES:
            of_node = self._troubles.setdefault(record.node, {})
            of_node.pop(record.kind, None)
            if (record.data or {}).get("on"):
                of_node[record.kind] = _TROUBLES[record.kind]
        elif record.session in self._standings:
            self._session(record)

    def _state(self, record: HistoryRecord) -> None:
        data = record.data or {}
        tables = self._tables.setdefault(record.node, {})
        name = str(data.get("table"))
        if data.get("moment") == "part":
            self._parts[str(data.get("part")), name] = record.rows or ()
            return
        last = tables.get(name)
        if last is not None and last.rows != record.rows:
            self._before[record.node, name] = last.rows or ()
        tables[name] = record

    def _changed(self, record: HistoryRecord) -> None:
        """What a session has changed at its node; with eager shipping the Publisher has it too."""
        data, session = record.data or {}, record.session
        table, gone = str(data.get("table")), data.get("gone", ())
        rows = [(row, False) for row in record.rows or ()] + [(row, True) for row in gone]
        here = [UncommittedRow(session=session, row=row, gone=is_gone) for row, is_gone in rows]
        self._uncommitted.setdefault((record.node, table), {})[session] = tuple(here)
        publisher = self._order.publisher
        if record.node == publisher or self._order.header.get("shipping", "eager") != "eager":
            return
        other, key = self._tables.get(publisher, {}).get(table), data.get("key", ())
        known = {_key(row, key): row for row in (other.rows if other else None) or ()}
        there = [
            dataclasses.replace(one, row={**known.get(_key(one.row, key), {}), **one.row})
            for one in here
        ]
        self._uncommitted.setdefault((publisher, table), {})[session] = tuple(there)

    def _session(self, record: HistoryRecord) -> None:
        name, kind = record.session, record.kind
        if kind == "invoke":
            self._sql[name] = record.sql
        elif kind in ENDS - {"ok", "in_doubt", "skipped", "explain"} or _ends_changes(record):
            for of_table in self._uncommitted.values():
                of_table.pop(name, None)
        if kind in ENDS or kind in ("unblocked", "blocked", "info", "outcome"):
            self._waits.pop(name, None)
        if kind == "blocked" and record.wait:
            self._waits[name] = record.wait
        standing = self._standing(record)
        if standing is not None:
            self._standings[name] = standing

    def _standing(self, record: HistoryRecord) -> SessionState | None:
        kind = record.kind
        if kind == "invoke":
            return SessionState(text=f"runs {record.sql if record.sql in WORDS else record.step}")
        if kind == "blocked":
            return SessionState(text=f"⧗ {record.step} waits", style="wait")
        if kind == "unblocked":
            return SessionState(text=f"runs {record.step}")
        if kind in ("rejected", "error", "timed_out", "rolled_back", "in_doubt"):
            return SessionState(text=refusal(record), style="bad")
        if kind == "ok":
            return self._ok(record)
        report = self._standings[record.session].text.endswith(record.message)
        if kind == "outcome" and record.message != "none" and not report:
            return _outcome(record.message)
        return None

    def _ok(self, record: HistoryRecord) -> SessionState:
        name = record.session
        if record.tag == "BEGIN":
            self._open[name] = False
        elif record.tag == "ROLLBACK" and "to" not in self._sql.get(name, "").lower().split():
            self._open.pop(name, None)
            return _outcome("rolled back")
        elif record.tag == "COMMIT" or (record.data or {}).get("committed"):
            self._open.pop(name, None)
            return _outcome("committed")
        elif name in self._open and record.tag.startswith(WRITES) and record.rowcount:
            self._open[name] = True
        if name not in self._open:
            return SessionState(text="idle")
        changes = ", with uncommitted changes" if self._open[name] else ""
        return SessionState(text=f"in a transaction{changes}")

    def node(self, node: str) -> NodeState:
        """What is known of a node now."""
        return NodeState(
            sessions=tuple(
                (name, self._standings[name]) for name, at in self._sessions.items() if at == node
            ),
            waits=tuple(
                _wait_text(name, wait)
                for name, wait in self._waits.items()
                if wait.get("node") == node
            ),
            prepared=self._prepared.get(node),
            troubles=tuple(self._troubles.get(node, {}).values()),
            tables=tuple(
                self._table(node, name, record)
                for name, record in self._tables.get(node, {}).items()
            ),
        )

    def _table(self, node: str, name: str, record: HistoryRecord) -> NodeTable:
        return NodeTable(
            name=name,
            key=tuple((record.data or {}).get("key", ())),
            rows=record.rows or (),
            count=record.rowcount or 0,
            before=self._before.get((node, name)),
            publisher=self._expected(node, name),
            uncommitted=tuple(
                row
                for of_session in self._uncommitted.get((node, name), {}).values()
                for row in of_session
            ),
        )

    def _expected(self, node: str, name: str) -> tuple[Mapping[str, Any], ...] | None:
        """The Publisher's rows as they should be at a Subscriber."""
        other = self._tables.get(self._order.publisher, {}).get(name)
        if node == self._order.publisher or other is None:
            return None
        if (node, name) in self._partial:
            return self._parts.get((node, name))
        return other.rows or ()


def _key(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in columns)


def _ends_changes(record: HistoryRecord) -> bool:
    """Its session's uncommitted changes are over, or partly taken back: what is left is looked at anew."""
    return record.tag in ("COMMIT", "ROLLBACK") or bool((record.data or {}).get("committed"))


def _partial(records: Sequence[HistoryRecord]) -> set[tuple[str, str]]:
    """The Subscribers' tables that hold a part of the Publisher's rows or columns."""
    final: dict[tuple[str, str], Any] = {}
    results = set()
    for record in records:
        data = record.data or {}
        if record.kind == "state" and data.get("moment") == "final":
            final[record.node, str(data["table"])] = record.rows
        whole = final.get((record.node, str(data.get("table"))))
        if data.get("moment") == "part" and whole != record.rows:
            results.add((str(data.get("part")), str(data["table"])))
    return results


def _outcome(message: str) -> SessionState:
    return {
        "committed": SessionState(text="✓ committed", style="good"),
        "in doubt": SessionState(text="? in doubt", style="bad"),
    }.get(message, SessionState(text=message))


def _wait_text(waiter: str, wait: Mapping[str, Any]) -> str:
    who = wait.get("session") or wait.get("gid") or nameless(wait)
    step = f" ({wait['step']})" if wait.get("step") else ""
    prepared = ", prepared" if wait.get("gid") and wait.get("session") else ""
    lock = f": {wait['lock']}" if wait.get("lock") else ""
    return f"{waiter} waits for {who}{step}{prepared}{lock}"
