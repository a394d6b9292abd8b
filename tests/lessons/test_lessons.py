"""Every page shows what its commands print, and its answers are those of model and servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from tests.lessons.played import (
    PAGES,
    WrongPageError,
    difference,
    page_of,
    played,
    steady,
    without_output,
)
from twopc.sim.cli import app
from twopc.sim.explore.lessons.answers import answered
from twopc.sim.explore.lessons.parts import (
    Lesson,
    LessonChange,
    LessonCommands,
    LessonExercise,
    LessonFile,
)
from twopc.sim.explore.lessons.source import lessons
from twopc.sim.report.history import History
from twopc.sim.scenario import theatres
from twopc.sim.scenario.agree import compare
from twopc.sim.scenario.check import LoadedScenario, parse
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import TheatreOptions, theatre
from twopc.sim.scenario.values import Selection

each_lesson = pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)


def page(lesson: Lesson) -> str:
    """Return the page in docs/lessons."""
    return (PAGES / f"{lesson.name}.md").read_text(encoding="utf-8")


@pytest.mark.sample(3)
@each_lesson
def test_it_shows_what_happens(lesson: Lesson, tmp_path: Path) -> None:
    """The page shows the output of its commands; `python -m tests.lessons` writes it."""
    folder = tmp_path / "lesson"
    folder.mkdir()

    after = played(page_of(lesson), folder)
    assert difference(page(lesson), after) == ""


@each_lesson
def test_the_page_is_its_source(lesson: Lesson) -> None:
    """Apart from output, the page is its source with the model's answers."""
    assert without_output(page(lesson)) == page_of(lesson)


def test_every_page_has_a_source() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md")) == [each.name for each in lessons()]


@pytest.mark.sample(1)
@each_lesson
def test_servers_say_the_same(lesson: Lesson) -> None:
    """Answers to questions, and files that are played, are the same on servers as on the model."""
    files = [*played_files(lesson)]

    async def on(name: str) -> tuple[list[object], list[History]]:
        async with theatre(name, TheatreOptions()) as stages:
            answers = [await answered(lesson, each, stages) for each in lesson.questions]
            histories = []
            for loaded in files:
                histories.append(History())
                await run(loaded, stages, histories[-1], selection=Selection(courses="sample:5"))
        return [(each.right, each.value) for each in answers], histories

    answers, histories = theatres.played("postgres", on("postgres"))
    of_model, on_model = theatres.played("model", on("model"))

    assert answers == of_model
    for loaded, one, other in zip(files, histories, on_model, strict=True):
        differences = compare(one.records, other.records)
        assert [each.text("PostgreSQL", "the model") for each in differences] == [], loaded.document


def played_files(lesson: Lesson) -> Iterator[LoadedScenario]:
    """Yield the lesson's own files that `twopc run` plays, each version once."""
    files: dict[str, str] = {}
    known = set()
    for part in lesson.walk():
        if isinstance(part, LessonFile | LessonChange):
            files[part.name] = part.text
        elif isinstance(part, LessonCommands):
            for command in part.commands:
                name = command.removeprefix("twopc run ").split(" ")[0]
                if name in files and files[name] not in known:
                    known.add(files[name])
                    yield parse(files[name], name)


@each_lesson
def test_something_is_asked_and_something_is_to_be_tried(lesson: Lesson) -> None:
    """A lesson has questions, and an exercise whose folded answer has a command with output."""
    assert lesson.questions
    (exercise,) = [part for part in lesson.parts if isinstance(part, LessonExercise)]
    assert any(isinstance(part, LessonCommands) for part in exercise.parts)
    assert "\nTry this: " in page(lesson)


def test_commands_in_the_text_are_commands() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined] # it is a group
    for lesson in lessons():
        prose = "".join(page(lesson).split("```")[::2])
        for name in re.findall(r"`twopc ([a-z][a-z-]*)", prose):
            assert name in commands, f"{lesson.name}: twopc {name}"


@each_lesson
def test_it_is_read_in_ten_minutes(lesson: Lesson) -> None:
    prose = page(lesson).split("```")[::2]
    assert sum(len(each.split()) for each in prose) < 1200


def test_files_are_saved_and_changed(tmp_path: Path) -> None:
    source = (
        "<!-- file: a.txt -->\n```text\none\ntwo\n```\n"
        "<!-- change: a.txt -->\n```diff\n-two\n+three\n+four\n```\n"
        "```console\n$ cat a.txt\n$ false\n$ echo $?\n```\n"
    )
    folder = tmp_path / "lesson"
    folder.mkdir()

    assert played(source, folder).endswith(
        "```console\n$ cat a.txt\none\nthree\nfour\n$ false\n$ echo $?\n1\n```\n"
    )


def test_a_change_of_nothing_is_refused(tmp_path: Path) -> None:
    source = "<!-- file: a.txt -->\n```text\none\n```\n<!-- change: a.txt -->\n```diff\n-two\n+one\n```\n"
    folder = tmp_path / "lesson"
    folder.mkdir()

    with pytest.raises(WrongPageError, match=r"a\.txt has 0 times: two"):
        played(source, folder)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("  ✓ alice first      41 ms", "  ✓ alice first       … ms"),
        ("  ✗ every order    12.3 s\n    why", "  ✗ every order      … ms\n    why"),
        ("  41.5   begin", "     …   begin"),
        (
            "2 orders passed in 0.31 s · invariants: atomic",
            "2 orders passed in … s · invariants: atomic",
        ),
        ("files: .twopc/runs/lost-update/20260115T101500-7/", "files: .twopc/runs/lost-update/…/"),
        ("twopc:shop:12:3:pub is prepared", "… is prepared"),
        ("nothing to see ", "nothing to see"),
    ],
)
def test_what_differs_each_time_is_left_out(printed: str, shown: str) -> None:
    assert steady(printed) == shown
