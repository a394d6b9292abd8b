"""Comparison of two plays of a scenario on different stages by their observable results.

Times, processes, messages, transaction numbers, and the order of independent observations are not compared. Pure
functions of the events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.names import PREFIX, VERSION_COLUMN
from twopc.sim.report.behaviour import stable
from twopc.sim.report.event_records import event_of, is_load
from twopc.sim.report.events import (
    AgentDelivery,
    AgentWork,
    AuthorNote,
    BranchMarkers,
    Deadlock,
    HistoryEvent,
    InfeasibleOrder,
    PassedTransaction,
    PreparedBranches,
    QueryAnswer,
    SessionOutcome,
    SkippedTransaction,
    Standstill,
    StepEnd,
    TableLook,
    WaitStart,
)
from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.scenario import choices

#: A gid, with or without a branch.
_GID = re.compile(rf"\b({PREFIX}:[\w.-]+:\d+:\d+)(?::([\w./-]+))?")
_NEVER = "nothing"
#: Of many commands only some are recorded, in the order in which the rows were read.
_MORE = re.compile(r"(\d+) more")
#: Words for the work of an agent on a transaction.
_WORK: Mapping[type[AgentWork], str] = {
    AgentDelivery: "applied",
    PassedTransaction: "passed over",
    SkippedTransaction: "left out",
}
#: The compared fields of a conflict; versions are not compared.
_FACTS = ("article", "key", "publisher_row", "constraints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A result that differs between two plays of one order."""

    order: str
    about: str
    """The subject: ``b_write``, ``bob``, ``account at sub1 at the end``."""
    one: str
    other: str

    def text(self, one: str, other: str) -> str:
        """Describe the difference; `one` and `other` name the two stages."""
        return f"{self.about}: on {one} {self.one}; on {other} {self.other}"


def compare(one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]) -> list[Disagreement]:
    """Return all differences between two plays of a scenario, order by order, causes before effects.

    An order in which PostgreSQL made a different choice that it is free to make is not compared: see `free`.
    """
    left, right = dict(by_order(one)), dict(by_order(other))
    results = []
    for name in dict.fromkeys((*left, *right)):
        if name not in left or name not in right:
            was, was_not = "it was played", "it was not"
            results.append(
                Disagreement(
                    order=name, about=name,
                    one=was if name in left else was_not, other=was if name in right else was_not,
                )
            )  # fmt: skip
            continue
        if choices.either(left[name], right[name]):
            continue  # the rest of the order may differ as a consequence
        own, others = facts(left[name]), facts(right[name])
        results += [
            Disagreement(
                order=name, about=about,
                one=own.get(about, _NEVER), other=others.get(about, _NEVER),
            )
            for about in dict.fromkeys((*own, *others))
            if own.get(about) != others.get(about)
        ]  # fmt: skip
    return results


def free(one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]) -> dict[str, str]:
    """Return, by order, the choices in which two plays differ and that PostgreSQL is free to make."""
    left, right = dict(by_order(one)), dict(by_order(other))
    results = {name: choices.either(left[name], right[name]) for name in left if name in right}
    return {name: text for name, text in results.items() if text}


def facts(records: Sequence[HistoryRecord]) -> dict[str, str]:
    """Return the results of one order by subject, in order of time.

    A load has none: the sequence of its clients' transactions is never the same.
    """
    if is_load(records):
        return {}
    events = [event_of(record) for record in records]
    names = _Names(events)
    results: dict[str, str] = {}
    for about, text in _facts(events, names):
        results[about] = f"{results[about]}, then {text}" if about in results else text
    return results


