"""Acceptance of results as expectations: edits a scenario's text in place, and keeps its comments.

The functions are pure: they take a document and failures, and return text. Only what differs is rewritten. Results
that must not become expectations (of an invariant, a twin, a count over many orders, a hang, or in doubt) are
refused with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.errors import ScenarioError
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.judging import FailedCheck
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.compare import as_expected, as_rows, holder, outcome_text
from twopc.sim.scenario.judging.runs import Runs, StepRun
from twopc.sim.scenario.text import Document, Map, Path
from twopc.sim.scenario.values import Case

#: Prefixes of the checks whose results may become expectations; a name follows.
_ACCEPTED = ("steps.", "sessions.", "tables.")
_WIDTH_MAX = 100
#: Characters that JSON does not escape, and that YAML refuses or reads as a line break.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_PLAIN = re.compile(r"(?!-(?: |$)|---|\.\.\.)[\w+./-]+(?: [\w+./-]+)*")
_NULLS = ("null", "Null", "NULL")
_INDENT = 2


@dataclass(slots=True)
class _TargetValue:
    """The requested value of a place, or of places below it."""

    value: Any = None
    is_set: bool = False
    below: dict[str | int, _TargetValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, order=True)
class _Edit:
    """A range of the text and its replacement."""

    start: int
    end: int
    text: str


def refusals(failures: Sequence[FailedCheck]) -> list[str]:
    """Return the reasons why failures cannot be accepted, one sentence for each."""
    results = []
    for failure in failures:
        why = _why_not(failure)
        if why:
            results.append(f"{failure.message}: {why}")
    return list(dict.fromkeys(results))


def _why_not(failure: FailedCheck) -> str:
    if failure.kind == "unknown":
        return "something is in doubt, so what to expect is not known yet"
    if failure.kind == "liveness":
        return "something hangs, which is not to be expected"
    if failure.check == "twin" or failure.path[:1] == ("twin",):
        return "a twin says which check must fail, so its file is changed by hand"
    if failure.check == "committed" or failure.check.startswith("rejected."):
        return "it counts over many orders, so it is changed by hand"
    if failure.check in ("waits", "ends"):
        return "the order itself asks for it, so it is changed by hand"
    if not failure.check.startswith(_ACCEPTED):
        return f"'{failure.check or 'it'}' must hold whatever happens; mend the cause"
    if failure.actual is None:
        return "what has happened cannot be written as an expectation of one order"
    return ""


def accepted(document: Document, failures: Sequence[FailedCheck]) -> str:
    """Return the file's text with expectations that match the results.

    Raises:
        ScenarioError: a result cannot be accepted, or not at its place in this file.
    """
    refused = refusals(failures)
    root = _TargetValue()
    for failure in failures:
        if not _why_not(failure):
            refused += _request(root, document, failure)
    if refused:
        raise ScenarioError("\n".join(f"not accepted: {each}" for each in dict.fromkeys(refused)))
    return _edited(document.text, _Editor(document).edits((), root))


def unsaid(case: Case, records: Sequence[HistoryRecord]) -> list[FailedCheck]:
    """Return the outcomes of steps without an expectation in a file with ``otherwise: any``.

    They are failures for `accepted`. The result is empty for a twin and for a generated order.
    """
    expected, runs = CaseExpectations(case), Runs(records)
    if case.twin is not None or case.is_generated or not expected.anything_goes:
        return []
    results = []
    for item in case.items:
        ended = runs.of(item.step or "").ended
        if item.step is None or ended is None or expected.step(item.step) is not None:
            continue
        actual = step_expectation(case, runs.of(item.step), ended)
        if actual is not None:
            path = (*expected.order_at, "expect", "steps", item.step)
            message = f"{item.step}: {outcome_text(ended)}"
            check = f"steps.{item.step}"
            results.append(FailedCheck(path=path, message=message, check=check, actual=actual))
    return results


def step_expectation(case: Case, run: StepRun, ended: HistoryRecord) -> Any:
    """Return the expectation that a step's outcome fulfils; None if there is none."""
    actual = as_expected(ended)
    if actual == "ok" and ended.rows is not None and len(ended.rows) == ended.rowcount:
        actual = {"rows": as_rows(ended.rows, None)}
    known = {*case.scenario.steps, *case.scenario.sessions}
    holders = [name for each in run.blocked if (name := holder(each)) in known]
    if holders and actual is not None:
        return {"blocked_by": holders[0], "then": actual}
    return actual


