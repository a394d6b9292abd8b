"""The state of every node at every moment of an order, as far as the history shows it.

A moment is one row of the timeline with everything that was recorded until the next. Committed rows are
known from looks: before the first step, after each commit, at the end. A pure function of the records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.report.events import (
    AuthorNote,
    DoubtfulStep,
    HistoryEvent,
    NodeIncident,
    Outage,
    Pause,
    PreparedBranches,
    Remark,
    Row,
    SessionOutcome,
    StepEnd,
    StepStart,
    StepSuccess,
    TableLook,
    UncommittedRows,
    UnsentStep,
    WaitEnd,
    WaitStart,
)
from twopc.sim.report.phrases import WORDS, nameless, refusal
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.timeline import LaneEntry, timeline
from twopc.sim.report.transactions import WRITES

_TROUBLES: Mapping[type[NodeIncident], str] = {
    Outage: "accepts no connections",
    Pause: "its agent is paused",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A row of the timeline."""

    entry: LaneEntry
    more: tuple[LaneEntry, ...]
    """The further lines below the entry."""
    until: int
    """Number of the last event that belongs to the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """The current activity of a session, in a few words."""

    text: str
    style: str = ""
    """Style, as of a `LaneEntry`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncommittedRow:
    """A row that an open transaction has changed."""

    session: str
    row: Mapping[str, Any]
    """The row as the transaction sees it; a deleted row as it was."""
    gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """The committed rows of a table at a node, and the known uncommitted changes."""

    name: str
    key: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    count: int
    """Number of all rows; of a long table only the first rows are recorded."""
    before: tuple[Mapping[str, Any], ...] | None
    """The rows before their last change; None if they have not changed."""
    publisher: tuple[Mapping[str, Any], ...] | None
    """The Publisher's rows that should be at this node at the same moment; None at the Publisher itself, and if a
    partition is published whose rows no look has shown.
    """
    uncommitted: tuple[UncommittedRow, ...] = ()
    """The uncommitted rows, which are recorded only when a user steps through an order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The state of a node at a moment."""

    sessions: tuple[tuple[str, SessionState], ...]
    waits: tuple[str, ...]
    """The waits at this node, in words."""
    prepared: tuple[str, ...] | None
    """The prepared branches; None until a look has shown them."""
    troubles: tuple[str, ...]
    """The current disturbances: the node accepts no connections, or its agent is paused."""
    tables: tuple[NodeTable, ...]


