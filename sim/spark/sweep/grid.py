"""Grid of a sweep: the values given to a scenario, and the scenario with these values.

A scenario is read once, including the parts that it takes from other files, and is then sent to executors, which
need no files. A substituted value keeps its place on the command line, so that an error in it is reported there,
just as `twopc.sim.scenario.check` reports an error in a file.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.errors import ScenarioError
from twopc.sim.scenario import check, matrix, text
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.text import Document, Map, Mark, Number

#: Name of the source, in messages, of values set on the command line.
GIVEN = "--set"
#: Keys that name other files; they have no meaning once these files have been read.
_READ = ("extends", "include")


@dataclass(frozen=True, slots=True)
class Point:
    """One cell of the grid."""

    number: int
    """Place in the grid, from 0; the values of the last key vary fastest."""
    settings: tuple[tuple[str, str], ...]
    """Dotted keys and values, as they were written."""

    @property
    def label(self) -> str:
        """``workload.clients=8, workload.sync=1s``; empty for the unchanged scenario."""
        return ", ".join(f"{key}={value}" for key, value in self.settings)


def parse_grid(sets: Sequence[str]) -> list[Point]:
    """Return every combination of the values of ``KEY=V1,V2``, in the given order; none if a key has no values.

    A comma within quotes or brackets belongs to its value.

    Raises:
        ScenarioError: a text is no key with values, or a key or value occurs twice.
    """
    axes: list[tuple[str, list[str]]] = []
    for each in sets:
        key, equals, values = each.partition("=")
        key = key.strip()
        if not equals or not all(key.split(".")):
            raise ScenarioError(f"{GIVEN} {each}: write KEY=V1,V2, as workload.clients=2,8")
        same = next((other for other, _ in axes if matrix.overlap(other, key)), None)
        if same is not None:
            raise ScenarioError(f"{GIVEN} {each}: '{key}' means what '{same}' means already")
        axes.append((key, _values(each, values)))
    products = itertools.product(*(values for _, values in axes))
    return [
        Point(number, tuple(zip((key for key, _ in axes), chosen, strict=True)))
        for number, chosen in enumerate(products)
    ]


#: One value: everything up to a comma outside of quotes and brackets, which are nested at most twice.
_VALUE = re.compile(
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\{(?:[^{}]|\{[^{}]*\})*\}|\[(?:[^\[\]]|\[[^\[\]]*\])*\]|[^,])*"""
)


def _values(given: str, values: str) -> list[str]:
    if not values.strip():
        return []
    results, at = list[str](), 0
    while at <= len(values):
        match = _VALUE.match(values, at)
        assert match is not None, "it matches nothing, too"
        value = match[0].strip()
        if not value:
            raise ScenarioError(f"{GIVEN} {given}: there is a comma without a value")
        if value in results:
            raise ScenarioError(f"{GIVEN} {given}: '{value}' is in the list already")
        results.append(value)
        at = match.end() + 1
    return results


def read(path: str) -> Document:
    """Read a scenario file, and include what it takes from other files.

    Raises:
        ScenarioError: the file cannot be read or played; the message lists every mistake with its place.
    """
    return whole(check.load(path).document)


def whole(document: Document) -> Document:
    """Return a copy of a document that needs no other file, and without its recorded problems."""
    assert document.root is not None, "the file was checked before"
    root = Map(document.root.mark, flow=document.root.flow)
    for key in document.root:
        if key not in _READ:
            root.take(key, document.root[key], document.root)
    return dataclasses.replace(document, root=root, problems=[])


