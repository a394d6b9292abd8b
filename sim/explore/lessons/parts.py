"""Parts of a lesson, as values: this module reads no file and plays nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twopc.sim.scenario.text import Map, Mark
from twopc.sim.scenario.text import Sequence as MarkedList


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonText:
    """Paragraphs, headings, lists, and blocks that are only shown."""

    markdown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonFile:
    """A file that the reader saves."""

    name: str
    language: str
    """Language of the block, such as ``yaml``."""
    text: str
    mark: Mark
    """Place of the first line in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonChange:
    """A change of a file that was saved before."""

    name: str
    diff: str
    """Lines with ``-``, each group followed by the lines with ``+`` that replace it."""
    text: str
    """The whole file after the change."""
    mark: Mark
    """Place of the diff's first line in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonCommands:
    """Commands for a terminal, whose output a page shows."""

    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonChoice:
    """One choice of a question. The run determines whether it is right."""

    text: str
    expect: Map
    """Expectation that a run meets if the choice is right, as in a scenario's `expect`."""
    fails: str = ""
    """Invariant that fails if the choice is right; ``nothing``: none fails."""
    sometimes: bool = False
    """For generated orders: whether the expectation must hold in some of them and not in all."""
    mark: Mark
    """Place in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonValue:
    """A value of the run: from the rows that a step returned, or from the final rows of a table."""

    column: str
    step: str = ""
    table: str = ""
    at: str = ""
    """Node of the table."""
    row: tuple[tuple[str, str], ...] = ()
    """Columns and values that identify the table's row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonQuestion:
    """A question that is asked before a run shows the outcome."""

    number: int
    """Number within the lesson, from 1."""
    ask: str
    """The question, as Markdown."""
    file: str
    text: str
    """Content of the file at this place of the lesson."""
    order: str
    """Name of an order of the file; empty: `items` are played."""
    items: MarkedList
    """Items of an order that the file does not have."""
    without: tuple[str, ...] = ()
    """Protections that are switched off."""
    choices: tuple[LessonChoice, ...] = ()
    value: LessonValue | None = None
    """The value that the question asks for; None: it has choices."""
    why: str = ""
    """Further reasons, which do not follow from the run, as Markdown."""
    mark: Mark
    """Place in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonExercise:
    """The folded answer to an exercise that the reader tries alone."""

    parts: tuple[LessonPart, ...]


LessonPart = (
    LessonText | LessonFile | LessonChange | LessonCommands | LessonQuestion | LessonExercise
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson, parsed from its source."""

    path: str
    """Path of the source for messages."""
    number: int
    name: str
    """Name such as ``01_lost_update``."""
    title: str
    minutes: int
    """Maximum duration."""
    teaches: str
    """Learning objective, in one sentence."""
    needs: str
    """What the reader must have done before, as Markdown."""
    parts: tuple[LessonPart, ...]
    lines: tuple[str, ...]
    """Lines of the source."""

    def walk(self) -> Iterator[LessonPart]:
        """Yield every part in its sequence, including those of exercises."""
        for part in self.parts:
            yield part
            if isinstance(part, LessonExercise):
                yield from part.parts

    @property
    def questions(self) -> tuple[LessonQuestion, ...]:
        """All questions of the lesson."""
        return tuple(part for part in self.walk() if isinstance(part, LessonQuestion))
