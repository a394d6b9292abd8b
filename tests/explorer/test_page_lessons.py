"""Tests of lessons: what follows a question is shown after its answer, and explained by the run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explorer.browsing import ExplorerPage
from tests.explorer.server import explored
from tests.report.browser.chromium import Browser

_LAST = "[...document.querySelectorAll('.question')].at(-1)"


def answer(page: ExplorerPage, words: str) -> None:
    """Choose an answer of the last question, and submit it."""
    page.run(
        f"(() => {{ const found = [...{_LAST}.querySelectorAll('label')].find(e => e.innerText.includes({words!r}));"
        f"found.click(); {_LAST}.querySelector('[type=submit]').click(); }})()"
    )


def test_a_wrong_and_a_right_prediction_are_explained_by_the_run(page: ExplorerPage) -> None:
    page.open("lesson=1")
    page.browser.until("document.querySelector('.question form')")
    assert "goes on when you have answered" in page.text(".rest")
    assert page.run("document.querySelectorAll('.lanes').length") == 0  # no run before the answer

    answer(page, "and then it succeeds")
    page.after(".verdict", "Not as you expected")

    question = page.text(".question")
    assert "b_write: expected ok, got rejected: version_mismatch" in question
    assert "because this copy of account id=1 was v1" in question
    assert page.text(".choices .right").strip().startswith("✓")
    assert "It waits for Alice, and then it is refused." in page.text(".choices .right")
    assert page.run("document.querySelector('.question details').open")
    assert "waits for alice (a_write) at pub" in page.text(".question .lanes")
    assert page.text("#announcer").startswith("Not as you expected.")

    page.browser.until("document.querySelectorAll('.question').length === 2")
    page.run(f"{_LAST}.querySelector('input').focus()")
    page.browser.type("90")
    page.browser.press("Enter")
    page.browser.until("document.querySelectorAll('.verdict').length === 2")
    assert page.texts(".verdict")[1] == "✓ As you expected."


def test_the_run_of_a_question_is_that_of_its_order(page: ExplorerPage) -> None:
    """The run of a question is opened by its order, although other orders have the same steps."""
    page.open("lesson=10")
    page.browser.until("document.querySelector('.question form')")
    page.run(f"{_LAST}.querySelector('input').focus()")
    page.browser.type("90")
    page.browser.press("Enter")
    page.after(".verdict", "Not as you expected")

    page.click(".question .played button")
    page.browser.until("document.querySelector('#view-run .outcome')?.checkVisibility()")
    page.settled()
    assert page.run("document.querySelector('#order').value") == "both have prepared"
    assert "coordinator.before_decision" in page.text(".placed")


def test_what_was_answered_is_still_answered_when_the_lesson_is_opened_again(
    page: ExplorerPage,
) -> None:
    page.open("lesson=2")
    page.browser.until("document.querySelector('.question form')")
    page.run(f"{_LAST}.querySelector('label, input').click()")
    page.run(
        f"(() => {{ const typed = {_LAST}.querySelector('[type=text]'); if (typed) typed.value = '1'; }})()"
    )
    page.run(f"{_LAST}.querySelector('[type=submit]').click()")
    page.browser.until("document.querySelector('.verdict')")

    page.click("#tab-lessons")
    page.after(".lessons", "1 of")

    page.run(
        "[...document.querySelectorAll('.lessons button')].find(e => e.innerText.startsWith('2.')).click()"
    )
    page.browser.until("document.querySelector('.verdict')")


def test_a_lesson_s_file_is_opened_to_be_tried(page: ExplorerPage) -> None:
    """A lesson's file is opened in the editor, and not saved before the user saves it."""
    page.open("lesson=1")
    page.run(
        "[...document.querySelectorAll('.file button')].find(e => e.innerText === 'Open it').click()"
    )
    page.settled()

    assert page.text("h2") == "account"
    assert "waits for alice" in page.card("b_write")
    page.click("#tab-edit")
    page.after(".path", "changed, not saved")


@pytest.fixture
def presented(chromium: Browser, folder: Path) -> Iterator[ExplorerPage]:
    """The page for a class."""
    with explored(folder, "--present") as running:
        opened = ExplorerPage(chromium, running.link)
        yield opened
        opened.complains_of_nothing()


def test_a_class_sees_large_type_and_one_part_after_the_other(presented: ExplorerPage) -> None:
    page = presented
    page.open("lesson=1")
    page.browser.until("document.querySelector('.lesson').children.length === 1")
    size = "parseFloat(getComputedStyle(document.querySelector('.prose')).fontSize)"
    assert page.run(size) >= 20

    page.browser.press("ArrowRight")
    page.browser.until("document.querySelector('.lesson').children.length === 2")
    page.browser.press("ArrowLeft")
    page.browser.until("document.querySelector('.lesson').children.length === 1")

    page.play("immediate/lost_update.twopc.yaml")
    page.browser.press("ArrowLeft")  # in a run, the keys move between moments
    last = page.run("Number(document.querySelector('.player input').max)")
    page.after(".when", f"{last} of {last + 1}")
