"""The lessons as JSON values for the explorer's page.

Outcomes are not included: `answer_json` is requested after the reader has answered.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from functools import cache
from typing import Any, Literal, NotRequired, TypedDict

from markdown_it import MarkdownIt

from twopc.errors import ScenarioError
from twopc.sim.explore.lessons.answers import LessonAnswer, answer
from twopc.sim.explore.lessons.parts import (
    LessonChange,
    LessonCommands,
    LessonExercise,
    LessonFile,
    LessonPart,
    LessonQuestion,
    LessonText,
)
from twopc.sim.explore.lessons.source import lesson, lessons

_MARKDOWN = MarkdownIt("commonmark", {"html": False})
_LINK = re.compile(r'<a href="(?P<to>[^"]*)">(?P<text>.*?)</a>', re.DOTALL)
_LESSON = re.compile(r"(\d\d)_\w+\.md")


class LessonPartJson(TypedDict):
    """One part of a lesson, whose `kind` determines its other keys.

    ``text``: `html`. ``file``: `name`, `text`. ``change``: `name`, `diff`, and as `text` the whole file after
    the change. ``run``: `command`, `file`, `text` if the lesson has the file, and `order` if one is named.
    ``terminal``: `commands`. ``question``: `number`, `html`, `file`, `text`, `order` or, if that is empty, the
    `steps` of an order that the file does not have, `without`, and `choices`, each as inline HTML; if there are
    none, a value is typed. ``exercise``: `parts`, folded at first.
    """

    kind: Literal["text", "file", "change", "run", "terminal", "question", "exercise"]
    html: NotRequired[str]
    """HTML without scripts, styles, images and links to other hosts; ``#lesson=2`` links to another lesson."""
    name: NotRequired[str]
    text: NotRequired[str]
    diff: NotRequired[str]
    command: NotRequired[str]
    commands: NotRequired[list[str]]
    file: NotRequired[str]
    order: NotRequired[str]
    steps: NotRequired[list[Any]]
    """Items of an order, as a file has them."""
    number: NotRequired[int]
    without: NotRequired[list[str]]
    choices: NotRequired[list[str]]
    parts: NotRequired[list[LessonPartJson]]


class LessonJson(TypedDict):
    """One lesson."""

    number: int
    name: str
    title: str
    minutes: int
    teaches: str
    needs: str
    """HTML."""
    parts: list[LessonPartJson]


class AnswerJson(TypedDict):
    """Answer to a question, from the run."""

    right: int | None
    """Number of the right choice, from 0; null if a value is typed."""
    value: str | None
    choices: list[dict[str, Any]]
    """Outcomes in the sequence of the question's choices, with the fields of `ChoiceOutcome`: why a wrong one is
    wrong.
    """
    because: str
    however: str
    why: str
    """Further reasons, which do not follow from the run, as HTML."""


def lessons_json() -> list[LessonJson]:
    """Return every lesson, without its answers.

    Raises:
        ScenarioError: a source is invalid; the message lists every error with its place.
    """
    return [
        {
            "number": each.number,
            "name": each.name,
            "title": each.title,
            "minutes": each.minutes,
            "teaches": each.teaches,
            "needs": _html(each.needs),
            "parts": _parts(each.parts, {}),
        }
        for each in lessons()
    ]


@cache
def answer_json(number: int, question: int) -> AnswerJson:
    """Return the answer to a lesson's question, both by number from 1. Plays the order on the model.

    Must not be called on a running event loop.

    Raises:
        ScenarioError: there is no such question.
    """
    of = lesson(number)
    asked = [each for each in of.questions if each.number == question]
    if not asked:
        raise ScenarioError(
            f"lesson {number} has no question {question}: it has {len(of.questions)}"
        )
    return _answer(asked[0], answer(of, asked[0]))


def _answer(question: LessonQuestion, result: LessonAnswer) -> AnswerJson:
    return {
        "right": result.right,
        "value": result.value,
        "choices": [asdict(each) for each in result.choices],
        "because": result.because,
        "however": result.however,
        "why": _html(question.why),
    }


def _parts(parts: tuple[LessonPart, ...], files: dict[str, str]) -> list[LessonPartJson]:
    """Return the parts; `files` has the content of each file up to this place."""
    results: list[LessonPartJson] = []
    for part in parts:
        match part:
            case LessonText():
                results.append({"kind": "text", "html": _html(part.markdown)})
            case LessonFile():
                files[part.name] = part.text
                results.append({"kind": "file", "name": part.name, "text": part.text})
            case LessonChange():
                files[part.name] = part.text
                results.append(
                    {"kind": "change", "name": part.name, "diff": part.diff, "text": part.text}
                )
            case LessonCommands():
                results += _commands(part, files)
            case LessonQuestion():
                results.append(_question(part))
            case LessonExercise():
                results.append({"kind": "exercise", "parts": _parts(part.parts, files)})
    return results


def _commands(part: LessonCommands, files: dict[str, str]) -> list[LessonPartJson]:
    """Return a part for each command: the page plays runs of a file, and shows others as commands for a terminal."""
    results: list[LessonPartJson] = []
    for command in part.commands:
        words = shlex.split(command)
        if words[:2] == ["twopc", "run"] and len(words) > 2:
            each: LessonPartJson = {"kind": "run", "command": command, "file": words[2]}
            if words[2] in files:
                each["text"] = files[words[2]]
            if "--order" in words[:-1]:
                each["order"] = words[words.index("--order") + 1]
            results.append(each)
        elif results and results[-1]["kind"] == "terminal":
            results[-1]["commands"].append(command)
        else:
            results.append({"kind": "terminal", "commands": [command]})
    return results


def _question(question: LessonQuestion) -> LessonPartJson:
    return {
        "kind": "question",
        "number": question.number,
        "html": _html(question.ask),
        "file": question.file,
        "text": question.text,
        "order": question.order,
        "steps": [dict(each) if isinstance(each, dict) else str(each) for each in question.items],
        "without": list(question.without),
        "choices": [_MARKDOWN.renderInline(each.text) for each in question.choices],
    }


def _html(markdown: str) -> str:
    """Return Markdown as HTML; a link to a page that the explorer does not have becomes text."""
    return _LINK.sub(_link, _MARKDOWN.render(markdown))


def _link(link: re.Match[str]) -> str:
    other = _LESSON.fullmatch(link["to"])
    return (
        link["text"] if other is None else f'<a href="#lesson={int(other[1])}">{link["text"]}</a>'
    )
