"""Diagnosis of files that are not YAML: what was probably intended, at the place of the error.

The parser reports an error where it cannot continue, often lines later: a missing quote at the next quote, a
missing colon at the colon of the next key. This module knows YAML only, not the content of scenarios.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

_CLOSING = {"{": "}", "[": "]"}
_KEY = re.compile(r"(?:- +)*(\w[\w.-]*)")
_DASHES = re.compile(r" *(?:- +)+")
_NO_SPACE = re.compile(r"(?:- +)*([\w.-]+):(?=[^\s:/])")
#: Number of words from which on they are text; fewer are names between which a comma is missing.
_TEXT_WORDS = 3
_STEP = 2
_NO_DASH = "each item of this list begins with '- ': write that before this line"
_QUOTES = "'\""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntaxMistake:
    """Reason why a text is not YAML."""

    line: int
    """Line number from 0; `column` counts from 0 too."""
    column: int
    message: str


def mistake(text: str, error: Exception) -> SyntaxMistake:
    """Return the probable error in a text.

    Args:
        text: the complete file.
        error: the parser's error: a `YAMLError` of ruamel.yaml, or a RecursionError.
    """
    from ruamel.yaml.reader import ReaderError

    if isinstance(error, RecursionError):
        return _deepest(text)
    if isinstance(error, ReaderError):
        return _forbidden(text, error.position)
    return _UnreadableText(text, error).mistake()


def _forbidden(text: str, position: int) -> SyntaxMistake:
    """Return the place of a character that YAML allows nowhere."""
    before = text[:position]
    place = (before.count("\n"), len(before.rpartition("\n")[2]))
    return _at(place, f"character U+{ord(text[position]):04X} is not allowed in YAML: remove it")


def _deepest(text: str) -> SyntaxMistake:
    """Return the place of the deepest nesting, in brackets or by indentation, of a text that is nested too deeply."""
    depth, most, place = 0, -1, (0, 0)
    for number, words in enumerate(text.splitlines()):
        indentation = (len(words) - len(words.lstrip())) // _STEP
        for column, letter in enumerate(words):
            depth += (letter in _CLOSING) - (letter in _CLOSING.values())
            if depth + indentation > most:
                most, place = depth + indentation, (number, column)
    return _at(place, "nested too deeply: a scenario needs a few levels")


class _UnreadableText:
    """A text and the place at which the parser could not continue."""

    def __init__(self, text: str, error: Any) -> None:
        self._text = text
        self._lines = text.splitlines() or [""]
        self._problem = " ".join(str(error.problem or error.context or error).split())
        self._context = str(error.context or "")
        at = error.problem_mark or error.context_mark
        since = error.context_mark or at
        self._at = (at.line, at.column) if at is not None else (0, 0)
        self._since = (since.line, since.column) if since is not None else self._at

    def mistake(self) -> SyntaxMistake:
        ways = (self._space, self._quote, self._flow, self._key, self._block, self._beginning)
        result = next((one for way in ways if (one := way()) is not None), None)
        return result or _at(self._at, f"not YAML: {self._problem}")

    # -- characters --------------------------------------------------------------------------------

    def _space(self) -> SyntaxMistake | None:
        """Diagnose a tab, or a character that looks like a space."""
        line, column = self._at
        if r"'\t'" in self._problem and self._line(line)[:column].strip():
            return _at(self._at, "a tab stands before a value here; write a space")
        for near in (line, self._before(line)):
            for place, letter in enumerate(_margin(self._line(near))):
                if letter == "\t":
                    return _at((near, place), "the line is indented with a tab; indent with spaces")
                if letter != " ":
                    name = unicodedata.name(letter, "a control character").lower()
                    text = f"U+{ord(letter):04X}, {name}"
                    return _at(
                        (near, place),
                        f"this looks like a space and is none ({text}); write a space",
                    )
        return None

    def _beginning(self) -> SyntaxMistake | None:
        """Diagnose a value that begins with a character with a special meaning in YAML."""
        match = re.search(r"found character '(.*)' that cannot start", self._problem)
        if match is not None:
            return _at(self._at, f"a value cannot begin with {match[1]}: put it in quotes")
        match = re.search(r"found undefined alias '(.*)'", self._problem)
        if match is not None:
            return _at(
                self._at,
                f"'*{match[1]}' repeats what is marked '&{match[1]}', and nothing is; put text that begins with "
                "'*' in quotes",
            )
        if "mapping keys are not allowed" in self._problem:
            return _at(self._at, "a value cannot begin with '? ': put it in quotes")
        if "expected alphabetic or numeric character" in self._problem:
            return _at(self._since, "put text that begins with '*' or '&' in quotes")
        if "sequence entries are not allowed here" in self._problem:
            return _at(self._at, "'- ' begins an item of a list, which stands on a line of its own")
        if "expected the node content" in self._problem:
            return _at(self._at, "a value is missing before this")
        if re.search("expected a comment or a line break|expected chomping", self._problem):
            return _at(self._at, "after '|' or '>' the text begins on the next line, indented")
        if "found unknown escape character" in self._problem:
            return _at(
                self._at,
                "in double quotes a backslash begins an escape: double it, or put the text in single quotes",
            )
        if "another document" in self._problem:
            return _at(self._at, "'---' begins a second document; a file holds one")
        return None

    # -- quotes ------------------------------------------------------------------------------------

    def _quote(self) -> SyntaxMistake | None:
        """Diagnose a missing quote, or an additional one."""
        if "unexpected end of stream" in self._problem and "quoted" in self._context:
            quote = self._line(self._since[0])[self._since[1]]
            return _at(
                self._since,
                f"the text that begins with this {quote} is not closed: its last {quote} is missing",
            )
        last = self._last
        if last is None or last.style not in ("'", '"'):
            return None
        begin, end = last.start_mark, last.end_mark
        if begin.line != end.line and end.line in (self._at[0], self._at[0] - 1):
            return _at(
                (begin.line, begin.column),
                f"the text that begins with this {last.style} goes on to line {end.line + 1}: its last {last.style} "
                "is missing",
            )
        between = self._line(end.line)[end.column : self._at[1]] if end.line == self._at[0] else "?"
        if between.strip() or not re.search("scalar|'[?*&]'|colon|expected ':'", self._problem):
            return None
        inner = {"'": "''", '"': r"\""}[last.style]
        return _at(
            (end.line, end.column - 1),
            f"the text ends at this {last.style}; write {inner} for one that belongs to it, or put the text in "
            f"{'double' if last.style == chr(39) else 'single'} quotes",
        )

    @cached_property
    def _last(self) -> Any:
        """The last value or key before the place of the error, as found by the parser's scanner."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        result = None
        try:
            for token in YAML(typ="rt", pure=True).scan(self._text):
                if (token.start_mark.line, token.start_mark.column) >= self._at:
                    break
                if type(token).__name__ == "ScalarToken":
                    result = token
        except YAMLError:
            pass
        return result

    # -- braces ------------------------------------------------------------------------------------

    def _flow(self) -> SyntaxMistake | None:
        """Diagnose a brace or bracket that is not closed, or an error within it."""
        closing = re.search(r"but found '([]}])'", self._problem)
        if closing is not None:
            return _at(self._at, f"this '{closing[1]}' closes nothing: there is one too many")
        if "parsing a flow" not in self._context:
            return None
        opening = self._line(self._since[0])[self._since[1]]
        got = re.search(r"but got '(.*)'", self._problem)
        what = got[1] if got is not None else ""
        if what in _CLOSING.values():
            return _at(
                self._at,
                f"'{what}' does not close the '{opening}' {self._beside()}: write '{_CLOSING[opening]}'",
            )
        if self._is_outside() or "end" in what:
            comment = " #" in self._line(self._since[0])[self._since[1] :]
            more = "; what follows ' #' is a comment" if comment else ""
            return _at(
                self._since,
                f"this '{opening}' is not closed: its '{_CLOSING[opening]}' is missing{more}",
            )
        last = self._last
        if what == ":" and last is not None and last.plain:
            words = last.value.split()
            if len(words) >= _TEXT_WORDS:
                place = (last.start_mark.line, last.start_mark.column)
                return _at(place, "put text that contains ': ' in quotes")
            at = (last.end_mark.line, last.end_mark.column - len(words[-1]))
            return _at(at, f"a comma is missing before '{words[-1].strip(_QUOTES)}'")
        return _at(self._at, "a comma is missing before this")

    def _is_outside(self) -> bool:
        """Return whether the parser reached a line outside of the opened brace or bracket."""
        line, opened = self._at[0], self._since[0]
        return line > opened and _indent(self._line(line)) <= _indent(self._line(opened))

    def _beside(self) -> str:
        return (
            f"at column {self._since[1] + 1}"
            if self._since[0] == self._at[0]
            else f"of line {self._since[0] + 1}"
        )

    # -- keys --------------------------------------------------------------------------------------

    def _key(self) -> SyntaxMistake | None:
        """Diagnose a missing colon, or an additional one."""
        if "could not find expected ':'" in self._problem:
            return self._colon(self._since[0]) or _at(
                self._since, "a colon is missing after this key"
            )
        if "mapping values are not allowed" not in self._problem:
            return None
        line, column = self._at
        first = re.search(r":\s+", self._line(line)[:column])
        if first is not None:
            return _at((line, first.end()), "put a value that contains ': ' in quotes")
        return self._colon(self._before(line)) or self._block()

    def _colon(self, line: int) -> SyntaxMistake | None:
        """Diagnose the colon of the key in a line."""
        content = self._line(line)
        margin = _indent(content)
        close = _NO_SPACE.match(content, margin)
        if close is not None:
            key, value = close[1], content[close.end() :].strip()
            return _at(
                (line, close.end()), f"a space is missing after the colon: write '{key}: {value}'"
            )
        key = _KEY.match(content, margin)
        if ":" in content or key is None:
            return None
        above = self._line(self._before(line)).rstrip()
        if re.search(r": +[|>][-+]?$", above):
            return _at((line, margin), "the text after '|' or '>' is indented further than its key")
        value = content[key.end() :].strip().removeprefix("=").lstrip()
        message = f"'{key[1]}' has no colon: write '{key[1]}:{value and f' {value}'}'"
        if len(value.split()) >= _TEXT_WORDS - 1 and re.search(r":\s+\S", above):
            message = "this line is no key; indent it further if it belongs to the text above"
        return _at((line, key.start(1)), message)

    # -- indentation -------------------------------------------------------------------------------

    def _block(self) -> SyntaxMistake | None:
        """Diagnose a line with a different indentation from its neighbours, or without a dash."""
        if "<document start>" in self._problem:
            first = next((at for at in range(self._at[0]) if self._is_written(at)), self._at[0])
            margin = _indent(self._line(first))
            if margin:
                text = "the file's first key is indented, and those after it are not"
                return _at((first, margin), text)
        if not re.search("expected <block end>|mapping values", self._problem):
            return None
        line = self._at[0]
        other = self._sibling(line)
        return self._dash(line, other) or self._colon(other) or self._indented(line, other)

    def _dash(self, line: int, other: int) -> SyntaxMistake | None:
        """Diagnose the dash of a line, or of the line beside which it should stand."""
        margin = _indent(self._line(line))
        beside = (other, _indent(self._line(other)))
        for at in ((line, margin), beside):
            content = self._line(at[0]).strip()
            if re.match(r"-[^\s\d-]", content):
                return _at(at, f"a space is missing after '-': write '- {content[1:]}'")
        if "found '?'" in self._problem and "block collection" in self._context:
            if margin == self._since[1]:
                return _at(
                    self._at, f"{_NO_DASH}, or indent it further if it belongs to the item above"
                )
        elif self._line(line).lstrip().startswith("- ") and margin == beside[1]:
            return _at(beside, _NO_DASH)
        return None

    def _indented(self, line: int, other: int) -> SyntaxMistake:
        """Report the indentation of a line and the expected one."""
        indent, its = _indent(self._line(line)), _indent(self._line(other))
        if re.search(r":\s*[|>][-+\d]*$", self._line(other)):
            first = self._next(other)
            if self._before(line) == first:
                lines = (
                    "the first line of a text sets its indentation, and the next is indented less"
                )
                return _at((first, _indent(self._line(first))), lines)
            lines = f"this line is indented by {_spaces(indent)}: neither as the text above it nor as its key"
            return _at((line, indent), lines)
        above = self._parent(other)
        expected = 0 if above is None else _indent(self._line(above)) + self._usual
        inside = _DASHES.match(self._line(other))
        own = self._line(line).lstrip().startswith("- ")
        more = ""
        if its != expected and indent == expected + (
            _STEP if inside is not None and not own else 0
        ):
            line, indent, its = other, its, expected
        elif indent > its and not own:
            if inside is not None:
                its = inside.end()
            elif indent == its + _STEP and above is not None and other == self._next(above):
                more = f", or '- ' is missing in line {other + 1}"
        return _at(
            (line, indent),
            f"this line is indented by {_spaces(indent)} and those beside it by {_spaces(its)}: what belongs together "
            f"begins in the same column{more}",
        )

    def _sibling(self, line: int) -> int:
        """Return the line with which a line should align: the first below the same key, or the nearest with a
        value.
        """
        above = self._parent(line)
        if above is None:
            return self._before(line)
        if not re.search(r":\s*(#.*)?$", self._line(above)):
            return above
        return min(self._next(above), line)

    def _parent(self, line: int) -> int | None:
        """Return the nearest preceding line with less indentation."""
        margin = _indent(self._line(line))
        results = (at for at in range(line - 1, -1, -1) if self._is_written(at))
        return next((at for at in results if _indent(self._line(at)) < margin), None)

    @cached_property
    def _usual(self) -> int:
        """The most common indentation of lines below their keys."""
        steps: Counter[int] = Counter()
        written = [at for at in range(len(self._lines)) if self._is_written(at)]
        for one, other in itertools.pairwise(written):
            deeper = _indent(self._lines[other]) - _indent(self._lines[one])
            if deeper > 0 and self._lines[one].rstrip().endswith(":"):
                steps[deeper] += 1
        return steps.most_common(1)[0][0] if steps else _STEP

    # -- lines -------------------------------------------------------------------------------------

    def _line(self, at: int) -> str:
        return self._lines[at] if 0 <= at < len(self._lines) else ""

    def _is_written(self, at: int) -> bool:
        content = self._line(at).strip()
        return bool(content) and not content.startswith("#")

    def _next(self, line: int) -> int:
        """Return the nearest following line that is neither empty nor a comment."""
        results = (at for at in range(line + 1, len(self._lines)) if self._is_written(at))
        return next(results, line)

    def _before(self, line: int) -> int:
        """Return the nearest preceding line that is neither empty nor a comment."""
        return next((at for at in range(line - 1, -1, -1) if self._is_written(at)), line)


def _at(place: tuple[int, int], message: str) -> SyntaxMistake:
    return SyntaxMistake(line=place[0], column=place[1], message=message)


def _margin(line: str) -> Sequence[str]:
    return line[: len(line) - len(line.lstrip())]


def _indent(line: str) -> int:
    return len(_margin(line))


def _spaces(number: int) -> str:
    if not number:
        return "none"
    return "1 space" if number == 1 else f"{number} spaces"
