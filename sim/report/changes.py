"""Who made which version of which row: what reasons are built from.

A row's versions are numbered as they were seen at the Publisher, from v1, whatever their identifiers are. A
pure function of one order's records; it sees only rows that were looked at: before the first step, after
each commit and sync, and at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.history import Record

_WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY")

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """A transaction that was committed."""

    session: str
    node: str
    gid: str
    steps: tuple[str, ...]
    """Its steps that wrote, without those that were taken back."""
    seq: int
    """The record that says that it was committed."""
    nodes: tuple[str, ...] = ()
    """Where it worked: at several Subscribers, perhaps."""

    def wrote(self, table: str, key: str, sql_of: Mapping[str, str]) -> str:
        """The step that wrote this row, as far as its SQL tells."""
        of_table = [step for step in self.steps if table in sql_of.get(step, "")]
        spaced = key.replace("=", " = ")
        of_row = [step for step in of_table if re.search(rf"{re.escape(spaced)}\b", sql_of[step])]
        return (of_row or of_table or list(self.steps) or [""])[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One version of one row."""

    table: str
    key: str
    number: int
    """From 1, in the order of being seen at the Publisher; 0: it was never there."""
    version: str
    """Its identifier; empty if the row was deleted."""
    row: Row | None
    before: Row | None
    """What it replaced; None if the row was not there."""
    author: Author | None
    """None: it was there before the first step, or nobody of the scenario made it."""
    seq: int

    @property
    def name(self) -> str:
        """``account id=1``."""
        return f"{self.table} {self.key}"

    @property
    def label(self) -> str:
        """``v2``."""
        return f"v{self.number}" if self.number else "a version of its own"


class Changes:
    """The versions of every row in one order."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.sql_of = {
            record.step: " ".join(record.sql.split())
            for record in records
            if record.kind == "invoke"
        }
        self.waited_for = {
            record.step: str((record.wait or {}).get("session"))
            for record in records
            if record.kind == "blocked"
        }
        """For whom each step waited last."""
        self.authors: list[Author] = []
        """In the order of committing."""
        self._records = records
        self._versions: dict[tuple[str, str], list[Change]] = {}
        self._elsewhere: dict[tuple[str, str], list[Change]] = {}
        """Those that only a Subscriber has had."""
        self._held: dict[tuple[str, str], list[tuple[int, dict[str, Change]]]] = {}
        self._publisher = ""
        for record in records:
            if (record.data or {}).get("committed"):
                self.authors.append(_author(records, record))
            elif record.kind == "state" and not (record.data or {}).get("part"):
                self._see(record)

    def rows(self) -> Iterator[list[Change]]:
        """The versions of each row."""
        yield from self._versions.values()

    def rows_of(self, table: str) -> list[list[Change]]:
        """The versions of each row of one table."""
        return [row for (name, _), row in self._versions.items() if name == table]

    def of(self, table: str, key: str) -> list[Change]:
        """The versions of one row."""
        return self._versions.get((table, key), [])

    def made_by(self, author: Author) -> list[Change]:
        """What one transaction changed."""
        return [each for row in self.rows() for each in row if each.author == author]

    def version(self, table: str, key: str, version: str) -> Change | None:
        """The version of this identifier."""
        known = [*self.of(table, key), *self._elsewhere.get((table, key), ())]
        return next((each for each in known if version and each.version == version), None)

    def held(self, node: str, table: str, key: str, *, before: int | None = None) -> Change | None:
        """The version that a node held when it was looked at last, before the record `before`."""
        looks = self._held.get((node, table), [])
        seen = [rows for seq, rows in looks if before is None or seq < before]
        return seen[-1].get(key) if seen else None

    def step_of(self, change: Change) -> str:
        """``alice's a_write``; empty if nobody of the scenario made it."""
        if change.author is None:
            return ""
        step = change.author.wrote(change.table, change.key, self.sql_of)
        return f"{change.author.session}'s {step}" if step else change.author.session

    def _see(self, record: Record) -> None:
        data = record.data or {}
        table, keys = str(data.get("table")), data.get("key", ())
        self._publisher = self._publisher or record.node  # it is always looked at first
        looks = self._held.setdefault((record.node, table), [])
        previous = looks[-1][1] if looks else {}
        now = {}
        for row in record.rows or ():
            key = ", ".join(f"{name}={row.get(name)}" for name in keys)
            now[key] = self._row(record, table, key, row)
        if record.node == self._publisher and len(record.rows or ()) == record.rowcount:
            for key, gone in previous.items():
                if key not in now and self.of(table, key)[-1].row is not None:
                    self._add(record, table, key, None, gone.row)
        looks.append((record.seq, now))

    def _row(self, record: Record, table: str, key: str, row: Row) -> Change:
        at_publisher = record.node == self._publisher
        known = self.version(table, key, str(row.get(VERSION_COLUMN)))
        if known is not None and (known.number or not at_publisher):
            return known
        versions = self.of(table, key) if at_publisher else []
        return self._add(record, table, key, row, versions[-1].row if versions else None)

    def _add(
        self, record: Record, table: str, key: str, row: Row | None, before: Row | None
    ) -> Change:
        at_publisher = record.node == self._publisher
        initial = (record.data or {}).get("moment") == "initial"
        change = Change(
            table=table,
            key=key,
            number=len(self.of(table, key)) + 1 if at_publisher else 0,
            version="" if row is None else str(row.get(VERSION_COLUMN)),
            row=row,
            before=before,
            author=None if initial or not self.authors else self.authors[-1],
            seq=record.seq,
        )
        seen = self._versions if at_publisher else self._elsewhere
        seen.setdefault((table, key), []).append(change)
        return change


def _author(records: Sequence[Record], committed: Record) -> Author:
    """The transaction that this record ends: back to its beginning, without what was taken back."""
    steps: list[str] = []
    saved: dict[str, int] = {}
    sql_of = {record.step: record.sql for record in records if record.kind == "invoke"}
    for record in records:
        if record.seq > committed.seq:
            break
        if record.session != committed.session or record.kind != "ok":
            continue
        words = sql_of.get(record.step, "").lower().replace(";", " ").split()
        if record.tag == "BEGIN":
            steps, saved = [], {}
        elif record.tag == "SAVEPOINT" and words:
            saved[words[-1]] = len(steps)
        elif record.tag == "ROLLBACK" and "to" in words:
            steps = steps[: saved.get(words[-1], 0)]
        elif record.tag.startswith(_WRITES) and record.rowcount:
            steps.append(record.step)
        if (record.data or {}).get("committed") and record.seq != committed.seq:
            steps, saved = [], {}
    return Author(
        session=committed.session,
        node=committed.node,
        gid=committed.gid,
        steps=tuple(steps),
        seq=committed.seq,
        nodes=tuple(
            dict.fromkeys(
                each.node
                for each in records
                if each.kind == "ok" and each.session == committed.session
                if each.gid == committed.gid
            )
        ),
    )


def changed_text(change: Change) -> str:
    """``balance 100 → 90``; of a new row or one that is gone, so much."""
    if change.row is None:
        return "deleted"
    if change.before is None:
        return "new"
    parts = [
        f"{name} {_cell(change.before.get(name))} → {_cell(value)}"
        for name, value in change.row.items()
        if name != VERSION_COLUMN and change.before.get(name) != value
    ]
    return ", ".join(parts) or "the same values again"


def _cell(value: Any) -> str:
    return "null" if value is None else str(value)