def with_settings(document: Document, settings: Iterable[tuple[str, str]]) -> LoadedScenario:
    """Return the scenario of a whole document with other values.

    Args:
        settings: dotted key and value, as in a scenario's `matrix`; a number is a place in a list.

    Raises:
        ScenarioError: the result cannot be played; the message lists every mistake with its place.
    """
    assert document.root is not None, "the file was checked before"
    lines = [f"{key}: {value}" for key, value in settings]
    given = text.parse("\n".join(lines), GIVEN, foreign=True) if lines else None
    changed = dataclasses.replace(
        document,
        problems=[] if given is None else list(given.problems),
        sources={**document.sources, GIVEN: lines},
    )
    if given is not None and given.root is not None:
        of_matrix = document.root.get("matrix")
        for key in given.root:
            at = given.root.keys_at[key]
            for axis in of_matrix if isinstance(of_matrix, Map) else ():
                if matrix.overlap(axis, key):
                    changed.error(at, f"the scenario's own matrix gives '{axis}' its values")
            changed.root = _placed(changed, changed.root, matrix.path_of(key), given.root, key)
    changed.raise_errors()
    return check.from_document(changed)


def _placed(document: Document, root: Any, path: list[str], given: Map, key: str) -> Any:
    """Return `root` with the value of `key` at `path`; a number in the path is a place in a list."""
    at, value_at = given.keys_at[key], given.values_at[key]
    here: Any = root
    for number, part in enumerate(path):
        if isinstance(here, text.Sequence):
            return _in_list(document, root, (path[:number], part, path[number + 1 :]), given, key)
        here = here.get(part) if isinstance(here, Map) else None
    if not isinstance(root, Map):
        document.error(at, f"'{key}' leads into a single value")
        return root
    return matrix.put(root, path, given[key], key_at=at, value_at=value_at)


def _in_list(
    document: Document, root: Map, way: tuple[list[str], str, list[str]], given: Map, key: str
) -> Map:
    """Return `root` with the value of `key`, where the path leads through a list."""
    before, part, after = way
    at: Mark = given.keys_at[key]
    whole_list: Any = root
    for each in before:
        whole_list = whole_list[each]
    if not part.isdigit() or int(part) >= len(whole_list):
        there = f"it has 0 to {len(whole_list) - 1}" if whole_list else "it is empty"
        document.error(at, f"'{'.'.join(before)}' is a list: {there}, and not '{part}'")
        return root
    place = int(part)
    items = text.Sequence(whole_list.mark)
    items.extend(whole_list)
    items.items_at = list(whole_list.items_at)
    items.spans = list(whole_list.spans)
    if after:
        items[place] = _placed(document, items[place], after, given, key)
    else:
        items[place], items.items_at[place] = given[key], given.values_at[key]
        items.spans[place] = None
    return matrix.put(root, before, items, key_at=at, value_at=whole_list.mark)


def extending(document: Document, settings: Sequence[tuple[str, str]], *, base: str) -> str:
    """Return the text of a scenario that extends another one by these values.

    Args:
        document: the other scenario, whole.
        base: its path, relative to the new scenario's folder.
    """
    changed = with_settings(document, settings).document.root
    assert changed is not None and document.root is not None
    own = Map(changed.mark)
    for key, _ in settings:
        _take(own, changed, matrix.path_of(key))
    lines = ["twopc: 1", f"extends: {json.dumps(base, ensure_ascii=False)}"]
    root = document.root
    lines += [f"{key}: {written(root[key])}" for key in ("name", "about") if key in root]
    lines += [f"{key}: {written(value)}" for key, value in own.items()]
    return "\n".join(lines) + "\n"


def _take(own: Map, changed: Map, path: list[str]) -> None:
    """Copy the value at a path of `changed` into `own`; a list is copied as a whole, as `extends` replaces it."""
    here, there = own, changed
    for part in path[:-1]:
        if not isinstance(there[part], Map):
            here[part] = there[part]
            return
        here, there = here.setdefault(part, Map(there.mark)), there[part]
    here[path[-1]] = there[path[-1]]


def written(value: Any) -> str:
    """Return a value of a document as YAML in one line."""
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {written(each)}" for key, each in value.items()) + "}"  # fmt: skip
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
