"""From a file to a scenario that can be played, or to all that is wrong with it.

Three passes over one document: YAML (`text`), shapes (`model`), and meaning (`meaning`). Each notes
its problems with their places. Where a shape is wrong a hole is left and the rest is examined, so
that all is said at once. Nothing here knows how a scenario is played.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sim.scenario import text
from sim.scenario.meaning import check_meaning
from sim.scenario.model import Scenario
from sim.scenario.parts import HOLE, kind_of
from sim.scenario.text import Document, listed, suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A scenario and the file it came from, which knows where everything stands."""

    document: Document
    scenario: Scenario


def load(path: str | Path) -> Loaded:
    """The scenario in a file.

    Raises:
        ScenarioError: it cannot be read or played; the message holds every mistake with its place.
    """
    document, scenario = examine(path)
    document.raise_errors()
    assert scenario is not None, "a document without errors has its scenario"
    return Loaded(document=document, scenario=scenario)


def examine(path: str | Path) -> tuple[Document, Scenario | None]:
    """The file with all problems found in it, and its scenario if its shapes are right.

    Raises:
        ScenarioError: the file cannot be read.
    """
    document = text.read(path)
    return document, _scenario(document)


def parse(source: str, path: str = "scenario") -> Loaded:
    """As `load`, of text."""
    document = text.parse(source, path)
    scenario = _scenario(document)
    document.raise_errors()
    assert scenario is not None, "a document without errors has its scenario"
    return Loaded(document=document, scenario=scenario)


def _scenario(document: Document) -> Scenario | None:
    """The scenario, with holes where shapes are wrong; None if the rest means nothing without them."""
    values: Any = document.root
    while values is not None:
        try:
            scenario = Scenario.model_validate(values, context=document)
        except ValidationError as failure:
            for error in failure.errors(include_url=False):
                if error["input"] is not HOLE:
                    _note(document, dict(error))
                if values is not None:
                    values = _dig(values, _path(error["loc"]))
        else:
            check_meaning(document, scenario)
            return scenario
    return None


def _path(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where an error lies; pydantic marks what is wrong with a key by one part more."""
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def _dig(values: Any, path: tuple[str | int, ...]) -> Any:
    """A copy of `values` with a hole at `path`, or above it if there is one already.

    None once that would be everything.
    """
    while path:
        parent = values
        for part in path[:-1]:
            parent = parent[part] if _holds(parent, part) else None
        missing = isinstance(parent, dict) and path[-1] not in parent
        if missing or (_holds(parent, path[-1]) and parent[path[-1]] is not HOLE):
            return _with_hole(values, path)
        path = path[:-1]
    return None


def _holds(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _with_hole(value: Any, path: tuple[str | int, ...]) -> Any:
    changed = copy.copy(value)
    changed[path[0]] = _with_hole(value[path[0]], path[1:]) if path[1:] else HOLE
    return changed


def _note(document: Document, error: dict[str, Any]) -> None:
    """Add one of pydantic's errors, in our words and at its place."""
    path = _path(error["loc"])
    missing = error["type"] == "missing"
    about = path[:-1] if missing else path
    said = [problem.message for problem in document.inside(about)]
    if any("not supported yet" in message or "is refused" in message for message in said):
        return  # that is why something else is missing
    if missing and not any(f"did you mean '{path[-1]}'?" in message for message in said):
        document.error(document.mark(about, key=True), f"key '{path[-1]}' is missing")
    elif not missing:
        document.error(document.mark(path, key=path != error["loc"]), _in_words(error))


def _in_words(error: dict[str, Any]) -> str:
    kind, value = str(error["type"]), error["input"]
    if kind == "scenario":
        return str(error["msg"])
    if kind == "literal_error":
        return _not_one_of(str(error["ctx"]["expected"]), value)
    expected = {
        "string": "text",
        "bool": "true or false",
        "int": "a whole number",
        "tuple": "a list",
        "dict": "a mapping",
    }.get(kind.partition("_")[0])
    if expected is None:
        return f"{error['msg']}"
    said = f"'{value}'" if isinstance(value, str) else kind_of(value)
    return f"expected {expected}, not {said}"


def _not_one_of(expected: str, value: object) -> str:
    words = [word.strip().strip("'") for word in expected.replace(" or ", ",").split(",")]
    if not isinstance(value, str):
        return f"expected {listed(words)}, not {kind_of(value)}"
    if words == ["1"]:
        return f"format {value} is not known; this program reads 'twopc: 1'"
    return f"'{value}' is not one of {listed(words)}{suggestion(value, words)}"
