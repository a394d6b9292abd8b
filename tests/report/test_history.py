"""Tests of records, their lines, and the files of a run."""

from __future__ import annotations

import io
import itertools
import json
from decimal import Decimal

import pytest

from tests.report.recorded import records
from twopc.errors import ConfigurationError
from twopc.sim.report.history import KINDS, SCHEMA, History, HistoryRecord, by_order, plain, read
from twopc.sim.report.run_files import RunFiles

FULL = HistoryRecord(
    seq=3,
    t_us=0,
    kind="rejected",
    order="one",
    session="bob",
    node="sub2",
    step="b_write",
    gid="twopc:c:1:1",
    sql="update t",
    params={"x": 1},
    rows=({"n": None}, {"n": "é"}),
    rowcount=0,
    tag="UPDATE 0",
    sqlstate="40001",
    number=20515,
    message="no",
    conflict={"kind": "version_mismatch"},
    wait={"session": "alice"},
    data={"committed": True},
)


def test_a_record_is_one_line_and_back():
    line = FULL.line()
    assert "\n" not in line
    assert HistoryRecord.parse(line) == FULL


def test_what_is_empty_is_left_out():
    assert json.loads(HistoryRecord(seq=0, t_us=0, kind="info").line()) == {
        "seq": 0, "t_us": 0, "kind": "info",
    }  # fmt: skip
    assert json.loads(HistoryRecord(seq=0, t_us=0, kind="ok", rowcount=0, rows=()).line()) == {
        "seq": 0, "t_us": 0, "kind": "ok", "rowcount": 0, "rows": [],
    }  # fmt: skip


def test_a_later_version_may_add_fields():
    assert HistoryRecord.parse('{"seq": 1, "t_us": 2, "kind": "info", "clock": {}}').seq == 1


class Flushed(io.StringIO):
    """Counts its flushes."""

    flushes = 0

    def flush(self):
        self.flushes += 1


def test_each_line_is_flushed():
    file = Flushed()
    history = History(file, clock_ns=itertools.count(0, 1_500_000).__next__)
    history.write("header", data={"schema": SCHEMA})
    history.of("one").write("invoke", step="a")
    assert file.flushes == 2
    assert [json.loads(line)["t_us"] for line in file.getvalue().splitlines()] == [1500, 3000]
    assert history.records[1] == HistoryRecord(
        seq=1, t_us=3000, kind="invoke", step="a", order="one"
    )
    with pytest.raises(AssertionError):
        history.write("nonsense")


def test_every_kind_says_what_it_is():
    assert all(KINDS.values())


def test_reading(tmp_path):
    path = tmp_path / "history.jsonl"
    lines = [HistoryRecord(seq=0, t_us=0, kind="header", data={"schema": SCHEMA}), FULL, FULL]
    path.write_text(
        "".join(record.line() + "\n" for record in lines) + '{"seq": 9, "t_', encoding="utf-8"
    )
    assert read(path) == lines  # the last line is incomplete
    assert [(name, len(of)) for name, of in by_order(lines)] == [("one", 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "history of schema None"),
        ('{"seq": 0, "t_us": 0, "kind": "header", "data": {"schema": 99}}\n', "of schema 99"),
        ("nonsense\n", "history.jsonl:1: not a record"),
        ('{"seq": 0}\n', "history.jsonl:1: not a record"),
    ],
)
def test_reading_something_else(tmp_path, text, message):
    path = tmp_path / "history.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=message):
        read(path)


def test_plain():
    assert [plain(value) for value in (None, True, 1, 1.5, "x", Decimal("1.50"))] == [
        None, True, 1, 1.5, "x", "1.50",
    ]  # fmt: skip


def test_run_files(tmp_path):
    with RunFiles.create("name", tmp_path) as one, RunFiles.create("name", tmp_path) as two:
        assert one.directory != two.directory
        two.write_verdict({"verdict": "pass"})
        one.history.write("x")
    latest = tmp_path / "name" / "latest"
    assert latest.resolve() == two.directory.resolve()
    assert json.loads((latest / "verdict.json").read_text(encoding="utf-8")) == {"verdict": "pass"}
    assert (one.directory / "history.jsonl").read_text(encoding="utf-8") == "x"


def test_everything_that_follows_from_a_history(tmp_path):
    with RunFiles.create("name", tmp_path, seed=7) as files:
        files.write_environment({"version": "1", "seed": 7})
        told = files.finish(records("failing"))
    assert files.directory.name.endswith("-7")
    assert json.loads((files.directory / "verdict.json").read_text(encoding="utf-8")) == told
    assert json.loads((files.directory / "env.json").read_text(encoding="utf-8")) == {
        "version": "1",
        "seed": 7,
    }
    assert (
        (files.directory / "sequence.mmd").read_text(encoding="utf-8").startswith("sequenceDiagram")
    )
    assert (
        (files.directory / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    )
    states = {
        path.name: json.loads(path.read_text(encoding="utf-8"))
        for path in files.directory.glob("state/*")
    }
    assert set(states) == {"pub.json", "sub1.json", "sub2.json"}
    assert states["pub.json"]["alice first"]["account"][0]["balance"] == "90"


@pytest.mark.parametrize(("html", "there"), [(False, False), (True, True)])
def test_a_run_that_passed_has_a_page_if_it_is_wanted(tmp_path, html, there):
    with RunFiles.create("name", tmp_path) as files:
        files.finish(records("lost_update"), html=html)
    assert (files.directory / "report.html").exists() == there


def test_orders_that_are_played_at_a_time():
    file = io.StringIO()
    history = History(file, clock_ns=itertools.count(0, 1_000_000).__next__)
    history.write("header", data={"schema": SCHEMA})
    one, two = history.of("one"), history.of("two")
    for order in (one, two, one):
        order.write("invoke", step="a")
    history.write("group", data={"group": "one"})
    assert [record.order for record in history.records] == ["", "one", "two", "one", ""]
    assert [record.seq for record in one.records] == [1, 3]
    assert [(name, len(of)) for name, of in by_order(history.records)] == [("one", 2), ("two", 1)]
    assert file.getvalue().count("\n") == 5


def test_an_order_may_have_a_clock_of_its_own():
    """An order's own clock continues from the order's begin by the run's clock."""
    history = History(clock_ns=iter([0, 5_000_000]).__next__)
    of = history.of("one", clock=iter([7_000, 9_000, 1_007_000]).__next__)
    assert [of.write("invoke").t_us, of.write("ok").t_us] == [5002, 6000]