def with_order(document: Document, name: str, steps: Sequence[str]) -> str:
    """Return the file's text with another order after the existing ones.

    Args:
        document: document of a scenario without errors.
        name: name of the new order; a number is appended if another order has that name.
        steps: items of the order, in the notation of a file.

    Raises:
        ScenarioError: the orders are in another file.
    """
    orders = _at(document, ("orders",))
    if orders is _ABSENT or not orders or _by_alias(document, ("orders", len(orders) - 1)):
        raise ScenarioError(f"the orders of {document.path} do not stand in it; copy one first")
    known = {str(each.get("name")) for each in orders}
    if name in known:
        name = next(each for n in range(2, 1_000) if (each := f"{name} {n}") not in known)
    editor, text = _Editor(document), document.text
    end = editor.end(("orders", len(orders) - 1))
    items = f"steps: [{', '.join(steps)}]"
    start = editor.start(("orders",))
    if text[start] == "[":
        return f"{text[:end]}, {{name: {_scalar(name)}, {items}}}{text[end:]}"
    indent = " " * editor.column(start)
    line_end = _line_end(text, end)
    added = f"\n{indent}- name: {_scalar(name)}\n{indent}  {items}"
    return text[:line_end] + added + text[line_end:]


def with_only(
    document: Document,
    order: Mapping[str, Any],
    *,
    values: Mapping[Path, Any],
    more: Mapping[str, Sequence[Mapping[str, Any]]],
    without: Sequence[str] = (),
) -> str:
    """Return the file's text with a single order instead of its orders, twins and matrix.

    Args:
        document: document of a scenario without errors.
        values: new values by place.
        more: further keys of the file, each a list, which replace existing ones.
        without: keys of the file that are removed.

    Raises:
        ScenarioError: a place of `values` is in another file.
    """
    root, editor, text = _TargetValue(), _Editor(document), document.text
    for path, value in values.items():
        if document.mark(path).path or _by_alias(document, path):
            raise ScenarioError(
                f"{'.'.join(map(str, path))} comes from another file: change it there"
            )
        here = root
        for part in path:
            here = here.below.setdefault(part, _TargetValue())
        here.is_set, here.value = True, value
    edits = [*editor.edits((), root)] if values else []
    for key in dict.fromkeys(("orders", "twin", "matrix", *more, *without)):
        span = document.span((key,), key=True)
        if span is None:
            continue
        edits.append(_Edit(span[0], _line_end(text, editor.end((key,))) + 1, ""))
    lines = [_edited(text, edits).rstrip()]
    for key, items in {"orders": [order], **more}.items():
        lines += ["", f"{key}:"]
        for item in items:
            inner = [line for name in item for line in block_lines(name, item[name], "    ")]
            lines += [f"  - {inner[0].strip()}", *inner[1:]]
    return "\n".join(lines) + "\n"


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _line_end(text: str, at: int) -> int:
    """Return the offset of the end of the line at an offset."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _request(root: _TargetValue, document: Document, failure: FailedCheck) -> Iterator[str]:
    """Record the value that a failure requests. Yield the reason if that is not possible."""
    path = _place_for(failure)
    here = root
    for part in path:
        here = here.below.setdefault(part, _TargetValue())
        if here.is_set and here.value != failure.actual:
            yield f"{failure.message}: it came out in several ways; say it of each order or cell"
            return
    if here.below and here.value != failure.actual:
        yield f"{failure.message}: it came out in several ways; say it of each order or cell"
        return
    included = document.mark(path).path
    if included:
        yield (
            f"{failure.message}: it is expected in {included}, which other scenarios may share; "
            "change it there"
        )
        return
    if _by_alias(document, path):
        yield f"{failure.message}: it stands there by an alias; write it out"
        return
    here.is_set, here.value = True, failure.actual


def _place_for(failure: FailedCheck) -> Path:
    """Return the place for the expectation: that of its order if the file has no explicit one."""
    kind, _, name = failure.check.partition(".")
    path = failure.path
    if path[:1] == ("orders",) and "expect" not in path:
        return (*path[:2], "expect", kind, name)
    return path


def _by_alias(document: Document, path: Path) -> bool:
    """Return whether a value on the way to `path` is an alias, so that an edit would change other places too."""
    return any(
        _at(document, path[:length]) is not _ABSENT and document.span(path[:length]) is None
        for length in range(1, len(path) + 1)
    )


_ABSENT = object()


def _at(document: Document, path: Path) -> Any:
    """Return the value at `path`, or `_ABSENT`. A single value without its list counts as the list's first item."""
    here: Any = document.root
    for part in path:
        if isinstance(here, Map) and part in here:
            here = here[str(part)]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        elif part != 0 or isinstance(here, list):
            return _ABSENT
    return here


