"""Checks of rows: their versions, lost updates, equality at all nodes, sums and queries."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.checkers.records import (
    LAST_SYNC,
    NONE,
    Numbers,
    Settings,
    by_key,
    commits,
    content,
    has_versions,
    of_kind,
    states,
    versions,
)
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.phrases import row_text

_Content = dict[str, Any]
_Versions = dict[tuple[str, str], str]  # table and key → version
#: Setting by which a sum or a query is checked at each node separately.
_EVERYWHERE = "everywhere"


def versions_move_forward(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the rows whose version did not change with the content, or returned to an earlier value.

    A version also identifies one content: rows with the same version at two nodes must be equal.
    """
    broken = []
    past: dict[tuple[str, str, str], list[tuple[str, _Content]]] = {}
    contents: dict[tuple[str, str, str], tuple[str, _Content]] = {}
    numbers = Numbers(records)
    for _, table, node, record in states(records):
        for key, row in by_key(record).items() if has_versions(record) else ():
            version, held = str(row.get(VERSION_COLUMN)), content(row)
            history = past.setdefault((node, table, key), [])
            at, number = f"{table} {key} at {node}", numbers.label(table, key, version)
            if not history or history[-1] != (version, held):
                if history and history[-1][0] == version:
                    broken.append(f"{at} changed and kept its version, {number}")
                elif any(version == earlier for earlier, _ in history):
                    broken.append(f"{at} came back to its earlier version, {number}")
                history.append((version, held))
            there, known = contents.setdefault((table, key, version), (node, held))
            common = known.keys() & held.keys()  # a column may be unpublished
            if there != node and any(known[name] != held[name] for name in common):
                broken.append(
                    f"{table} {key} has the same version, {number}, at {there} and {node}, with "
                    f"different contents"
                )
    return list(dict.fromkeys(broken))


