"""``python -m tests.report.browser [--screenshots DIR]``: the page in a real browser.

Installs Debian's Chromium where there is none, and says why it skips where it cannot.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.report.browser.checks import EVERY, perform
from tests.report.browser.chromium import Browser, BrowserError, install
from tests.report.recorded import ALL_NAMES, records
from twopc.sim.report.html import page

#: What is looked at: width and scheme.
LOOKS = ((1400, "light"), (1400, "dark"), (420, "light"))


def say(line: str) -> None:
    """To whoever runs the command."""
    sys.stdout.write(line + "\n")


def main() -> int:
    """Run every check; the number of those that failed is the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.report.browser", description=__doc__)
    parser.add_argument(
        "--screenshots", metavar="DIR", type=Path, help="take pictures of every page"
    )
    options = parser.parse_args()
    try:
        program = install()
    except BrowserError as error:
        say(f"skipped: {error}")
        return 0
    with tempfile.TemporaryDirectory() as folder, Browser(program) as browser:
        failed = _check(browser, Path(folder))
        if options.screenshots is not None:
            options.screenshots.mkdir(parents=True, exist_ok=True)
            for name in ALL_NAMES:
                _picture(browser, name, options.screenshots)
    say(f"{len(EVERY) - failed} of {len(EVERY)} checks passed, with {program}")
    return failed


def _check(browser: Browser, folder: Path) -> int:
    failed = 0
    for name, check in EVERY:
        path = folder / f"{name}.html"
        path.write_text(page(records(name)), encoding="utf-8")
        told = f"{name}: {check.__name__.replace('_', ' ')}"
        try:
            perform(check, browser, path)
        except AssertionError as error:
            failed += 1
            say(f"✗ {told}: {error}")
        else:
            say(f"✓ {told}")
    return failed


def _picture(browser: Browser, name: str, folder: Path) -> None:
    path = folder / f"{name}.html"
    path.write_text(page(records(name)), encoding="utf-8")
    for width, scheme in LOOKS:
        browser.look(width=width, scheme=scheme)
        browser.open(path)
        height = browser.run("document.documentElement.scrollHeight")
        browser.look(width=width, height=height, scheme=scheme)
        browser.screenshot(folder / f"{name}-{scheme}-{width}.png")


if __name__ == "__main__":
    sys.exit(main())
