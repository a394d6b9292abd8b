"""``python -m tests.report.browser [--screenshots DIR]``: installs Debian's Chromium if needed.

The tests of pages (`tests.report.test_browser`) use it. If it cannot be installed, the command
reports the reason.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.report.browser.chromium import Browser, BrowserError, install
from tests.report.recorded import ALL_NAMES, records
from twopc.sim.report.html import page

#: Width and colour scheme of each picture.
LOOKS = ((1400, "light"), (1400, "dark"), (420, "light"))


def say(line: str) -> None:
    """Print a line for the user of the command."""
    sys.stdout.write(line + "\n")


def main() -> int:
    """Install Chromium, and take pictures on request; a browser that is not available is no failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.report.browser", description=__doc__)
    parser.add_argument(
        "--screenshots", metavar="DIR", type=Path, help="take pictures of every page"
    )
    options = parser.parse_args()
    try:
        program = install()
    except BrowserError as error:
        say(str(error))
        return 0
    say(program)
    if options.screenshots is not None:
        options.screenshots.mkdir(parents=True, exist_ok=True)
        with Browser(program) as browser:
            for name in ALL_NAMES:
                _picture(browser, name, options.screenshots)
    return 0


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
