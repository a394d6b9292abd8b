"""Tests of the page's look at any width, in both colour schemes, and for assistive technology."""

from __future__ import annotations

import pytest

from tests.explorer.browsing import ExplorerPage

LOST_UPDATE = "immediate/lost_update.twopc.yaml"
VIEWS = (
    *("", "view=lessons", "lesson=1"),
    *(f"file={LOST_UPDATE}{view}" for view in ("", "&view=edit", "&view=orders", "&view=postgres")),
)


def opened(page: ExplorerPage, view: str, **look: object) -> None:
    """Open a view, and wait until it is complete."""
    page.open(view, **look)
    if view.startswith("file="):
        page.browser.until("!document.querySelector('#actions').matches(':empty')")
    if view.endswith("edit"):
        page.browser.until(
            "document.querySelector('.editor').shadowRoot?.querySelector('.cm-line')"
        )


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_nothing_serious_is_found_by_axe(page: ExplorerPage, width: int, scheme: str) -> None:
    """In every view, axe-core finds no serious violation, and the page does not scroll sideways."""
    for view in VIEWS:
        opened(page, view, width=width, scheme=scheme, motion="reduce")
        assert page.violations() == [], view
        assert page.run("document.documentElement.scrollWidth") <= width, view


def test_a_run_that_breaks_something_has_contrast_too(page: ExplorerPage) -> None:
    """Refusals, waits, broken invariants and unreached steps have enough contrast in both schemes."""
    impossible = '["a_begin","a_read","b_begin","b_read","a_write","b_write","b_end","a_end"]'
    for more in (
        '&switches={"protection.version_check":"off"}',
        f"&order={impossible}",
        "&name=alice first",
    ):
        for scheme in ("light", "dark"):
            page.play(LOST_UPDATE, more, scheme=scheme, motion="reduce")
            assert page.violations() == [], (more, scheme)


def test_dark_is_dark(page: ExplorerPage) -> None:
    page.open(scheme="light")
    light = page.run("getComputedStyle(document.body).backgroundColor")
    page.open(scheme="dark")
    assert page.run("getComputedStyle(document.body).backgroundColor") != light


def test_an_address_without_the_secret_says_what_is_missing(page: ExplorerPage) -> None:
    """An address without the token, as typed into another tab, leads to a message about the token."""
    page.open()
    page.expected = ("403", "404", "401")
    page.run("sessionStorage.clear()")
    page.browser.visit(f"{page.link.partition('#')[0]}?tab#file={LOST_UPDATE}")
    page.after("#trouble", "This address lacks the secret of its server.")


def test_a_small_window_has_everything_one_below_the_other(page: ExplorerPage) -> None:
    """In a small window, elements are stacked in a usable order, and steps can be moved by touch.

    The list of scenarios is folded, slider and picture precede the steps, no card is cut off, and
    the grip accepts a finger.
    """
    page.play(LOST_UPDATE, width=390)
    assert page.run("document.querySelector('#files').open") is False
    tops = page.run(
        "['.player', '.scene', '.lanes', '.nodes'].map(e => document.querySelector(e).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops)
    assert page.run(
        "[...document.querySelectorAll('[data-item]')].every(e => e.scrollWidth <= e.clientWidth)"
    )
    assert page.run("getComputedStyle(document.querySelector('.grip')).touchAction") == "none"
