"""``python -m tests.report.browser [--screenshots DIR]``: installs Debian's Chromium where there is none, for the tests
of pages (`tests.report.test_browser`), and says why where it cannot.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.report.browser.chromium import Browser, BrowserError, install
from tests.report.recorded import ALL_NAMES, records
from twopc.sim.report.html import page

#: What is looked at: width and scheme.
LOOKS = ((1400, "light"), (1400, "dark"), (420, "light"))


def say(line: str) -> None:
    """To whoever runs the command."""
    sys.stdout.write(line + "\n")


def main() -> int:
    """Install it, and take pictures if asked for; a browser that cannot be had is no failure."""
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
