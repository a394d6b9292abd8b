"""Tests of the comparison of an order on PostgreSQL and on the model."""

from __future__ import annotations

import json

import pytest

from tests.explorer.browsing import ExplorerPage

LOST_UPDATE = "immediate/lost_update.twopc.yaml"
VICTIM = "the victim of a deadlock: a_two, or b_two"
PLAYED = "!document.querySelector('#on-postgres').disabled"


def opened(page: ExplorerPage, more: str = "") -> None:
    """Open the comparison, before anything is played on PostgreSQL."""
    page.play(LOST_UPDATE, more)
    page.click("#tab-postgres")
    page.browser.until(PLAYED)


def test_a_free_choice_is_no_agreement(page: ExplorerPage) -> None:
    """A difference that PostgreSQL may choose is not shown as agreement.

    Servers choose at random, so the test replaces the server's answer.
    """
    opened(page)
    page.run(
        "(() => { const ask = window.fetch; window.fetch = async (to, how) => {"
        " if (!String(to).includes('/api/postgres')) return ask(to, how);"
        " const made = await ask(String(to).replace('/api/postgres', '/api/play'), how); const { run } = await made.json();"
        f" return Response.json({{ run, model: run, first_difference: null, differences: 0, chosen: {json.dumps(VICTIM)} }});"
        " } })()"
    )

    page.click("#on-postgres")
    page.after("#chosen", f"They differ in what PostgreSQL may choose: {VICTIM}.")

    assert page.texts("#agree") == []


@pytest.mark.postgres
def test_a_refusal_goes_with_what_was_refused(page: ExplorerPage) -> None:
    """When the refused protection is switched on again, its refusal disappears."""
    page.expected = ("422",)
    off = json.dumps({"protection.epoch": "off"}).replace('"', "%22").replace(" ", "")
    opened(page, f"&switches={off}")
    page.click("#on-postgres")
    page.after("#view-postgres .caught", "epoch cannot be switched off on real servers")

    page.click("#tab-run")
    page.run("document.getElementById('switch-protection.epoch').click()")
    page.browser.until("!location.hash.includes('epoch')")
    page.click("#tab-postgres")

    page.browser.until(PLAYED)
    assert page.texts("#view-postgres .caught") == []
