"""What a student does with the explorer's page, in a real browser, and what is then seen."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.report.browser.chromium import Browser

_AXE = Path(__file__).parent / "axe" / "axe.min.js"
#: What assistive technology would stumble over. Rules of taste are left out.
_CHECK = """axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]})
  .then(found => found.violations.filter(each => ["serious", "critical"].includes(each.impact))
    .map(each => `${each.id}: ${each.help}: ${each.nodes.slice(0, 3).map(node => node.target.join(" ") + " " + (node.any[0]?.message ?? "")).join("; ")}`))"""


class ExplorerPage:
    """One tab."""

    def __init__(self, browser: Browser, link: str) -> None:
        self.browser = browser
        self.link = link
        self.expected: tuple[str, ...] = ()
        """Texts of the log that are no complaint: the test has brought them about."""
        self._opened = False

    def open(self, fragment: str = "", **look: Any) -> None:
        """Open the link, with what it leads to."""
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
        """Wait until nothing is being played, what was is drawn, and every card is where it goes."""
        self.browser.until(
            "!document.querySelector('.stage').ariaBusy && document.querySelector('#view-run .outcome')"
            " && [...document.querySelectorAll('[data-item]')].every(e => !e.getAnimations().length)"
        )

    def run(self, expression: str) -> Any:
        """The value of an expression on the page."""
        return self.browser.run(expression)

    def text(self, selector: str) -> str:
        """What is read in the first such element that is seen."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.checkVisibility())"
        )
        return str(self.run(f"{found}.innerText"))

    def texts(self, selector: str) -> list[str]:
        """What is read in each such element."""
        return list(
            self.run(
                f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"
            )
        )

    def order(self) -> list[str]:
        """The cards from top to bottom."""
        return list(
            self.run(
                "[...document.querySelectorAll('#view-run [data-item]')].map(e => e.dataset.key)"
            )
        )

    def card(self, name: str) -> str:
        """What the card of a step says, with its reasons."""
        return str(
            self.run(
                f"document.querySelector('#view-run [data-key=\"{name}\"]').parentElement.innerText"
            )
        )

    def after(self, selector: str, text: str) -> None:
        """Wait until a text is read in such an element."""
        self.browser.until(
            f"[...document.querySelectorAll({json.dumps(selector)})].some(e => e.innerText.includes({json.dumps(text)}))"
        )

    def click(self, selector: str) -> None:
        """With the mouse."""
        self.browser.until(f"document.querySelector({json.dumps(selector)})")
        self.browser.click(selector)

    def look_at(self, moment: int) -> None:
        """Move the slider to a moment."""
        self.run(
            f"(() => {{ const e = document.querySelector('.player input'); e.value = {moment};"
            "e.dispatchEvent(new Event('input')); })()"
        )

    def moment_of(self, text: str) -> int:
        """The first moment that says so; the slider stays there."""
        for at in range(int(self.run("document.querySelector('.player input').max")) + 1):
            self.look_at(at)
            if text in self.text(".moment"):
                return at
        raise AssertionError(f"at no moment: {text}")

    def violations(self) -> list[str]:
        """What axe-core finds to be serious."""
        self.run(f"window.axe || (() => {{ {axe()} }})(); 0")
        return list(self.run(_CHECK))

    def complains_of_nothing(self) -> None:
        """Neither an error on the console, nor a request to anybody but its server."""
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
    """axe-core's source."""
    return _AXE.read_text(encoding="utf-8")
