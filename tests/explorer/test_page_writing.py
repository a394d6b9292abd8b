"""Tests of the editor: errors at their lines, completion, saving, and conflicting changes of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explorer.browsing import ExplorerPage

LOST_UPDATE = "immediate/lost_update.twopc.yaml"
#: The shadow root with the editor's styles and elements.
INSIDE = "document.querySelector('.editor').shadowRoot"


def edited(page: ExplorerPage, path: str = LOST_UPDATE) -> None:
    """Open a file in the editor."""
    page.open(f"file={path}&view=edit")
    page.browser.until(
        f"{INSIDE}?.querySelector('.cm-line') && document.querySelector('.mistakes li')"
    )


def go_to(page: ExplorerPage, text: str) -> None:
    """Click behind the first line that contains a text."""
    x, y = page.run(
        f"""(() => {{
          const line = [...{INSIDE}.querySelectorAll('.cm-line')].find(e => e.textContent.includes({text!r}));
          const range = document.createRange();
          range.selectNodeContents(line);
          const box = [...range.getClientRects()].at(-1);
          return [box.right + 3, box.y + box.height / 2];
        }})()"""
    )
    for kind in ("mousePressed", "mouseReleased"):
        page.browser.mouse(kind, (x, y))
    page.browser.until(f"{INSIDE}.activeElement?.classList.contains('cm-content')")


def open_listed(page: ExplorerPage, name: str) -> None:
    """Click another file in the list."""
    page.run(
        f"[...document.querySelectorAll('.files button')].find(e => e.innerText.includes({name!r})).click()"
    )
    page.after("h2", name)


@pytest.fixture
def lost_update(folder: Path) -> Iterator[Path]:
    """The file of the lost update, which a test may change."""
    path = folder / LOST_UPDATE
    before = path.read_text(encoding="utf-8")
    yield path
    path.write_text(before, encoding="utf-8")


def test_a_mistake_is_shown_at_its_line_while_it_is_written(page: ExplorerPage) -> None:
    """An error appears at its line while typing, with a suggestion, and the file is not changed."""
    edited(page)
    assert page.texts(".mistakes li") == ["✓ no mistakes"]

    go_to(page, "node: sub2")
    page.browser.type("9")
    page.after(".mistakes li", "no node 'sub29'")

    mistake = page.text(".mistakes li")
    assert mistake.startswith("31:11 error: session 'bob'")
    assert "did you mean 'sub2'?" in mistake
    assert page.run(f"{INSIDE}.querySelectorAll('.cm-lint-marker-error').length") == 1
    page.browser.press("z", ctrl=True)
    page.after(".mistakes li", "no mistakes")


def test_keys_are_completed_after_the_schema(page: ExplorerPage) -> None:
    edited(page)
    go_to(page, "publisher: pub")
    page.browser.press("Enter")
    page.browser.type("com")
    page.browser.until(f"{INSIDE}.querySelector('.cm-tooltip-autocomplete')")

    assert "commit" in page.run(f"{INSIDE}.querySelector('.cm-tooltip-autocomplete').innerText")
    x, y = page.run(
        f"""(() => {{
          const entry = [...{INSIDE}.querySelectorAll('.cm-tooltip-autocomplete li')].find(e => e.innerText === 'commit');
          const box = entry.getBoundingClientRect();
          return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
    )
    page.browser.mouse("mousePressed", (x, y))
    page.browser.mouse("mouseReleased", (x, y))

    page.browser.until(f"{INSIDE}.querySelector('.cm-content').innerText.includes('  commit: ')")


def test_nothing_is_saved_before_it_is_said_and_nothing_of_others_is_lost(
    page: ExplorerPage, lost_update: Path
) -> None:
    """A text is saved only on request; a conflicting change is shown beside it, and either can be kept."""
    before = lost_update.read_text(encoding="utf-8")
    edited(page)
    go_to(page, "name: lost-update")
    page.browser.type("-of-mine")
    page.after(".path", "changed, not saved")
    assert lost_update.read_text(encoding="utf-8") == before
    lost_update.write_text(
        before.replace("name: lost-update", "name: lost-update-of-theirs"), encoding="utf-8"
    )
    page.expected = ("409",)  # the browser logs the error, although the page has handled it

    page.click("#save")
    page.after(".conflict", "Not saved")

    assert "of-theirs" in lost_update.read_text(encoding="utf-8")
    mine, theirs = page.texts(".both pre")
    assert (mine, theirs) == ("name: lost-update-of-mine", "name: lost-update-of-theirs")
    page.click("#keep-mine")
    page.browser.until("!document.querySelector('.conflict')")
    page.browser.until("document.querySelector('#save').disabled")
    assert "name: lost-update-of-mine\n" in lost_update.read_text(encoding="utf-8")


def test_a_broken_file_opens_in_the_editor_at_its_error(page: ExplorerPage, folder: Path) -> None:
    text = (folder / LOST_UPDATE).read_text(encoding="utf-8").replace("node: sub2", "node: sub9")
    (folder / "broken.twopc.yaml").write_text(text, encoding="utf-8")
    try:
        page.open("file=broken.twopc.yaml")
        page.after(".mistakes li", "no node 'sub9'")
        page.browser.until(f"{INSIDE}.querySelector('.cm-lint-marker-error')")
        page.browser.until(f"{INSIDE}.querySelector('.cm-activeLine')?.innerText.includes('sub9')")
        assert page.run("document.querySelector('#tab-edit').ariaCurrent") == "page"
    finally:
        (folder / "broken.twopc.yaml").unlink()


def test_another_file_is_opened_and_what_was_written_is_still_there(page: ExplorerPage) -> None:
    edited(page)
    go_to(page, "name: lost-update")
    page.browser.type("-again")
    page.after(".path", "changed, not saved")
    open_listed(page, "any-client")

    open_listed(page, "lost-update")
    page.after("h2", "lost-update-again")


def test_what_is_shown_is_played_whatever_is_in_the_file_by_now(
    page: ExplorerPage, lost_update: Path
) -> None:
    """The page plays the text that it shows, even if another tab has saved the file meanwhile."""
    before = lost_update.read_text(encoding="utf-8")
    page.play(LOST_UPDATE)
    lost_update.write_text(before.replace(":bal - 20", ":bal - 30"), encoding="utf-8")
    page.click("[id='switch-protection.version_check']")
    page.after(".checks li", "✗ no_lost_update")
    assert ":bal - 20" in page.card("b_write")
    page.play(LOST_UPDATE)
    assert ":bal - 30" in page.card("b_write")


def test_what_is_written_while_a_text_is_saved_is_kept(
    page: ExplorerPage, lost_update: Path
) -> None:
    """Text typed during a save is not lost, and remains after another file was opened."""
    edited(page)
    go_to(page, "name: lost-update")
    page.browser.type("-saved")
    page.run(
        "{ const ask = window.fetch; window.fetch = async (path, how) => {"
        " if (how?.method === 'PUT') await new Promise((go) => { window.go = go; });"
        " return ask(path, how); }; }"
    )
    page.click("#save")
    page.browser.until("window.go")
    go_to(page, "name: lost-update-saved")
    page.browser.type("-later")
    page.run("window.go(); 0")
    page.after(".files button", "lost-update-saved")
    assert "name: lost-update-saved\n" in lost_update.read_text(encoding="utf-8")
    open_listed(page, "any-client")
    open_listed(page, "lost-update")
    page.after("h2", "lost-update-saved-later")


def test_a_file_that_is_gone_is_saved_again(page: ExplorerPage, lost_update: Path) -> None:
    edited(page)
    go_to(page, "name: lost-update")
    page.browser.type("-of-mine")
    page.after(".path", "changed, not saved")
    lost_update.unlink()
    page.expected = ("409",)

    page.click("#save")
    page.after(".conflict", "somebody else has removed this file")
    assert not lost_update.exists()
    page.click("#keep-mine")

    page.browser.until("document.querySelector('#save').disabled")
    assert "name: lost-update-of-mine\n" in lost_update.read_text(encoding="utf-8")


def test_what_is_told_and_undone_of_one_file_is_not_of_another(
    page: ExplorerPage, lost_update: Path
) -> None:
    """A conflict and the undo history of a file do not apply to another file."""
    before = lost_update.read_text(encoding="utf-8")
    edited(page)
    go_to(page, "name: lost-update")
    page.browser.type("-of-mine")
    page.after(".path", "changed, not saved")
    lost_update.write_text(
        before.replace("name: lost-update", "name: lost-update-of-theirs"), encoding="utf-8"
    )
    page.expected = ("409",)
    page.click("#save")
    page.after(".conflict", "Not saved")

    open_listed(page, "any-client")
    page.click("#tab-edit")
    page.browser.until(
        f"{INSIDE}.querySelector('.cm-content').innerText.includes('name: any-client')"
    )
    assert page.texts(".conflict") == []
    go_to(page, "name: any-client")
    page.browser.type("-2")
    page.after(".path", "changed, not saved")
    for _ in range(3):
        page.browser.press("z", ctrl=True)
    page.browser.until("document.querySelector('#save').disabled")
    assert page.run(f"{INSIDE}.querySelector('.cm-content').innerText.includes('name: any-client')")
