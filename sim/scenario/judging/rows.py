"""Judgement of the rows of tables at each node after everything has been delivered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.phrases import rows_text
from twopc.sim.scenario.expectations import EVERYWHERE, NodeRows
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.compare import as_rows, only, unmatched
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Case

_Final = Mapping[tuple[str, str], HistoryRecord]  # by node and table


def tables(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield a failure for each table with unexpected rows; nodes with the same failure share one."""
    final = {
        (record.node, str((record.data or {})["table"])): record
        for record in runs.records
        if record.kind == "state" and (record.data or {})["moment"] == "final"
    }
    if not final:
        return  # the order did not get this far: another check reports that
    for table, everywhere in expected.tables().items():
        nodes = {
            node: each
            for node, each in everywhere.items()
            if _is_meant(final.get((node, table)), *each)
        }
        yield from _without_table(table, nodes, final)
        nodes = {node: each for node, each in nodes.items() if (node, table) in final}
        wrong: dict[tuple[Path, str, str, str], list[str]] = {}
        for node, (path, rows) in nodes.items():
            result = _wrong(table, node, rows, final)
            if result is not None:
                wrong.setdefault((path, *result), []).append(node)
        written = _Written(case, table, nodes, final, [path for path, *_ in wrong])
        for (path, text, requested, got), where in wrong.items():
            at, actual = written.at(path)
            yield FailedCheck(
                path=at,
                message=f"{table} at {', '.join(where)}{text}",
                check=f"tables.{table}",
                actual=actual,
                expected_text=requested,
                actual_text=got,
            )


def _is_meant(record: HistoryRecord | None, path: Path, rows: NodeRows) -> bool:
    """Return whether an expectation applies to a node: one for all nodes excludes nodes without a subscription at
    the end.
    """
    subscribes = record is not None and (record.data or {}).get("subscribed") is not False
    return subscribes or path[-1] != EVERYWHERE


def _without_table(
    table: str, nodes: Mapping[str, tuple[Path, NodeRows]], final: _Final
) -> Iterator[FailedCheck]:
    for node, (path, _) in nodes.items():
        if (node, table) not in final:
            yield FailedCheck(
                path=path,
                message=f"{table} is not at {node}: it has not subscribed",
                check=f"tables.{table}",
            )


def _wrong(table: str, node: str, expected: NodeRows, final: _Final) -> tuple[str, str, str] | None:
    """Compare a table's rows at one node with the expected ones.

    Returns:
        The end of a sentence that begins with the table and the node, the expected rows, and the actual rows; None
        if the rows are as expected.
    """
    record = final[node, table]
    rows = list(record.rows or ())
    if record.rowcount != len(rows):
        return f" has {record.rowcount} rows, too many to compare", "", f"{record.rowcount} rows"
    if expected.same_as is not None:
        ignored = {VERSION_COLUMN if each == "version" else each for each in expected.ignore}
        other = list(final[expected.same_as, table].rows or ())
        if _without(rows, ignored) == _without(other, ignored):
            return None
        want, have = rows_text(other), rows_text(rows)
        differ = "other row versions" if want == have else have
        text = f": expected the same as at {expected.same_as}: {want}, got {differ}"
        return text, want, differ
    missing, left = unmatched(expected.rows or (), rows)
    if not missing and not left:
        return None
    shown = [only(row, _named(expected)) for row in left]
    want, have = rows_text(missing), rows_text(shown)
    return f": expected {want}, got {have}", want, have


def _without(rows: Sequence[Mapping[str, Any]], ignored: set[str]) -> list[dict[str, Any]]:
    return [{name: v for name, v in row.items() if name not in ignored} for row in rows]


def _named(expected: NodeRows) -> list[str] | None:
    """Return the columns that an expectation names; None if it has no rows."""
    return list(expected.rows[0]) if expected.rows else None


class _Written:
    """Expectation of a table that the actual rows would fulfil."""

    def __init__(
        self,
        case: Case,
        table: str,
        nodes: Mapping[str, tuple[Path, NodeRows]],
        final: _Final,
        wrong: Sequence[Path],
    ) -> None:
        self._rows: dict[Path, list[Any]] = {}
        self._whole: dict[str, Any] = {}
        """Rows by node, if one expectation for all nodes would not be fulfilled."""
        self._cannot = case.is_generated or any(
            final[node, table].rowcount != len(final[node, table].rows or ()) for node in nodes
        )
        differ = False
        for node, (path, expected) in nodes.items():
            if expected.same_as is not None:
                self._whole[node] = {"same_as": expected.same_as}
                continue
            rows = as_rows(final[node, table].rows or (), _named(expected))
            self._whole[node] = rows
            if path in wrong and path[-1] == EVERYWHERE:
                differ = differ or self._rows.get(path, rows) != rows
            self._rows[path] = rows
        if not differ:
            self._whole = {}

    def at(self, path: Path) -> tuple[Path, Any]:
        """Return the expectation that should replace the one at `path`, and its place."""
        if self._cannot:
            return path, None
        if self._whole:
            return path[:-1], self._whole
        return path, self._rows.get(path)
