"""Parser of lesson sources; every error is reported with file, line and column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from twopc.errors import ScenarioError
from twopc.sim.explore.lessons.parts import (
    Lesson,
    LessonChange,
    LessonChoice,
    LessonCommands,
    LessonExercise,
    LessonFile,
    LessonPart,
    LessonQuestion,
    LessonText,
    LessonValue,
)
from twopc.sim.scenario import scenario_files, text
from twopc.sim.scenario.text import Document, Map, Mark
from twopc.sim.scenario.text import Sequence as MarkedList

FOLDER = Path(__file__).parent
#: Maximum duration of a lesson.
MINUTES_MAX = 10

_NAME = re.compile(r"(?P<number>\d\d)_[a-z_]+")
_MARK = re.compile(r"<!-- (?P<kind>file|change|question)(?:: (?P<name>\S+))? -->\n?")
_FOLD, _UNFOLD = "<details><summary>Answer</summary>", "</details>"
#: Language of the block by kind of mark; None: any language.
_LANGUAGES = {"file": None, "change": "diff", "question": "yaml"}
_HEAD = ("title", "minutes", "teaches", "needs")
_QUESTION = ("ask", "file", "order", "without", "choices", "value", "why")
_OF_STEP, _OF_TABLE = ("step", "column"), ("table", "at", "row", "column")


@cache
def lessons() -> tuple[Lesson, ...]:
    """Return all lessons, in their sequence.

    Raises:
        ScenarioError: a lesson is invalid; the message lists the errors of all lessons.
    """
    results, wrong = [], []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        try:
            results.append(read(path))
        except ScenarioError as error:
            wrong.append(str(error))
    if wrong:
        raise ScenarioError("\n".join(wrong))
    return tuple(results)


def lesson(number: int) -> Lesson:
    """Return one of the shipped lessons.

    Raises:
        ScenarioError: there is no lesson with this number.
    """
    every = lessons()
    for each in every:
        if each.number == number:
            return each
    raise ScenarioError(f"there is no lesson {number}: there are 1 to {every[-1].number}")


def read(path: Path) -> Lesson:
    """Return the lesson in a file.

    Raises:
        ScenarioError: the source is invalid; the message lists every error with its place.
    """
    return parse(scenario_files.content(path), str(path))


def parse(source: str, path: str) -> Lesson:
    """Return the lesson in a text; see `read`. `path` is the name for messages."""
    name = _NAME.fullmatch(Path(path).stem)
    if name is None:
        raise ScenarioError(
            f"{path}:1:1: error: a lesson is called NN_topic.md, as 01_lost_update.md"
        )
    document = Document(path=path, lines=source.splitlines(), text=source)
    end = _end_of_head(document)
    head = _head(document, end)
    parts = tuple(_Parts(document, end).all()) if end else ()
    document.raise_errors()
    return Lesson(
        path=path,
        number=int(name["number"]),
        name=name.string,
        title=head["title"],
        minutes=int(head["minutes"]),
        teaches=head["teaches"],
        needs=head["needs"],
        parts=parts,
        lines=tuple(document.lines),
    )


# -- front matter ------------------------------------------------------------------------------------


def _end_of_head(document: Document) -> int:
    """Return the line of the second ``---``, from 0; 0 if there is none."""
    ends = [at for at, line in enumerate(document.lines) if line == "---"]
    if len(ends) < 2 or ends[0] != 0:
        document.error(
            Mark(1, 1), f"a lesson begins with '---', {text.listed(_HEAD)}, and '---' again"
        )
        return 0
    return ends[1]


def _head(document: Document, end: int) -> dict[str, str]:
    values = _yaml(document, 1, document.lines[1:end]) if end else None
    result = dict.fromkeys(_HEAD, "")
    if values is None:
        return result
    _only(document, values, _HEAD)
    for key in _HEAD:
        result[key] = _text(document, values, key)
    if values.get("minutes") and result["minutes"] not in map(str, range(1, MINUTES_MAX + 1)):
        document.error(
            values.values_at["minutes"], f"a lesson takes 1 to {MINUTES_MAX} whole minutes"
        )
    return result


def _yaml(document: Document, line: int, lines: list[str], *, foreign: bool = False) -> Map | None:
    """Return a YAML mapping that begins at a line of the source, with its marks there; None if it is no mapping."""
    inner = text.parse("\n" * line + "\n".join(lines), document.path, foreign=foreign)
    for problem in inner.problems:
        document.note(problem)
    return inner.root


def _only(document: Document, values: Map, known: tuple[str, ...]) -> None:
    for key in values:
        if key not in known:
            hint = text.suggestion(key, known) or f"; there are {text.listed(known)}"
            document.error(values.keys_at[key], f"there is no key '{key}' here{hint}")


def _text(document: Document, values: Map, key: str, *, needed: bool = True) -> str:
    value = values.get(key)
    if isinstance(value, str) and value.strip():
        return str(value).strip()
    if needed or key in values:
        mark = values.values_at.get(key, values.mark)
        document.error(mark, f"'{key}' is missing" if key not in values else f"'{key}' is a text")
    return ""


# -- the parts ---------------------------------------------------------------------------------------


class _Parts:
    """Splits the Markdown of a lesson into its parts."""

    def __init__(self, document: Document, end: int) -> None:
        self._document = document
        self._lines = document.lines
        self._begin = end + 1
        self._files: dict[str, str] = {}
        """Present content of each file."""
        self._last = ""
        """The file that was saved or changed last."""
        self._mark: tuple[str, str, Mark] | None = None
        """Mark for the next block: kind, name, and place."""
        self._asked = 0

    def all(self) -> Iterator[LessonPart]:
        """Yield every part of the lesson."""
        blank = "\n" * self._begin
        body = blank + "\n".join(self._lines[self._begin :]) + "\n"
        tokens = [
            token
            for token in MarkdownIt("commonmark").parse(body)
            if token.level == 0 and token.map and token.nesting >= 0
        ]
        folded: list[LessonPart] | None = None
        for part in self._merged(tokens):
            if part == _FOLD:
                folded = []
            elif part == _UNFOLD:
                yield LessonExercise(parts=tuple(folded or ()))
                folded = None
            elif isinstance(part, str):
                raise AssertionError(part)
            elif folded is None:
                yield part
            else:
                folded.append(part)
        if folded is not None:
            self._document.error(Mark(len(self._lines), 1), f"'{_UNFOLD}' is missing")

    def _merged(self, tokens: list[Token]) -> Iterator[LessonPart | str]:
        """Yield the parts, with the begin and end of an exercise's answer; adjacent texts are merged."""
        begin: int | None = None
        last = 0
        for token in tokens:
            assert token.map is not None
            first, after = token.map
            special = token.type == "html_block" or self._is_special(token)
            if special and begin is not None:
                yield self._prose(begin, last)
                begin = None
            if token.type == "html_block":
                yield from self._html(token, first)
            elif special:
                part = self._block(token, first)
                if part is not None:
                    yield part
            else:
                self._no_mark()
                begin = first if begin is None else begin
            last = after
        if begin is not None:
            yield self._prose(begin, last)
        self._no_mark()

    def _is_special(self, token: Token) -> bool:
        return token.type == "fence" and (self._mark is not None or token.info.strip() == "console")

    def _prose(self, begin: int, after: int) -> LessonText:
        return LessonText(markdown="\n".join(self._lines[begin:after]).strip() + "\n")

    def _no_mark(self) -> None:
        """Report a mark that no block follows."""
        if self._mark is not None:
            self._document.error(self._mark[2], f"no block follows this '{self._mark[0]}'")
            self._mark = None

    def _html(self, token: Token, line: int) -> Iterator[str]:
        content = token.content.strip()
        mark = _MARK.fullmatch(content)
        self._no_mark()
        if content in (_FOLD, _UNFOLD):
            yield content
        elif mark is None:
            self._document.error(
                Mark(line + 1, 1),
                "HTML is a mark '<!-- file: NAME -->', '<!-- change: NAME -->' or '<!-- question -->', "
                f"or '{_FOLD}' and '{_UNFOLD}' with empty lines around them",
            )
        elif (mark["kind"] == "question") == bool(mark["name"]):
            self._document.error(
                Mark(line + 1, 1),
                f"'{mark['kind']}' {'has no' if mark['name'] else 'needs a'} name",
            )
        else:
            self._mark = (mark["kind"], mark["name"] or "", Mark(line + 1, 1))

    def _block(self, token: Token, line: int) -> LessonPart | None:
        """Return the part of a fenced block."""
        language = token.info.strip()
        at = Mark(line + 2, 1)
        if self._mark is None:
            return self._commands(token.content, line)
        kind, name, mark = self._mark
        self._mark = None
        needed = _LANGUAGES[kind]
        if needed is not None and language != needed:
            self._document.error(Mark(line + 1, 4), f"the block of a {kind} is '{needed}'")
            return None
        if kind == "file":
            self._files[name] = token.content
            self._last = name
            return LessonFile(name=name, language=language, text=token.content, mark=at)
        if kind == "change":
            return self._change(name, token.content, mark, at)
        return self._question(token.content.splitlines(), line + 1)

    def _commands(self, content: str, line: int) -> LessonCommands:
        commands = []
        for number, each in enumerate(content.splitlines(), line + 2):
            if each.startswith("$ "):
                commands.append(each[2:])
            else:
                self._document.error(
                    Mark(number, 1),
                    "a console block has commands behind '$ ' alone: `make lessons` adds the output",
                )
        return LessonCommands(commands=tuple(commands))

    def _change(self, name: str, diff: str, mark: Mark, at: Mark) -> LessonChange | None:
        if name not in self._files:
            self._document.error(mark, f"no file '{name}' was saved before")
            return None
        content = self._files[name]
        for change in re.finditer(r"((?:^-.*\n)+)((?:^\+.*\n)*)", diff, re.MULTILINE):
            before, after = (
                re.sub(r"^[-+]", "", each, flags=re.MULTILINE) for each in change.groups()
            )
            if (times := content.count(before)) != 1:
                where = Mark(at.line + diff[: change.start()].count("\n"), 1)
                self._document.error(where, f"{name} has these lines {times} times, not once")
            content = content.replace(before, after)
        self._files[name] = content
        self._last = name
        return LessonChange(name=name, diff=diff, text=content, mark=at)

    # -- questions ---------------------------------------------------------------------------------

    def _question(self, lines: list[str], line: int) -> LessonQuestion | None:
        document = self._document
        values = _yaml(document, line, lines, foreign=True)
        if values is None:
            return None
        _only(document, values, _QUESTION)
        self._asked += 1
        file = _text(document, values, "file", needed=False) or self._last
        if file not in self._files:
            document.error(
                values.mark, f"no file '{file}' was saved before" if file else "no file yet"
            )
        if ("choices" in values) == ("value" in values):
            document.error(values.mark, "a question has either 'choices' or 'value'")
        without, order = values.get("without", ()), values.get("order")
        items = order if isinstance(order, MarkedList) else MarkedList(values.mark)
        return LessonQuestion(
            number=self._asked,
            ask=_text(document, values, "ask"),
            file=file,
            text=self._files.get(file, ""),
            order=_text(document, values, "order") if not items else "",
            items=items,
            without=tuple(map(str, [without] if isinstance(without, str) else without)),
            choices=tuple(self._choices(values)) if "choices" in values else (),
            value=self._value(values) if "value" in values else None,
            why=_text(document, values, "why", needed=False),
            mark=values.mark,
        )

    def _choices(self, values: Map) -> Iterator[LessonChoice]:
        choices = values["choices"]
        if not isinstance(choices, Map) or len(choices) < 2:
            what = "a mapping of two texts or more, each with what is expected then"
            self._document.error(values.values_at["choices"], f"'choices' is {what}")
            return
        for words, expect in choices.items():
            mark = choices.keys_at[words]
            if not isinstance(expect, Map) or not expect:
                self._document.error(
                    choices.values_at[words],
                    "what is expected then is a mapping, as in a scenario: {steps: {b_write: ok}}",
                )
                continue
            fails, sometimes = expect.get("fails"), expect.get("sometimes")
            if "fails" in expect and (len(expect) > 1 or not isinstance(fails, str)):
                self._document.error(mark, "'fails' is the name of an invariant, and stands alone")
            elif "sometimes" in expect and (len(expect) > 1 or not isinstance(sometimes, Map)):
                self._document.error(mark, "'sometimes' holds an expectation, and stands alone")
            else:
                yield LessonChoice(
                    text=words,
                    expect=sometimes if isinstance(sometimes, Map) else expect,
                    fails=str(fails or ""),
                    sometimes=sometimes is not None,
                    mark=mark,
                )

    def _value(self, values: Map) -> LessonValue | None:
        value: Any = values["value"]
        known = _OF_STEP if isinstance(value, Map) and "step" in value else _OF_TABLE
        if not isinstance(value, Map):
            what = "{step, column} or {table, at, row, column}"
            self._document.error(values.values_at["value"], f"'value' is a mapping {what}")
            return None
        _only(self._document, value, known)
        row = value.get("row", {})
        words = {key: _text(self._document, value, key) for key in known if key != "row"}
        if known == _OF_TABLE and not (isinstance(row, Map) and row):
            self._document.error(
                value.values_at.get("row", value.mark), "'row' says which: {id: 1}"
            )
            return None
        return LessonValue(
            **words, row=tuple((column, str(cell)) for column, cell in dict(row).items())
        )
