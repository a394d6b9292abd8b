"""Tests of histories for Elle: they have its format, and state what happened."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.json_schema import problems
from tests.report.recorded import HISTORIES
from twopc.sim.cli import app
from twopc.sim.report.elle import FORMS, Form, as_edn, as_elle, operations
from twopc.sim.report.history import History, HistoryRecord, read

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "sim/report/elle.schema.json").read_text(encoding="utf-8"))
RECORDED = sorted(HISTORIES.glob("*.jsonl"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_form(path: Path, form: Form) -> None:
    """Histories match the schema, and a process has one operation at a time, and none after an info."""
    lines = as_elle(read(path), form).splitlines()
    busy: dict[int, Any] = {}
    unknown: set[int] = set()
    written: Counter[str] = Counter()
    for index, line in enumerate(lines):
        one = json.loads(line)
        assert not list(problems(one, SCHEMA))
        assert one["index"] == index
        process = one["process"]
        assert process not in unknown
        if one["type"] == "invoke":
            assert process not in busy
            busy[process] = [each[:2] for each in one["value"]]
            continue
        assert busy.pop(process) == [each[:2] for each in one["value"]]
        if one["type"] == "info":
            unknown.add(process)
        for what, key, value in one["value"]:
            assert what in ("r", "append" if form == "list-append" else "w")
            if what != "r":
                written[f"{key}={value}"] += 1
    assert not busy
    assert not [name for name, count in written.items() if count > 1]


def _order(*records: dict[str, Any]) -> list[HistoryRecord]:
    history = History(clock_ns=lambda: 0)
    history.write("header", data={"schema": 1, "publisher": "pub", "subscribers": ["sub1"]})
    order = history.of("one")
    order.write("order", data={})
    for record in records:
        order.write(**record)
    return history.records


def _state(node: str, version: str, by: str = "") -> dict[str, Any]:
    """Return the record of a row; `by` is the session whose transaction has written it."""
    row = {"id": "1", "msrepl_tran_version": version}
    data: dict[str, Any] = {"table": "account", "key": ["id"], "moment": "committed"}
    data |= {"xids": [by], "branches": {f"{_gid(by)}:{node}": by} if by else {}}
    return {"kind": "state", "node": node, "rows": (row,), "rowcount": 1, "data": data}


def _gid(session: str) -> str:
    return f"twopc:c:1:{len(session)}"


def _step(session: str, kind: str, **more: Any) -> list[dict[str, Any]]:
    told = {"session": session, "node": "sub1", "step": "one"}
    return [
        told | {"kind": "invoke", "sql": "update account set balance = 1"},
        told | {"kind": kind, "gid": _gid(session)} | more,
    ]


_BEGUN = [_state("pub", "a"), _state("sub1", "a")]


def _values(records: list[HistoryRecord], kind: str, form: Form = "list-append") -> list[Any]:
    return [one["value"] for one in operations(records, form) if one["type"] == kind]


def test_a_lost_update_shows() -> None:
    """Two writes based on the same version show a lost update, as list append and as register."""
    committed = {"committed": True}
    alice, bob = (_step(name, "ok", data=committed) for name in ("alice", "bob"))
    records = _order(
        *_BEGUN,
        alice[0],
        bob[0],
        alice[1],
        _state("pub", "b", "alice"),
        bob[1],
        _state("pub", "c", "bob"),
    )
    key = "one/account/1"
    assert _values(records, "ok")[-2:] == [
        [["r", key, [1]], ["append", key, 2]],
        [["r", key, [1]], ["append", key, 3]],
    ]
    assert _values(records, "ok", "rw-register")[-1] == [["r", key, 1], ["w", key, 3]]


def test_what_is_in_doubt_is_info() -> None:
    records = _order(
        *_BEGUN,
        *_step("alice", "in_doubt"),
        _state("pub", "b", "alice"),
        *_step("alice", "rejected", gid=""),
    )
    assert _values(records, "info") == [
        [["r", "one/account/1", None], ["append", "one/account/1", 2]]
    ]
    processes = [
        one["process"] for one in operations(records) if one["value"][0][1] == "one/account/1"
    ]
    assert len({*processes}) == 3, "the beginning, a copy, and alice"


def test_who_was_refused_has_written_nothing() -> None:
    records = _order(*_BEGUN, *_step("alice", "rejected"), _state("pub", "a"))
    assert all(len(value) == 1 for value in _values(records, "ok"))


def test_a_version_that_the_publisher_never_had() -> None:
    """A version that the Publisher never had is a value without a writer: in Elle a garbage read."""
    records = _order(*_BEGUN, _state("sub1", "z"))
    assert _values(records, "ok")[-1] == [["r", "one/account/1", [1, 2]]]


def test_edn() -> None:
    line = as_edn(_order(_state("pub", "a"))).splitlines()[1]
    assert line == (
        '{:type :ok, :f :txn, :value [[:append "one/account/1" 1]], :process 0, :index 1}'
    )


@pytest.mark.parametrize(("form", "begin"), [("elle", '{"type"'), ("elle-edn", "{:type")])
def test_command(form: str, begin: str) -> None:
    path = HISTORIES / "failing.jsonl"
    done = CliRunner().invoke(app, ["report", str(path), "--format", form])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(begin)
    both = CliRunner().invoke(app, ["report", str(path), "--format", form, "--html"])
    assert both.exit_code == 2