def no_lost_update(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the changes that a Subscriber made to rows of which the Publisher had another version.

    Only row versions are compared, before and after the commit, at both nodes. A row that a trigger changes only at
    the Publisher is no change of the Subscriber.
    """
    held: dict[str, _Versions] = {}
    broken: list[str] = []
    publisher = next((record.node for record in records if record.kind == "state"), "")
    numbers = Numbers(records)
    for commit, looks in commits(records):
        if commit is not None and commit.node != publisher:
            for node in dict.fromkeys(look.node for look in looks):
                if node != publisher:
                    broken += _lost(commit, node, held, looks, publisher, numbers)
        for look in looks:
            _note(held, look)
    return broken


def _note(held: dict[str, _Versions], look: HistoryRecord) -> None:
    table = str((look.data or {})["table"])
    kept = {place: v for place, v in held.get(look.node, {}).items() if place[0] != table}
    held[look.node] = {**kept, **{(table, key): v for key, v in versions(look).items()}}


def _lost(
    commit: HistoryRecord,
    node: str,
    held: dict[str, _Versions],
    looks: Sequence[HistoryRecord],
    publisher: str,
    numbers: Numbers,
) -> Iterator[str]:
    after = {node: dict(rows) for node, rows in held.items()}
    for look in looks:
        _note(after, look)
    own, other = held.get(node, {}), held.get(publisher, {})
    now_mine, now_theirs = after.get(node, {}), after.get(publisher, {})
    for place in dict.fromkeys((*other, *now_theirs)):
        both = own.get(place) != now_mine.get(place) and other.get(place) != now_theirs.get(place)
        if both and own.get(place) != other.get(place):
            table, key = place
            mine_was, theirs_was = (
                numbers.label(table, key, rows.get(place)) for rows in (own, other)
            )
            yield (
                f"{commit.session} ({commit.step}) changed {table} {key} from {mine_was} at "
                f"{node}, while {publisher} had {theirs_was}: that change is lost"
            )


def converged(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the differences between each Subscriber's rows and the Publisher's, after the last synchronisation.

    Only rows that belong to the Subscriber are compared. Row versions must be equal too, except at read-only
    Subscribers: a Subscriber with another version would be refused at its next change.
    """
    final = {
        (table, node): each for moment, table, node, each in states(records) if moment == "final"
    }
    parts = {
        (str((record.data or {})["table"]), str((record.data or {})["part"])): record
        for record in of_kind(records, "state")
        if (record.data or {}).get("part")
    }
    ends = {  # the last record of a node counts: after a fault, the synchronisation was retried
        record.node: record
        for record in records
        if record.step == LAST_SYNC and record.kind in ("ok", "error", "timed_out", "stuck")
    }
    broken = [
        f"{record.node} did not get everything: {record.message}"
        for record in ends.values()
        if record.kind != "ok"
    ]
    publisher = next((node for _, node in final), "")
    for (table, node), record in final.items():
        if node != publisher:
            expected = parts.get((table, node)) or final[table, publisher]
            broken += _differences(table, expected, record)
    return broken


def _differences(table: str, expected: HistoryRecord, got: HistoryRecord) -> Iterator[str]:
    """Yield the rows of a Subscriber's table that are missing, surplus or different, by key."""
    there, here = by_key(expected), by_key(got)
    known, digests = ((each.data or {}).get("digests", {}) for each in (expected, got))
    uncompared = set() if has_versions(got) else {VERSION_COLUMN}
    # digests and row counts cover rows that the history has not kept
    for column in (each for each in digests if each not in uncompared):
        if column in known and known[column] != digests[column]:
            shown = column.replace(VERSION_COLUMN, "row version")
            yield f"{table} at {got.node} differs from {expected.node} in {shown}, in all its rows taken together"
    if expected.rowcount != got.rowcount and len(there) == len(here):
        yield f"{table} at {got.node} has {got.rowcount} rows, not {expected.rowcount}"
    for name in dict.fromkeys((*there, *here)):
        row, held = there.get(name), here.get(name)
        where = f"{table} {name} at {got.node}"
        if held is None:
            yield f"{where} is missing"
        elif row is None and (expected.data or {}).get("stays"):
            continue
        elif row is None:
            yield f"{where} is not at {expected.node}"
        else:
            differ = [
                column
                for column in held
                if held[column] != row.get(column) and column not in uncompared
            ]
            if differ:
                shown = ", ".join(differ).replace(VERSION_COLUMN, "row version")
                yield f"{where} differs from {expected.node} in {shown}"


def sums(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the nodes where the final sum of a column is not as expected. NULL counts as zero.

    Settings: `table`, `column`, `equals`; `node`: a node's name, `everywhere` for each node separately, or None for
    the Publisher, which is the first node of the history.
    """
    table, column, expected = settings["table"], settings["column"], settings["equals"]
    final = {
        node: record
        for moment, name, node, record in states(records)
        if moment == "final" and name == table
    }
    broken = []
    for node in _nodes(settings.get("node"), records, final):
        record = final[node]
        if record.rowcount != len(record.rows or ()):
            kept = (record.data or {}).get("sums")
            if kept is None or column not in kept:
                broken.append(f"{table} at {node} has {record.rowcount} rows, too many to add up")
            elif Decimal(kept[column]) != Decimal(str(expected)):
                broken.append(
                    f"{table}.{column} at {node} adds up to {kept[column]}, not {expected}"
                )
            continue
        try:
            result = sum(
                (
                    Decimal(str(row[column]))
                    for row in record.rows or ()
                    if row.get(column) is not None
                ),
                start=Decimal(0),
            )
        except InvalidOperation:
            broken.append(f"{table}.{column} at {node} holds what is no number")
            continue
        if result != Decimal(str(expected)):
            broken.append(f"{table}.{column} at {node} adds up to {result:f}, not {expected}")
    return broken


def _nodes(
    meant: str | None, records: Sequence[HistoryRecord], known: Collection[str]
) -> list[str]:
    """Return those of the known nodes to which a setting refers; None stands for the Publisher."""
    if meant is None:
        meant = next((node for _, _, node, _ in states(records)), "")
    return [node for node in known if meant in (node, _EVERYWHERE)]


def no_rows(records: Sequence[HistoryRecord], settings: Settings = NONE) -> list[str]:
    """Return the nodes where a query of the scenario returns rows at the end, or fails.

    Settings: `text`; `at`: the nodes, as `node` of `sums`. The answers were recorded when the order was played.
    """
    asked = [record for record in of_kind(records, "query") if record.sql == settings["text"]]
    answers = {record.node: record for record in asked}
    broken = []
    for node in _nodes(settings.get("at"), records, answers):
        record = answers[node]
        if record.sqlstate or record.message:
            broken.append(f"at {node} it fails: {record.sqlstate} {record.message}".rstrip())
        elif record.rows:
            more = f" and {len(record.rows) - 1} more" if len(record.rows) > 1 else ""
            broken.append(f"at {node} it returns {row_text(record.rows[0])}{more}")
    was_over = any(moment == "final" for moment, *_ in states(records))
    if was_over and not answers:
        broken.append(f"not queried: {settings['text']}")
    return broken
