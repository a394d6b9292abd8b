"""Mutants of a source: each is one small change that a test should detect.

Python is changed at nodes of its syntax tree, SQL at words and operators outside comments and literals, also in a
string of Python.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
_ARITHMETIC = {"+": "-", "-": "+", "*": "+", "//": "*", "|": "&", "&": "|"}
_SQL = (
    (r"<>", "="), (r"<=", "<"), (r">=", ">"), (r"(?<![<>!=:~@|&-])<(?![=>@])", "<="),
    (r"(?<![<>!=:~@|&-])>(?![=>])", ">="), (r"(?<=\w )=(?= )", "<>"),
    (r"\band\b", "or"), (r"\bor\b(?! replace)", "and"), (r"\bis null\b", "is not null"),
    (r"\bis not null\b", "is null"), (r"\bis distinct from\b", "is not distinct from"),
    (r"\bis not distinct from\b", "is distinct from"), (r"\bnot exists\b", "exists"),
    (r"(?<!not )(?<!if )\bexists\b", "not exists"), (r"\bif not (?!exists)", "if "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\bbefore\b", "after"), (r"\bafter\b", "before"),
    (r"\bfor update\b", ""), (r"\bfor no key update\b", ""), (r"\bfor share\b", ""),
    (r"\bmin\(", "max("), (r"\bmax\(", "min("), (r"\bunion all\b", "union"), (r"\bdesc\b", "asc"),
    (r"\braise exception\b", "raise notice"), (r"\breturn new\b", "return null"),
    (r"(?<=\+ )1\b", "2"), (r"(?<=\w )\+(?= )", "-"), (r"(?<=\w )-(?= )", "+"),
)  # fmt: skip
_SQL_TEXT = re.compile(
    r"\s*(select|insert|update|delete|with|merge|create|alter|drop|lock|prepare|commit|rollback)\b",
    re.IGNORECASE,
)
_SQL_QUIET = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file."""

    path: str
    """The path relative to the root of the tree."""
    line: int
    operator: str
    start: int
    end: int
    """The bytes of the file that are replaced."""
    text: str

    @property
    def name(self) -> str:
        """A name that is unique in the tree."""
        return f"{self.path}:{self.line}:{self.start}:{self.operator}"

    def source(self, root: Path) -> bytes:
        """Return the file's content with the change."""
        before = (root / self.path).read_bytes()
        return before[: self.start] + self.text.encode() + before[self.end :]

    def diff(self, root: Path) -> str:
        """Return the change as a unified diff."""
        before = (root / self.path).read_text(encoding="utf-8").splitlines(keepends=True)
        after = self.source(root).decode().splitlines(keepends=True)
        return "".join(difflib.unified_diff(before, after, self.path, self.path, n=1))


def mutants(root: Path, path: str) -> Iterator[Mutant]:
    """Yield every mutant of a file, in the order of the text."""
    text = (root / path).read_bytes()
    if path.endswith(".sql"):
        changes = _of_sql(text, 0)
    else:
        changes = iter(_Changes(text).all())
    for start, end, operator, replacement in changes:
        yield Mutant(
            path=path, line=text.count(b"\n", 0, start) + 1, operator=operator,
            start=start, end=end, text=replacement,
        )  # fmt: skip


#: Start, end, the operator's name, the new text.
_Change = tuple[int, int, str, str]


def _of_sql(text: bytes, offset: int) -> Iterator[_Change]:
    # Latin-1 keeps bytes and characters aligned; all patterns are ASCII.
    shown = _SQL_QUIET.sub(lambda quiet: " " * len(quiet[0]), text.decode("latin-1"))
    for pattern, replacement in _SQL:
        for match in re.finditer(pattern, shown, re.IGNORECASE):
            operator = f"sql {match[0].strip().lower()}"
            yield offset + match.start(), offset + match.end(), operator, replacement


class _Changes:
    """Collects the changes of a Python source."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        lines = text.splitlines(keepends=True)
        self._offsets = [0]
        for line in lines:
            self._offsets.append(self._offsets[-1] + len(line))
        self._found: list[_Change] = []

    def all(self) -> list[_Change]:
        """Return all changes in the order of the text."""
        self._visit(ast.parse(self._text))
        return sorted(self._found)

    def _visit(self, node: ast.AST) -> None:
        # Types and messages are checked by other means; a docstring is not code.
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not self._is_quiet(child):
                    self._look(child)
                    self._visit(child)

    @staticmethod
    def _is_quiet(node: ast.AST) -> bool:
        if isinstance(node, ast.If):
            return ast.unparse(node.test) == "TYPE_CHECKING"
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return is_text or isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom)

    def _look(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare):
            self._between(node.left, node.comparators[0], "comparison", _COMPARISONS)
        elif isinstance(node, ast.BoolOp):
            self._between(node.values[0], node.values[1], "boolean", {"and": "or", "or": "and"})
        elif isinstance(node, ast.BinOp):
            self._between(node.left, node.right, "arithmetic", _ARITHMETIC)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._replace(node, "negation", self._source(node.operand))
        elif isinstance(node, ast.Constant):
            self._constant(node)
        elif isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
            self._replace(node, "result", "return None")
        elif (
            isinstance(node, ast.Raise | ast.AugAssign | ast.Delete)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await))
            or isinstance(node, ast.Break | ast.Continue)
        ):
            self._replace(node, "statement", "pass")
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            self._replace(node.test, "condition", f"not ({self._source(node.test)})")

    def _constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, "constant", str(not node.value))
        elif isinstance(node.value, int):
            self._replace(node, "constant", str(node.value + 1))
        elif isinstance(node.value, str) and _SQL_TEXT.match(node.value):
            start, end = self._span(node)
            self._found += _of_sql(self._text[start:end].replace(b'"', b" "), start)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._offsets[node.lineno - 1] + node.col_offset
        return start, self._offsets[node.end_lineno - 1] + node.end_col_offset

    def _source(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._text[start:end].decode()

    def _replace(self, node: ast.expr | ast.stmt, operator: str, text: str) -> None:
        self._found.append((*self._span(node), operator, text))

    def _between(
        self, left: ast.expr, right: ast.expr, operator: str, swaps: dict[str, str]
    ) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        word = re.search(rb"[^\s()#\\]+(?: (?:not|in)\b)?", self._text[start:end])
        if word and (instead := swaps.get(word[0].decode())):
            self._found.append((start + word.start(), start + word.end(), operator, instead))
