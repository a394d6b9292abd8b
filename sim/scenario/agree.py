"""Whether two plays of a scenario on different stages came to the same: what a reader could tell is compared.

Not compared are times, processes, messages, the numbers of transactions, and which of several independent
things was seen first. Pure functions of the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.names import PREFIX, VERSION_COLUMN
from twopc.sim.report.behaviour import stable
from twopc.sim.report.history import ENDS, HistoryRecord, by_order
from twopc.sim.scenario import choices

#: A global transaction, perhaps with one of its branches.
_GID = re.compile(rf"\b({PREFIX}:[\w.-]+:\d+:\d+)(?::([\w./-]+))?")
_NEVER = "nothing"
#: Of many commands some are told, whichever rows were found first.
_MORE = re.compile(r"(\d+) more")
#: What is told of a conflict, versions apart.
_FACTS = ("article", "key", "publisher_row", "constraints")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Something that came out differently in one order."""

    order: str
    about: str
    """What it is about: ``b_write``, ``bob``, ``account at sub1 at the end``."""
    one: str
    other: str

    def text(self, one: str, other: str) -> str:
        """In words; `one` and `other` say where each was played."""
        return f"{self.about}: on {one} {self.one}; on {other} {self.other}"


def compare(one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]) -> list[Disagreement]:
    """Everything in which two plays of a scenario differ, order by order, causes before effects.

    An order in which PostgreSQL chose otherwise than it might have is none: see `free`.
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
            continue  # and what came of that
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
    """By order what the two plays of a scenario chose differently, where PostgreSQL may choose either."""
    left, right = dict(by_order(one)), dict(by_order(other))
    results = {name: choices.either(left[name], right[name]) for name in left if name in right}
    return {name: text for name, text in results.items() if text}


def facts(records: Sequence[HistoryRecord]) -> dict[str, str]:
    """What one order came to: by what it is about, in the order of happening.

    Of a load nothing: who is first is for the clients to find out, and never the same.
    """
    if any(record.kind == "load" for record in reversed(records)):
        return {}
    names = _Names(records)
    results: dict[str, str] = {}
    for about, text in _facts(records, names):
        results[about] = f"{results[about]}, then {text}" if about in results else text
    return results


class _Names:
    """What is new in every run, called by who it belongs to."""

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        self._of_gid: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        counts: dict[str, int] = {}
        for record in records:
            if record.gid and record.session and record.gid not in self._of_gid:
                counts[record.session] = counts.get(record.session, 0) + 1
                self._of_gid[record.gid] = f"{record.session}'s {_nth(counts[record.session])}"

    def transaction(self, gid: str) -> str:
        """``alice's first``; a branch of it ``alice's first at pub``."""
        match = _GID.fullmatch(gid)
        if match is None:
            return gid
        whose = self._of_gid.get(match[1], "somebody's")
        return f"{whose} at {match[2]}" if match[2] else whose

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """With the version's name: ``v1`` is the first that was seen."""
        return {
            name: self._versions.setdefault(value, f"v{len(self._versions) + 1}")
            if name == VERSION_COLUMN and value
            else value
            for name, value in row.items()
        }


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _facts(records: Sequence[HistoryRecord], names: _Names) -> Iterator[tuple[str, str]]:
    waited: set[str] = set()
    for record in records:
        data = record.data or {}
        who = record.step or record.session
        if record.kind == "blocked":
            if who not in waited and (record.wait or {}).get("session"):
                waited.add(who)  # who holds the lock later depends on when one looks
                yield f"{who}'s wait", _wait(record)
        elif record.kind in ENDS and record.step and record.kind != "explain":
            yield record.step, _end(record)
        elif record.kind == "outcome":
            yield record.session, record.message
        elif record.kind in ("deliver", "suppress", "skip"):
            yield f"what the agent of {record.node} did", _delivery(record, names)
        elif record.kind in ("stuck", "infeasible", "deadlock", "query"):
            yield from _rare(record)
        elif record.kind == "prepared":
            gids = sorted(names.transaction(gid) for gid in data["gids"])
            yield f"prepared at {record.node} at the end", ", ".join(gids) or _NEVER
        elif record.kind == "markers":
            yield f"marked at {record.node} at the end", _marked(data["markers"], names)
    for moment in ("initial", "final"):
        for record in sorted(records, key=lambda each: each.node):
            data = record.data or {}
            if record.kind == "state" and data.get("moment") == moment:
                word = "at the end" if moment == "final" else "at first"
                kept = [names.row(row) for row in _compared(record)]
                rows = json.dumps(kept, ensure_ascii=False, default=str)
                yield (
                    f"{data['table']} at {record.node} {word}",
                    f"{record.rowcount} {stable(rows)}",
                )


def _compared(record: HistoryRecord) -> Iterator[Mapping[str, Any]]:
    """The rows of a look at a table; without versions where a call makes its own."""
    uncompared = (record.data or {}).get("versions") is False
    for row in record.rows or ():
        yield {name: row[name] for name in row if not (uncompared and name == VERSION_COLUMN)}


def _rare(record: HistoryRecord) -> Iterator[tuple[str, str]]:
    if record.kind == "query":
        rows = json.dumps(record.rows, ensure_ascii=False, default=str)
        yield f"'{record.sql}' at {record.node}", record.sqlstate or stable(rows)
    elif record.kind == "deadlock":
        sessions = (record.data or {}).get("sessions", ())
        yield "the deadlock", f"of {', '.join(sorted(sessions))}, {record.session} cancelled"
    else:
        yield record.kind, record.step or record.message


def _end(record: HistoryRecord) -> str:
    """How a step ended."""
    lines = [record.kind]
    if record.conflict is not None:
        lines.append(str(record.conflict.get("kind")))
        report = {name: record.conflict[name] for name in _FACTS if record.conflict.get(name)}
        if report:
            lines.append(stable(json.dumps(report, ensure_ascii=False, default=str)))
    if record.sqlstate:
        lines.append(record.sqlstate)
    if record.number:
        lines.append(str(record.number))
    if record.rowcount is not None and record.rowcount >= 0:
        lines.append(f"{record.rowcount} rows")
    if record.rows is not None:
        rows = [
            {name: value for name, value in row.items() if name != VERSION_COLUMN}
            for row in record.rows
        ]
        lines.append(stable(json.dumps(rows, ensure_ascii=False, default=str)))
    return " ".join(lines)


def _wait(record: HistoryRecord) -> str:
    wait = record.wait or {}
    branch = _GID.fullmatch(str(wait.get("gid") or ""))
    holder = f"{wait.get('session')} {wait.get('step', '')}".rstrip()
    what = f"the prepared branch of {holder}" if branch else holder
    return f"for {what} at {wait.get('node')}"


def _delivery(record: HistoryRecord, names: _Names) -> str:
    data = record.data or {}
    whose = names.transaction(record.gid) if record.gid else f"one of {data.get('origin')}"
    lines = [str(each) for each in data.get("commands", ())]
    more = sum(int(match[1]) for each in lines if (match := _MORE.fullmatch(each)))
    commands = f"{len(lines) - 1 + more} commands" if more else ", ".join(sorted(lines))
    if data.get("calls"):
        commands = f"{data['calls']} called, {commands}"
    done = {"deliver": "applied", "suppress": "passed over", "skip": "left out"}[record.kind]
    return f"{done} {whose} ({stable(commands)})"


def _marked(markers: Sequence[Mapping[str, Any]], names: _Names) -> str:
    """Which branches took effect, and which never will."""
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
