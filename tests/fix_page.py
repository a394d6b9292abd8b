"""Fixtures for the explorer's page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.explorer.browsing import ExplorerPage
from tests.explorer.server import ExploreProcess
from tests.report.browser.chromium import Browser, find


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start one Chromium for all tests of a module."""
    program = find()
    if program is None:
        pytest.skip("no Chromium here: 'python -m tests.report.browser' installs Debian's")
    with Browser(program) as started:
        yield started


@pytest.fixture
def page(chromium: Browser, server: ExploreProcess) -> Iterator[ExplorerPage]:
    """Open the page of the module's server in a tab; at the end, assert no errors and no foreign requests."""
    opened = ExplorerPage(chromium, server.link)
    yield opened
    opened.complains_of_nothing()
