"""The JSON Schema of history.jsonl: true of recorded histories, and of the code that writes them.

The validator here knows what the schema uses and refuses what it does not know, so that no rule is passed
over in silence.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from sim.report.history import KINDS, ROWS_MAX, SCHEMA, Record
from tests.report.recorded import HISTORIES, NAMES

SCHEMA_FILE = json.loads(files("sim.report").joinpath("history.schema.json").read_text("utf-8"))
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}
SAID = {"$schema", "title", "description"}


def problems(value: Any, schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """Everything about `value` that the schema does not allow."""
    for word, rule in schema.items():
        if word in SAID or word in ("then", "else"):
            continue
        yield from RULES[word](value, rule, schema, at)


def kind_of_value(value: Any, rule: Any, _: Any, at: str) -> Iterator[str]:
    """``type``"""
    allowed = [rule] if isinstance(rule, str) else rule
    if isinstance(value, bool) or not isinstance(value, tuple(TYPES[each] for each in allowed)):
        yield f"{at}: {value!r} is no {' or '.join(allowed)}"


def properties(value: Any, rule: Any, _: Any, at: str) -> Iterator[str]:
    """``properties``"""
    for name, inner in rule.items():
        if isinstance(value, dict) and name in value:
            yield from problems(value[name], inner, f"{at}.{name}")


def additional(value: Any, rule: Any, _: Any, at: str) -> Iterator[str]:
    """``additionalProperties``, where no others are named"""
    for name, inner in value.items() if isinstance(value, dict) else ():
        yield from problems(inner, rule, f"{at}.{name}")


def required(value: Any, rule: Any, _: Any, at: str) -> Iterator[str]:
    """``required``"""
    if isinstance(value, dict):
        yield from (f"{at}: {name} is missing" for name in rule if name not in value)


def items(value: Any, rule: Any, _: Any, at: str) -> Iterator[str]:
    """``items``"""
    for place, each in enumerate(value if isinstance(value, list) else ()):
        yield from problems(each, rule, f"{at}[{place}]")


def every_one(value: Any, rule: Any, _: Any, at: str) -> Iterator[str]:
    """``allOf``"""
    for each in rule:
        yield from problems(value, each, at)


def condition(value: Any, rule: Any, schema: Any, at: str) -> Iterator[str]:
    """``if`` with ``then`` and ``else``"""
    branch = "else" if any(problems(value, rule)) else "then"
    yield from problems(value, schema.get(branch, {}), at)


def check(holds: Any) -> Any:
    """A rule that a value keeps or does not."""

    def rule(value: Any, wanted: Any, _: Any, at: str) -> Iterator[str]:
        if not holds(value, wanted):
            yield f"{at}: {value!r} against {wanted!r}"

    return rule


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


RULES = {
    "type": kind_of_value,
    "properties": properties,
    "additionalProperties": additional,
    "required": required,
    "items": items,
    "allOf": every_one,
    "if": condition,
    "enum": check(lambda value, wanted: value in wanted),
    "const": check(lambda value, wanted: value == wanted),
    "minimum": check(lambda value, wanted: not _number(value) or value >= wanted),
    "maxItems": check(lambda value, wanted: not isinstance(value, list) or len(value) <= wanted),
    "pattern": check(lambda value, wanted: not isinstance(value, str) or re.search(wanted, value)),
}


@pytest.mark.parametrize("name", NAMES)
def test_recorded_histories_are_as_the_schema_says(name: str) -> None:
    for line in (HISTORIES / f"{name}.jsonl").read_text("utf-8").splitlines():
        assert list(problems(json.loads(line), SCHEMA_FILE)) == [], line


def test_the_schema_knows_what_the_code_writes() -> None:
    """Each kind, each field, and the version; a new one is added to both."""
    fields = [field.name for field in dataclasses.fields(Record)]
    assert SCHEMA_FILE["properties"]["kind"]["enum"] == list(KINDS)
    assert list(SCHEMA_FILE["properties"]) == fields
    assert SCHEMA_FILE["properties"]["rows"]["maxItems"] == ROWS_MAX
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
