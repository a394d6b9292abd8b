"""Tests that machines use no I/O, clock or chance, because they import none."""

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
    """Return the modules that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_imports() -> None:
    """Machines import types of the standard library, `twopc.errors` and `twopc.names` only."""
    assert FILES
    for path in FILES:
        outside = {name for name in imports(path) if not name.startswith("twopc.protocol")}
        assert outside <= ALLOWED, path.name


def test_lengths() -> None:
    """No file of the machines has more than 300 lines."""
    for path in FILES:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name
