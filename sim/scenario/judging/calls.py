"""Judgement of applied calls and rows, and of tables that are expected to differ from the Publisher's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from twopc.sim.checkers import LAST_SYNC
from twopc.sim.checkers.records import by_key, content, of_kind, states
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.text import Path

#: The last entry of a list of commands that was shortened.
_MORE = re.compile(r"(\d+) more")


def commands(expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Compare the numbers of calls and of rows that each Subscriber's agent applied with the expected numbers."""
    for node, (path, requested) in expected.commands().items():
        applied = dict(zip(("calls", "rows"), applied_at(runs.records, node), strict=True))
        for what, got in applied.items():
            number = getattr(requested, what)
            if number is not None and number != got:
                yield FailedCheck(
                    path=(*path, what),
                    message=f"commands: the agent of {node} applied {got} {what}, not {number}",
                    check="commands",
                    expected_text=str(number),
                    actual_text=str(got),
                )


def applied_at(records: Sequence[HistoryRecord], node: str) -> tuple[int, int]:
    """Return the numbers of calls and of rows that the agent of `node` has applied. Definitions count as neither."""
    calls = rows = 0
    for record in of_kind(records, "deliver"):
        if record.node == node:
            data = record.data or {}
            called = int(data.get("calls", 0))
            calls += called
            rows += _count(data.get("commands", ())) - called - int(data.get("definitions", 0))
    return calls, rows


def _count(report: Sequence[str]) -> int:
    """Return the number of commands in a report, whose last entry may stand for several."""
    return sum(int(match[1]) if (match := _MORE.fullmatch(each)) else 1 for each in report)


def diverged(expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Check that exactly the expected tables differ from the Publisher's at the end."""
    text = expected.diverged()
    if text is None:
        return
    path, requested = text
    ends = [record for record in runs.records if record.step == LAST_SYNC and record.message]
    for record in ends:
        yield _failure(path, f"{record.node} did not get everything: {record.message}")
    result = differing(runs.records)
    for node, tables in {**{node: set() for node in requested}, **result}.items():
        meant = set(requested.get(node, ()))
        for table in sorted(meant - tables):
            yield _failure(path, f"{table} at {node} is as at the Publisher")
        for table in sorted(tables - meant):
            yield _failure(path, f"{table} at {node} differs from the Publisher's")


def differing(records: Sequence[HistoryRecord]) -> dict[str, set[str]]:
    """Return, by Subscriber, the tables that differ from the Publisher's at the end, ignoring row versions."""
    final = {(table, node): each for at, table, node, each in states(records) if at == "final"}
    parts: Mapping[tuple[str, str], HistoryRecord] = {
        (str((each.data or {})["table"]), str((each.data or {})["part"])): each
        for each in of_kind(records, "state")
        if (each.data or {}).get("part")
    }
    publisher = next((node for _, node in final), "")
    results: dict[str, set[str]] = {}
    for (table, node), held in final.items():
        if node != publisher and not _same(
            parts.get((table, node)) or final[table, publisher], held
        ):
            results.setdefault(node, set()).add(table)
    return results


def _same(expected: HistoryRecord, held: HistoryRecord) -> bool:
    there, here = by_key(expected), by_key(held)
    known, digests = ((each.data or {}).get("digests", {}) for each in (expected, held))
    return (
        expected.rowcount == held.rowcount
        and there.keys() == here.keys()
        and all(
            value == there[key].get(name)
            for key, row in here.items()
            for name, value in content(row).items()
        )
        and all(known.get(name) == digest for name, digest in content(digests).items())
    )


def _failure(path: Path, message: str) -> FailedCheck:
    return FailedCheck(path=path, message=f"diverged: {message}", check="diverged")
