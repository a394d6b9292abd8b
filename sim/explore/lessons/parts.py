"""What a lesson consists of, as values: nothing here reads a file or plays anything."""

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
    """Of the block, as ``yaml``."""
    text: str
    mark: Mark
    """Where its first line stands in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonChange:
    """Changed lines of a file that was saved before."""

    name: str
    diff: str
    """Lines that begin with ``-`` and those behind them, with ``+``, that take their place."""
    text: str
    """The whole file after it."""
    mark: Mark
    """Where the first line of the diff stands in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonCommands:
    """Commands for a terminal, whose output a page shows."""

    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonChoice:
    """One answer that may be chosen. Which is right, only the run knows."""

    text: str
    expect: Map
    """What a run must come to for it to be right, as in a scenario's `expect`."""
    fails: str = ""
    """Right if this invariant fails; ``nothing``: if none does."""
    sometimes: bool = False
    """Of generated orders: right if the expectation holds in some of them, and not in all."""
    mark: Mark
    """Where it stands in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonValue:
    """A value of the run: of the rows that a step gave, or of a table's at the end."""

    column: str
    step: str = ""
    table: str = ""
    at: str = ""
    """Of a table: the node."""
    row: tuple[tuple[str, str], ...] = ()
    """Of a table: columns and values that say which row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonQuestion:
    """What is asked before a run shows the outcome."""

    number: int
    """Within its lesson, from 1."""
    ask: str
    """The question, as Markdown."""
    file: str
    text: str
    """What the file holds at this place of the lesson."""
    order: str
    """The name of an order of the file; empty: `items` is played."""
    items: MarkedList
    """The items of an order that the file does not have."""
    without: tuple[str, ...] = ()
    """The protections that are switched off."""
    choices: tuple[LessonChoice, ...] = ()
    value: LessonValue | None = None
    """What is asked for instead of a choice."""
    why: str = ""
    """What the run cannot say of the reason, as Markdown."""
    mark: Mark
    """Where it stands in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonExercise:
    """The answer of what the reader shall try alone; it is folded."""

    parts: tuple[LessonPart, ...]


LessonPart = (
    LessonText | LessonFile | LessonChange | LessonCommands | LessonQuestion | LessonExercise
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson, as its source says it."""

    path: str
    """The source, as messages call it."""
    number: int
    name: str
    """``01_lost_update``."""
    title: str
    minutes: int
    """How long it takes, at most."""
    teaches: str
    """What the reader knows afterwards, in one sentence."""
    needs: str
    """What the reader must have done before, as Markdown."""
    parts: tuple[LessonPart, ...]
    lines: tuple[str, ...]
    """The source."""

    def walk(self) -> Iterator[LessonPart]:
        """Every part in its sequence, those of exercises too."""
        for part in self.parts:
            yield part
            if isinstance(part, LessonExercise):
                yield from part.parts

    @property
    def questions(self) -> tuple[LessonQuestion, ...]:
        """Everything that is asked."""
        return tuple(part for part in self.walk() if isinstance(part, LessonQuestion))
