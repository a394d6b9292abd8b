"""Tests of exports from the page, and of a page whose worker or server has died."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.explorer.browsing import ExplorerPage
from tests.explorer.server import WAIT_S, ExploreProcess, explored
from tests.report.browser.chromium import Browser
from twopc.server.polling import wait_for

LOST_UPDATE = "immediate/lost_update.twopc.yaml"
#: In the model, databases are named after their nodes; on servers they are not.
DIFFERENT = """twopc: 1
name: different
about: A row keeps the name of the database in which it was written.
topology: {publisher: pub, subscribers: [sub1]}
tables: {place: {columns: {id: int primary key, name: text}, rows: [{id: 1, name: none}]}}
sessions:
  alice:
    node: sub1
    steps: [a_write: {sql: "update place set name = current_database() where id = 1"}]
orders: [{name: one, steps: [a_write]}]
"""


def exported(page: ExplorerPage, kind: str) -> str:
    """Return an export that the page offers."""
    page.click("#export")
    page.click(f"#export-{kind}")
    page.browser.until("document.querySelector('.exported pre')")
    text = page.run("document.querySelector('.exported pre').textContent")
    page.run("document.querySelector('dialog').close()")
    page.browser.until(
        "!document.querySelector('dialog')"
    )  # the dialog and its content disappear a moment later
    return str(text)


def test_what_is_shown_is_exported(page: ExplorerPage) -> None:
    """The shown order is exported as scenario with expectations, test, page, picture and link."""
    page.play(LOST_UPDATE)
    page.browser.drag("[data-key=b_write]", "[data-key=b_end]", (0, -4))
    page.after(".path", "lost_update")
    page.settled()
    order = page.order()

    scenario = exported(page, "scenario")
    assert re.search(
        r"steps: \[a_begin, a_read, b_begin, b_read, a_write, a_end, b_write, b_end\]", scenario
    )
    assert "rejected: version_mismatch" in scenario
    assert "def test_lost_update()" in exported(page, "pytest")
    assert "<!DOCTYPE html>" in exported(page, "html")
    picture = ET.fromstring(exported(page, "svg"))
    words = " ".join(picture.itertext())
    assert "version_mismatch" in words
    assert "alice at sub1" in words

    page.browser.visit(exported(page, "link"))
    page.settled()
    assert page.order() == order


def test_a_new_scenario_begins_with_a_template(page: ExplorerPage, folder: Path) -> None:
    page.open()
    page.click("#new")
    page.browser.until("document.querySelector('dialog[open] [name=template]')")
    page.browser.type("mine")
    page.browser.press("Enter")

    page.after(".path", "mine.twopc.yaml")
    page.after(".mistakes li", "no mistakes")
    assert (folder / "mine.twopc.yaml").read_text(encoding="utf-8").startswith("twopc: 1")
    page.click("#play")
    page.settled()
    (folder / "mine.twopc.yaml").unlink()


def test_what_played_is_killed_and_the_page_goes_on(
    page: ExplorerPage, server: ExploreProcess
) -> None:
    """When the worker that plays is killed, another one plays the same request."""
    page.play(LOST_UPDATE)
    page.expected = ("503",)
    for worker in server.workers():
        worker.kill()

    page.click("[id='switch-protection.version_check']")

    page.after(".checks li", "✗ no_lost_update")
    assert page.run("document.querySelector('#trouble').hidden")


def test_what_does_not_end_is_stopped(page: ExplorerPage, server: ExploreProcess) -> None:
    """When a play is stopped, the page keeps the previous run and plays the next request."""
    page.play(LOST_UPDATE)
    for worker in server.workers():
        worker.suspend()  # like a worker that computes forever
    page.click("[id='switch-protection.version_check']")

    page.click("#stop:not(:disabled)")

    page.after(".caught", "Stopped.")
    assert "refused: version_mismatch" in page.card("b_write")
    page.click("#undo")
    page.browser.until("!document.querySelector('.caught')")


def test_who_stops_a_play_stops_nobody_else_s(page: ExplorerPage, server: ExploreProcess) -> None:
    """Stopping a play does not stop the request of another tab that waits behind it."""
    page.play(LOST_UPDATE)
    for worker in server.workers():
        worker.suspend()
    page.click("[id='switch-protection.version_check']")
    page.browser.until("document.querySelector('#stop:not(:disabled)')")
    with ThreadPoolExecutor() as others:
        file = others.submit(server.ask, "GET", f"/api/file?path={LOST_UPDATE}")
        wait_for(file.running, what="the other tab", timeout_s=WAIT_S)

        page.click("#stop:not(:disabled)")

        page.after(".caught", "Stopped.")
        assert file.result(WAIT_S)[0] == 200


def test_a_server_that_dies_is_missed_and_gone_on_with_when_it_is_back(
    chromium: Browser, folder: Path
) -> None:
    """A page keeps its content while its server is down, and continues in the same tab with a new one."""
    with explored(folder) as first:
        page = ExplorerPage(chromium, first.link)
        page.play(LOST_UPDATE)
        first.process.kill()
        first.process.wait()
        page.click("[id='switch-protection.version_check']")
        page.after("#trouble", "The server does not answer")
        assert page.card("b_write")  # the previous run stays visible
    with explored(folder, "--port", str(first.port)) as second:
        page.after("#trouble", "started anew")
        page.run(f"location.hash = 'token={second.token}'; 0")
        page.after(".checks li", "✗ no_lost_update")
        assert page.run("document.querySelector('#trouble').hidden")


def test_a_new_user_comes_from_the_lost_update_to_its_test(page: ExplorerPage) -> None:
    """A new user finds each next step on the page: file, step, switch, check, servers, test."""
    page.open()
    page.click(".begin .main")
    page.settled()
    assert page.text("h2") == "lost-update"
    page.browser.drag("[data-key=b_write]", "[data-key=b_end]", (0, -4))
    page.after(".controls select", "your own order")
    page.settled()
    assert "waits" not in page.card("b_write")

    page.browser.drag("[data-key=b_write]", "[data-key=a_end]", (0, -8))
    page.after("[data-key=b_write]", "waits for alice (a_write) at pub")
    page.run(
        "[...document.querySelectorAll('.switches label')].find(e => e.innerText === 'version check').click()"
    )
    page.after(".compared", "With version check off")
    assert "✗ no_lost_update: bob (b_end) changed account id=1 from v1" in "\n".join(
        page.texts(".caught")
    )

    page.click("#tab-postgres")
    page.click("#on-postgres")
    page.after("#agree", "They agree")
    for side in page.texts(".two > section"):
        assert "waits for alice (a_write) at pub" in side
        assert "no_lost_update" in side

    test = exported(page, "pytest")
    assert "version_check: off" in test.replace("'", "")


def test_the_first_difference_from_postgresql_is_shown(page: ExplorerPage, folder: Path) -> None:
    (folder / "different.twopc.yaml").write_text(DIFFERENT, encoding="utf-8")
    page.play("different.twopc.yaml")
    page.click("#tab-postgres")
    page.click("#on-postgres")

    page.after(".caught", "First difference: place at pub")

    model, postgres = page.texts(".caught dd")
    assert '"name": "sub1"' in model
    assert '"name": "sub1"' not in postgres
    assert page.run("document.querySelector('#agree')") is None
