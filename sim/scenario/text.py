"""Scenario files as text: reading YAML 1.2 into plain values that know where they stand.

Every mapping and list keeps the line and column of its keys and values, so that whoever finds a
mistake later can point at it; duplicate keys are mistakes. Knows YAML and nothing of scenarios.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twopc.errors import ScenarioError

_TAG = "tag:yaml.org,2002:"
_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One mistake, at one place."""

    mark: Mark
    message: str
    severity: str = "error"
    """"error", or "warning" for what is only untidy."""


class Map(dict[str, Any]):
    """A mapping that knows where its keys and values stand."""

    __slots__ = ("flow", "keys_at", "mark", "values_at")

    def __init__(self, mark: Mark, *, flow: bool = False) -> None:
        super().__init__()
        self.mark = mark
        self.flow = flow
        """True if written in braces."""
        self.keys_at: dict[str, Mark] = {}
        self.values_at: dict[str, Mark] = {}


class Sequence(list[Any]):
    """A list that knows where its items stand."""

    __slots__ = ("items_at", "mark")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.items_at: list[Mark] = []


class Number(str):
    """A number as it is written: ``08001`` is not 8001, ``1.50`` is not 1.5."""

    __slots__ = ()


@dataclass(slots=True)
class Document:
    """One file: its lines, its values, and the problems found in it so far."""

    path: str
    """As the user gave it: it heads every message."""
    lines: list[str]
    root: Map | None = None
    problems: list[Problem] = field(default_factory=list)

    def error(self, mark: Mark, message: str) -> None:
        """Note a mistake; the same one at the same place is noted once."""
        self._note(Problem(mark=mark, message=message))

    def warn(self, mark: Mark, message: str) -> None:
        """Note something untidy, which never stops a run."""
        self._note(Problem(mark=mark, message=message, severity="warning"))

    def _note(self, problem: Problem) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    @property
    def errors(self) -> list[Problem]:
        """What must be mended before the file can be run."""
        return [problem for problem in self.problems if problem.severity == "error"]

    def mark(self, path: Iterable[str | int], *, key: bool = False) -> Mark:
        """Where the value at `path` stands, or its key; parts that the file does not hold are skipped.

        So a missing key points at its parent, and a short form at itself.
        """
        here: Any = self.root
        mark = here.mark if here is not None else Mark(1, 1)
        for part in path:
            if isinstance(here, Map) and part in here:
                mark = here.keys_at[str(part)] if key else here.values_at[str(part)]
                here = here[str(part)]
            elif isinstance(here, Sequence) and isinstance(part, int) and part < len(here):
                mark = here.items_at[part]
                here = here[part]
        return mark

    def inside(self, path: Iterable[str | int]) -> list[Problem]:
        """The problems with keys of the mapping at `path`."""
        here: Any = self.root
        for part in path:
            try:
                here = here[part]
            except (KeyError, IndexError, TypeError):
                return []
        marks = here.keys_at.values() if isinstance(here, Map) else ()
        return [problem for problem in self.problems if problem.mark in marks]

    def excerpt(self, mark: Mark, note: str = "") -> list[str]:
        """The source line under `mark` and a caret, as two lines of text."""
        source = self.lines[mark.line - 1] if mark.line <= len(self.lines) else ""
        caret = " " * (mark.column - 1) + "^" + (f" {note}" if note else "")
        return [f"{mark.line:>6} | {source}".rstrip(), f"{'':>6} | {caret}"]

    def report(self, *, severity: str | None = None) -> str:
        """Every problem, by line, with its source line and a caret."""
        lines: list[str] = []
        for problem in sorted(self.problems):
            if severity is not None and problem.severity != severity:
                continue
            where = f"{self.path}:{problem.mark.line}:{problem.mark.column}"
            lines.append(f"{where}: {problem.severity}: {problem.message}")
            lines += self.excerpt(problem.mark)
        return "\n".join(lines)

    def raise_errors(self) -> None:
        """Raise ScenarioError with the whole report if anything in it is an error."""
        if self.errors:
            raise ScenarioError(self.report())


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """``, did you mean 'x'?`` for the candidate nearest to `word`, or nothing."""
    near = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return f", did you mean '{near[0]}'?" if near else ""


