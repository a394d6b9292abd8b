"""The actions of a student on the explorer's page, in a browser, and the page's content."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.report.browser.chromium import Browser

_AXE = Path(__file__).parent / "axe" / "axe.min.js"
#: Finds serious obstacles to assistive technology. Rules of taste are left out.
_CHECK = """axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]})
  .then(found => found.violations.filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => `${each.id}: ${each.help}: ${each.nodes.slice(0, 3).map(node => node.target.join(" ") + " " + (node.any[0]?.message ?? "")).join("; ")}`))"""


class ExplorerPage:
    """The explorer's page in one tab."""

    def __init__(self, browser: Browser, link: str) -> None:
        self.browser = browser
        self.link = link
        self.expected: tuple[str, ...] = ()
        """Texts in the browser's log that are no errors, because the test causes them."""
        self._opened = False

    def open(self, fragment: str = "", **look: Any) -> None:
        """Open the link with a fragment, in a browser with the given size and preferences."""
        self.browser.look(**{"width": 1280, "height": 1000, **look})
        self.browser.run("try { sessionStorage.clear() } catch {}")
        self.browser.visit(self.link + (f"&{fragment}" if fragment else ""))
        self._opened = True
        self.browser.until("document.querySelector('#main h2, #main .card')")

    def play(self, path: str, more: str = "", **look: Any) -> None:
        """Open a scenario, and wait until it has been played."""
        self.open(f"file={path}{more}", **look)
        self.settled()

    def settled(self) -> None:
        """Wait until no play runs, the last one is drawn, and no card moves."""
        self.browser.until(
            "!document.querySelector('.stage').ariaBusy && document.querySelector('#view-run .outcome')"
            " && [...document.querySelectorAll('[data-item]')].every(e => !e.getAnimations().length)"
        )

    def run(self, expression: str) -> Any:
        """Return the value of an expression on the page."""
        return self.browser.run(expression)

    def text(self, selector: str) -> str:
        """Return the text of the first visible element of a selector."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.checkVisibility())"
        )
        return str(self.run(f"{found}.innerText"))

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element of a selector."""
        return list(
            self.run(
                f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"
            )
        )

    def order(self) -> list[str]:
        """Return the cards' steps from top to bottom."""
        return list(
            self.run(
                "[...document.querySelectorAll('#view-run [data-item]')].map(e => e.dataset.key)"
            )
        )

    def card(self, name: str) -> str:
        """Return the text of a step's card, with its reasons."""
        return str(
            self.run(
                f"document.querySelector('#view-run [data-key=\"{name}\"]').parentElement.innerText"
            )
        )

    def after(self, selector: str, text: str) -> None:
        """Wait until an element of a selector contains a text."""
        self.browser.until(
            f"[...document.querySelectorAll({json.dumps(selector)})].some(e => e.innerText.includes({json.dumps(text)}))"
        )

    def click(self, selector: str) -> None:
        """Click an element with the mouse."""
        self.browser.until(f"document.querySelector({json.dumps(selector)})")
        self.browser.click(selector)

    def look_at(self, moment: int) -> None:
        """Move the slider to a moment."""
        self.run(
            f"(() => {{ const e = document.querySelector('.player input'); e.value = {moment};"
            "e.dispatchEvent(new Event('input')); })()"
        )

    def moment_of(self, text: str) -> int:
        """Return the first moment whose text contains `text`; the slider stays there."""
        for at in range(int(self.run("document.querySelector('.player input').max")) + 1):
            self.look_at(at)
            if text in self.text(".moment"):
                return at
        raise AssertionError(f"at no moment: {text}")

    def violations(self) -> list[str]:
        """Return the serious violations that axe-core finds."""
        self.run(f"window.axe || (() => {{ {axe()} }})(); 0")
        return list(self.run(_CHECK))

    def complains_of_nothing(self) -> None:
        """Assert that the console has no error, and that all requests went to the page's server."""
        origin = self.link.partition("#")[0]
        for event in self.browser.events if self._opened else ():
            method, said = event.get("method"), event.get("params", {})
            if method == "Network.requestWillBeSent":
                url = said["request"]["url"]
                assert url.startswith((origin, "data:", "blob:")), f"the page asked for {url}"
            if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                text = json.dumps(said)
                assert any(each in text for each in self.expected), text


@cache
def axe() -> str:
    """Return the source of axe-core."""
    return _AXE.read_text(encoding="utf-8")
