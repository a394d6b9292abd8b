"""The project's Python sources as syntax trees, parsed once for all rules that read them."""

from __future__ import annotations

import ast
import functools
import gc
from pathlib import Path


@functools.cache
def text_of(path: Path) -> str:
    """Return a file's text, which is read once."""
    return path.read_text(encoding="utf-8")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return a file's syntax tree, which is parsed once.

    The trees are kept from the garbage collector, which would scan all of them repeatedly.
    """
    gc.disable()
    try:
        return ast.parse(text_of(path))
    finally:
        gc.freeze()
        gc.enable()


@functools.cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's tree."""
    return tuple(ast.walk(tree_of(path)))
