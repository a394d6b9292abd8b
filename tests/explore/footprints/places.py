"""The places in the source: the functions of the model that notify the search of what they read and change."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_MODEL = Path(__file__).parents[3] / "twopc" / "sim" / "model"
#: Files and folders without such places: the search itself, planted bugs, and what the search does not divide.
_LEFT_OUT = ("choosers.py", "kernel.py", "explore/search.py", "plants/", "merge/")
#: Names under which a function is given one that records.
_GIVEN = frozenset(("notify", "_notify"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Functions by file and qualified name."""

    notifying: frozenset[tuple[str, str]]
    """Those that notify the search of what they read and change: the places."""
    passing: frozenset[tuple[str, str]]
    """Those that do nothing else: the place is their caller."""

    @property
    def names(self) -> list[str]:
        """The names of the places."""
        return sorted(name for _, name in self.notifying)


@functools.cache
def places() -> Places:
    """Find all places."""
    functions = [*_functions()]
    passing: set[tuple[str, str]] = set()
    names = {"record_access", *_GIVEN}
    while found := {
        (file, name)
        for file, name, function in functions
        if (file, name) not in passing and _only_notifies(function.body, frozenset(names))
    }:
        passing |= found
        names |= {name.rpartition(".")[2] for _, name in found}
    notifying = {
        (file, name)
        for file, name, function in functions
        if any(_notifies(call, frozenset(names)) for call in _own_calls(function))
    }
    return Places(notifying=frozenset(notifying - passing), passing=frozenset(passing))


def place_of(frame: FrameType | None) -> str:
    """Return the name of the place from which the search is notified."""
    found, passed = places(), ""
    while frame is not None:
        key = (frame.f_code.co_filename, frame.f_code.co_qualname)
        if key not in found.passing:
            # a function that only notifies is a place itself if the product calls it
            return key[1] if key in found.notifying else passed
        passed, frame = key[1], frame.f_back
    return passed


def _functions() -> Iterator[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path in sorted(_MODEL.rglob("*.py")):
        if not str(path.relative_to(_MODEL)).startswith(_LEFT_OUT):
            yield from _within(str(path), "", ast.parse(path.read_text("utf-8")))


def _within(
    file: str, before: str, node: ast.AST
) -> Iterator[tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions of a module, a class or a function, with their qualified names."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef):
            yield from _within(file, f"{before}{one.name}.", one)
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield file, before + one.name, one
            yield from _within(file, f"{before}{one.name}.<locals>.", one)
        else:
            yield from _within(file, before, one)


def _own_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that are statements of a function, without those of functions within it."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
            yield one.value
        yield from _own_calls(one)


def _notifies(call: ast.Call, names: frozenset[str]) -> bool:
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name == "record_access" and isinstance(function, ast.Attribute):
        return ast.unparse(function.value).endswith("kernel")
    return name in names


def _only_notifies(body: list[ast.stmt], names: frozenset[str]) -> bool:
    """Whether statements do nothing but notify the search, and do that."""
    found = False
    for one in body:
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            continue
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            continue
        if (
            isinstance(one, ast.If | ast.For) and _only_notifies([*one.body, *one.orelse], names)
        ) or (
            isinstance(one, ast.Expr)
            and isinstance(one.value, ast.Call)
            and _notifies(one.value, names)
        ):
            found = True
        else:
            return False
    return found
