"""Tests of the page in a browser, which ``python -m tests.report.browser`` installs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.browser.checks import EVERY, Check, perform
from tests.report.browser.chromium import Browser
from tests.report.recorded import records
from twopc.sim.report.html import page

pytestmark = pytest.mark.xdist_group("browser")  # one browser serves all tests


@pytest.mark.parametrize(
    ("name", "check"), EVERY, ids=[f"{name}-{check.__name__}" for name, check in EVERY]
)
def test_in_a_browser(name: str, check: Check, chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.html"
    path.write_text(page(records(name)), encoding="utf-8")
    perform(check, chromium, path)
