"""What is missing, misspelt or misplaced in a scenario is reported as an error of the scenario."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import LoadedScenario, from_document
from twopc.sim.scenario.text import Document, Map, Sequence, parse, read

PATH = Path(__file__).parent / "fragments/whole_language.yaml"
READ = read(PATH)
SHAPES = (
    "[{}, [], {nonsense: 1}, [nonsense, 2], [{nonsense: 1}], -7, 1.5, true, null, '', everywhere]"
)
WRONG = parse(f"all: {SHAPES}", "wrong").root["all"]


def fresh() -> Document:
    """Return a copy of the parsed file, which may be changed."""
    return dataclasses.replace(READ, root=copy.deepcopy(READ.root), problems=[], sources={})


def places(value, path=()):
    """Yield the path of every value below this one."""
    inner = (
        value.items()
        if isinstance(value, Map)
        else enumerate(value)
        if isinstance(value, Sequence)
        else ()
    )
    for part, each in inner:
        yield (*path, part)
        yield from places(each, (*path, part))


#: Mappings whose keys are arbitrary names.
FREE = ("settings", "args")
PLACES = list(places(READ.root))


def parent_of(document, path):
    here = document.root
    for part in path[:-1]:
        here = here[part]
    return here


def told(document) -> LoadedScenario | str:
    """Return the scenario, or the message of its errors."""
    try:
        return from_document(document)
    except ScenarioError as error:
        return str(error)


def test_the_whole_language_is_right():
    loaded = told(fresh())
    assert isinstance(loaded, LoadedScenario), loaded
    assert loaded.document.problems == []


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_left_out_or_misspelt(path):
    document = fresh()
    _without(parent_of(document, path), path[-1])
    told(document)
    if isinstance(path[-1], str):
        document = fresh()
        _misspelt(parent_of(document, path), path[-1])
        is_free = (path[-2:-1] and path[-2] in FREE) or path[-3:-1] == ("rows", 0)
        assert isinstance(told(document), str) or is_free


def _without(parent, part):
    if isinstance(parent, Map):
        del parent[part], parent.keys_at[part], parent.values_at[part]
    else:
        del parent[part], parent.items_at[part], parent.spans[part]


def _misspelt(parent, part):
    for table in (parent, parent.keys_at, parent.values_at):
        table[f"{part}x"] = table.pop(part)


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_something_else_in_several_places(data):
    document = fresh()
    for path in data.draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4)):
        try:
            parent = parent_of(document, path)
            _ = parent[path[-1]]  # fails if an earlier change has removed it
            parent[path[-1]] = copy.deepcopy(data.draw(st.sampled_from(WRONG)))
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed a value above it
    told(document)


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_lines_that_are_gone_or_pushed_in(data):
    """Every problem has a position in the text, also if lines were deleted or indented."""
    lines = PATH.read_text(encoding="utf-8").splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        if data.draw(st.booleans()):
            del lines[at]
        else:
            lines[at] = data.draw(st.sampled_from(["  ", "    ", "- ", "- - "])) + lines[at]
    document = parse("\n".join(lines), str(PATH))
    told(document)
    for problem in document.problems:
        assert problem.mark.path or 1 <= problem.mark.line <= len(lines) + 1
