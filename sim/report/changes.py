"""The versions of every row, and the transaction that made each.

A row's versions are numbered in the order in which they were seen at the Publisher, from v1, whatever their
identifiers. A pure function of one order's events; it knows rows only from looks: before the first step, after each
commit and sync, and at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.attribution import Attribution
from twopc.sim.report.events import HistoryEvent, Row, TableLook
from twopc.sim.report.transactions import Author


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """A version of a row."""

    table: str
    key: str
    number: int
    """Number from 1, in the order of appearance at the Publisher; 0 if the version was never there."""
    version: str
    """The version's identifier; empty if the row was deleted."""
    row: Row | None
    before: Row | None
    """The row that this version replaced; None if there was none."""
    author: Author | None
    """The transaction that made the version; None for an initial version, or if the history does not prove the
    author.
    """
    perhaps: tuple[Author, ...]
    """The transactions one of which made the version, if the history does not prove which."""
    seq: int
    """Number of the look that first showed the version."""
    initial: bool
    """Whether the version existed before the first step."""

    @property
    def name(self) -> str:
        """Table and key, as ``account id=1``."""
        return f"{self.table} {self.key}"

    @property
    def label(self) -> str:
        """The version's number, as ``v2``."""
        return f"v{self.number}" if self.number else "a version of its own"


class Changes:
    """The versions of every row in one order.

    Args:
        authors: the order's transactions.
        effects: where each global transaction took effect.
        twin: `Fold.twin`.
    """

    def __init__(
        self,
        events: Sequence[HistoryEvent],
        authors: Sequence[Author],
        effects: Mapping[str, Sequence[str]],
        twin: Mapping[str, Any],
    ) -> None:
        self._attribution = Attribution(events, authors, effects, twin)
        self._made: dict[Author, list[VersionChange]] = {}
        self._versions: dict[tuple[str, str], list[VersionChange]] = {}
        self._at_subscribers: dict[tuple[str, str], list[VersionChange]] = {}
        """The versions that were seen at Subscribers only."""
        self._held: dict[tuple[str, str], list[tuple[int, dict[str, VersionChange]]]] = {}
        self._publisher = ""
        looked = ""
        for event in events:
            if isinstance(event, TableLook) and not event.part:
                self._attribution.look(event, begins=event.node != looked)
                self._see(event)
            looked = event.node if isinstance(event, TableLook) else ""
        for row in self.rows():
            for change in row:
                if change.author is not None:
                    self._made.setdefault(change.author, []).append(change)
        took_effect = [
            one
            for one in (*authors, *self._made)
            if one.outcome == "committed" or one in self._made
        ]
        self.authors = sorted(dict.fromkeys(took_effect), key=lambda one: one.seq)
        """The transactions that took effect, in the order in which their sessions received the outcome."""

    def rows(self) -> Iterator[list[VersionChange]]:
        """Yield the versions of each row."""
        yield from self._versions.values()

    def rows_of(self, table: str) -> list[list[VersionChange]]:
        """Return the versions of each row of one table."""
        return [row for (name, _), row in self._versions.items() if name == table]

    def of(self, table: str, key: str) -> list[VersionChange]:
        """Return the versions of one row."""
        return self._versions.get((table, key), [])

    def made_by(self, author: Author) -> list[VersionChange]:
        """Return the versions that one transaction made at the Publisher."""
        return self._made.get(author, [])

    def seen_at(self, seq: int) -> list[VersionChange]:
        """Return the versions that a look at the Publisher was the first to show; `seq` is the look's number."""
        return [each for row in self.rows() for each in row if each.seq == seq]

    def version(self, table: str, key: str, version: str) -> VersionChange | None:
        """Return the version with this identifier; None if unknown."""
        known = [*self.of(table, key), *self._at_subscribers.get((table, key), ())]
        return next((each for each in known if version and each.version == version), None)

    def held(
        self, node: str, table: str, key: str, *, before: int | None = None
    ) -> VersionChange | None:
        """Return the version that a node held at the last look before the event `before`."""
        looks = self._held.get((node, table), [])
        seen = [rows for seq, rows in looks if before is None or seq < before]
        return seen[-1].get(key) if seen else None

    def _see(self, look: TableLook) -> None:
        table, keys = look.table, look.key
        self._publisher = self._publisher or look.node  # the Publisher is always looked at first
        looks = self._held.setdefault((look.node, table), [])
        previous = looks[-1][1] if looks else {}
        now = {}
        for row, xid in zip_longest(look.rows, look.xids, fillvalue=""):
            assert not isinstance(row, str)
            key = ", ".join(f"{name}={row.get(name)}" for name in keys)
            now[key] = self._row(look, table, key, row, xid)
        if look.node == self._publisher and len(look.rows) == look.rowcount:
            for key, gone in previous.items():
                if key not in now and self.of(table, key)[-1].row is not None:
                    self._add(look, table, key, None, gone.row, "")
        looks.append((look.seq, now))

    def _row(self, look: TableLook, table: str, key: str, row: Row, xid: str) -> VersionChange:
        at_publisher = look.node == self._publisher
        known = self.version(table, key, str(row.get(VERSION_COLUMN)))
        if known is not None and (known.number or not at_publisher):
            return known
        versions = self.of(table, key) if at_publisher else []
        return self._add(look, table, key, row, versions[-1].row if versions else None, xid)

    def _add(
        self,
        look: TableLook,
        table: str,
        key: str,
        row: Row | None,
        before: Row | None,
        xid: str,
    ) -> VersionChange:
        at_publisher = look.node == self._publisher
        initial = look.moment == "initial"
        authors = [] if initial else self._attribution.of(look.node, xid)
        change = VersionChange(
            table=table,
            key=key,
            number=len(self.of(table, key)) + 1 if at_publisher else 0,
            version="" if row is None else str(row.get(VERSION_COLUMN)),
            row=row,
            before=before,
            author=authors[0] if len(authors) == 1 else None,
            perhaps=tuple(authors) if len(authors) > 1 else (),
            seq=look.seq,
            initial=initial,
        )
        seen = self._versions if at_publisher else self._at_subscribers
        seen.setdefault((table, key), []).append(change)
        return change


def changed_text(change: VersionChange) -> str:
    """Return a change as text: ``balance 100 → 90``, or that the row is new or deleted."""
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
