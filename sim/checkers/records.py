"""What checkers share: finding records, and reading rows with their keys and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.history import HistoryRecord

#: What a scenario says of an invariant, by the names of its keys.
Settings = Mapping[str, Any]
Check = Callable[[Sequence[HistoryRecord], Settings], list[str]]
#: How the agents' work after the last step is called in a history.
LAST_SYNC = "last sync"
NONE: Settings = MappingProxyType({})


def of_kind(records: Sequence[HistoryRecord], kind: str) -> Iterator[HistoryRecord]:
    """The records of a kind."""
    return (record for record in records if record.kind == kind)


def states(records: Sequence[HistoryRecord]) -> Iterator[tuple[str, str, str, HistoryRecord]]:
    """Every look at a table: its moment, table and node, and the record.

    Rows of a part are none, and what stands where nobody subscribes any more is nobody's copy.
    """
    for record in of_kind(records, "state"):
        data = record.data or {}
        if not data.get("part") and data.get("subscribed") is not False:
            yield str(data["moment"]), str(data["table"]), record.node, record


def left_by(records: Sequence[HistoryRecord]) -> set[str]:
    """The Subscribers that have left in the course of an order; with them went the markers of their branches."""
    lines = {record.node for record in of_kind(records, "ok") if record.tag == "UNSUBSCRIBE"}
    # whoever asked for it may have given up waiting, and a look tells that it happened all the same
    last = {record.node: record.data or {} for record in of_kind(records, "state")}
    return lines | {node for node, data in last.items() if data.get("subscribed") is False}


def by_key(record: HistoryRecord) -> dict[str, Mapping[str, Any]]:
    """The rows that a look at a table found, by their keys in words."""
    key = (record.data or {})["key"]
    return {", ".join(f"{name}={row.get(name)}" for name in key): row for row in record.rows or ()}


def is_cut(record: HistoryRecord) -> bool:
    """A look at a table has found more rows than the history has kept."""
    return (record.rowcount or 0) > len(record.rows or ())


def versions(record: HistoryRecord) -> dict[str, str]:
    """Each row's version, by its key in words."""
    return {key: str(row.get(VERSION_COLUMN)) for key, row in by_key(record).items()}


def has_versions(record: HistoryRecord) -> bool:
    """The rows of a look at a table have versions that mean something there."""
    return (record.data or {}).get("versions") is not False


def content(row: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of a row but its version."""
    return {name: value for name, value in row.items() if name != VERSION_COLUMN}


class Numbers:
    """The versions of rows by number, as they were seen at the Publisher: ``v1`` is the first."""

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        self._known: dict[tuple[str, str], list[str | None]] = {}
        publisher = next((node for _, _, node, _ in states(records)), "")
        for _, table, node, record in states(records):
            if node != publisher:
                continue
            now = versions(record)
            gone = [key for name, key in self._known if name == table and key not in now]
            for key in (*now, *gone):
                past = self._known.setdefault((table, key), [])
                if not past or past[-1] != now.get(key):
                    past.append(now.get(key))

    def label(self, table: str, key: str, version: str | None) -> str:
        """``v2``, ``no row``, or that the Publisher never had it."""
        if version is None:
            return "no row"
        past = self._known.get((table, key), [])
        return f"v{past.index(version) + 1}" if version in past else "a version of its own"