def moments(order: PlayedOrder, rows_max: int | None = None) -> list[TimelineRow]:
    """Return the rows of the order's timeline, at most `rows_max`.

    The last row includes everything that was recorded after it, so that the last moment shows the end.
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
    """Return the states of each node: before the first moment, and at each moment."""
    watch = _StateFold(order)
    results: dict[str, list[NodeState]] = {node: [] for node in order.nodes}
    events = iter(order.fold.events)
    waiting = next(events, None)
    first = at[0].entry.seq - 1 if at else order.records[-1].seq
    for until in (first, *(moment.until for moment in at)):
        while waiting is not None and waiting.seq <= until:
            watch.see(waiting)
            waiting = next(events, None)
        for node, seen in results.items():
            seen.append(watch.node(node))
    return results


def state_at(order: PlayedOrder, seq: int) -> dict[str, NodeState]:
    """Return the state of each node after one event; the order may not be over."""
    watch = _StateFold(order)
    for event in order.fold.events:
        if event.seq <= seq:
            watch.see(event)
    return {node: watch.node(node) for node in order.nodes}


class _StateFold:
    """The state that is known after the events seen so far."""

    def __init__(self, order: PlayedOrder) -> None:
        self._order = order
        self._sessions = order.fold.sessions
        self._standings = {
            name: SessionState(text="not begun", style="faint") for name in order.fold.sessions
        }
        self._open: dict[str, bool] = {}
        """The sessions with an open transaction, and whether the transaction has changed rows."""
        self._sql: dict[str, str] = {}
        self._uncommitted: dict[tuple[str, str], dict[str, tuple[UncommittedRow, ...]]] = {}
        self._waits: dict[str, Mapping[str, Any]] = {}
        self._prepared: dict[str, tuple[str, ...]] = {}
        self._troubles: dict[str, dict[type[NodeIncident], str]] = {}
        self._tables: dict[str, dict[str, TableLook]] = {}
        self._before: dict[tuple[str, str], tuple[Mapping[str, Any], ...]] = {}
        self._partial = _partial(order.fold.of(TableLook))
        self._parts: dict[tuple[str, str], tuple[Mapping[str, Any], ...]] = {}

    def see(self, event: HistoryEvent) -> None:
        match event:
            case TableLook():
                self._look(event)
            case UncommittedRows():
                self._changed(event)
            case PreparedBranches():
                self._prepared[event.node] = tuple(event.gids)
            case Outage() | Pause():
                of_node = self._troubles.setdefault(event.node, {})
                of_node.pop(type(event), None)
                if event.is_on:
                    of_node[type(event)] = _TROUBLES[type(event)]
            case _ if event.session in self._standings:
                self._session(event)

    def _look(self, look: TableLook) -> None:
        tables = self._tables.setdefault(look.node, {})
        if look.moment == "part":
            self._parts[look.part, look.table] = look.rows
            return
        last = tables.get(look.table)
        if last is not None and last.rows != look.rows:
            self._before[look.node, look.table] = last.rows
        tables[look.table] = look

    def _changed(self, seen: UncommittedRows) -> None:
        """Record the uncommitted rows of a session at its node; with eager shipping, at the Publisher too."""
        session, table, key = seen.session, seen.table, seen.key
        rows = [(row, False) for row in seen.rows] + [(row, True) for row in seen.gone]
        here = [UncommittedRow(session=session, row=row, gone=is_gone) for row, is_gone in rows]
        self._uncommitted.setdefault((seen.node, table), {})[session] = tuple(here)
        publisher = self._order.publisher
        if seen.node == publisher or self._order.header.get("shipping", "eager") != "eager":
            return
        other = self._tables.get(publisher, {}).get(table)
        known = {_key(row, key): row for row in (other.rows if other else ())}
        there = [
            dataclasses.replace(one, row={**known.get(_key(one.row, key), {}), **one.row})
            for one in here
        ]
        self._uncommitted.setdefault((publisher, table), {})[session] = tuple(there)

    def _session(self, event: HistoryEvent) -> None:
        name = event.session
        if isinstance(event, StepStart):
            self._sql[name] = event.sql
        elif isinstance(event, StepEnd) and _ends_changes(event):
            for of_table in self._uncommitted.values():
                of_table.pop(name, None)
        if isinstance(event, (StepEnd, WaitEnd, WaitStart, Remark, SessionOutcome)):
            self._waits.pop(name, None)
        if isinstance(event, WaitStart) and event.wait:
            self._waits[name] = event.wait
        standing = self._standing(event)
        if standing is not None:
            self._standings[name] = standing

    def _standing(self, event: HistoryEvent) -> SessionState | None:
        match event:
            case StepStart():
                return SessionState(text=f"runs {event.sql if event.sql in WORDS else event.step}")
            case WaitStart():
                return SessionState(text=f"⧗ {event.step} waits", style="wait")
            case WaitEnd():
                return SessionState(text=f"runs {event.step}")
            case StepSuccess():
                return self._done(event)
            case UnsentStep() | AuthorNote():
                return None
            case StepEnd():
                return SessionState(text=refusal(event), style="bad")
            case SessionOutcome() if event.message != "none":
                is_shown = self._standings[event.session].text.endswith(event.message)
                return None if is_shown else _outcome(event.message)
        return None

    def _done(self, done: StepSuccess) -> SessionState:
        name = done.session
        if done.tag == "BEGIN":
            self._open[name] = False
        elif done.tag == "ROLLBACK" and "to" not in self._sql.get(name, "").lower().split():
            self._open.pop(name, None)
            return _outcome("rolled back")
        elif done.tag == "COMMIT" or done.has_committed:
            self._open.pop(name, None)
            return _outcome("committed")
        elif name in self._open and done.tag.startswith(WRITES) and done.rowcount:
            self._open[name] = True
        if name not in self._open:
            return SessionState(text="idle")
        changes = ", with uncommitted changes" if self._open[name] else ""
        return SessionState(text=f"in a transaction{changes}")

    def node(self, node: str) -> NodeState:
        """Return the known state of a node."""
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
            tables=tuple(self._table(node, look) for look in self._tables.get(node, {}).values()),
        )

    def _table(self, node: str, look: TableLook) -> NodeTable:
        name = look.table
        return NodeTable(
            name=name,
            key=tuple(look.key),
            rows=look.rows,
            count=look.rowcount,
            before=self._before.get((node, name)),
            publisher=self._expected(node, name),
            uncommitted=tuple(
                row
                for of_session in self._uncommitted.get((node, name), {}).values()
                for row in of_session
            ),
        )

    def _expected(self, node: str, name: str) -> tuple[Mapping[str, Any], ...] | None:
        """Return the rows that a Subscriber should have according to the Publisher."""
        other = self._tables.get(self._order.publisher, {}).get(name)
        if node == self._order.publisher or other is None:
            return None
        if (node, name) in self._partial:
            return self._parts.get((node, name))
        return other.rows


def _key(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in columns)


def _ends_changes(ended: StepEnd) -> bool:
    """Return whether a step's end ends the session's uncommitted changes; rows that remain are looked at again."""
    if isinstance(ended, (StepSuccess, DoubtfulStep, UnsentStep, AuthorNote)):
        return ended.tag in ("COMMIT", "ROLLBACK") or ended.has_committed
    return True


def _partial(looks: Sequence[TableLook]) -> set[tuple[str, str]]:
    """Return the Subscribers' tables that hold only a part of the Publisher's rows or columns."""
    final: dict[tuple[str, str], Sequence[Row]] = {}
    results = set()
    for look in looks:
        if look.moment == "final":
            final[look.node, look.table] = look.rows
        elif look.moment == "part" and final.get((look.node, look.table)) != look.rows:
            results.add((look.part, look.table))
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
