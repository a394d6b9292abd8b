"""Every output that a lesson shows is what its command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from tests.lessons.played import WrongPageError, difference, lessons, played, steady
from twopc.sim.cli import app


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_it_shows_what_happens(path: Path, tmp_path: Path) -> None:
    """`python -m tests.lessons` writes it anew."""
    page = path.read_text(encoding="utf-8")
    folder = tmp_path / "lesson"
    folder.mkdir()

    after = played(page, folder)
    assert difference(page, after) == ""


def test_there_are_seven() -> None:
    assert len(lessons()) == 7


@pytest.mark.parametrize("path", lessons(), ids=lambda path: path.stem)
def test_an_exercise_has_an_answer_that_is_played(path: Path) -> None:
    """Folded, and with a command whose output the first test compares."""
    _, asked, answer = path.read_text(encoding="utf-8").partition("\nTry this: ")
    assert asked
    folded, _, _ = answer.partition("</details>")
    assert "<details><summary>Answer</summary>" in folded
    assert "```console\n$ " in folded


def test_commands_in_the_text_are_commands() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined] # it is a group
    for path in lessons():
        prose = "".join(path.read_text(encoding="utf-8").split("```")[::2])
        for name in re.findall(r"`twopc ([a-z][a-z-]*)", prose):
            assert name in commands, f"{path.name}: twopc {name}"


def test_it_is_read_in_ten_minutes() -> None:
    for path in lessons():
        prose = path.read_text(encoding="utf-8").split("```")[::2]
        assert sum(len(each.split()) for each in prose) < 1200, path.name


def test_files_are_saved_and_changed(tmp_path: Path) -> None:
    page = (
        "<!-- file: a.txt -->\n```text\none\ntwo\n```\n"
        "<!-- change: a.txt -->\n```diff\n-two\n+three\n+four\n```\n"
        "```console\n$ cat a.txt\n$ false\n$ echo $?\n```\n"
    )
    folder = tmp_path / "lesson"
    folder.mkdir()

    assert played(page, folder).endswith(
        "```console\n$ cat a.txt\none\nthree\nfour\n$ false\n$ echo $?\n1\n```\n"
    )


def test_a_change_of_nothing_is_refused(tmp_path: Path) -> None:
    page = "<!-- file: a.txt -->\n```text\none\n```\n<!-- change: a.txt -->\n```diff\n-two\n+one\n```\n"
    folder = tmp_path / "lesson"
    folder.mkdir()

    with pytest.raises(WrongPageError, match=r"a\.txt has 0 times: two"):
        played(page, folder)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("  ✓ alice first      41 ms", "  ✓ alice first       … ms"),
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
