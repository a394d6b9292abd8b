"""The page in a real browser, if there is one: ``python -m tests.report.browser`` installs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.report.html import page
from tests.report.browser.checks import CHECKS, Check, perform
from tests.report.browser.chromium import Browser, find
from tests.report.recorded import records

pytestmark = pytest.mark.xdist_group("browser")  # one browser serves all of them


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all checks."""
    program = find()
    if program is None:
        pytest.skip("no Chromium here: 'python -m tests.report.browser' installs Debian's")
    with Browser(program) as started:
        yield started


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """The page of a run that failed."""
    path = tmp_path / "failing.html"
    path.write_text(page(records("failing")), encoding="utf-8")
    return path


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_in_a_browser(check: Check, browser: Browser, failing: Path) -> None:
    perform(check, browser, failing)
