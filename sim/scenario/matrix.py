"""Cells: a scenario for each combination of a matrix's values, inserted before shapes are checked.

An inserted value keeps its place in the matrix, so that its errors are reported there.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from twopc.sim.scenario.parts import EVERY_NODE
from twopc.sim.scenario.sources import only
from twopc.sim.scenario.text import Document, Map, Mark, Path, Sequence
from twopc.sim.scenario.values import Cell

CELLS_MAX = 64
#: First parts of a dotted key; a key with another first part is relative to `topology`.
ROOTS = ("topology", "tables", "subscribers", "sessions", "workload", "timing")


def cells(document: Document) -> list[tuple[Cell, Map]]:
    """Return each cell with its root; a single cell without values if there is no matrix, or a wrong one.

    Errors of the matrix as a whole are recorded in the document.
    """
    root = document.root
    assert root is not None, "the file was checked before"
    axes = _axes(document, root)
    if not axes:
        return [(Cell(), root)]
    number = math.prod(len(values) for _, values in axes)
    if number > CELLS_MAX:
        document.error(
            ("matrix",), f"{number} cells are too many: a matrix has at most {CELLS_MAX}", key=True
        )
        return [(Cell(), root)]
    results = []
    for chosen in itertools.product(*(range(len(values)) for _, values in axes)):
        cell = Cell(
            values=tuple(
                (key, written(values[at])) for (key, values), at in zip(axes, chosen, strict=True)
            )
        )
        here: Map = root
        for (key, values), at in zip(axes, chosen, strict=True):
            here = put(
                here, path_of(key), values[at],
                key_at=root["matrix"].keys_at[key], value_at=values.items_at[at],
            )  # fmt: skip
        results.append((cell, here))
    return results


def written(value: Any) -> str:
    """Return a value in the form of a cell's label."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def places(document: Document) -> set[Mark]:
    """Return the places of the matrix's own keys and values."""
    matrix = None if document.root is None else document.root.get("matrix")
    if not isinstance(matrix, Map):
        return set()
    lists = [each for each in matrix.values() if isinstance(each, Sequence)]
    return {*matrix.keys_at.values(), *itertools.chain(*(each.items_at for each in lists))}


def fits(key: str, cell: Cell) -> bool:
    """Return whether an expectation under `key`, one value or several joined by ``, ``, applies to the cell."""
    values = [value for _, value in cell.values]
    return all(each in values for each in key.split(", "))


def applies(path: Path, cell: Cell) -> bool:
    """Return whether what stands at `path` in an `expect` applies to the cell."""
    return "cells" not in path or fits(str(path[path.index("cells") + 1]), cell)


def _axes(document: Document, root: Map) -> list[tuple[str, Sequence]]:
    """Return the dotted keys with their values; empty if any of them is wrong."""
    matrix = root.get("matrix")
    if not isinstance(matrix, Map):
        return []  # the wrong shape is reported elsewhere
    results: list[tuple[str, Sequence]] = []
    is_right = bool(matrix)
    if not matrix:
        document.error(("matrix",), "a matrix has a key at least")
    for key, values in matrix.items():
        text = len(document.errors)
        if not isinstance(values, Sequence):
            is_right = False
            continue
        if not values:
            document.error(matrix.values_at[key], f"'{key}' has no values")
        for at, value in enumerate(values):
            if isinstance(value, (Map, Sequence)):
                is_right = False
            elif written(value) in map(written, values[:at]):
                document.error(values.items_at[at], f"'{written(value)}' is in the list already")
        same = next((each for each, _ in results if overlap(each, key)), None)
        if same is not None:
            document.error(matrix.keys_at[key], f"'{key}' means what '{same}' means already")
        if not all(key.split(".")):
            document.error(matrix.keys_at[key], f"'{key}' is no dotted key: isolation.pub, tables.account.filter")  # fmt: skip
        is_right = is_right and len(document.errors) == text
        results.append((key, values))
    return results if is_right else []


def path_of(key: str) -> list[str]:
    """Return the path of a dotted key from the root."""
    path = key.split(".")
    return path if path[0] in ROOTS else ["topology", *path]


def overlap(one: str, other: str) -> bool:
    """Return whether one of two keys is equal to the other, or a prefix of it."""
    return all(here == there for here, there in zip(path_of(one), path_of(other), strict=False))


def put(root: Map, path: list[str], value: Any, *, key_at: Mark, value_at: Mark) -> Map:
    """Return a copy of `root` with the value at `path`; only the mappings on the path are copied.

    Args:
        key_at: place of the key, in this file or another.
        value_at: place of the value, in this file or another.
    """
    copy = here = only(root, root)
    for part, following in itertools.pairwise(path):
        below = here.get(part)
        if isinstance(below, Map):
            inner = only(below, below)
        else:
            inner = Map(key_at)
            topology = root.get("topology")
            publisher = topology.get("publisher") if isinstance(topology, Map) else None
            # a level for the Publisher replaces the one for all nodes, as it applies to the Subscribers too
            if part == "isolation" and isinstance(below, str) and following != publisher:
                inner[EVERY_NODE] = below
                inner.keys_at[EVERY_NODE] = inner.values_at[EVERY_NODE] = here.values_at[part]
        here[part] = inner
        here.keys_at.setdefault(part, key_at)
        here.values_at.setdefault(part, key_at)
        here = inner
    here[path[-1]] = value
    here.keys_at[path[-1]] = key_at
    here.values_at[path[-1]] = value_at
    here.value_spans.pop(path[-1], None)
    return copy
