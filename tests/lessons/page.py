"""The Markdown page of a lesson, before its commands have printed anything.

The answers to its questions are inserted; ``make lessons`` runs the commands of the console blocks.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from twopc.sim.explore.lessons.answers import LessonAnswer
from twopc.sim.explore.lessons.parts import (
    Lesson,
    LessonChange,
    LessonCommands,
    LessonExercise,
    LessonFile,
    LessonPart,
    LessonQuestion,
    LessonText,
)

_WIDTH = 120
_NUMBERS = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
#: Links from a source to pages outside the lessons, and the same links from a page.
_DOCS, _BESIDE = "](../../../docs/", "](../"


def markdown(lesson: Lesson, answers: Sequence[LessonAnswer]) -> str:
    """Return the page.

    Args:
        lesson: the lesson.
        answers: the answer to each of its questions.
    """
    minutes = f"{_NUMBERS[lesson.minutes - 1]} minute{'s' if lesson.minutes > 1 else ''}"
    head = f"# {lesson.number}. {lesson.title}\n\n*{minutes}. {lesson.needs}*\n"
    parts = "\n".join((head, *(_part(each, answers) for each in lesson.parts)))
    return parts.replace(_DOCS, _BESIDE)


def _part(part: LessonPart, answers: Sequence[LessonAnswer]) -> str:
    """Return one part, which ends with a newline."""
    match part:
        case LessonText():
            return part.markdown
        case LessonFile():
            return f"<!-- file: {part.name} -->\n```{part.language}\n{part.text}```\n"
        case LessonChange():
            return f"<!-- change: {part.name} -->\n```diff\n{part.diff}```\n"
        case LessonCommands():
            return "".join(("```console\n", *(f"$ {each}\n" for each in part.commands), "```\n"))
        case LessonQuestion():
            return "\n".join(_question(part, answers[part.number - 1]))
        case LessonExercise():
            inner = "\n".join(_part(each, answers) for each in part.parts)
            return f"<details><summary>Answer</summary>\n\n{inner}\n</details>\n"


def _question(question: LessonQuestion, answer: LessonAnswer) -> Iterator[str]:
    yield textwrap.fill(f"**Predict:** {question.ask}", _WIDTH)
    yield ""
    for each in question.choices:
        yield f"- {each.text}"
    if question.choices:
        yield ""
    yield "<details><summary>Answer</summary>"
    yield ""
    right = answer.value if answer.right is None else question.choices[answer.right].text
    yield f"**{right}**"
    reasons = [("Because", answer.because), ("However,", answer.however)]
    for word, reason in reasons:
        if reason:
            yield ""
            yield textwrap.fill(f"{word} {reason}.", _WIDTH)
    if question.why:
        yield ""
        yield textwrap.fill(question.why, _WIDTH)
    yield ""
    yield "</details>"
    yield ""
