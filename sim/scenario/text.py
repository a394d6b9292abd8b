"""Scenario files as text: reading of YAML 1.2 into plain values with their places.

Every mapping and list holds the line and column of its keys and values, so that errors found later can be reported
at their place; a duplicate key is an error. This module knows YAML only, not the content of scenarios.
"""

from __future__ import annotations

import difflib
import pathlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from twopc.errors import ScenarioError
from twopc.sim.scenario import scenario_files
from twopc.sim.scenario.scenario_files import BYTES_MAX

_TAG = "tag:yaml.org,2002:"
#: Maximum number of values, which only aliases can exceed: a value takes at least two bytes.
_NODES_MAX = BYTES_MAX // 2
#: Maximum depth of nesting; later stages are recursive.
_DEPTH_MAX = 100
#: Half of a surrogate pair, which an escape in YAML can denote.
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file; line and column count from 1."""

    line: int
    column: int
    path: str = ""
    """Path of the file, if it is not the document's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error or warning with its place."""

    mark: Mark
    message: str
    severity: str = "error"
    """Either "error" or "warning"; a warning does not prevent a run."""

    @property
    def rank(self) -> tuple[str, int, int, str]:
        """Sort key in a report: the document's own file first, and by line within each file."""
        return (self.mark.path, self.mark.line, self.mark.column, self.message)


Span = tuple[int, int]
#: A way from the root of a document to one of its values: keys of mappings and indexes of lists.
Path = tuple[str | int, ...]


class Map(dict[str, Any]):
    """A mapping with the places of its keys and values."""

    __slots__ = ("flow", "key_spans", "keys_at", "mark", "value_spans", "values_at")

    def __init__(self, mark: Mark, *, flow: bool = False) -> None:
        super().__init__()
        self.mark = mark
        self.flow = flow
        """Whether the mapping is written in braces."""
        self.keys_at: dict[str, Mark] = {}
        self.values_at: dict[str, Mark] = {}
        self.key_spans: dict[str, Span] = {}
        """Range in the text, in characters; an alias has none."""
        self.value_spans: dict[str, Span] = {}

    def take(self, key: str, value: Any, source: Map) -> None:
        """Set `key` to `value`, with its places in `source`."""
        self[key] = value
        self.keys_at[key] = source.keys_at[key]
        self.values_at[key] = source.values_at[key]
        for own, other in (
            (self.key_spans, source.key_spans),
            (self.value_spans, source.value_spans),
        ):
            own.pop(key, None)
            if key in other:
                own[key] = other[key]


class Sequence(list[Any]):
    """A list with the places of its items."""

    __slots__ = ("items_at", "mark", "spans")

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark = mark
        self.items_at: list[Mark] = []
        self.spans: list[Span | None] = []


class Number(str):
    """A number as written: ``08001`` is not 8001, ``1.50`` is not 1.5."""

    __slots__ = ()


