"""Tests that reports read events, and only one module reads a record's kind and data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.recorded import records
from tests.sources import nodes_of
from twopc.sim.report import event_records, events
from twopc.sim.report.event_records import event_of, header_of, is_load, select
from twopc.sim.report.history import ENDS, KINDS, HistoryRecord

ROOT = Path(__file__).parents[2]
#: The modules that write and read histories, and the one that makes events of them.
READERS = {"sim/report/history.py", "sim/report/event_records.py"}
REPORTS = sorted(
    path
    for path in (
        *(ROOT / "sim" / "report").rglob("*.py"),
        *(ROOT / "sim" / "explore").rglob("*.py"),
        ROOT / "sim" / "scenario" / "agree.py",
    )
    if str(path.relative_to(ROOT)) not in READERS
)
#: Kinds without an event class of their own.
PLAIN = {"header", "setup", "teardown", "repeat"}


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings within an expression."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def offences(path: Path) -> Iterator[int]:
    """Yield the lines that read a record's kind or data."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom):
            if (node.module or "").endswith("report.history") and {
                each.name for each in node.names
            } & {"ENDS", "KINDS"}:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(isinstance(side, ast.Attribute) and side.attr == "kind" for side in sides):
                is_among = isinstance(node.ops[0], ast.In | ast.NotIn)
                if is_among or any(text in KINDS for side in sides for text in texts(side)):
                    yield node.lineno
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            yield node.lineno


def test_reports_look_at_no_records() -> None:
    """A report dispatches on an event's class, and reads its fields."""
    assert len(REPORTS) > 50
    offenders = [f"{path.relative_to(ROOT)}:{line}" for path in REPORTS for line in offences(path)]
    assert not offenders, "\n".join(offenders)


def test_each_kind_has_an_event() -> None:
    """Every kind of record has an event class of its own, and each end of a step is a `StepEnd`."""
    made = {
        kind: type(event_of(HistoryRecord(seq=0, t_us=0, kind=kind)))
        for kind in KINDS
        if kind != "merge_conflict"  # always has all of its fields
    }
    assert {kind for kind, event in made.items() if event is events.HistoryEvent} == PLAIN
    own = [event for kind, event in made.items() if kind not in PLAIN]
    assert len(own) == len(set(own))
    assert {kind for kind, event in made.items() if issubclass(event, events.StepEnd)} == ENDS


def test_a_field_is_of_the_record_or_of_its_data() -> None:
    """An event's fields come from the record or its data, and missing ones have defaults."""
    text = {"table": "t", "key": ["id"], "moment": "final", "versions": False, "unknown": 1}
    row = ({"id": 1},)
    record = HistoryRecord(seq=7, t_us=9, kind="state", node="pub", rows=row, rowcount=1, data=text)
    look = event_of(record)
    assert isinstance(look, events.TableLook)
    assert (look.seq, look.node, look.table, look.key) == (7, "pub", "t", ["id"])
    assert (look.rows, look.rowcount, look.has_versions, look.branches) == (row, 1, False, None)
    nothing = event_of(HistoryRecord(seq=0, t_us=0, kind="state", data={"table": None}))
    assert isinstance(nothing, events.TableLook)
    assert (nothing.table, nothing.rows, nothing.rowcount, nothing.has_versions) == (
        "",
        (),
        0,
        True,
    )


def test_events_do_not_change() -> None:
    """Events are frozen and slotted, including those without fields of their own."""
    end = event_of(HistoryRecord(seq=0, t_us=0, kind="ok"))
    for name in ("seq", "other"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(end, name, 1)
    assert not hasattr(end, "__dict__")


def test_events_of_a_recorded_run() -> None:
    """Events are selected by class with subclasses; a history without a load is not a load."""
    recorded = records("lost_update")
    ends = list(select(recorded, events.StepEnd))
    assert [each.seq for each in ends] == [each.seq for each in recorded if each.kind in ENDS]
    assert {type(each) for each in ends} > {events.StepSuccess}
    assert header_of(recorded) and not header_of(recorded[1:]) and not header_of([])
    assert not is_load(recorded)
    assert is_load([*recorded, HistoryRecord(seq=0, t_us=0, kind="load")])


def test_the_rule_sees_where_events_are_made() -> None:
    """The rule finds an offence where there is one."""
    assert list(offences(Path(event_records.__file__)))
