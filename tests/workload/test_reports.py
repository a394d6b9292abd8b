"""Reports of a load: lines, sentences, pictures and a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from tests.json_schema import problems
from tests.report.test_schema import SCHEMA_FILE
from twopc.sim.cli.step import step
from twopc.sim.report.fold import Fold
from twopc.sim.report.forms import DOCUMENTS, first_diagram, show
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.report.load import of
from twopc.sim.report.story import story
from twopc.sim.report.terminal import console
from twopc.sim.report.verdict import verdict
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played
from twopc.sim.workload.plots import write_plots

TEXT = """\
twopc: 1
name: two-picks
about: x
topology: {publisher: pub, subscribers: [sub1, sub2]}
matrix: {workload.keys.pick: [uniform, zipfian 1.2]}
tables: {t: {columns: {id: int primary key, n: int not null}, rows: [{id: 1, n: 0}]}}
workload:
  clients: 3
  transactions: 30
  seed: 7
  keys: {table: t, count: 220, pick: uniform}
  on_conflict: {retry: 1, after: sync}
"""


@pytest.fixture(scope="module")
def records() -> list[HistoryRecord]:
    """The records of a load in two cells that crosses a threshold."""
    text = TEXT.replace(
        "workload:\n",
        'transactions: {add: {sql: "update t set n = n + 1 where id = :key"}}\n'
        "thresholds: [committed.count > 0, commit.latency.p99 < 1ms]\nworkload:\n",
    )

    async def play() -> list[HistoryRecord]:
        history = History()
        async with ModelTheatre() as theatre:
            await run(parse(text, "two.twopc.yaml"), theatre, history)
        return history.records

    return played("model", play())


def test_the_verdict(records):
    """A crossed threshold is neither wrong nor unknown: exit code 7, with its place."""
    told = verdict(records)
    assert (told["verdict"], told["kind"], told["exit_code"]) == ("fail", "threshold", 7)
    (failure,) = told["orders"][0]["failures"]
    assert failure["message"].startswith("expected commit.latency.p99 < 1ms, got ")
    assert failure["excerpt"]
    again = 'twopc run two.twopc.yaml --order "load [uniform]"'
    assert told["orders"][0]["repro"].startswith(again)


def test_each_record_is_as_the_schema_says(records):
    for record in records:
        assert list(problems(json.loads(record.line()), SCHEMA_FILE)) == []


def test_parameters(records):
    drew = [record.data for record in records if record.kind == "drew"]
    assert [each["keys"]["pick"] for each in drew] == ["uniform", "zipfian 1.2"]
    assert drew[0]["clients"] == ["sub1", "sub2", "sub1"]
    assert drew[0]["seed"] == 7


def test_more_rows_than_a_history_holds(records):
    """Tables with more rows than a history holds are compared by digests and sums."""
    finals = [r for r in records if r.kind == "state" and r.data["moment"] == "final"]
    assert {record.rowcount for record in finals} == {220}
    assert all(record.data["digests"] for record in finals)
    committed = of(records)["counts"]["committed"]
    assert {record.data["sums"]["n"] for record in finals[-3:]} == {str(committed)}


def test_a_check_that_has_not_seen_every_row_says_so(records):
    """A check of single rows says that it is not judged if not all rows are kept."""
    for told in verdict(records)["orders"]:
        assert told["notes"][-1] == (
            "not judged: versions_move_forward (t has 220 rows, of which only the first are kept)"
        )


def test_lines_and_sentences(records, capsys):
    show(records, console())
    printed = capsys.readouterr().out
    assert "✗ commit.latency.p99 < 1ms" in printed
    assert "latency (ms)" in printed
    assert story(Fold(records))[0].startswith("30 transactions were to begin")


def test_pictures(records, tmp_path):
    written = write_plots(records, tmp_path)
    assert [path.name for path in written] == ["load.png", "load-2.png", "loads.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_the_page(records):
    """Lines are drawn within the page, each with its figures in words; no other file is needed."""
    page = DOCUMENTS["html"](records)
    assert page.count("<polyline") == 8
    assert 'aria-label="commit, ms over time: p50 at most' in page
    assert "version mismatch" in page
    assert ".charts" in page
    assert "<code>commit.latency.p99 &lt; 1ms</code>" in page


def test_no_diagram_can_show_it(records):
    assert first_diagram(records) == ""
    assert "sequenceDiagram" not in DOCUMENTS["mermaid"](records)


def test_the_command_line_refuses_to_step_through_it(capsys):
    path = Path(__file__).parents[2] / "scenarios" / "stress" / "tpcb.twopc.yaml"
    with pytest.raises(typer.BadParameter, match="clients work all at once"):
        step(file=path)