def listed(words: Iterable[str]) -> str:
    """``a, b and c``."""
    each = list(words)
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} and {each[-1]}"


def read(path: str | Path) -> Document:
    """Read a file; what is wrong with it as YAML is in the document's `problems`.

    Raises:
        ScenarioError: it cannot be read at all.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise ScenarioError(f"{path}: cannot read it: {error.strerror}") from error
    if len(raw) > _BYTES_MAX:
        raise ScenarioError(f"{path}: over {_BYTES_MAX} bytes is too long for a scenario")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ScenarioError(f"{path}:{line}: error: it is not UTF-8") from error
    return parse(text, str(path))


def parse(text: str, path: str) -> Document:
    """As `read`, of text; `path` is what messages call it."""
    from ruamel.yaml import YAML  # the one place that needs it; not paid for at start-up
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    document = Document(path=path, lines=text.splitlines())
    try:
        node = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        mark = Mark(at.line + 1, at.column + 1) if at is not None else Mark(1, 1)
        message = " ".join(str(error.problem or error.context or error).split())
        document.error(mark, f"not YAML: {message}")
        return document
    except YAMLError as error:
        document.error(Mark(1, 1), f"not YAML: {' '.join(str(error).split())}")
        return document
    if node is None:
        document.error(Mark(1, 1), "the file is empty; a scenario begins with 'twopc: 1'")
        return document
    builder = _Builder(document)
    root = builder.build(node)
    if builder.endless:
        return document
    if isinstance(root, Map):
        document.root = root
    else:
        document.error(_mark(node), "a scenario is a mapping that begins with 'twopc: 1'")
    return document


def _mark(node: Any) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


class _Builder:
    """Turns YAML nodes into values, noting what a scenario may not hold."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._open: set[int] = set()
        self.endless = False
        """An alias contains itself, so that there is no value to speak of."""

    def build(self, node: Any) -> Any:
        kind = type(node).__name__
        if id(node) in self._open:
            self.endless = True
            self._document.error(_mark(node), "this alias contains itself")
            return None
        self._open.add(id(node))
        try:
            if kind == "MappingNode":
                return self._map(node)
            if kind == "SequenceNode":
                return self._sequence(node)
            return self._scalar(node)
        finally:
            self._open.discard(id(node))

    def _map(self, node: Any) -> Map:
        found = Map(_mark(node), flow=bool(node.flow_style))
        for key, value in self._pairs(node):
            name = str(key.value)
            if name in found:
                first = found.keys_at[name].line
                self._document.error(_mark(key), f"key '{name}' is already at line {first}")
                continue
            found.keys_at[name] = _mark(key)
            found.values_at[name] = _mark(value)
            found[name] = self.build(value)
        return found

    def _pairs(self, node: Any) -> Iterator[tuple[Any, Any]]:
        for key, value in node.value:
            if type(key).__name__ != "ScalarNode":
                self._document.error(_mark(key), "a key is a word, not a list or a mapping")
            elif str(key.tag) == f"{_TAG}merge":
                self._document.error(_mark(key), "merge keys ('<<') are not used in scenarios")
            else:
                yield key, value

    def _sequence(self, node: Any) -> Sequence:
        found = Sequence(_mark(node))
        for item in node.value:
            found.items_at.append(_mark(item))
            found.append(self.build(item))
        return found

    def _scalar(self, node: Any) -> Any:
        tag = str(node.tag).removeprefix(_TAG)
        text = str(node.value)
        if node.style == ">":
            text = text.replace("\a", "")  # with it ruamel marks where lines were folded
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        if tag in ("int", "float"):
            return Number(text)
        if tag in ("str", "timestamp"):  # a date is text here: PostgreSQL reads it
            return text
        self._document.error(_mark(node), f"tag '{tag}' is not used in scenarios; write plain text")
        return None
