"""Tests of switches and faults on the page: protections, isolation, faults at protocol points."""

from __future__ import annotations

from tests.explorer.browsing import ExplorerPage

LOST_UPDATE = "immediate/lost_update.twopc.yaml"


def choose(page: ExplorerPage, selector: str, value: str) -> None:
    """Choose an entry of a list."""
    page.run(
        f"(() => {{ const e = document.querySelector({selector!r}); e.value = {value!r};"
        "e.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def test_without_the_version_check_an_update_is_lost_and_caught(page: ExplorerPage) -> None:
    """Without the version check, the page shows the difference and the check that fails, with a reason."""
    page.play(LOST_UPDATE)
    assert page.run("document.querySelector('.checks .bad')") is None

    page.click("[id='switch-protection.version_check']")
    page.after(".compared", "version check off")

    assert "b_write" in page.text(".compared")
    assert "✗ no_lost_update" in page.texts(".checks li")
    caught = "\n".join(page.texts(".caught"))
    assert "that change is lost" in caught
    assert "because" in caught
    page.click("[id='switch-protection.version_check']")
    page.browser.until("!document.querySelector('.checks .bad')")
    assert page.run("document.activeElement.id") == "switch-protection.version_check"


def test_whoever_has_read_nothing_reads_what_protections_and_checks_mean(
    page: ExplorerPage,
) -> None:
    """Protections and checks are explained, and the page says why a session was rolled back.

    The explanations of the file's protections are visible, the others unfold.
    """
    page.play(LOST_UPDATE)
    assert "Without it: a change that the writer has never seen is overwritten" in page.text(
        ".switches .protections"
    )
    assert page.text(".why-not").startswith("bob is rolled back: b_write was refused because this")
    assert not page.run("document.querySelector('#switch-protection\\\\.fence').checkVisibility()")

    page.run(
        "for (const e of document.querySelectorAll('.switches summary, .meanings summary')) e.click()"
    )

    assert "recovery has settled" in page.text("[id='about-protection.fence']")
    assert "no prepared branch is left" in page.text(".meanings")
    assert page.violations() == []


def test_a_fault_that_never_strikes_says_so(page: ExplorerPage) -> None:
    fault = "%5B%7B%22at%22%3A%22coordinator.decision_logged%22%2C%22do%22%3A%22crash%20coordinator%22%2C%22nth%22%3A9%7D%5D"
    page.play(LOST_UPDATE, f"&faults={fault}")
    assert "never strikes" in page.text(".placed")


def test_an_isolation_level_is_chosen(page: ExplorerPage) -> None:
    page.play(LOST_UPDATE)
    assert "version_mismatch" in page.card("b_write")

    choose(page, "#switch-isolation", "repeatable read")
    page.after(".compared", "repeatable read")

    assert "serialization_failure" in page.card("b_write")
    assert page.run("location.hash.includes('repeatable')")  # a reload keeps the setting


def test_a_fault_is_placed_at_a_point_of_the_run_and_removed(page: ExplorerPage) -> None:
    """A fault is placed between decision and commit and removed; the page shows its effect."""
    page.play(LOST_UPDATE)
    card = "[data-key=a_end] ~ .points"
    page.click(f"{card} summary")
    assert page.run(f"document.querySelector('{card}').open")
    point = '[aria-label="Fault at coordinator.decision_logged"]'
    assert page.run(f"document.querySelector('{card} {point}') !== null")

    choose(page, f"{card} {point}", "crash coordinator")
    page.after(".placed", "crash coordinator at coordinator.decision_logged")

    page.after(".compared", "coordinator")
    assert page.run("document.querySelectorAll('.placed li').length") == 1
    page.click(".placed button")
    page.browser.until("!document.querySelector('.placed')")
    assert "a_end commit" in page.card("a_end")


def test_an_order_is_chosen_by_its_name(page: ExplorerPage) -> None:
    """An order chosen by its name has its isolation level, which the switch shows.

    Another order has the same steps.
    """
    page.play("immediate/write_skew.twopc.yaml", "&name=at%20the%20same%20time")
    assert page.text("#view-run .outcome") == "Ada and grace committed."
    strict = "at the same time, serializable"
    chosen = "document.querySelector('#order').value"
    level = "document.querySelector('#switch-isolation').value"
    assert page.run(level) == "read committed"

    choose(page, "#order", strict)
    page.after("#view-run .outcome", "grace is rolled back")
    assert (page.run(chosen), page.run(level)) == (strict, "serializable")
    choose(page, "#switch-isolation", "read committed")
    page.after(".compared", "With isolation read committed")
    assert page.text("#view-run .outcome") == "Ada and grace committed."

    choose(page, "#switch-isolation", "serializable")
    page.after("#view-run .outcome", "grace is rolled back")
    page.browser.reload()
    page.browser.until("document.querySelector('#view-run .outcome')")
    assert (page.run(chosen), page.run(level)) == (strict, "serializable")
    assert "grace is rolled back" in page.text("#view-run .outcome")


def test_a_step_is_moved_and_what_kills_its_commit_stays(page: ExplorerPage) -> None:
    """An order made by moving a step keeps the fault of the listed order."""
    page.play("crash/dies_undecided.twopc.yaml")
    assert "Alice is in doubt" in page.text("#view-run .outcome")
    placed = page.text(".placed")
    assert "crash coordinator at coordinator." in placed

    page.browser.drag("[data-key=o_write]", "[data-key=a_write]")
    page.browser.until("document.querySelector('#order').value === ''")
    page.settled()

    assert "Alice is in doubt" in page.text("#view-run .outcome")
    assert page.text(".placed") == placed
