"""The JSON Schema accepts and refuses the same files as the models, as far as a schema can."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import ValidationError

from tests.json_schema import problems
from twopc.sim.scenario import schema, text
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.text import Map, Number, Sequence

ROOT = Path(__file__).parents[2]
BAD = Path(__file__).parent / "bad"
SHIPPED = [
    *sorted((ROOT / "scenarios").rglob("*.twopc.yaml")),
    Path(__file__).parent / "fragments/whole_language.yaml",
]
SCHEMA = schema.schema()


def pieces():
    page = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")
    return re.findall(r"```(?:yaml)?\n(.*?)```", page, re.DOTALL)


def plain(value):
    """Return the value as JSON has it."""
    if isinstance(value, Map):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [plain(inner) for inner in value]
    if isinstance(value, Number):
        try:
            return int(value)
        except ValueError:
            return float(value)
    return value


def root_of(path):
    document = text.read(path)
    return None if document.errors else document


def has_wrong_shapes(document):
    try:
        Scenario.model_validate(document.root, context=document)
    except ValidationError:
        return True
    return bool(document.errors)


def test_it_is_kept_as_it_would_be_written():
    assert schema.FILE.read_text(encoding="utf-8") == schema.as_text()


def test_shipped_scenarios_fit():
    found = {path.name: list(problems(plain(text.read(path).root), SCHEMA)) for path in SHIPPED}
    assert {name: each for name, each in found.items() if each} == {}


def test_the_page_fits():
    """Every key of the page's pieces fits its property in the schema."""
    whole = SCHEMA["$defs"]["Scenario"]["properties"]
    found = []
    for piece in pieces():
        shown = plain(text.parse(piece if piece[0] != " " else f"orders:\n{piece}", "piece").root)
        for key, value in (shown or {}).items():
            found += [(piece, each) for each in problems(value, whole[key], root=SCHEMA)]
    assert found == []


def wrong():
    """Return the files with wrong shapes, except those that extend another and are incomplete."""
    documents = {path.name: root_of(path) for path in sorted(BAD.glob("*.twopc.yaml"))}
    return [
        name
        for name, document in documents.items()
        if document and "extends" not in document.root and has_wrong_shapes(document)
    ]


def test_wrong_shapes_do_not_fit():
    names = wrong()
    assert len(names) > 20
    fitting = [
        name for name in names if not list(problems(plain(text.read(BAD / name).root), SCHEMA))
    ]
    assert fitting == []


def test_every_property_is_described():
    """Every property has a description, which editors show, or refers to a definition with one."""
    bare = [
        f"{part}.{key}"
        for part, definition in SCHEMA["$defs"].items()
        for form in definition.get("anyOf", [definition])
        for key, inner in form.get("properties", {}).items()
        if inner is not True and "description" not in inner and "$ref" not in inner
    ]
    assert bare == []


def test_every_definition_is_used_and_every_reference_defined():
    said = json.dumps(SCHEMA)
    for name in SCHEMA["$defs"]:
        assert f'#/$defs/{name}"' in said
    used = {part.split('"')[0] for part in said.split("#/$defs/")[1:]}
    assert used == set(SCHEMA["$defs"])
