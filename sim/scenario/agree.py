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
    found = []
    for name in dict.fromkeys((*left, *right)):
        if name not in left or name not in right:
            was, was_not = "it was played", "it was not"
            found.append(
                Disagreement(
                    order=name, about=name,
                    one=was if name in left else was_not, other=was if name in right else was_not,
                )
            )  # fmt: skip
            continue
        if choices.either(left[name], right[name]):
            continue  # and what came of that
        mine, theirs = facts(left[name]), facts(right[name])
        found += [
            Disagreement(
                order=name, about=about,
                one=mine.get(about, _NEVER), other=theirs.get(about, _NEVER),
            )
            for about in dict.fromkeys((*mine, *theirs))
            if mine.get(about) != theirs.get(about)
        ]  # fmt: skip
    return found


def free(one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]) -> dict[str, str]:
    """By order what the two plays of a scenario chose differently, where PostgreSQL may choose either."""
    left, right = dict(by_order(one)), dict(by_order(other))
    found = {name: choices.either(left[name], right[name]) for name in left if name in right}
    return {name: said for name, said in found.items() if said}


def facts(records: Sequence[HistoryRecord]) -> dict[str, str]:
    """What one order came to: by what it is about, in the order of happening.

    Of a load nothing: who is first is for the clients to find out, and never the same.
    """
    if any(record.kind == "load" for record in reversed(records)):
        return {}
    names = _Names(records)
    found: dict[str, str] = {}
    for about, said in _facts(records, names):
        found[about] = f"{found[about]}, then {said}" if about in found else said
    return found


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
        found = _GID.fullmatch(gid)
        if found is None:
            return gid
        whose = self._of_gid.get(found[1], "somebody's")
        return f"{whose} at {found[2]}" if found[2] else whose

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
    said = [record.kind]
    if record.conflict is not None:
        said.append(str(record.conflict.get("kind")))
        told = {name: record.conflict[name] for name in _FACTS if record.conflict.get(name)}
        if told:
            said.append(stable(json.dumps(told, ensure_ascii=False, default=str)))
    if record.sqlstate:
        said.append(record.sqlstate)
    if record.number:
        said.append(str(record.number))
    if record.rowcount is not None and record.rowcount >= 0:
        said.append(f"{record.rowcount} rows")
    if record.rows is not None:
        rows = [
            {name: value for name, value in row.items() if name != VERSION_COLUMN}
            for row in record.rows
        ]
        said.append(stable(json.dumps(rows, ensure_ascii=False, default=str)))
    return " ".join(said)


def _wait(record: HistoryRecord) -> str:
    wait = record.wait or {}
    branch = _GID.fullmatch(str(wait.get("gid") or ""))
    holder = f"{wait.get('session')} {wait.get('step', '')}".rstrip()
    what = f"the prepared branch of {holder}" if branch else holder
    return f"for {what} at {wait.get('node')}"


def _delivery(record: HistoryRecord, names: _Names) -> str:
    data = record.data or {}
    whose = names.transaction(record.gid) if record.gid else f"one of {data.get('origin')}"
    told = [str(each) for each in data.get("commands", ())]
    more = sum(int(found[1]) for each in told if (found := _MORE.fullmatch(each)))
    commands = f"{len(told) - 1 + more} commands" if more else ", ".join(sorted(told))
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
