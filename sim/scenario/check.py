"""From a file to a scenario that can be played, or to all of its errors.

One document passes through several stages: YAML (`text`), included files (`sources`), shapes (`model`), meaning
(`meaning`), and the last two again for each cell of a matrix (`matrix`). Each stage records problems with their
places. A part of a wrong shape is replaced by a hole and the rest is checked, so that all errors are reported at
once. This module does not depend on how a scenario is played.
"""

from __future__ import annotations

import copy
import dataclasses
import pathlib
import re
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from twopc.sim.scenario import matrix, scenario_files, sources, text
from twopc.sim.scenario.expect_meaning import check_cells
from twopc.sim.scenario.meaning import check_meaning
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.parts import HOLE, keys_of, kind_of, said_of
from twopc.sim.scenario.text import Document, Map, Mark, Path, listed, suggestion
from twopc.sim.scenario.values import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedScenario:
    """A scenario and its document, which holds the place of every value."""

    document: Document
    scenario: Scenario
    """The scenario without the values of a matrix."""
    cells: tuple[tuple[Cell, Scenario], ...]
    """Each cell of the matrix with its scenario; without a matrix, a single cell with the scenario itself."""


def load(path: str | pathlib.Path) -> LoadedScenario:
    """Return the scenario in a file; ``-`` is standard input, and ``*.spec`` is converted from an isolationtester
    spec.

    Raises:
        ScenarioError: the file cannot be read or played; the message holds every error with its place.
    """
    return _without_errors(*examine(path))


def parse(source: str, path: str = "scenario") -> LoadedScenario:
    """Return the scenario in a text. See `load`."""
    return _without_errors(*examine_text(source, path))


def from_document(document: Document) -> LoadedScenario:
    """Return the scenario of a document that has already been read. See `load`."""
    return _without_errors(document, _loaded(document))


def examine(path: str | pathlib.Path) -> tuple[Document, LoadedScenario | None]:
    """Return the document of a file with all its problems, and the scenario; None if its shapes are wrong.

    Raises:
        ScenarioError: the file cannot be read.
    """
    document = _spec(path) if pathlib.Path(path).suffix == ".spec" else text.read(path)
    return document, _loaded(document)


def examine_text(source: str, path: str) -> tuple[Document, LoadedScenario | None]:
    """Return document and scenario of a text as `examine` does. Messages name `path`, and included files are
    relative to it.
    """
    document = text.parse(source, path)
    return document, _loaded(document)


def _spec(path: str | pathlib.Path) -> Document:
    from twopc.sim.scenario.spec import convert  # few files are specs

    return convert.document(scenario_files.content(path), str(path))


def _without_errors(document: Document, loaded: LoadedScenario | None) -> LoadedScenario:
    document.raise_errors()
    assert loaded is not None, "a document without errors has its scenario"
    return loaded


def _loaded(document: Document) -> LoadedScenario | None:
    sources.resolve(document)
    if document.root is None:
        return None
    scenario = _scenario(document)
    _check_keys(document)
    cells = _cells(document, scenario)
    if scenario is None:
        return None
    return LoadedScenario(document=document, scenario=scenario, cells=cells)


def _cells(document: Document, scenario: Scenario | None) -> tuple[tuple[Cell, Scenario], ...]:
    """Return each cell with its scenario. Errors found in a single cell are recorded with the cell's name."""
    assert document.root is not None
    if "matrix" not in document.root:
        if scenario is None:
            return ()
        check_cells(document, scenario, ())
        return ((Cell(), scenario),)
    of_matrix = matrix.places(document)
    known = list(document.problems)
    results, lines = [], set[tuple[Mark, str]]()
    cells = matrix.cells(document)
    if scenario is not None and cells[0][0].values:
        check_cells(document, scenario, [cell for cell, _ in cells])
    for cell, root in cells:
        inner = dataclasses.replace(document, root=root, problems=list(known))
        here = _scenario(inner)
        if here is not None:
            results.append((cell, here))
        for problem in inner.problems[len(known) :]:
            if (problem.mark, problem.message) in lines:
                continue
            lines.add((problem.mark, problem.message))
            where = "" if problem.mark in of_matrix else f" (in cell '{cell.label}')"
            document.note(dataclasses.replace(problem, message=problem.message + where))
    return tuple(results)


