"""Tests that the page about the protocol shows the current tables."""

from __future__ import annotations

from tests.protocol.diagrams import PAGE, PARTS, renewed


def test_page_is_up_to_date() -> None:
    """The page is up to date; if not, run ``python -m tests.protocol.diagrams``."""
    text = PAGE.read_text(encoding="utf-8")

    assert renewed(text) == text
    for name in PARTS:
        assert f"<!-- generated: {name} -->" in text
