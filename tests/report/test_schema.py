"""Tests of the JSON Schema of history.jsonl against recorded histories, and the code that writes them."""

from __future__ import annotations

import dataclasses
import json
from importlib.resources import files
from typing import Any

import pytest

from tests.json_schema import problems
from tests.report.recorded import HISTORIES, NAMES
from twopc.sim.report.history import KINDS, SCHEMA, HistoryRecord

SCHEMA_FILE = json.loads(
    files("twopc.sim.report").joinpath("history.schema.json").read_text("utf-8")
)


@pytest.mark.parametrize("name", NAMES)
def test_recorded_histories_are_as_the_schema_says(name: str) -> None:
    for line in (HISTORIES / f"{name}.jsonl").read_text("utf-8").splitlines():
        assert list(problems(json.loads(line), SCHEMA_FILE)) == [], line


def test_the_schema_knows_what_the_code_writes() -> None:
    """The schema has each kind, each field, and the version of the code; a new one is added to both."""
    fields = [field.name for field in dataclasses.fields(HistoryRecord)]
    assert SCHEMA_FILE["properties"]["kind"]["enum"] == list(KINDS)
    assert list(SCHEMA_FILE["properties"]) == fields
    header = SCHEMA_FILE["allOf"][0]["then"]["properties"]["data"]
    assert header["properties"]["schema"] == {"const": SCHEMA}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "nonsense"}, ".kind: 'nonsense' against"),
        ({"seq": "1"}, ".seq: '1' is no integer"),
        ({"seq": True}, ".seq: True is no integer"),
        ({"t_us": -1}, ".t_us: -1 against 0"),
        ({"order": None}, ".order: None is no string"),
        ({"rows": {}}, ".rows: {} is no array"),
        ({"rows": [1]}, ".rows[0]: 1 is no object"),
        ({"sqlstate": "1"}, ".sqlstate: '1' against"),
        ({"kind": "rejected"}, ": conflict is missing"),
        ({"kind": "verdict", "data": {"name": 1}}, ".data.name: 1 is no string"),
        ({"wait": {}}, ".wait: node is missing"),
    ],
)
def test_what_the_schema_refuses(change: dict[str, Any], message: str) -> None:
    good = {"seq": 1, "t_us": 0, "kind": "ok", "order": "o", "session": "s", "node": "n"}
    assert list(problems(good, SCHEMA_FILE)) == []
    found = list(problems({**good, **change}, SCHEMA_FILE))
    assert any(each.startswith(message) for each in found), found
