"""Functions that checks share: selecting records, and reading rows with their keys and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.history import HistoryRecord

#: Settings of an invariant in a scenario, by key.
Settings = Mapping[str, Any]
Check = Callable[[Sequence[HistoryRecord], Settings], list[str]]
#: Step name, in a history, of the synchronisation after the last step.
LAST_SYNC = "last sync"
NONE: Settings = MappingProxyType({})


def of_kind(records: Sequence[HistoryRecord], kind: str) -> Iterator[HistoryRecord]:
    """Return the records of a kind."""
    return (record for record in records if record.kind == kind)


def states(records: Sequence[HistoryRecord]) -> Iterator[tuple[str, str, str, HistoryRecord]]:
    """Yield each recorded state of a table: its moment, table and node, and the record.

    States of a part of a table are left out, and so are tables at nodes without a subscription.
    """
    for record in of_kind(records, "state"):
        data = record.data or {}
        if not data.get("part") and data.get("subscribed") is not False:
            yield str(data["moment"]), str(data["table"]), record.node, record


def commits(
    records: Sequence[HistoryRecord],
) -> Iterator[tuple[HistoryRecord | None, list[HistoryRecord]]]:
    """Yield the states of tables that directly follow a commit together with it, and the other states with None."""
    commit: HistoryRecord | None = None
    looks: list[HistoryRecord] = []
    for record in records:
        if record.kind == "state":
            if not (record.data or {}).get("part"):
                looks.append(record)
            continue
        if looks:
            yield commit, looks
            looks = []
        commit = record if (record.data or {}).get("committed") else None
    if looks:
        yield commit, looks


def left_by(records: Sequence[HistoryRecord]) -> set[str]:
    """Return the Subscribers that unsubscribed, and whose branches therefore have no markers left."""
    lines = {record.node for record in of_kind(records, "ok") if record.tag == "UNSUBSCRIBE"}
    # the session that unsubscribed may have timed out although it took effect; the last state shows that
    last = {record.node: record.data or {} for record in of_kind(records, "state")}
    return lines | {node for node, data in last.items() if data.get("subscribed") is False}


def by_key(record: HistoryRecord) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a table's state, by their keys as text."""
    key = (record.data or {})["key"]
    return {", ".join(f"{name}={row.get(name)}" for name in key): row for row in record.rows or ()}


def is_cut(record: HistoryRecord) -> bool:
    """Return whether the history has kept only some rows of a table's state."""
    return (record.rowcount or 0) > len(record.rows or ())


def versions(record: HistoryRecord) -> dict[str, str]:
    """Return each row's version, by its key as text."""
    return {key: str(row.get(VERSION_COLUMN)) for key, row in by_key(record).items()}


def has_versions(record: HistoryRecord) -> bool:
    """Return whether the row versions in a table's state are meaningful at its node."""
    return (record.data or {}).get("versions") is not False


def content(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's values without its version."""
    return {name: value for name, value in row.items() if name != VERSION_COLUMN}


class Numbers:
    """Numbers for row versions, in the order in which they appeared at the Publisher: ``v1`` is the first."""

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
        """Return ``v2``, ``no row``, or a text for a version that the Publisher never had."""
        if version is None:
            return "no row"
        past = self._known.get((table, key), [])
        return f"v{past.index(version) + 1}" if version in past else "a version of its own"
