"""Tests of moving steps with the mouse and by keyboard, and of what the page shows afterwards."""

from __future__ import annotations

from tests.explorer.browsing import ExplorerPage

LOST_UPDATE = "immediate/lost_update.twopc.yaml"
AT_FIRST = ["a_begin", "a_read", "b_begin", "b_read", "a_write", "b_write", "a_end", "b_end"]


def test_a_step_is_dragged_to_where_it_no_longer_waits(page: ExplorerPage) -> None:
    """A step moved behind the commit for which it waits no longer waits.

    A step that waits shows for whom, and a refused one why.
    """
    page.play(LOST_UPDATE)
    assert page.order() == AT_FIRST
    assert "waits for alice (a_write) at pub" in page.card("b_write")
    assert "alice's a_write had made (balance 100 → 90)" in page.card("b_write")

    page.browser.drag("[data-key=b_write]", "[data-key=b_end]", (0, -4))
    page.settled()

    assert page.order() == [*AT_FIRST[:5], "a_end", "b_write", "b_end"]
    assert "waits" not in page.card("b_write")
    assert "refused: version_mismatch" in page.card("b_write")
    assert page.run("document.querySelector('#order').selectedOptions[0].text") == "your own order"
    page.click("#undo")
    page.browser.until("document.querySelectorAll('[data-item]')[6].dataset.key === 'a_end'")
    assert page.order() == AT_FIRST


def test_a_session_keeps_the_sequence_of_its_steps(page: ExplorerPage) -> None:
    """A moved step takes steps of its session along, so that their sequence remains."""
    page.play(LOST_UPDATE)

    page.browser.drag("[data-key=b_write]", "[data-key=a_begin]", (0, -8))
    page.settled()

    assert page.order() == [
        "b_begin",
        "b_read",
        "b_write",
        *AT_FIRST[:2],
        "a_write",
        "a_end",
        "b_end",
    ]
    assert page.text("#announcer").startswith(
        "b_write moved behind b_read, place 3 of 8; b_begin and b_read moved with it."
    )


def test_escape_leaves_a_dragged_step_where_it_was(page: ExplorerPage) -> None:
    """While a step is dragged, a line shows its target; Escape leaves the step where it was."""
    page.play(LOST_UPDATE)
    begin = page.browser.middle("[data-key=a_write]")
    end = page.browser.middle("[data-key=b_begin]", scroll=False)
    page.browser.mouse("mousePressed", begin)
    page.browser.mouse("mouseMoved", end)
    assert page.run("document.querySelectorAll('.drop').length") == 1
    box = "document.querySelector('{}').getBoundingClientRect()"
    line, steps = box.format(".drop"), box.format(".lanes")
    assert page.run(f"Math.abs({line}.top - {end[1]}) < 60")
    assert page.run(f"{line}.left >= {steps}.left && {line}.right <= {steps}.right + 4")

    page.browser.press("Escape")
    page.browser.mouse("mouseReleased", end)

    assert page.run("document.querySelectorAll('.drop').length") == 0
    assert page.order() == AT_FIRST


def test_the_keyboard_is_enough(page: ExplorerPage) -> None:
    """By keyboard alone, a step is reached with Tab and arrows, moved with Alt, and keeps the focus."""
    page.play(LOST_UPDATE)
    focused = "document.activeElement.dataset.key"
    for _ in range(200):
        page.browser.press("Tab")
        if page.run(focused):
            break
    assert page.run(focused) == "a_begin"
    for _ in range(5):
        page.browser.press("ArrowDown")
    assert page.run(focused) == "b_write"

    page.browser.press("ArrowDown", alt=True)
    page.browser.until("document.querySelectorAll('[data-item]')[6].dataset.key === 'b_write'")

    assert page.run(focused) == "b_write"
    assert page.text("#announcer").startswith("b_write moved behind a_end, place 7 of 8.")
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.browser.press("Enter")  # shows the moment at which the step ended
    assert "b_write ✗ refused" in page.text(".moment")


def test_an_order_that_cannot_be_is_marked_where_it_stops(page: ExplorerPage) -> None:
    page.play(LOST_UPDATE)

    page.browser.drag("[data-key=b_end]", "[data-key=a_end]", (0, -8))
    page.settled()

    assert page.order() == [*AT_FIRST[:6], "b_end", "a_end"]
    assert "not possible from here" in page.text(".cut")
    above = "document.querySelector('{}').getBoundingClientRect().top"
    assert page.run(f"{above.format('[data-key=b_write]')} < {above.format('.cut')}")
    assert page.run(f"{above.format('.cut')} < {above.format('[data-key=b_end]')}")
    assert page.text(".moment").startswith("b_write waits at pub for alice (a_write)")
    assert "bob waits for alice" in page.text(
        ".node"
    )  # the node as it is at that moment, not at the end


def test_the_browser_goes_back_to_what_was_looked_at(page: ExplorerPage) -> None:
    """Each file, view and lesson has its own entry in the browser's history."""
    page.play(LOST_UPDATE)
    page.click("#tab-orders")
    page.after("#view-orders h2", "Every order")
    page.click("#tab-lessons")
    page.after("#view-lessons h2", "Lessons")

    page.run("history.back()")
    page.after("#view-orders h2", "Every order")
    page.run("history.back()")
    page.after("#view-run .outcome", "Alice committed")
    page.run("history.forward()")
    page.after("#view-orders h2", "Every order")


def test_every_place_is_shown_at_every_moment(page: ExplorerPage) -> None:
    """Every moment shows row versions, uncommitted rows, locks, waits, branches, markers, decisions, agents."""
    page.play(LOST_UPDATE)

    page.moment_of("b_write waits for alice (a_write) at pub")
    pub, sub1, sub2 = page.texts(".node")[:3]
    assert "bob waits for alice" in pub
    assert "90\tv2 alice's open" in pub
    assert "locked by alice" in sub1
    assert "80" in sub2
    assert "hot" in page.run("document.querySelector('.node tbody tr').className")
    assert page.run("document.querySelector('.item.now .card').dataset.key") == "b_write"

    page.moment_of("pub → sub1: prepare transaction")
    assert "prepared alice" in page.text(".node")
    assert page.run("document.querySelectorAll('.message').length") >= 1

    page.browser.press("Tab")
    page.run("document.querySelector('.player input').focus()")
    page.browser.press("End")
    *_, log, distribution = page.texts(".node")
    assert "commit alice" in log
    assert "agent of sub2 has delivered 1" in distribution
    assert "marker alice" in page.text(".node")


def test_messages_go_where_they_are_sent_unless_motion_is_unwanted(page: ExplorerPage) -> None:
    moving = "document.querySelector('.picture').getAnimations({subtree: true}).length"
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page.play(LOST_UPDATE, motion=motion)
        page.moment_of("sub1 → pub: prepare transaction")
        assert bool(page.run(moving)) is moves, motion
        title = page.run("document.querySelector('.message title').textContent")
        assert title.startswith("sub1 → pub")
