"""Scenarios that use other files: `include` and `extends`, applied to values before shapes are checked.

A value from another file keeps its place in that file, so that its errors are reported there. This module knows
keys and mappings, not their meaning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twopc.errors import ScenarioError
from twopc.sim.scenario import text
from twopc.sim.scenario.text import Document, Map, Mark, suggestion

#: Keys that an included file may have.
SHARED = ("tables", "transactions")
#: Keys that are not inherited from the extended file.
OWN = ("name", "about", "twin", "extends", "include")
DEPTH_MAX = 5
_SINGULAR = {"tables": "table", "transactions": "transaction"}


def resolve(document: Document) -> None:
    """Add to the document's root the values of the files that it includes and extends, and record errors."""
    if document.root is not None:
        document.root = _Resolver(document).whole(document.root, document.path, ())


class _Resolver:
    """Reads the files that one document names."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def whole(self, root: Map, path: str, above: tuple[str, ...]) -> Map:
        """Return `root`, the values of the file `path`, with the values from other files.

        Args:
            above: the files that have led here by extending each other, the document's own first.
        """
        if not isinstance(root.get("extends", ""), str) or isinstance(root.get("include"), Map):
            self._document.partial = True  # the wrong shape is reported elsewhere
        base = self._base(root, path, (*above, path))
        merged = root if base is None else _merged(base, root)
        names = root.get("include")
        included = names if isinstance(names, list) else [names]
        for place, name in enumerate(included):
            if isinstance(name, str):
                at = root.values_at["include"]
                marks = getattr(names, "items_at", ())
                merged = self._including(merged, name, path, marks[place] if marks else at)
        return merged

    def _base(self, root: Map, path: str, above: tuple[str, ...]) -> Map | None:
        name = root.get("extends")
        if not isinstance(name, str):
            return None
        mark = root.values_at["extends"]
        there = _relative(path, name)
        if there in above:
            way = " -> ".join([*above[above.index(there) :], there])
            self._failed(mark, f"these files extend each other in a circle: {way}")
            return None
        if len(above) > DEPTH_MAX:
            self._failed(mark, f"'extends' goes through more than {DEPTH_MAX} files")
            return None
        result = self._read(there, mark)
        if result is None:
            return None
        whole = self.whole(result, there, above)
        return only(whole, [key for key in whole if key not in OWN])

    def _including(self, root: Map, name: str, path: str, mark: Mark) -> Map:
        """Return `root` with the tables and transactions of the file `name` before its own."""
        there = _relative(path, name)
        if there == path:
            self._failed(mark, f"{there} includes itself: name the file with the shared tables")
            return root
        result = self._read(there, mark)
        if result is None:
            return root
        if "twopc" not in result:
            start = dataclasses.replace(result.mark, path=there)
            self._document.error(start, "key 'twopc' is missing")
        merged = only(root, root)
        for key, value in result.items():
            if key == "twopc":
                if value != "1":
                    self._document.error(result.values_at[key], f"format {value} is not known; this program reads 'twopc: 1'")  # fmt: skip
            elif key not in SHARED:
                self._document.error(
                    result.keys_at[key],
                    "an included file has only 'twopc', 'tables' and 'transactions', not "
                    f"'{key}'{suggestion(key, SHARED)}",
                )
            elif not isinstance(value, Map):
                self._document.error(result.values_at[key], f"'{key}' of an included file is a mapping")  # fmt: skip
            else:
                self._add(merged, key, result)
        return merged

    def _add(self, root: Map, key: str, result: Map) -> None:
        """Add all values under `key` of `result` before those of `root`; a name in both is an error."""
        own, other = root.get(key, Map(result.mark)), result[key]
        if not isinstance(own, Map):
            return  # the wrong shape is reported elsewhere
        place = root if key in root else result
        both = Map(place.values_at[key])
        for name in other:
            both.take(name, other[name], other)
        for name in own:
            if name in other:
                first = self._document.where(other.keys_at[name], beside=True)
                self._document.error(
                    own.keys_at[name], f"{_SINGULAR[key]} '{name}' is at {first} already"
                )
            both.take(name, own[name], own)
        root.take(key, both, place)

    def _read(self, path: str, mark: Mark) -> Map | None:
        """Return the values in another file and record its problems; None if there are none."""
        try:
            other = text.read(path, foreign=True)
        except ScenarioError as error:
            self._failed(mark, str(error))
            return None
        self._document.sources[path] = other.lines
        for problem in other.problems:
            self._document.error(problem.mark, problem.message)
        self._document.partial |= other.root is None
        return other.root

    def _failed(self, mark: Mark, message: str) -> None:
        self._document.error(mark, message)
        self._document.partial = True


def _relative(path: str, name: str) -> str:
    """Return the path of the file `name`, relative to the file `path`."""
    return str(Path(path).parent / name)


def only(source: Map, keys: Iterable[str]) -> Map:
    """Return a copy of `source` with only these keys."""
    copy = Map(source.mark, flow=source.flow)
    for key in keys:
        copy.take(key, source[key], source)
    return copy


def _merged(base: Map, own: Map) -> Map:
    """Return `own` over `base`: mappings are merged key by key, other values replaced; null removes a key."""
    merged = only(base, [key for key in base if own.get(key, "") is not None])
    merged.mark, merged.flow = own.mark, own.flow
    for key, value in own.items():
        below: Any = base.get(key)
        if isinstance(value, Map) and isinstance(below, Map):
            merged.take(key, _merged(below, value), own)
        elif value is not None or key not in base:
            merged.take(key, value, own)
    return merged
