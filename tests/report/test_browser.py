"""Tests of the page in a browser, which ``python -m tests.report.browser`` installs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser.checks import EVERY, Check, perform
from tests.report.browser.chromium import Browser, find
from tests.report.recorded import records
from twopc.sim.report.html import page

pytestmark = pytest.mark.xdist_group("browser")  # one browser serves all tests


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all checks, or a skip."""
    program = find()
    if program is None:
        pytest.skip("no Chromium here: 'python -m tests.report.browser' installs Debian's")
    with Browser(program) as started:
        yield started


@pytest.mark.parametrize(
    ("name", "check"), EVERY, ids=[f"{name}-{check.__name__}" for name, check in EVERY]
)
def test_in_a_browser(name: str, check: Check, browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.html"
    path.write_text(page(records(name)), encoding="utf-8")
    perform(check, browser, path)