@dataclass(slots=True)
class Document:
    """A file with its lines, its values, and the problems found so far."""

    path: str
    """Path as given by the user, which begins every message."""
    lines: list[str]
    root: Map | None = None
    problems: list[Problem] = field(default_factory=list)
    text: str = ""
    """The complete text of the file."""
    partial: bool = False
    """Whether an included file cannot be read, so that missing values may be in that file."""
    sources: dict[str, list[str]] = field(default_factory=dict)
    """Lines of the included files, by path."""

    def error(self, at: Mark | Path, message: str, *, key: bool = False) -> None:
        """Record an error at a mark, at the value at a path, or at its key."""
        mark = at if isinstance(at, Mark) else self.mark(at, key=key)
        self.note(Problem(mark=mark, message=message))

    def warn(self, at: Mark | Path, message: str, *, key: bool = False) -> None:
        """Record a warning, which does not prevent a run, at a place as in `error`."""
        mark = at if isinstance(at, Mark) else self.mark(at, key=key)
        self.note(Problem(mark=mark, message=message, severity="warning"))

    def note(self, problem: Problem) -> None:
        """Record a problem, unless the same one is recorded already."""
        if problem not in self.problems:
            self.problems.append(problem)

    @property
    def errors(self) -> list[Problem]:
        """Errors that must be corrected before the file can be run."""
        return [problem for problem in self.problems if problem.severity == "error"]

    def mark(self, path: Path, *, key: bool = False) -> Mark:
        """Return the place of the value at `path`, or of its key.

        Parts of the path that do not exist are skipped, so that a missing key is reported at its parent.
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

    def span(self, path: Path, *, key: bool = False) -> Span | None:
        """Return the range in `text` of the value at `path`, or of its key, in characters.

        None if the document's own file does not contain it: it is missing, in another file, or an alias.
        """
        here: Any = self.root
        span: Span | None = None
        for part in path:
            if isinstance(here, Map) and part in here:
                name = str(part)
                spans = here.key_spans if key else here.value_spans
                mark, span, here = here.values_at[name], spans.get(name), here[name]
            elif isinstance(here, Sequence) and isinstance(part, int) and part < len(here):
                mark = here.items_at[part]
                span, here = here.spans[part] if part < len(here.spans) else None, here[part]
            elif part == 0 and not isinstance(here, Sequence):
                continue  # a single value without its list
            else:
                return None
            if mark.path:
                return None
        return span

    def missing(self, path: Path, key: str) -> None:
        """Record that the mapping at `path` lacks `key`, unless another problem explains it."""
        if self.partial:
            return
        lines = [problem.message for problem in self.inside(path)]
        explained = ("is refused", f"did you mean '{key}'?")
        if not any(words in message for words in explained for message in lines):
            self.error(path, f"key '{key}' is missing", key=True)

    def inside(self, path: Path) -> list[Problem]:
        """Return the problems with keys of the mapping at `path`."""
        here: Any = self.root
        for part in path:
            try:
                here = here[part]
            except (KeyError, IndexError, TypeError):
                return []
        marks = here.keys_at.values() if isinstance(here, Map) else ()
        return [problem for problem in self.problems if problem.mark in marks]

    def unknown(
        self, at: Path, what: str, name: str, known: Iterable[str], *, key: bool = False
    ) -> None:
        """Record that there is no `name` among the `known`, and suggest a similar one."""
        self.error(at, f"no {what} '{name}'{suggestion(name, known)}", key=key)

    def where(self, mark: Mark, *, beside: bool = False) -> str:
        """Return ``file:line:column`` of a place.

        Args:
            beside: whether the result stands beside another place: without the column, and only the line for this
                file.
        """
        if beside:
            return f"{mark.path}:{mark.line}" if mark.path else f"line {mark.line}"
        return f"{mark.path or self.path}:{mark.line}:{mark.column}"

    def excerpt(self, mark: Mark, note: str = "") -> list[str]:
        """Return the source line at `mark` and a line with a caret."""
        lines = self.sources.get(mark.path, []) if mark.path else self.lines
        source = lines[mark.line - 1] if mark.line <= len(lines) else ""
        caret = " " * (mark.column - 1) + "^" + (f" {note}" if note else "")
        return [f"{mark.line:>6} | {source}".rstrip(), f"{'':>6} | {caret}"]

    def report(self, *, severity: str | None = None) -> str:
        """Return every problem, by file and line, with its source line and a caret."""
        lines: list[str] = []
        for problem in sorted(self.problems, key=lambda each: each.rank):
            if severity is not None and problem.severity != severity:
                continue
            where = self.where(problem.mark)
            lines.append(f"{where}: {problem.severity}: {problem.message}")
            lines += self.excerpt(problem.mark)
        return "\n".join(lines)

    def raise_errors(self) -> None:
        """Raise ScenarioError with the complete report if there is an error."""
        if self.errors:
            raise ScenarioError(self.report())


def suggestion(word: str, candidates: Iterable[str]) -> str:
    """Return ``, did you mean 'x'?`` for the candidate nearest to `word`; empty if none is similar."""
    near = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return f", did you mean '{near[0]}'?" if near else ""


def listed(words: Iterable[str], last: str = "and") -> str:
    """Return ``a, b and c``."""
    each = list(words)
    return each[0] if len(each) == 1 else f"{', '.join(each[:-1])} {last} {each[-1]}"


def read(path: str | pathlib.Path, *, foreign: bool = False) -> Document:
    """Read a file, or standard input if the path is ``-``. YAML errors are in the document's `problems`.

    Args:
        foreign: whether the values will be part of another document, so that all marks name this file.

    Raises:
        ScenarioError: the file cannot be read.
    """
    source = scenario_files.of_file(path) if foreign else scenario_files.content(path)
    return parse(source, str(path), foreign=foreign)


def parse(text: str, path: str, *, foreign: bool = False) -> Document:
    """Read a text as `read` does; messages name `path`."""
    from ruamel.yaml import YAML  # imported when used, to keep the start-up time short
    from ruamel.yaml.error import YAMLError

    document = Document(path=path, lines=text.splitlines(), text=text)
    named = path if foreign else ""
    try:
        node = YAML(typ="rt", pure=True).compose(text)
    except (YAMLError, RecursionError) as error:
        from twopc.sim.scenario import syntax  # few files have syntax errors

        result = syntax.mistake(text, error)
        document.error(Mark(result.line + 1, result.column + 1, named), result.message)
        return document
    if node is None:
        document.error(Mark(1, 1, named), "the file is empty; a scenario begins with 'twopc: 1'")
        return document
    builder = _Builder(document, named)
    try:
        root = builder.build(node)
    except _EndlessError as error:
        message, mark = error.args
        document.error(mark, message)
        return document
    if isinstance(root, Map):
        document.root = root
    else:
        document.error(builder.mark(node), "a scenario is a mapping that begins with 'twopc: 1'")
    return document


class _EndlessError(ScenarioError):
    """More values, or deeper nesting, than any scenario needs. The arguments are the message and the mark."""


class _Builder:
    """Converts YAML nodes to values, and records errors for those that scenarios do not allow."""

    def __init__(self, document: Document, path: str) -> None:
        self._document = document
        self._path = path
        self._open: set[int] = set()
        self._ends: dict[int, int] = {}
        """Ends of the converted nodes; a node that occurs a second time is an alias."""
        self._count = 0
        """Number of converted nodes, counted again for each alias."""

    def mark(self, node: Any) -> Mark:
        """Return the place at which a node begins."""
        return Mark(node.start_mark.line + 1, node.start_mark.column + 1, self._path)

    def build(self, node: Any) -> Any:
        """Return the value of a node."""
        kind = type(node).__name__
        if id(node) in self._open:
            raise _EndlessError("this alias contains itself", self.mark(node))
        if len(self._open) > _DEPTH_MAX:
            raise _EndlessError("nested too deeply: a scenario needs a few levels", self.mark(node))  # fmt: skip
        self._count += 1
        if self._count > _NODES_MAX:
            raise _EndlessError(
                f"with what aliases stand for there are over {_NODES_MAX} values: write fewer",
                self.mark(node),
            )
        self._open.add(id(node))
        try:
            if kind == "MappingNode":
                return self._map(node)
            if kind == "SequenceNode":
                return self._sequence(node)
            return self._scalar(node)
        finally:
            self._open.discard(id(node))

    def _build(self, node: Any) -> tuple[Any, Span | None]:
        """Return the value of a node and its range; None instead of a range for an alias."""
        known = id(node) in self._ends
        value = self.build(node)
        if known or id(node) in self._open:
            return value, None
        self._ends[id(node)] = end = self._end(node)
        return value, (node.start_mark.index, end)

    def _end(self, node: Any) -> int:
        """Return the offset at which a node's own text ends; ruamel's end of a block is the next node."""
        kind, begin, end = type(node).__name__, node.start_mark.index, int(node.end_mark.index)
        if kind == "ScalarNode" and node.style in ("|", ">"):
            return int(begin) + len(self._document.text[begin:end].rstrip())
        if kind == "ScalarNode" or node.flow_style:
            return end
        is_map = kind == "MappingNode"
        inside = [part for pair in node.value for part in pair] if is_map else node.value
        ends = (self._ends.get(id(each)) or int(each.end_mark.index) for each in inside)
        return max([int(begin), *ends])

    def _map(self, node: Any) -> Map:
        result = Map(self.mark(node), flow=bool(node.flow_style))
        for key, value in self._pairs(node):
            name = str(key.value)
            if result.flow and self._lacks_space(key, value):
                continue
            if name in result:
                first = result.keys_at[name].line
                self._document.error(self.mark(key), f"key '{name}' is already at line {first}")
                continue
            result.keys_at[name] = self.mark(key)
            result.values_at[name] = self.mark(value)
            result.key_spans[name] = (key.start_mark.index, key.end_mark.index)
            result[name], span = self._build(value)
            if span is not None and span[0] == span[1]:  # the value is empty
                at = self._document.text.find(":", key.end_mark.index) + 1
                span, self._ends[id(value)] = (at, at), at
                result.values_at[name] = result.keys_at[name]  # ruamel's mark is the next key
            if span is not None:
                result.value_spans[name] = span
        return result

    def _lacks_space(self, key: Any, value: Any) -> bool:
        """Return whether a key in braces lacks the space after its colon, and record an error then."""
        word, colon, rest = str(key.value).partition(":")
        nothing = (
            type(value).__name__ == "ScalarNode" and value.start_mark.index == value.end_mark.index
        )
        if not (nothing and colon and rest and word.isidentifier()) or key.style:
            return False
        at = self.mark(key)
        self._document.error(
            Mark(at.line, at.column + len(word) + 1, at.path),
            f"a space is missing after the colon: write '{word}: {rest}'",
        )
        return True

    def _pairs(self, node: Any) -> Iterator[tuple[Any, Any]]:
        for key, value in node.value:
            if type(key).__name__ != "ScalarNode":
                self._document.error(self.mark(key), "a key is a word, not a list or a mapping")
            elif str(key.tag) == f"{_TAG}merge":
                self._document.error(self.mark(key), "merge keys ('<<') are not used in scenarios")
            else:
                self._check_surrogates(key)
                yield key, value

    def _sequence(self, node: Any) -> Sequence:
        result = Sequence(self.mark(node))
        for item in node.value:
            result.items_at.append(self.mark(item))
            value, span = self._build(item)
            result.append(value)
            result.spans.append(span)
        return result

    def _check_surrogates(self, node: Any) -> None:
        """Record an error for half of a surrogate pair, which cannot be encoded."""
        if half := _SURROGATE.search(str(node.value)):
            self._document.error(
                self.mark(node), f"{half[0]!a} is half of a character: write the character"
            )

    def _scalar(self, node: Any) -> Any:
        self._check_surrogates(node)
        tag = str(node.tag).removeprefix(_TAG)
        text = str(node.value)
        if node.style == ">":
            text = text.replace("\a", "")  # ruamel marks the ends of folded lines with it
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() == "true"
        if tag in ("int", "float"):
            return Number(text)
        if tag in ("str", "timestamp"):  # a date is kept as text, which PostgreSQL reads
            return text
        self._document.error(
            self.mark(node), f"tag '{tag}' is not used in scenarios; write plain text"
        )
        return text
