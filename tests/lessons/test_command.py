"""``twopc lessons`` lists the lessons."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.explorer.server import explored
from twopc.sim.cli import app
from twopc.sim.explore.lessons.source import lessons


def test_one_is_opened(tmp_path: Path) -> None:
    """The link leads to the lesson; a lesson that does not exist is refused, and not served."""
    scenario = Path(__file__).parents[2] / "scenarios" / "immediate" / "aba.twopc.yaml"
    with explored(scenario, "--lesson", "3") as server:
        assert server.link.endswith("&lesson=3")
    refused = CliRunner().invoke(app, ["explore", "--no-open", "--lesson", "99"])
    assert "there is no lesson 99: there are 1 to" in str(refused.exception)


def listed(*options: str) -> str:
    """Return the output of the command."""
    done = CliRunner().invoke(app, ["lessons", *options], env={"COLUMNS": "60"})
    assert done.exit_code == 0, done.output
    return done.output


def test_it_lists_every_lesson() -> None:
    """Each lesson has number, minutes, title, and all that it teaches, at any terminal's width."""
    text = " ".join(listed().split())
    for lesson in lessons():
        assert f"{lesson.number} {lesson.title} {lesson.minutes} min" in text
    first = lessons()[0]
    assert first.teaches.split()[-1] in text
    assert "twopc explore --lesson 1" in text


def test_it_lists_them_for_programs() -> None:
    listing = json.loads(listed("--json"))

    assert [each["title"] for each in listing] == [each.title for each in lessons()]
    assert listing[0]["questions"] == len(lessons()[0].questions)
