"""The explorer's page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.explorer.browsing import ExplorerPage
from tests.explorer.server import ExploreProcess
from tests.report.browser.chromium import Browser, find


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One Chromium for all tests of a module."""
    program = find()
    if program is None:
        pytest.skip("no Chromium here: 'python -m tests.report.browser' installs Debian's")
    with Browser(program) as started:
        yield started


@pytest.fixture
def page(chromium: Browser, server: ExploreProcess) -> Iterator[ExplorerPage]:
    """A tab that opens what the module's server serves; at the end nothing was complained of, nor asked of another."""
    opened = ExplorerPage(chromium, server.link)
    yield opened
    opened.complains_of_nothing()