class _Names:
    """Stable names for values that differ in every run, derived from the sessions to which they belong."""

    def __init__(self, events: Sequence[HistoryEvent]) -> None:
        self._of_gid: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        counts: dict[str, int] = {}
        for event in events:
            if event.gid and event.session and event.gid not in self._of_gid:
                counts[event.session] = counts.get(event.session, 0) + 1
                self._of_gid[event.gid] = f"{event.session}'s {_nth(counts[event.session])}"

    def transaction(self, gid: str) -> str:
        """Return ``alice's first`` for a transaction, ``alice's first at pub`` for a branch of it."""
        match = _GID.fullmatch(gid)
        if match is None:
            return gid
        whose = self._of_gid.get(match[1], "somebody's")
        return f"{whose} at {match[2]}" if match[2] else whose

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the row with a stable name for its version: ``v1`` is the first one seen."""
        return {
            name: self._versions.setdefault(value, f"v{len(self._versions) + 1}")
            if name == VERSION_COLUMN and value
            else value
            for name, value in row.items()
        }


def _nth(number: int) -> str:
    words = {1: "first", 2: "second", 3: "third"}
    if number in words:
        return words[number]
    is_teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if is_teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _facts(events: Sequence[HistoryEvent], names: _Names) -> Iterator[tuple[str, str]]:
    waited: set[str] = set()
    for event in events:
        match event:
            case WaitStart():
                who = event.step or event.session
                if who not in waited and event.holder:
                    waited.add(who)  # the later holder depends on the time of observation
                    yield f"{who}'s wait", _wait(event)
            case StepEnd() if event.step and not isinstance(event, AuthorNote):
                yield event.step, _end(event)
            case SessionOutcome():
                yield event.session, event.message
            case AgentWork():
                yield f"what the agent of {event.node} did", _delivery(event, names)
            case Standstill() | InfeasibleOrder():
                yield event.kind, event.step or event.message
            case Deadlock():
                sessions = ", ".join(sorted(event.sessions))
                yield "the deadlock", f"of {sessions}, {event.session} cancelled"
            case QueryAnswer():
                rows = json.dumps(event.rows, ensure_ascii=False, default=str)
                yield f"'{event.sql}' at {event.node}", event.sqlstate or stable(rows)
            case PreparedBranches():
                gids = sorted(map(names.transaction, event.gids))
                yield f"prepared at {event.node} at the end", ", ".join(gids) or _NEVER
            case BranchMarkers():
                yield f"marked at {event.node} at the end", _marked(event.markers, names)
    looks = sorted(
        (each for each in events if isinstance(each, TableLook)), key=lambda each: each.node
    )
    for moment, word in (("initial", "at first"), ("final", "at the end")):
        for look in looks:
            if look.moment == moment:
                kept = [names.row(row) for row in _compared(look)]
                rows = json.dumps(kept, ensure_ascii=False, default=str)
                yield f"{look.table} at {look.node} {word}", f"{look.rowcount} {stable(rows)}"


def _compared(look: TableLook) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a look at a table, without versions if they cannot be compared."""
    for row in look.rows:
        yield {name: row[name] for name in row if look.has_versions or name != VERSION_COLUMN}


def _end(ended: StepEnd) -> str:
    """Return the end of a step as text."""
    lines = [ended.kind]
    if ended.conflict:
        lines.append(str(ended.conflict.get("kind")))
        report = {name: ended.conflict[name] for name in _FACTS if ended.conflict.get(name)}
        if report:
            lines.append(stable(json.dumps(report, ensure_ascii=False, default=str)))
    if ended.sqlstate:
        lines.append(ended.sqlstate)
    if ended.number:
        lines.append(str(ended.number))
    if ended.rowcount is not None and ended.rowcount >= 0:
        lines.append(f"{ended.rowcount} rows")
    if ended.rows is not None:
        rows = [
            {name: value for name, value in row.items() if name != VERSION_COLUMN}
            for row in ended.rows
        ]
        lines.append(stable(json.dumps(rows, ensure_ascii=False, default=str)))
    return " ".join(lines)


def _wait(event: WaitStart) -> str:
    wait = event.wait
    branch = _GID.fullmatch(str(wait.get("gid") or ""))
    holder = f"{wait.get('session')} {wait.get('step', '')}".rstrip()
    what = f"the prepared branch of {holder}" if branch else holder
    return f"for {what} at {wait.get('node')}"


def _delivery(done: AgentWork, names: _Names) -> str:
    whose = names.transaction(done.gid) if done.gid else f"one of {done.origin}"
    lines = list(done.commands)
    more = sum(int(match[1]) for each in lines if (match := _MORE.fullmatch(each)))
    commands = f"{len(lines) - 1 + more} commands" if more else ", ".join(sorted(lines))
    if done.calls:
        commands = f"{done.calls} called, {commands}"
    return f"{_WORK[type(done)]} {whose} ({stable(commands)})"


def _marked(markers: Sequence[Mapping[str, Any]], names: _Names) -> str:
    """Describe which branches took effect and which were fenced."""
    return (
        ", ".join(
            sorted(
                f"{names.transaction(each['gid'])} ({'fence' if each['fence'] else 'effect'}, with "
                f"{' '.join(each['participants'])})"
                for each in markers
            )
        )
        or _NEVER
    )