class _Editor:
    """Computes the smallest edits that give a text the requested values."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._text = document.text

    def edits(self, path: Path, requested: _TargetValue) -> Iterator[_Edit]:
        """Yield the edits at `path` and below."""
        if requested.is_set:
            yield from self._value(path, requested.value)
            return
        missing = {}
        here = _at(self._document, path)
        for part, inner in requested.below.items():
            if _at(self._document, (*path, part)) is not _ABSENT:
                yield from self.edits((*path, part), inner)
            else:
                missing[str(part)] = _whole(inner)
        if missing:
            if isinstance(here, Map) and here:
                yield self._insert(path, here, missing)
            else:
                yield self._replace(path, missing)

    def _value(self, path: Path, value: Any) -> Iterator[_Edit]:
        """Yield the edits that change the value at `path`, and keep the parts that are already equal."""
        old = _at(self._document, path)
        if _same(old, value):
            return
        if isinstance(old, Map) and isinstance(value, Mapping) and old.keys() <= value.keys():
            for key in old:
                yield from self._value((*path, key), value[key])
            added = {key: inner for key, inner in value.items() if key not in old}
            if added:
                yield self._insert(path, old, added)
            return
        if isinstance(old, list) and isinstance(value, list) and len(old) == len(value) and old:
            for place, inner in enumerate(value):
                yield from self._value((*path, place), inner)
            return
        yield self._replace(path, value)

    def _replace(self, path: Path, value: Any) -> _Edit:
        start, end = self.start(path), self.end(path)
        old = _at(self._document, path)
        column = self.column(start)
        if isinstance(old, list) and self._text[start] == "-" and isinstance(value, list) and value:
            lines = [f"- {flow(item)}" for item in value]  # a list with dashes keeps that form
            return _Edit(start, end, ("\n" + " " * column).join(lines))
        if isinstance(old, Map) and not old.flow and isinstance(value, Mapping) and value:
            lines = [
                line for key in value for line in block_lines(str(key), value[key], " " * column)
            ]
            return _Edit(start, end, "\n".join(lines).lstrip())
        key = self._document.span(path, key=True)
        if isinstance(old, Map) and not old.flow and key is not None:
            # a mapping over several lines is replaced by a value on the line of its key
            colon = self._text.index(":", key[1]) + 1
            beside = self._text[colon : self._text.index("\n", colon)]
            return _Edit(colon, end, f" {flow(value)}{beside}")
        return _Edit(start, end, self._fitting(value, column))

    def _fitting(self, value: Any, column: int) -> str:
        """Return the value on one line, or a list broken after its items if the line would be too long."""
        line = flow(value)
        if column + len(line) <= _WIDTH_MAX or not isinstance(value, list):
            return line
        return "[" + (",\n" + " " * (column + 1)).join(flow(item) for item in value) + "]"

    def _insert(self, path: Path, here: Map, added: Mapping[str, Any]) -> _Edit:
        """Return the edit that adds keys to a mapping, in the style of its existing keys."""
        last = self.end((*path, list(here)[-1]))
        if here.flow:
            text = "".join(f", {_scalar(key)}: {flow(value)}" for key, value in added.items())
            return _Edit(last, last, text)
        first = self._document.span((*path, next(iter(here))), key=True)
        assert first is not None, "a key of a mapping that is in the file"
        indent = " " * self.column(first[0])
        line_end = _line_end(self._text, last)
        text = "".join(
            f"\n{line}" for key in added for line in block_lines(key, added[key], indent)
        )
        return _Edit(line_end, line_end, text)

    def start(self, path: Path) -> int:
        """Return the offset at which the value at `path` begins."""
        span = self._document.span(path)
        assert span is not None, path
        return span[0]

    def end(self, path: Path) -> int:
        """Return the offset at which the value at `path` ends, without the comments after it."""
        span = self._document.span(path)
        assert span is not None, path
        value = _at(self._document, path)
        if isinstance(value, (Map, list)) and value and self._text[span[0]] not in "[{":
            last = list(value)[-1] if isinstance(value, Map) else len(value) - 1
            return self.end((*path, last))
        return span[0] + len(self._text[span[0] : span[1]].rstrip())

    def column(self, offset: int) -> int:
        """Return the column of an offset, counted from 0."""
        return offset - self._text.rfind("\n", 0, offset) - 1


def _whole(requested: _TargetValue) -> Any:
    """Return the value for a place that does not exist yet, with all requested values below it."""
    if requested.is_set:
        return requested.value
    return {str(part): _whole(inner) for part, inner in requested.below.items()}


def _same(old: Any, new: Any) -> bool:
    """Return whether the file already has this value; it holds numbers and Booleans as text."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return old.keys() == new.keys() and all(_same(old[key], new[key]) for key in old)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        return len(old) == len(new) and all(map(_same, old, new))
    if old is None or new is None:
        return old is new
    return flow(old) == flow(new)


def block_lines(key: str, value: Any, indent: str) -> list[str]:
    """Return a key and its value as YAML, on separate lines, with nested mappings below each other."""
    line = f"{indent}{_scalar(key)}: {flow(value)}"
    if not isinstance(value, Mapping) or not value:
        return [line]
    deep = any(isinstance(each, Mapping) for each in value.values())
    if len(line) <= _WIDTH_MAX and (len(value) == 1 or not deep):
        return [line]
    inner = indent + " " * _INDENT
    below = [each for name in value for each in block_lines(str(name), value[name], inner)]
    return [f"{indent}{_scalar(key)}:", *below]


def flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_scalar(str(key))}: {flow(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(flow(each) for each in value)}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _PLAIN.fullmatch(text) and text not in _NULLS:
        return text
    return _UNPRINTABLE.sub(
        lambda each: f"\\u{ord(each[0]):04x}", json.dumps(text, ensure_ascii=False)
    )
