"""``python -m tests.explorer.screenshots``: takes the explorer's pictures for README and docs.

They show the path of a new user from the lost update to its test.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.explorer.browsing import ExplorerPage
from tests.explorer.server import explored
from tests.report.browser.chromium import Browser, BrowserError, install

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
LOST_UPDATE = "immediate/lost_update.twopc.yaml"


def main() -> int:
    """Take all pictures."""
    try:
        program = install()
    except BrowserError as error:
        sys.stdout.write(f"skipped: {error}\n")
        return 0
    IMAGES.mkdir(exist_ok=True)
    with Browser(program) as browser, explored(ROOT / "scenarios") as server:
        page = ExplorerPage(browser, server.link)
        for scheme in ("light", "dark"):
            _waiting(page, scheme)
        _lost(page)
        _orders(page)
        _lesson(page)
    return 0


def _keep(page: ExplorerPage, name: str) -> None:
    path = IMAGES / f"{name}.webp"
    page.browser.screenshot(path)
    sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB\n")


def _waiting(page: ExplorerPage, scheme: str) -> None:
    """Show the moment at which Bob's write waits and Alice's branch is prepared."""
    page.play(LOST_UPDATE, width=1280, height=960, scheme=scheme, motion="reduce")
    page.moment_of("pub → sub1: prepare transaction")
    page.run("scrollTo({top: document.querySelector('.said').offsetTop - 60, behavior: 'instant'})")
    _keep(page, f"explore-{scheme}")


def _lost(page: ExplorerPage) -> None:
    """Show the lost update, without the version check."""
    page.play(LOST_UPDATE, width=1280, height=960, scheme="light", motion="reduce")
    page.click("[id='switch-protection.version_check']")
    page.after(".checks li", "✗ no_lost_update")
    page.run("scrollTo({top: 0, behavior: 'instant'})")
    _keep(page, "explore-lost")


def _orders(page: ExplorerPage) -> None:
    """Show the map of all orders."""
    page.open(f"file={LOST_UPDATE}&view=orders", width=1280, height=700, scheme="light")
    page.browser.until("!document.querySelector('#orders-stop') && document.querySelector('.tile')")
    _keep(page, "explore-orders")


def _lesson(page: ExplorerPage) -> None:
    """Show a question with a wrong answer."""
    page.open("lesson=1", width=1280, height=900, scheme="light", motion="reduce")
    page.browser.until("document.querySelector('.question form')")
    page.run("document.querySelectorAll('.question label')[1].click()")
    page.run("document.querySelector('.question [type=submit]').click()")
    page.browser.until("document.querySelector('.question .lanes')")
    page.run("document.querySelector('.question').scrollIntoView({behavior: 'instant'})")
    _keep(page, "explore-lesson")


if __name__ == "__main__":
    sys.exit(main())
