"""Tests of complete timelines of recorded histories, which need no database.

``pytest tests/report --rewrite-golden`` draws them anew; read the difference.
"""

from __future__ import annotations

import dataclasses
import io
import re
from typing import Any

import pytest

from tests.report.recorded import NAMES, first, records
from twopc.sim.report import terminal
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.report.phrases import moment_text
from twopc.sim.report.timeline import Timeline, draw, timeline

#: Histories that are also drawn in a narrow terminal.
NARROW = ("lost_update", "outage", "stuck")


def drawn(line: Timeline, *, columns: int, monkeypatch) -> str:
    """Return the output for a program that reads it."""
    monkeypatch.setenv("COLUMNS", str(columns))
    out = io.StringIO()
    draw(line, terminal.console(out))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "columns"), [*((name, 100) for name in NAMES), *((name, 60) for name in NARROW)]
)
def test_golden(name, columns, golden, monkeypatch):
    text = "\n".join(
        f"{order}\n{drawn(timeline(Fold(of)), columns=columns, monkeypatch=monkeypatch)}"
        for order, of in by_order(records(name))
    )
    golden(f"report/timeline_{name}_{columns}.txt", text)
    assert all(line == line.rstrip() for line in text.splitlines())


def test_times_are_whole_at_any_length(monkeypatch):
    """Times from ten seconds on are in seconds, so that the narrow column does not cut them."""
    slow = [
        dataclasses.replace(each, t_us=each.t_us * 1000) for each in first("lost_update").records
    ]
    text = drawn(timeline(Fold(slow)), columns=100, monkeypatch=monkeypatch)
    assert re.search(r"^ +\d\d\.\d s   ", text, re.MULTILINE)
    told = [moment_text(us) for us in (0, 9_999_900, 12_345_678, 123_456_789, 40_000_000_000)]
    assert told == ["0.0", "9999.9", "12.3 s", "123 s", "11 h"]


def test_a_newcomer_sees_who_waits_and_who_is_refused():
    alice_first = timeline(first("lost_update").fold)
    lanes = {name: [] for name, _ in alice_first.lanes}
    for entry in alice_first.entries:
        lanes[entry.session].append((entry.style, entry.text))
    assert ("wait", "⧗ waits for alice (a_write) at pub") in lanes["bob"]
    assert ("bad", "b_write ✗ refused: version_mismatch") in lanes["bob"]
    assert ("good", "commit ✓ at pub and sub1") in lanes["alice"]
    assert alice_first.after == (
        ("account at pub, sub1", "{id: 1, balance: 90}"),
        ("account at sub2", "{id: 1, balance: 100}"),
    )


def test_a_history_that_was_cut_off_is_drawn_as_far_as_it_goes(monkeypatch):
    whole = first("failing").records
    for length in range(len(whole)):
        drawn(timeline(Fold(whole[:length])), columns=80, monkeypatch=monkeypatch)


def step(kind, **fields):
    data = {"sessions": {"a": "sub1"}}
    return [
        HistoryRecord(seq=0, t_us=0, kind="order", data=data),
        HistoryRecord(
            seq=1, t_us=5, kind="invoke", session="a", step="s", sql="update  t\nset n = 1"
        ),
        HistoryRecord(seq=2, t_us=9, kind=kind, session="a", step="s", **fields),
    ]


@pytest.mark.parametrize(
    ("records", "texts"),
    [
        (step("ok", rowcount=2, tag="UPDATE 2"), ["s: update t set n = 1 ✓ 2 rows"]),
        (step("ok", rows=({"n": None, "m": 1},), tag="SELECT 1"),
         ["s: update t set n = 1 → n=null, m=1"]),
        (step("ok", rows=({"n": 1},) * 5, tag="SELECT 5"),
         ["s: update t set n = 1 → {n: 1}, {n: 1}, {n: 1} and 2 more"]),
        (step("ok", rows=(), tag="SELECT 0"), ["s: update t set n = 1 → no rows"]),
        (step("error", sqlstate="23505", message="duplicate key"),
         ["s: update t set n = 1", "✗ error 23505", "duplicate key"]),
        (step("rejected", conflict={"kind": "row_missing", "article": "t", "key": {"id": "1"}}),
         ["s: update t set n = 1", "✗ refused: row_missing", "t id=1 is not at the Publisher any more"]),
        (step("rejected", conflict={"kind": "insert_exists", "article": "public.t",
                                    "key": {"a": "1", "b": "2"}, "publisher_row": {"a": 1, "b": 2}}),
         ["s: update t set n = 1", "✗ refused: insert_exists",
          "t a=1, b=2 is at the Publisher already; there it is {a: 1, b: 2}"]),
        (step("rejected", conflict={"kind": "deadlock"}, data={"cycle": ["x waits", "y waits"]}),
         ["s: update t set n = 1", "✗ refused: deadlock", "x waits; y waits"]),
        (step("in_doubt", message="no answer"), ["s: update t set n = 1", "? in doubt", "no answer"]),
        (step("skipped", message="refused at r"), ["s: update t set n = 1", "– not sent", "refused at r"]),
        (step("timed_out", message="no end"), ["s: update t set n = 1", "✗ no end in time", "no end"]),
        (step("explain", message="Look!"), ["» Look!"]),
    ],
)  # fmt: skip
def test_every_end_has_its_words(records, texts):
    assert [entry.text for entry in timeline(Fold(records)).entries] == texts


def test_colours_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    line = timeline(Fold(step("error", sqlstate="23505")))
    out = Terminal()
    draw(line, terminal.console(out))
    assert "\x1b[1;31m" in out.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    draw(line, terminal.console(out))
    assert "\x1b[1;31m" not in out.getvalue()
    assert "31m" not in out.getvalue()


def test_what_is_to_be_copied_is_never_broken(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = io.StringIO()
    console = terminal.console(out)
    path = "a/long/way/to/some/scenario/that/has/a/name.twopc.yaml"
    terminal.head(console, path, "", ["pub", "sub1"])
    terminal.failure(console, f"{path}:12:34", [], "why")
    terminal.print_repeat(
        console, f'twopc run {path} --order "x"', ".twopc/runs/name/20260101T000000-1"
    )
    terminal.total(console, passed=0, failed=1, elapsed_s=1, invariants="atomic prepared_left")
    assert out.getvalue() == (
        f"{path}  1 Publisher, 1 Subscriber\n"
        f"    {path}:12:34\n"
        "    why\n"
        f'    again:  twopc run {path} --order "x"\n'
        "    files:  .twopc/runs/name/20260101T000000-1/  (history.jsonl report.html sequence.mmd)\n"
        "1 order failed in 1.00 s · invariants: atomic prepared_left\n"
    )


def test_what_is_said_of_an_order_with_a_long_name_stands_below() -> None:
    lines = []
    for name, notes in (("short", "n" * 40), ("l" * 40, "few words"), ("l" * 60, "n" * 40)):
        out = io.StringIO()
        how: dict[str, Any] = {"passed": True, "unknown": False, "notes": notes}
        terminal.order_line(terminal.console(out, width=100), name, elapsed_us=9000, **how)
        lines.append(out.getvalue().splitlines())
    assert [len(each) for each in lines] == [1, 1, 2]
    assert lines[2][1] == "    " + "n" * 40
    assert all(each[0].endswith("9 ms") for each in lines)
