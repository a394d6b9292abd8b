"""The project's Python sources as syntax trees, made once for all rules that read them."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path


@functools.cache
def text_of(path: Path) -> str:
    """The file's text, read once."""
    return path.read_text(encoding="utf-8")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The file's syntax tree, made once.

    The garbage collector is kept off them: it would look through all of them again and again.
    """
    gc.disable()
    try:
        return ast.parse(text_of(path))
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the file's tree."""
    return tuple(ast.walk(tree_of(path)))
