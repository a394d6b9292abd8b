"""Which test files reach a file of the product through imports, and at what distance.

A fixture counts as an import of the module that defines it, and so does a module's name in a string (a program that is
started, a plugin). An SQL file belongs to the modules of the folder above its own.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fix_slow import DURATIONS, read_durations

#: The modules in which the product's commands begin; tests start them as processes.
_COMMANDS = {"twopc.sim": "sim/__main__.py", "twopc": "sim/__main__.py"}


class Reach:
    """The import graph of a tree."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._fixtures: dict[str, set[Path]] = {}
        for path in (root / "tests").rglob("*.py"):
            if path.name == "conftest.py" or path.name.startswith("fix_"):
                for name in _fixtures(self._tree(path.resolve())):
                    self._fixtures.setdefault(name, set()).add(path.resolve())

    def tests(self, path: str) -> list[list[str]]:
        """Return the test files that reach a file: those that import it, then those one step further, and so on.

        Within a step, files come first whose names share most words with the file's own, and among those the ones
        without slow tests.
        """
        files = self._importers()
        target = self._root / path
        if target.suffix == ".sql":
            edge = {each for each in files if target.parent.parent == each.parent}
        else:
            edge = {target.resolve()}
        seen = set(edge)
        steps = []
        while edge:
            edge = {other for each in edge for other in files.get(each, ())} - seen
            seen |= edge
            tests = sorted(each for each in edge if each.name.startswith("test_"))
            if tests:
                words = set(target.stem.split("_"))
                steps.append(
                    sorted(
                        (each.relative_to(self._root).as_posix() for each in tests),
                        key=lambda each: (-len(words & _words(each)), self._slow_s[each], each),
                    )
                )
        return steps

    @functools.cached_property
    def _slow_s(self) -> Counter[str]:
        """Seconds of each file's slow tests, one case of each."""
        recorded = self._root / DURATIONS
        durations = read_durations(self._root) if recorded.exists() else {}
        seconds: Counter[str] = Counter()
        for name, duration in durations.items():
            seconds[name.partition("::")[0]] += duration
        return seconds

    @functools.cached_property
    def _sources(self) -> list[Path]:
        hidden = {"__pycache__", ".venv", ".twopc"}
        return sorted(
            path.resolve()
            for path in self._root.rglob("*.py")
            if not hidden & set(path.relative_to(self._root).parts)
        )

    @functools.cache  # noqa: B019 - lives as long as the program
    def _importers(self) -> dict[Path, set[Path]]:
        found: dict[Path, set[Path]] = {path: set() for path in self._sources}
        for path in self._sources:
            for other in self._imports(path):
                if other != path and other in found:
                    found[other].add(path)
        return found

    @functools.cache  # noqa: B019 - likewise
    def _tree(self, path: Path) -> ast.Module:
        return ast.parse(path.read_text(encoding="utf-8"))

    def _imports(self, path: Path) -> Iterator[Path]:
        is_test = self._root / "tests" in path.parents
        for node in ast.walk(self._tree(path)):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = [_COMMANDS.get(node.value, node.value) if is_test else node.value]
            elif is_test and isinstance(node, ast.arg):
                yield from self._fixtures.get(node.arg, ())
            for name in names:
                yield from self._files(name)

    def _files(self, name: str) -> Iterator[Path]:
        """Yield the file of a module, and those of the packages around it, which are imported first."""
        if name.endswith("__main__.py"):
            yield (self._root / name).resolve()
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts):
            return
        for count in range(1, len(parts) + 1):
            base = self._root.joinpath(*parts[:count])
            yield (base / "__init__.py").resolve()
        yield base.with_suffix(".py").resolve()


def _words(path: str) -> set[str]:
    """Return the words of a test file's path; ``merge_clean_up.sql`` is about `merge`, `clean` and `up`."""
    return set(re.split(r"[/_.]", path))


def _fixtures(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            "fixture" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            yield node.name
