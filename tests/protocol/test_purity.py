"""The machines have no input or output, no clock and no chance: they import nothing that has."""

from __future__ import annotations

import ast
from pathlib import Path

import twopc.protocol

ALLOWED = {
    "__future__",
    "collections.abc",
    "dataclasses",
    "enum",
    "functools",
    "twopc.errors",
    "twopc.names",
    "typing",
}
FILES = sorted(Path(twopc.protocol.__file__).parent.glob("*.py"))


def imports(path: Path) -> set[str]:
    """The modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_imports() -> None:
    """Values and types from the standard library, names and errors from below, nothing else."""
    assert FILES
    for path in FILES:
        outside = {name for name in imports(path) if not name.startswith("twopc.protocol")}
        assert outside <= ALLOWED, path.name


def test_lengths() -> None:
    """A machine is to be read in one sitting."""
    for path in FILES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name