def _check_keys(document: Document) -> None:
    """Record missing keys that only some kinds of files may omit."""
    root = document.root
    if root is None:
        return
    topology = root.get("topology")
    without_copies = isinstance(topology, Map) and topology.get("subscribers") == []
    needed = [] if without_copies else ["tables"]
    if "workload" not in root:
        needed += ["sessions", "orders"]
    for key in needed:
        if key not in root:
            document.missing((), key)


def _scenario(document: Document) -> Scenario | None:
    """Return the scenario, with holes at wrong shapes; None if nothing is left without them."""
    values: Any = document.root
    while values is not None:
        try:
            scenario = Scenario.model_validate(values, context=document)
        except ValidationError as failure:
            for error in failure.errors(include_url=False):
                if error["input"] is not HOLE:
                    _note(document, dict(error))
                if values is not None:
                    values = _with_nearest_hole(values, _path(values, error["loc"]))
        else:
            if not document.partial:
                check_meaning(document, scenario)
            return scenario
    return None


def _path(values: Any, loc: Path) -> Path:
    """Return the place in the file of one of pydantic's errors.

    Pydantic adds a part to the location of an error in a key, and an index where a single value stands without a
    list.
    """
    results: list[str | int] = []
    here = values
    for part in loc[:-1] if loc and loc[-1] == "[key]" else loc:
        if isinstance(part, int) and here is not None and not isinstance(here, list):
            continue
        results.append(part)
        here = here[part] if _holds(here, part) else None
    return tuple(results)


def _with_nearest_hole(values: Any, path: Path) -> Any:
    """Return a copy of `values` with a hole at `path`, or at its nearest parent that is not a hole already.

    None is returned if the hole would replace all values.
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


def _with_hole(value: Any, path: Path) -> Any:
    changed = copy.copy(value)
    changed[path[0]] = _with_hole(value[path[0]], path[1:]) if path[1:] else HOLE
    return changed


def _note(document: Document, error: dict[str, Any]) -> None:
    """Record one of pydantic's errors in the wording of this project, at its place."""
    path = _path(document.root, error["loc"])
    if error["type"] == "missing":
        document.missing(path[:-1], str(path[-1]))
        return
    lines = [problem.message for problem in document.inside(path)]
    if not any("is refused" in message for message in lines):
        is_key = error["loc"][-1:] == ("[key]",)
        document.error(path, _in_words(error) + _indentation_hint(path, error), key=is_key)


def _indentation_hint(path: Path, error: dict[str, Any]) -> str:
    """Return a hint that a key is not indented enough: a part has the name of one of its own keys."""
    what = re.fullmatch(r"(.*) (?:is|are) a mapping, not .*", str(error["msg"]))
    name = str(path[-1]) if path else ""
    if what is None or name not in keys_of(what[1]):
        return ""
    return f"; '{name}' is a key of {what[1]}: indent it further, below the other keys of one"


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
    return f"expected {expected}, not {said_of(value)}{_as_list(value) if expected == 'a list' else ''}"


def _as_list(value: object) -> str:
    """Return a hint how to write `value` as a list."""
    if isinstance(value, dict):
        return "; each of its items begins with '- '"
    return f"; write [{value}]" if isinstance(value, str) and "," not in value else ""


def _not_one_of(expected: str, value: object) -> str:
    words = [word.strip().strip("'") for word in expected.replace(" or ", ",").split(",")]
    if not isinstance(value, str):
        return f"expected {listed(words).replace(' and ', ' or ')}, not {kind_of(value)}"
    if len(words) == 1 and words != ["1"]:
        return f"expected {words[0]}, not '{value}'"
    if words == ["1"]:
        return f"format {value} is not known; this program reads 'twopc: 1'"
    return f"'{value}' is not one of {listed(words)}{suggestion(value, words)}"
